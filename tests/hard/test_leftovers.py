"""Writes that are killed at any step: what was there, or what is new, is whole; and nothing is left for ever."""

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bncl_pyg.corpus import LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.features import Features, featurize, read_features, write_features
from bncl_pyg.graph import SignedLabelGraph, work_folder
from bncl_pyg.persistence import (
    clear_leftovers,
    clear_own_folder,
    new_folder,
    read_manifest,
    write_bytes,
    write_manifest,
)
from tests.hard.attacks import TRIED, make_inputs

STEPS = ("rename", "replace", "unlink", "rmdir", "mkdir", "open", "chmod")


def killed_at(step: int, do: Callable[[], Any]) -> bool:
    """Do something in another process that is killed before its n-th change of the disk; return whether it was."""
    process = os.fork()
    if not process:
        count = 0

        def counted(real: Callable[..., Any]) -> Callable[..., Any]:
            def call(*words: Any, **options: Any) -> Any:
                nonlocal count
                count += 1
                if count == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*words, **options)

            return call

        code = 70
        try:
            for name in STEPS:
                setattr(os, name, counted(getattr(os, name)))
            do()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(process, 0)
    assert os.WIFSIGNALED(status) or status == 0, "it failed by itself"
    return os.WIFSIGNALED(status)


def every_step(do: Callable[[], Any], check: Callable[[], None], most: int = 400) -> int:
    """Kill at the first step, then at the second, … until it ends by itself; look at what is there each time."""
    step = 1
    TRIED["test_leftovers"] += 1
    while killed_at(step, do):
        TRIED["test_leftovers"] += 1
        check()
        step += 1
        assert step < most, "this never ends"
    check()
    return step


def fill(path: Path, content: str) -> None:
    with new_folder(path, "graph", overwrite=True) as folder:
        (folder / "a").write_text(content)
        (folder / "b").mkdir()
        (folder / "b" / "c").write_text(content * 2)
        write_manifest(folder, "graph", {"content": content})


def test_a_folder_that_is_replaced_is_always_there(tmp_path: Path) -> None:
    out = tmp_path / "out"
    fill(out, "old")

    def whole() -> None:
        # Never absent: the old and the new change places at once.
        content = read_manifest(out, "graph")["content"]
        assert (out / "a").read_text() == content

    assert every_step(lambda: fill(out, "new"), whole) > 10
    assert (out / "a").read_text() == "new"
    fill(out, "newest")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_so_it_is_where_two_folders_cannot_change_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bncl_pyg.persistence.folders.exchange", lambda one, two: False)
    out = tmp_path / "out"
    fill(out, "old")

    def whole_or_absent() -> None:
        if out.exists():
            assert (out / "a").read_text() == read_manifest(out, "graph")["content"]

    every_step(lambda: fill(out, "new"), whole_or_absent)
    assert (out / "a").read_text() == "new"
    fill(out, "newest")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_file_that_is_replaced_is_always_whole(tmp_path: Path) -> None:
    file = tmp_path / "f.json"
    file.write_bytes(b"old")

    def whole() -> None:
        assert file.read_bytes() in (b"old", b"new" * 1000)

    every_step(lambda: write_bytes(file, b"new" * 1000), whole)
    assert file.read_bytes() == b"new" * 1000
    clear_leftovers(file)
    assert [path.name for path in tmp_path.iterdir()] == ["f.json"]


def test_only_leftovers_go(tmp_path: Path) -> None:
    """What somebody writes now stays, and so do other people's hidden files."""
    own = [".out.settings", ".out.bncl-notes", ".other.bncl-abcdefgh", "out.bncl-abcdefgh", ".out.bncl-abcdefgh.txt"]
    for name in own:
        (tmp_path / name).write_text("mine")
    (tmp_path / ".out.bncl-12345678").mkdir()
    (tmp_path / ".out.bncl-12345678" / "x").write_text("left")
    (tmp_path / ".out.bncl-87654321.old").mkdir()
    (tmp_path / ".out.bncl-linklink").symlink_to(tmp_path / "out.bncl-abcdefgh")
    os.mkfifo(tmp_path / ".out.bncl-fifofifo")
    with new_folder(tmp_path / "out", "graph") as folder:
        (folder / "a").write_text("a")
        clear_leftovers(tmp_path / "out")
        assert (folder / "a").read_text() == "a"
        write_manifest(folder, "graph", {})
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {*own, "out", ".out.bncl-linklink"}


