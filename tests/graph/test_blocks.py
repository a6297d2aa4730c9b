import logging
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bncl_pyg.corpus import LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.graph import (
    BlockLog,
    LabelVectors,
    NearestSearch,
    SignedLabelGraph,
    build_graph,
    embed_labels,
    work_folder,
)
from bncl_pyg.graph.blocks import HeldHere

LABELS = LabelSet(*(tuple(f"l{place}" for place in range(50)) for _ in range(2)))
VECTORS = LabelVectors(np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32), "random")


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bncl_pyg.graph.edges.MOST_ROWS", 9)
    monkeypatch.setattr("bncl_pyg.graph.prune.MOST_ROWS", 11)


class StoppedError(Exception):
    pass


def stop_after(blocks: int) -> "list[BlockLog]":
    """A list of what is reported that stops the build after so many finished blocks."""

    class Seen(list[BlockLog]):
        def append(self, entry: BlockLog) -> None:
            super().append(entry)
            if sum(seen.finished > 0 for seen in self) == blocks:
                raise StoppedError

    return Seen()


def same(first: SignedLabelGraph, second: SignedLabelGraph) -> bool:
    return (
        torch.equal(first.edge_index, second.edge_index)
        and torch.equal(first.edge_sign, second.edge_sign)
        and torch.equal(first.edge_weight, second.edge_weight)
        and len(first.pruned) == len(second.pruned)
        and all((a.friends != b.friends).nnz == 0 for a, b in zip(first.pruned, second.pruned, strict=True))
        and all((a.enemies != b.enemies).nnz == 0 for a, b in zip(first.pruned, second.pruned, strict=True))
    )


def computed(work: Path) -> dict[Path, int]:
    """When each finished block was written."""
    return {file: file.stat().st_mtime_ns for file in work.glob("*.block")}


@pytest.mark.parametrize("options", [{"percentiles": (10, 90)}, {"neighbours": 4}], ids=str)
@pytest.mark.parametrize("blocks", [1, 4, 8, 12, 15])
def test_a_stopped_build_goes_on_with_the_next_block(options: dict[str, int], blocks: int, tmp_path: Path) -> None:
    reference = build_graph(LABELS, VECTORS, max_neighbours=3, **options)
    seen = stop_after(blocks)
    with pytest.raises(StoppedError):
        build_graph(LABELS, VECTORS, max_neighbours=3, work=tmp_path, progress=seen.append, **options)
    before = computed(tmp_path)
    assert len(before) == blocks
    again = build_graph(LABELS, VECTORS, max_neighbours=3, work=tmp_path, **options)
    assert same(reference, again)
    after = computed(tmp_path)
    assert len(after) > len(before)
    assert {file: after[file] for file in before} == before


def test_progress_counts_every_stage() -> None:
    seen: list[BlockLog] = []
    build_graph(LABELS, VECTORS, neighbours=4, max_neighbours=3, progress=seen.append)
    assert [entry.stage for entry in seen if entry.finished == entry.of] == ["nearest", "hop1", "hop2"]
    assert [entry.finished for entry in seen if entry.stage == "nearest"] == [0, 1, 2, 3, 4, 5, 6]


def test_other_options_start_anew_and_say_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    build_graph(LABELS, VECTORS, neighbours=4, work=tmp_path)
    with caplog.at_level(logging.INFO):
        graph = build_graph(LABELS, VECTORS, neighbours=5, work=tmp_path)
    assert caplog.messages == ["nearest: 6 finished blocks are of other labels or options; this stage starts anew."]
    assert same(graph, build_graph(LABELS, VECTORS, neighbours=5))
    other = LabelVectors(VECTORS.vectors[::-1].copy(), "other")
    assert same(build_graph(LABELS, other, neighbours=5, work=tmp_path), build_graph(LABELS, other, neighbours=5))


def test_a_damaged_block_is_made_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    reference = build_graph(LABELS, VECTORS, neighbours=4, max_neighbours=3, work=tmp_path)
    first, second = sorted(tmp_path.glob("nearest.*.block"))[:2]
    first.write_bytes(first.read_bytes()[:-3] + b"xyz")
    second.write_bytes(b"")
    again = build_graph(LABELS, VECTORS, neighbours=4, max_neighbours=3, work=tmp_path)
    assert [f"{first} is damaged and is made again.", f"{second} is damaged and is made again."] == caplog.messages
    assert same(reference, again)


def test_encoded_labels_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bncl_pyg.graph.embeddings.LABELS_A_BLOCK", 2)
    labels = LabelSet(*(("gold", "silver", "wheat", "corn", "oil") for _ in range(2)))
    reference = embed_labels(labels)
    seen = stop_after(2)
    with pytest.raises(StoppedError):
        embed_labels(labels, work=tmp_path, progress=seen.append)
    before = computed(tmp_path)
    assert len(before) == 2
    again = embed_labels(labels, work=tmp_path)
    assert np.allclose(reference.vectors, again.vectors, atol=1e-6)
    assert computed(tmp_path).items() >= before.items()


