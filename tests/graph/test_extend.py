"""Graphs of changed labels: what was joined stays joined, new labels are joined by the same rule."""

import numpy as np
import pytest
import torch

from bncl_pyg.corpus import LabelSet
from bncl_pyg.graph import extend
from bncl_pyg.graph.build import build_graph
from bncl_pyg.graph.embeddings import EMBEDDED, LabelVectors
from bncl_pyg.graph.extend import extend_graph
from bncl_pyg.graph.signed import SignedLabelGraph

NAMES = [f"l{place}" for place in range(12)]
VECTORS = dict(zip(NAMES, np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32), strict=True))


@pytest.fixture(autouse=True)
def vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extend, "embed_labels", lambda labels: of(labels.names))


def of(names: tuple[str, ...] | list[str]) -> LabelVectors:
    return LabelVectors(np.stack([VECTORS[name] for name in names]), EMBEDDED)


def edges(graph: SignedLabelGraph) -> dict[tuple[str, str], tuple[int, float]]:
    names = graph.label_names
    ends = [(names[a], names[b]) for a, b in graph.edge_index.T.tolist()]
    values = zip(graph.edge_sign.tolist(), graph.edge_weight.tolist(), strict=True)
    return {pair: (sign, round(weight, 4)) for pair, (sign, weight) in zip(ends, values, strict=True)}


def test_new_labels_are_joined_beyond_the_thresholds() -> None:
    old, every = NAMES[:10], NAMES[:2] + NAMES[10:] + NAMES[2:10]
    graph = build_graph(old, of(old), (20, 80))
    origins = [name if name in old else None for name in every]
    extended = extend_graph(graph, LabelSet.of(every), origins)
    low, high = graph.provenance["thresholds"]
    units = {name: vector / np.linalg.norm(vector) for name, vector in VECTORS.items()}
    expected = dict(edges(graph))
    for new in NAMES[10:]:
        for other in every:
            cosine = float(units[new] @ units[other])
            if new != other and (cosine <= low or cosine >= high):
                expected[new, other] = expected[other, new] = (1 if cosine >= high else -1), round(cosine, 4)
    assert edges(extended) == expected
    assert len(expected) > len(edges(graph))
    # Removed again, the first graph is left.
    assert edges(extend_graph(extended, LabelSet.of(old), old)) == edges(graph)


def test_new_labels_have_as_many_neighbours() -> None:
    old = NAMES[:10]
    graph = build_graph(old, of(old), neighbours=2, max_neighbours=3)
    extended = extend_graph(graph, LabelSet.of(NAMES), [*old, None, None])
    joined = edges(extended)
    assert {pair: value for pair, value in joined.items() if set(pair) <= set(old)} == edges(graph)
    for new in NAMES[10:]:
        signs = [sign for (first, _), (sign, _) in joined.items() if first == new]
        assert signs.count(1) >= 2
        assert signs.count(-1) >= 2
    assert [hop.num_labels for hop in extended.pruned] == [12, 12]


def test_of_somebodys_own_edges_new_labels_have_none(caplog: pytest.LogCaptureFixture) -> None:
    friends, enemies = torch.tensor([[0, 1], [1, 0]]), torch.tensor([[1, 2], [2, 1]])
    graph = SignedLabelGraph.from_edge_index(friends, enemies, label_names=["a", "b", "c"])
    extended = extend_graph(graph, LabelSet.of(["c", "new", "b"]), ["c", None, "b"])
    assert set(edges(extended)) == {("b", "c"), ("c", "b")}
    assert "somebody's own edges, which is not here: the new labels, such as 'new', get no edges" in caplog.text


def test_pruned_neighbourhoods_of_own_vectors_move_along() -> None:
    old = NAMES[:6]
    graph = build_graph(old, LabelVectors(of(old).vectors, "by hand"), neighbours=2, max_neighbours=2)
    turned = extend_graph(graph, LabelSet.of(old[::-1]), old[::-1])
    for before, after in zip(graph.pruned, turned.pruned, strict=True):
        assert (after.friends.toarray()[::-1, ::-1] == before.friends.toarray()).all()
        assert (after.enemies.toarray()[::-1, ::-1] == before.enemies.toarray()).all()