def test_a_folder_of_ours_is_swept(tmp_path: Path) -> None:
    for name in (".a.json.bncl-abcdefgh.json", ".model.bncl-abcdefgh", "kept", ".lock", ".hidden"):
        (tmp_path / name).write_text("")
    clear_own_folder(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"kept", ".lock", ".hidden"}


def test_a_killed_build_never_blocks_the_next(tmp_path: Path) -> None:
    """`graph build` keeps finished blocks in a hidden folder; whenever it is killed, it can be begun again."""
    out = tmp_path / "g"

    def build() -> None:
        with work_folder(out) as work:
            for place in range(2):
                write_bytes(work / f"stage.0123.{place:06d}.block", b"x")

    every_step(build, build)
    assert list(tmp_path.iterdir()) == []


class Known:
    """A scorer that says of each text what the features hold."""

    block_texts = 4096

    def __init__(self, features: Features) -> None:
        self.features = features

    def config(self) -> dict[str, Any]:
        return {"name": "known"}

    def vectors(self, texts: Any) -> Any:
        assert self.features.vectors is not None
        return self.features.vectors[: len(texts)]

    def score(self, texts: Any, hypotheses: Any, candidates: Any = None) -> Any:
        return self.features.entailment[: len(texts)], self.features.contradiction[: len(texts)]

    def encode_labels(self, *_: Any, **__: Any) -> dict[str, Any]:
        return {}

    def use_labels(self, *_: Any) -> None: ...

    def reading(self, texts: Any) -> None:
        return None


def test_a_killed_fresh_start_goes_on_without_being_asked_again(tmp_path: Path) -> None:
    """A store of another template is started anew and killed at any step: it is the old one, or can be gone on with."""
    features, _, _ = make_inputs(0)
    scorer: Any = Known(features)

    def score(folder: Path, template: str, *, fresh: bool = False) -> None:
        rows = [(name, f"text {name}") for name in features.ids]
        featurize(lambda: rows, features.labels, scorer, folder, template=template, fresh=fresh)

    old, folder, step = tmp_path / "old", tmp_path / "f", 1
    score(old, "It is {}.")
    killed, gone_on = True, 0
    while killed:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(old, folder)
        killed = killed_at(step, lambda: score(folder, "About {}.", fresh=True))
        if json.loads((folder / "manifest.json").read_text())["template"] == "It is {}.":
            assert read_features(folder).entailment.equal(features.entailment)
        else:
            score(folder, "About {}.")
            gone_on += 1
            assert sorted(path.name for path in folder.iterdir()) == sorted(path.name for path in old.iterdir())
            assert read_features(folder).entailment.equal(features.entailment)
        step += 4
    assert gone_on > 3


def test_what_is_no_store_is_not_cleared(tmp_path: Path) -> None:
    """Starting anew removes a store's own files; what somebody put beside them stays."""
    features, graph, _ = make_inputs(0)
    write_features(features, tmp_path / "f")
    (tmp_path / "f" / "notes.md").write_text("mine")
    write_features(features, tmp_path / "f", overwrite=True)
    assert (tmp_path / "f" / "notes.md").read_text() == "mine"
    graph.save(tmp_path / "g")
    with pytest.raises(InputError, match="is a bncl graph folder"):
        write_features(features, tmp_path / "g", overwrite=True)
    assert SignedLabelGraph.load(tmp_path / "g").label_names == list(LabelSet.of(graph.label_names).names)
