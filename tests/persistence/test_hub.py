"""The hub's cache, laid out by hand."""

import time
from pathlib import Path

import pytest

from bncl_pyg.errors import InputError
from bncl_pyg.persistence import local_folder

REVISION = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    snapshot = tmp_path / "models--someone--something" / "snapshots" / REVISION
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    return snapshot


def test_a_revision_in_the_cache_needs_no_network(cache: Path) -> None:
    files = ("config.json", "*.txt")
    assert local_folder("someone/something", "a model", files, revision=REVISION) == cache
    with pytest.raises(InputError, match="someone/something is neither a folder nor a model that the hub could give"):
        local_folder("someone/something", "a model", files, revision="f" * 40)


def test_half_a_download_is_no_folder(cache: Path) -> None:
    with pytest.raises(InputError, match=r"that the hub could give \(.*offline mode is enabled"):
        local_folder("someone/something", "a model", ("config.json", "model.safetensors"), revision=REVISION)


def test_a_hub_that_cannot_be_reached_is_not_waited_for(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A download would be tried again and again; it must not even begin."""
    import huggingface_hub

    def no_hub(*_: object, **options: object) -> None:
        assert options["timeout"] is not None
        raise ConnectionError("no route")

    real, downloads = huggingface_hub.snapshot_download, []
    monkeypatch.setattr(huggingface_hub.HfApi, "repo_info", no_hub)
    monkeypatch.setattr(
        huggingface_hub,
        "snapshot_download",
        lambda *given, **options: downloads.append(options.get("local_files_only")) or real(*given, **options),
    )
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("it waited"))
    with pytest.raises(InputError, match=r"\(no route\)"):
        local_folder("someone/other", "a model")
    assert downloads == [True]
