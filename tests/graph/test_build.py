import logging

import numpy as np
import pytest

from bncl_pyg.corpus import LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.graph import (
    LabelVectors,
    build_graph,
    default_graph,
    embed_labels,
    has_open_percentiles,
    with_percentiles,
)


def labels_of(count: int) -> LabelSet:
    names = tuple(f"l{place}" for place in range(count))
    return LabelSet(names, names)


@pytest.mark.parametrize("block", [3, 1024])
def test_edges_are_the_tails_of_all_distinct_pairs(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bncl_pyg.graph.edges.MOST_ROWS", block)
    vectors = np.random.default_rng(0).normal(size=(20, 8)).astype(np.float32)
    graph = build_graph(labels_of(20), LabelVectors(vectors, "random"), (10, 90))

    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = units @ units.T
    upper = np.triu_indices(20, k=1)
    low, high = np.percentile(cosines[upper], [10, 90])
    assert graph.count(1) == (cosines[upper] >= high).sum() == 19
    assert graph.count(-1) == (cosines[upper] <= low).sum() == 19
    for (source, target), sign, weight in zip(graph.edge_index.t(), graph.edge_sign, graph.edge_weight, strict=True):
        cosine = cosines[source, target]
        assert weight.item() == pytest.approx(cosine, abs=1e-6)
        assert (cosine >= high) if sign > 0 else (cosine <= low)
    assert graph.is_undirected()
    assert not graph.has_self_loops()
    assert graph.provenance["thresholds"] == pytest.approx([low, high], abs=1e-6)


def test_a_label_without_vector_gets_no_edges_and_is_named(caplog: pytest.LogCaptureFixture) -> None:
    vectors = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)
    reference = build_graph(labels_of(12), LabelVectors(vectors, "random"), (20, 80))
    with caplog.at_level(logging.WARNING):
        extended = np.insert(vectors, 3, 0, axis=0)
        graph = build_graph(labels_of(13), LabelVectors(extended, "random"), (20, 80))
    assert "1 of 13 labels have no vector and get no edges: l3." in caplog.text
    assert not (graph.edge_index == 3).any()
    assert graph.provenance["labels_without_vector"] == ["l3"]
    assert graph.provenance["thresholds"] == reference.provenance["thresholds"]


@pytest.mark.parametrize("percentiles", [(95, 5), (50, 50), (-1, 95), (5, 101)])
def test_percentiles_must_make_sense(percentiles: tuple[float, float]) -> None:
    vectors = LabelVectors(np.eye(3, dtype=np.float32), "by hand")
    with pytest.raises(InputError, match="Percentiles must be two numbers"):
        build_graph(labels_of(3), vectors, percentiles)


def test_labels_that_cannot_be_told_apart_are_refused() -> None:
    with pytest.raises(InputError, match="friends and enemies cannot be told apart"):
        build_graph(labels_of(3), LabelVectors(np.ones((3, 2), dtype=np.float32), "by hand"))
    with pytest.raises(InputError, match="Only 1 of 3 labels have a vector in by hand"):
        build_graph(labels_of(3), LabelVectors(np.diag([1.0, 0, 0]).astype(np.float32), "by hand"))
    with pytest.raises(InputError, match="at least 1 hop"):
        build_graph(labels_of(3), LabelVectors(np.eye(3, dtype=np.float32), "by hand"), hops=0)


def test_neighbours_go_round_labels_without_vector() -> None:
    vectors = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)
    reference = build_graph(labels_of(12), LabelVectors(vectors, "random"), neighbours=3)
    extended = np.insert(vectors, 3, 0, axis=0)
    graph = build_graph(labels_of(13), LabelVectors(extended, "random"), neighbours=3, max_neighbours=2)
    expected = reference.edge_index + (reference.edge_index >= 3)
    assert (graph.edge_index == expected).all()
    assert (graph.edge_sign == reference.edge_sign).all()
    assert graph.provenance["neighbours"] == 3
    for neighbourhood in graph.pruned:
        assert 3 not in neighbourhood.friends.indices
        assert 3 not in neighbourhood.enemies.indices


def test_options_that_make_no_sense() -> None:
    vectors = LabelVectors(np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32), "random")
    with pytest.raises(InputError, match="by percentiles or by neighbours, but both are given"):
        build_graph(labels_of(9), vectors, (5, 95), neighbours=2)
    with pytest.raises(InputError, match="memory budget must be above 0 GB, but is 0"):
        build_graph(labels_of(9), vectors, memory=0)
    with pytest.raises(InputError, match=r"connect 4 pairs of 9 labels, which takes 0\.0 GB"):
        build_graph(labels_of(9), vectors, memory=1e-9)
    broken = vectors.vectors.copy()
    broken[4, 1] = np.nan
    with pytest.raises(InputError, match="The vector of label 'l4' from random holds a number that is not finite"):
        build_graph(labels_of(9), LabelVectors(broken, "random"))


def test_very_many_names_are_not_all_shown(caplog: pytest.LogCaptureFixture) -> None:
    vectors = np.zeros((40, 3), dtype=np.float32)
    vectors[:10] = np.random.default_rng(0).normal(size=(10, 3))
    graph = build_graph(labels_of(40), LabelVectors(vectors, "random"))
    assert caplog.messages[0].endswith("l28, l29 … and 10 more.")
    assert len(graph.provenance["labels_without_vector"]) == 30


NAMES = ["gold", "silver", "wheat", "corn", "oil", "gas", "ship", "money"]


def test_the_graph_where_none_is_given() -> None:
    graph = default_graph(NAMES)
    assert graph.provenance["neighbours"] == 3, "8 labels cannot have 5 nearest and 5 farthest others"
    assert has_open_percentiles(graph)
    assert not with_percentiles(graph, (5, 95)).provenance.get("neighbours")
    graph = default_graph(NAMES, few_labels=7, neighbours=2)
    assert (graph.provenance["neighbours"], graph.provenance["max_neighbours"], len(graph.pruned)) == (2, 2, 2)


def test_a_graph_from_a_list_of_names_in_one_call() -> None:
    expected = build_graph(LabelSet(tuple(NAMES), tuple(NAMES)), embed_labels(NAMES), (20, 80))
    for labels in (NAMES, {name: name for name in NAMES}, LabelSet(tuple(NAMES), tuple(NAMES))):
        graph = build_graph(labels, percentiles=(20, 80))
        assert graph.label_names == NAMES
        assert (graph.edge_index == expected.edge_index).all()
        assert graph.provenance["embeddings"] == "embedded"
    joined = {frozenset(pair) for pair in zip(*graph.pos_edge_index.tolist(), strict=True)}
    assert frozenset({0, 1}) in joined  # gold and silver
    described = build_graph({"g": "Gold", "s": "Silver", "w": "Wheat"}, percentiles=(30, 70))
    assert described.label_names == ["g", "s", "w"]
    with pytest.raises(TypeError, match="but are the string 'gold'"):
        build_graph("gold")
