"""A label graph whose blocks are computed by a real cluster of three nodes, and an index in shards on it."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from bncl_cli.main import app
from ray.cluster_utils import Cluster
from typer.testing import CliRunner

from bncl_pyg.corpus import LabelSet
from bncl_pyg.distributed.engine import ATTEMPTS, RayOptions
from bncl_pyg.distributed.ray_featurize import featurize_on_ray
from bncl_pyg.distributed.ray_graph import ray_blocks
from bncl_pyg.errors import InputError
from bncl_pyg.graph import BlockLog, LabelVectors, NearestSearch, build_graph

# What stands here goes to the workers with the work: they cannot import tests.
ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])

COUNT = 2500
LABELS = LabelSet.of([f"l{place}" for place in range(COUNT)])


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def vectors() -> LabelVectors:
    """In clusters; every tenth label means what the one before it means, so that cosines are equal."""
    generator = np.random.default_rng(0)
    centres = generator.normal(size=(20, 32)) + 0.5
    drawn = centres[generator.integers(0, 20, COUNT)] + 0.5 * generator.normal(size=(COUNT, 32))
    drawn[9::10] = drawn[8::10]
    return LabelVectors(drawn.astype(np.float32), "random")


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bncl_pyg.graph.edges.MOST_ROWS", 300)
    monkeypatch.setattr("bncl_pyg.graph.prune.MOST_ROWS", 400)
    monkeypatch.setattr("bncl_pyg.graph.nearest.ROWS_A_SEARCH", 500)


def losing_a_node(cluster: Cluster, stage: str, after: int) -> Callable[[BlockLog], None]:
    """Return what removes a node by force after some blocks of a stage."""
    lost: list[Any] = []

    def progress(entry: BlockLog) -> None:
        if (entry.stage, entry.finished) == (stage, after) and not lost:
            lost.append(cluster.list_all_nodes()[-1])
            cluster.remove_node(lost[0], allow_graceful=False)

    return progress


def replace_lost_node(cluster: Cluster) -> None:
    """Wait until it is noticed that a node is lost, and add another."""
    until = time.monotonic() + 20
    while len([node for node in ray.nodes() if node["Alive"]]) > 2:
        assert time.monotonic() < until, "no node was lost"
        time.sleep(0.1)
    cluster.add_node(num_cpus=1)


def test_a_node_is_lost_and_the_graph_is_the_same_to_the_byte(
    cluster: Cluster, vectors: LabelVectors, tmp_path: Path
) -> None:
    (tmp_path / "work").mkdir()
    options: dict[str, Any] = {"neighbours": 6, "max_neighbours": 5}
    lose = losing_a_node(cluster, "nearest", 3)
    with ray_blocks(RayOptions(workers=3)) as engine:
        graph = build_graph(LABELS, vectors, work=tmp_path / "work", progress=lose, engine=engine, **options)
    replace_lost_node(cluster)
    graph.save(tmp_path / "by three")
    build_graph(LABELS, vectors, **options).save(tmp_path / "alone")
    assert contents(tmp_path / "by three") == contents(tmp_path / "alone")


def test_an_index_in_shards_finds_what_one_index_finds(cluster: Cluster, vectors: LabelVectors, tmp_path: Path) -> None:
    """One of three shards is lost with its node and made again elsewhere."""
    search = NearestSearch(exact_labels=1000)
    lose = losing_a_node(cluster, "nearest", 1)
    with ray_blocks(RayOptions(workers=3)) as engine:
        assert engine.parts == 3
        build_graph(LABELS, vectors, neighbours=6, search=search, progress=lose, engine=engine).save(tmp_path / "ray")
    replace_lost_node(cluster)
    alone = build_graph(LABELS, vectors, neighbours=6, search=search)
    alone.save(tmp_path / "alone")
    assert alone.provenance["search"] == "faiss"
    assert alone.num_edges > 6 * COUNT
    assert contents(tmp_path / "ray") == contents(tmp_path / "alone")


def test_a_stopped_build_goes_on_wherever(cluster: Cluster, vectors: LabelVectors, tmp_path: Path) -> None:
    """Begun by a cluster, stopped, and finished by one process."""

    class StoppedError(Exception):
        pass

    def stop(entry: BlockLog) -> None:
        if entry.stage == "fine" and entry.finished == 2:
            raise StoppedError

    with ray_blocks(RayOptions(workers=2)) as engine, pytest.raises(StoppedError):
        build_graph(LABELS, vectors, (5, 95), work=tmp_path, progress=stop, engine=engine)
    coarse = {file: file.stat().st_mtime_ns for file in tmp_path.glob("coarse.*.block")}
    assert len(coarse) == 9
    graph = build_graph(LABELS, vectors, (5, 95), work=tmp_path)
    assert {file: file.stat().st_mtime_ns for file in coarse} == coarse
    alone = build_graph(LABELS, vectors, (5, 95))
    assert graph.provenance == alone.provenance
    assert np.array_equal(graph.edge_index, alone.edge_index)
    assert np.array_equal(graph.edge_weight, alone.edge_weight)


def test_the_command(cluster: Cluster, tmp_path: Path) -> None:
    names = ("gold", "silver", "wheat", "corn", "oil", "gas", "ships", "ports", "banks", "rates", "weather", "storms")
    (tmp_path / "labels.txt").write_text("\n".join(names) + "\n")
    for out, more in (("alone", []), ("ray", ["--engine", "ray", "--workers", "2"])):
        words = ["graph", "build", tmp_path / "labels.txt", "--neighbours", 2, "--out", tmp_path / out, *more]
        done = CliRunner().invoke(app, [str(word) for word in words])
        assert done.exit_code == 0, done.output
        assert "12 labels" in done.output
    assert contents(tmp_path / "ray") == contents(tmp_path / "alone")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["alone", "labels.txt", "ray"]


def test_candidates_by_labels_in_shards(cluster: Cluster, tmp_path: Path) -> None:
    """Two actors hold the labels, another one scores: the store is that of one process, which compares with all."""
    words = ["gold", "wheat", "rates", "oil", "ships", "storms", "banks", "rain"]
    names = [f"{first} {second}" for first in words for second in words]
    (tmp_path / "labels.txt").write_text("\n".join(names) + "\n")
    texts = [" ".join(words[(row * step + row // 8) % 8] for step in (1, 5, 7)) + f" {row}" for row in range(1500)]
    (tmp_path / "texts.csv").write_text("text,x\n" + "".join(f"{text},1\n" for text in texts))
    for name, more in (("alone", []), ("ray", ["--engine", "ray", "--workers", 1, "--label-shards", 2])):
        words_before = ["featurize", tmp_path / "texts.csv", "--labels", tmp_path / "labels.txt", "--candidates", 9]
        command = [*words_before, "--scorer", "fast", "--out", tmp_path / name, *more]
        done = CliRunner().invoke(app, [str(word) for word in command])
        assert done.exit_code == 0, done.output
    assert contents(tmp_path / "ray") == contents(tmp_path / "alone")
    assert not (tmp_path / "ray.input").exists()


def load_nothing() -> Any:
    raise AssertionError("it is told before anything is loaded")


@pytest.mark.parametrize(("shards", "candidates", "sentence"), [(0, 5, "at least 1"), (2, None, "is for candidates")])
def test_shards_that_cannot_be(shards: int, candidates: int | None, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"label_shards .*{sentence}"):
        featurize_on_ray("t", LABELS, load_nothing, tmp_path, candidates=candidates, label_shards=shards)


def refuse(number: int) -> None:
    raise InputError(f"Block {number} cannot be.")


def end_process(number: int) -> None:
    os._exit(number)


def test_what_goes_wrong_in_a_block_is_told(cluster: Cluster) -> None:
    with ray_blocks(RayOptions(workers=2)) as engine:
        with pytest.raises(InputError, match=r"^Block 4 cannot be\.$"):
            list(engine.run("hop1", refuse, [4]))
        with pytest.raises(InputError) as error:
            list(engine.run("hop1", end_process, [6]))
    lost = f"The worker was lost {ATTEMPTS + 1} times over block 7 of the stage 'hop1'"
    assert str(error.value) == f"{lost}; what is finished is kept."


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--workers", "2"], "--address and --workers are for --engine ray."),
        (["--engine", "ray", "--percentiles", "90", "10"], "Percentiles must be two numbers"),
    ],
)
def test_options_that_do_not_fit(more: list[str], sentence: str, tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("gold\nwheat\noil\n")
    words = ["graph", "build", str(tmp_path / "labels.txt"), "--out", str(tmp_path / "g"), *more]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert sentence in " ".join(done.output.split())
    assert not (tmp_path / "g").exists()