def test_the_work_folder_is_held_and_removed(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "graph"
    with work_folder(out) as work:
        assert work == tmp_path / "deep" / ".graph.blocks"
        with pytest.raises(InputError, match="is being written by process"), work_folder(out):
            pass
        (work / "a.b.000000.block").write_bytes(b"")
    assert list((tmp_path / "deep").iterdir()) == []
    with pytest.raises(StoppedError), work_folder(out):
        raise StoppedError
    assert list((tmp_path / "deep").iterdir()) == []
    with pytest.raises(StoppedError), work_folder(out) as work:
        _write_and_stop(work / "a.b.000000.block")
    with work_folder(out) as work:
        assert (work / "a.b.000000.block").exists()


def _write_and_stop(file: Path) -> None:
    file.write_bytes(b"")
    raise StoppedError


def test_somebody_elses_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".g.blocks").mkdir()
    (tmp_path / ".g.blocks" / "diary.txt").write_text("mine")
    with pytest.raises(InputError, match="is in the way"), work_folder(tmp_path / "g"):
        pass
    assert (tmp_path / ".g.blocks" / "diary.txt").read_text() == "mine"


class Elsewhere:
    """Computes blocks from a copy of the work, the last one first, as workers elsewhere might."""

    parts = 3

    def __init__(self) -> None:
        self.numbers: list[tuple[str, int]] = []

    def run(self, stage: str, compute: Callable[[int], Any], numbers: Sequence[int]) -> Generator[Any, None, None]:
        copy = pickle.loads(pickle.dumps(compute))
        for number in reversed(numbers):
            self.numbers.append((stage, number))
            yield number, copy(number)

    def hold(self, makers: Sequence[Callable[[], Any]]) -> HeldHere:
        assert len(makers) == self.parts
        return HeldHere(makers)


BUILDS: list[dict[str, Any]] = [
    {"percentiles": (10, 90)},
    {"neighbours": 4},
    {"neighbours": 4, "search": NearestSearch(exact_labels=10, recall=0.8)},
]


@pytest.mark.parametrize("options", BUILDS, ids=["percentiles", "all pairs", "clusters"])
@pytest.mark.parametrize("kept", [True, False], ids=["on disk", "in memory"])
def test_whoever_computes_the_blocks_the_graph_is_the_same(options: dict[str, Any], kept: bool, tmp_path: Path) -> None:
    engine, seen, work = Elsewhere(), list[BlockLog](), tmp_path if kept else None
    graph = build_graph(LABELS, VECTORS, max_neighbours=3, work=work, progress=seen.append, engine=engine, **options)
    reference = build_graph(LABELS, VECTORS, max_neighbours=3, **options)
    assert same(graph, reference)
    assert graph.provenance == reference.provenance
    stages = {stage for stage, _ in engine.numbers}
    assert {"hop1", "hop2"} < stages
    for stage in stages:
        counts = [entry.finished for entry in seen if entry.stage == stage]
        assert counts == list(range(counts[-1] + 1))
    if kept:
        engine.numbers.clear()
        sorted(tmp_path.glob("hop2.*.block"))[1].unlink()
        again = build_graph(LABELS, VECTORS, max_neighbours=3, work=tmp_path, engine=engine, **options)
        assert same(again, reference)
        assert engine.numbers == [("hop2", 1)]


KILLED = """
import sys, time
from pathlib import Path
import numpy as np
import bncl_pyg.graph.edges
from bncl_pyg.graph import LabelVectors, build_graph, work_folder

bncl_pyg.graph.edges.MOST_ROWS = 9

def wait_in_the_fourth(entry):
    if entry.finished == 3:
        print("three are finished", flush=True)
        time.sleep(600)

vectors = np.load(sys.argv[2])
with work_folder(Path(sys.argv[1])) as work:
    names = [f"l{place}" for place in range(50)]
    build_graph(names, LabelVectors(vectors, "random"), neighbours=4, work=work, progress=wait_in_the_fourth)
"""


def test_a_killed_process_loses_no_finished_block(tmp_path: Path) -> None:
    """A real process is killed after its third block."""
    np.save(tmp_path / "vectors.npy", VECTORS.vectors)
    command = [sys.executable, "-c", KILLED, tmp_path / "g", tmp_path / "vectors.npy"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == "three are finished\n"
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    with work_folder(tmp_path / "g") as work:
        before = computed(work)
        assert len(before) == 3
        graph = build_graph(LABELS, VECTORS, neighbours=4, work=work)
        after = computed(work)
        assert len(after) == 6
        assert {file: after[file] for file in before} == before
    assert same(graph, build_graph(LABELS, VECTORS, neighbours=4))
    assert [file.name for file in tmp_path.iterdir()] == ["vectors.npy"]
