"""Manifests: every file of a folder, and the manifest itself, is what it was when it was written."""

import json
from pathlib import Path
from typing import Any

import pytest

from bncl_pyg.corpus import LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.persistence import check_free, new_folder, read_manifest, write_json, write_manifest


@pytest.fixture
def folder(labels: LabelSet, tmp_path: Path) -> Path:
    """A model folder with a graph folder in it, which has a manifest of its own."""
    with new_folder(tmp_path / "m", "model") as new:
        labels.write(new / "labels.jsonl")
        (new / "graph").mkdir()
        (new / "graph" / "edges").write_bytes(b"edges")
        write_manifest(new / "graph", "graph", {"labels": ["gold", "silver"]})
        write_manifest(new, "model", {"order": ["first", "second"], "shares": {"gold": 0.1, "silver": 0.2}})
    return tmp_path / "m"


def test_every_file_below_has_a_digest(folder: Path) -> None:
    manifest = read_manifest(folder, "model")
    assert set(manifest["files"]) == {"labels.jsonl", "graph/edges", "graph/manifest.json"}
    assert manifest["order"] == ["first", "second"]
    assert read_manifest(folder / "graph", "graph")["files"].keys() == {"edges"}


def test_swapped_lines_are_discovered(folder: Path) -> None:
    file = folder / "labels.jsonl"
    first, second, *rest = file.read_text().splitlines(keepends=True)
    file.write_text("".join([second, first, *rest]))
    with pytest.raises(InputError, match=r"labels\.jsonl is missing or damaged: it is not the file that its manifest"):
        read_manifest(folder, "model")


@pytest.mark.parametrize("name", ["labels.jsonl", "graph/edges", "graph/manifest.json"])
def test_missing_and_damaged_files_are_named(folder: Path, name: str) -> None:
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole + b" ")
    with pytest.raises(InputError, match=f"{name} is missing or damaged"):
        read_manifest(folder, "model")
    assert read_manifest(folder, "model", check_files=False)["format"] == "bncl-model"
    (folder / name).unlink()
    with pytest.raises(InputError, match=f"{name} is missing or damaged"):
        read_manifest(folder, "model")
    (folder / name).write_bytes(whole)
    read_manifest(folder, "model")


def reordered(content: dict[str, Any]) -> dict[str, Any]:
    return {**content, "shares": dict(reversed(content["shares"].items()))}


@pytest.mark.parametrize(
    "change",
    [
        lambda content: {**content, "order": ["second", "first"]},
        lambda content: {**content, "shares": {"silver": 0.1, "gold": 0.2}},
        reordered,
        lambda content: {**content, "more": 1},
        lambda content: {**content, "files": {}},
    ],
)
def test_an_edited_manifest_is_discovered(folder: Path, change: Any) -> None:
    file = folder / "manifest.json"
    write_json(file, change(json.loads(file.read_text())))
    with pytest.raises(InputError, match=r"manifest\.json is damaged or was edited"):
        read_manifest(folder, "model")
    # Whoever replaces a folder need not be able to read it.
    check_free(folder, "model", overwrite=True)


def test_a_manifest_without_digests_or_of_another_version_is_to_be_made_anew(folder: Path) -> None:
    file = folder / "manifest.json"
    content = json.loads(file.read_text())
    for gone in ("sha256", "files"):
        write_json(file, {key: value for key, value in content.items() if key != gone})
        with pytest.raises(InputError, match=r"has no digests of the files and of itself; make .*m anew"):
            read_manifest(folder, "model")
        check_free(folder, "model", overwrite=True)
    write_json(file, {**content, "version": 3})
    with pytest.raises(InputError, match="has model format version 3, but this release reads 4; make it anew"):
        read_manifest(folder, "model")
    check_free(folder, "model", overwrite=True)
    with new_folder(folder, "model", overwrite=True) as new:
        write_manifest(new, "model", {})
    assert read_manifest(folder, "model")["files"] == {}


def test_a_folder_is_replaced_only_if_asked_and_of_the_same_kind(folder: Path) -> None:
    with pytest.raises(InputError, match=r"already exists; choose another name, or replace it with overwrite=True"):
        check_free(folder, "model", overwrite=False)
    with pytest.raises(InputError, match="is a bncl model folder, but a graph folder is needed"):
        check_free(folder, "graph", overwrite=True)
    with pytest.raises(InputError, match=r"is not a bncl graph folder: it has no manifest\.json"):
        check_free(folder.parent, "graph", overwrite=True)


def test_digests_that_are_known_are_not_computed_again(tmp_path: Path) -> None:
    write_manifest(tmp_path, "features", {}, files={"block": "0" * 64})
    assert read_manifest(tmp_path, "features", check_files=False)["files"] == {"block": "0" * 64}
    with pytest.raises(InputError, match="block is missing or damaged"):
        read_manifest(tmp_path, "features")


def test_a_manifests_own_fields_cannot_be_given(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'sha256' is a manifest's own field"):
        write_manifest(tmp_path, "model", {"sha256": "0"})
