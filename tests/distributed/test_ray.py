"""A real cluster of three nodes: what it makes is what one process makes, whatever happens meanwhile."""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import ray
import torch
from bncl_cli.main import app
from ray.cluster_utils import Cluster
from torch import Tensor
from typer.testing import CliRunner

from bncl_pyg.classify import predict_table
from bncl_pyg.corpus import LabelSet, TextTable
from bncl_pyg.distributed.engine import ATTEMPTS, RayOptions
from bncl_pyg.distributed.ray_featurize import Scorers, featurize_on_ray
from bncl_pyg.distributed.ray_predict import predict_on_ray
from bncl_pyg.distributed.spooled import InputOptions
from bncl_pyg.errors import InputError
from bncl_pyg.estimator import BNCLClassifier
from bncl_pyg.features import featurize, read_features
from bncl_pyg.predictor import Predictor
from bncl_pyg.scorers import Hypothesis, Reading, load_scorer

# What stands here goes to the workers with the work: they cannot import tests.
ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])

LABELS = LabelSet(
    ("gold", "wheat", "rates", "oil", "ships", "weather"),
    ("gold mines", "wheat and grain", "interest rates", "crude oil", "shipping", "weather and storms"),
)
TEXTS = 20_000
WORDS = ("gold", "wheat", "rates", "oil", "ships", "storms", "rose", "fell", "markets", "farmers", "banks", "ports")


def text_of(number: int) -> str:
    # Every fiftieth text stands in an earlier row, too, mostly in another shard.
    number = number // 3 if number % 50 == 49 else number
    return " ".join(WORDS[(number * step + number // 12) % len(WORDS)] for step in (1, 5, 7)) + f" {number}"


def write_texts(path: Path, count: int, first: int = 0) -> Path:
    rows = ({"id": f"t{number}", "text": text_of(number)} for number in range(first, first + count))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def load_fast() -> Scorers:
    return load_scorer("fast"), None


class WordScorer:
    """Scores by the letters of a text; some words are more than it can bear."""

    block_texts = 10

    def config(self) -> dict[str, Any]:
        return {"name": "word"}

    def score(self, texts: Sequence[str], hypotheses: Sequence[Hypothesis], pairs: Tensor | None = None) -> Tensor:
        for text in texts:
            if "poison" in text:
                raise ValueError("a word that cannot be read")
            if "deadly" in text:
                os._exit(1)
        scores = [[(len(text) * (place + 1)) % 17 / 20 for place in range(len(hypotheses))] for text in texts]
        return torch.tensor([scores, [[0.1] * len(hypotheses)] * len(texts)])

    def vectors(self, texts: Sequence[str]) -> Tensor:
        return torch.tensor([[float(len(text)), 1.0] for text in texts]).reshape(-1, 2)

    def top_labels(self, texts: Sequence[str], hypotheses: Sequence[Hypothesis], k: int) -> Tensor:
        return self.score(texts, hypotheses)[0].topk(k).indices.sort().values

    def encode_labels(self, hypotheses: Sequence[Hypothesis]) -> dict[str, Tensor]:
        return {}

    def use_labels(self, hypotheses: Sequence[Hypothesis], tensors: Mapping[str, Tensor]) -> None:
        raise AssertionError("there is nothing to use")

    def reading(self, texts: Sequence[str]) -> Reading | None:
        return None


def load_words() -> Scorers:
    return WordScorer(), None


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("texts") / "texts.jsonl", TEXTS)


@pytest.fixture(scope="module")
def alone(table: Path) -> Path:
    """The store that one process makes."""
    path = table.parent / "alone"
    rows = TextTable(table)
    featurize(lambda: ((name, text) for name, text, _ in rows.unique()), LABELS, load_scorer("fast"), path)
    return path


def load_and_hold(held: Path, head: str) -> Scorers:
    """The fast scorer; the first worker that is not on the head node begins its second shard and never ends it."""
    scorer, node, begun = load_scorer("fast"), ray.get_runtime_context().get_node_id(), []
    score = scorer.score

    def holding(*given: Any, **more: Any) -> Tensor:
        begun.append(node)
        if node != head and len(begun) > 1 and not held.exists():
            held.with_suffix(".part").write_text(node)
            held.with_suffix(".part").rename(held)
            threading.Event().wait()
        return score(*given, **more)

    scorer.score = holding  # type: ignore[method-assign]
    return scorer, None


def wait_until(happened: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + 120
    while not happened():
        assert time.monotonic() < until, what
        time.sleep(0.05)


def test_a_node_is_lost_and_the_store_is_the_same_to_the_byte(cluster: Cluster, table: Path, alone: Path) -> None:
    """By force, while one of its workers is in the middle of a shard."""
    path, held, done, lost = table.parent / "by three", table.parent / "held", [0], []
    head = ray.get_runtime_context().get_node_id()

    def progress(texts: int) -> None:
        done[0] += texts
        if done[0] > TEXTS / 4 and not lost:
            wait_until(held.exists, "no worker holds a shard")
            lost.extend(node for node in cluster.list_all_nodes() if node.node_id == held.read_text())
            cluster.remove_node(lost[0], allow_graceful=False)

    load = partial(load_and_hold, held, head)
    made, texts = featurize_on_ray(str(table), LABELS, load, path, RayOptions(workers=3), progress=progress)
    assert len(lost) == 1
    wait_until(lambda: len([node for node in ray.nodes() if node["Alive"]]) == 2, "the loss is not noticed")
    assert (made.texts, made.labels, made.blocks, made.scored_blocks) == (TEXTS, 6, 20, 20)
    assert (len(texts), done[0]) == (TEXTS, TEXTS)
    assert contents(path) == contents(alone)
    assert not path.with_name("by three.input").exists()
    cluster.add_node(num_cpus=1)


def test_what_is_damaged_or_missing_is_made_again(cluster: Cluster, table: Path, alone: Path) -> None:
    path, whole = table.parent / "by three", contents(alone)
    blocks = sorted(path.glob("block-*"))
    blocks[3].write_bytes(b"")
    blocks[7].unlink()
    (path / "shard-r00009216.json").unlink()
    (path / "shard-r00011264.json").write_text("{")
    made, _ = featurize_on_ray(str(table), LABELS, load_fast, path, RayOptions(workers=2))
    assert made.scored_blocks == 4
    assert contents(path) == whole


def test_predictions_from_the_store_and_on_the_cluster(cluster: Cluster, table: Path, tmp_path: Path) -> None:
    few = write_texts(tmp_path / "few.jsonl", 3000)
    model = BNCLClassifier(LABELS, scorer="fast").fit([text_of(number) for number in range(300)])
    model.save_pretrained(tmp_path / "model")
    words = [
        "predict",
        str(tmp_path / "model"),
        str(table.parent / "by three"),
        "--out",
        str(tmp_path / "stored.jsonl"),
    ]
    assert CliRunner().invoke(app, words).exit_code == 0
    stored = [json.loads(line) for line in (tmp_path / "stored.jsonl").read_text().splitlines()]
    assert len(stored) == TEXTS
    load = partial(Predictor.load, tmp_path / "model")
    predict_table(load(), TextTable(few), tmp_path / "alone.jsonl")
    done = predict_on_ray(str(few), load, tmp_path / "rows.jsonl", RayOptions(workers=2))
    assert (done.rows, done.resumed) == (3000, 0)
    assert (tmp_path / "rows.jsonl").read_bytes() == (tmp_path / "alone.jsonl").read_bytes()
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert [row["labels"] for row in rows] == [row["labels"] for row in stored[:3000]]
    assert sorted(file.name for file in tmp_path.iterdir() if "rows" in file.name) == ["rows.jsonl"]


def test_texts_that_cannot_be_scored_are_named_and_the_rest_is_kept(cluster: Cluster, tmp_path: Path) -> None:
    """One raises an exception; another ends the process of its worker, whoever tries."""
    folder, path = tmp_path / "tables", tmp_path / "f"
    folder.mkdir()
    write_texts(folder / "a.jsonl", 35)
    rows = [f"b{number},{text_of(number)}" for number in range(100, 145)]
    rows[5], rows[20] = "b105,a poison word", "b120,a deadly word"
    table = folder / "b.csv"
    table.write_text("\n".join(["id,text", *rows]) + "\n")
    run = partial(featurize_on_ray, str(folder), LABELS, load_words, path, RayOptions(workers=2))
    with pytest.raises(InputError) as error:
        run()
    assert str(error.value) == (
        f"{table}, line 7: the scorer cannot read this text (ValueError: a word that cannot be read). "
        f"{table}, line 17 to {table}, line 26: the worker was lost {ATTEMPTS} times while it scored these texts. "
        f"What could be scored is kept."
    )
    with pytest.raises(InputError, match="is not complete: 2 of 8 blocks are missing"):
        read_features(path)

    rows[5] = "b105,another good word"
    rows[20] = "b120,a good word"
    (folder / "b.csv").write_text("\n".join(["id,text", *rows]) + "\n")
    made, _ = run(fresh=True)
    assert made.scored_blocks == 8
    everything = [(f"t{number}", text_of(number)) for number in range(35)]
    everything += [(row.split(",")[0], row.split(",")[1]) for row in rows]
    featurize(lambda: everything, LABELS, WordScorer(), tmp_path / "alone")
    assert contents(path) == contents(tmp_path / "alone")


def test_tables_that_lie_elsewhere(cluster: Cluster, tmp_path: Path) -> None:
    """By HTTP, which the workers reach as they would reach S3."""
    (tmp_path / "served").mkdir()
    write_texts(tmp_path / "served" / "texts.jsonl", 25)

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=tmp_path / "served"))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_address[1]}/texts.jsonl"
        made, _ = featurize_on_ray(url, LABELS, load_words, tmp_path / "f", RayOptions(workers=1))
        assert made.texts == 25
        (tmp_path / "served" / "texts.jsonl").write_text('{"id": "a", "text": "one"}\n{"id": "a", "text": "two"}\n')
        with pytest.raises(InputError) as error:
            featurize_on_ray(url, LABELS, load_words, tmp_path / "g", reading=InputOptions())
        assert str(error.value) == f"{url}, line 2: id 'a' is given twice (first in {url}, line 1)."
        with pytest.raises(InputError, match=r"none.jsonl does not exist"):
            featurize_on_ray(url.replace("texts", "none"), LABELS, load_words, tmp_path / "g")
    finally:
        server.shutdown()
        server.server_close()
