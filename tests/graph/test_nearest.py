import importlib.util
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bncl_pyg.errors import InputError
from bncl_pyg.graph import LabelVectors, NearestSearch, SignedLabelGraph, build_graph
from bncl_pyg.graph.nearest import IndexShard, merge_shards


def clustered(labels: int, dimensions: int = 16, seed: int = 0) -> NDArray[np.float32]:
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(20, dimensions)) + 0.5
    drawn = centres[generator.integers(0, 20, labels)] + 0.5 * generator.normal(size=(labels, dimensions))
    return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)


def nearest_graph(units: NDArray[np.float32], count: int, **options: Any) -> SignedLabelGraph:
    return build_graph(
        [str(place) for place in range(len(units))], LabelVectors(units, "x"), neighbours=count, **options
    )


def by_hand(units: NDArray[np.float32], count: int) -> dict[tuple[int, int], int]:
    """Each label's best by sorting everything; a friend is written over an enemy."""
    cosines = units @ units.T
    signs: dict[tuple[int, int], int] = {}
    for sign in (-1, 1):
        for label, row in enumerate(cosines):
            others = sorted((other for other in range(len(units)) if other != label), key=lambda o: (-sign * row[o], o))
            signs.update({(min(label, other), max(label, other)): sign for other in others[:count]})
    return signs


def signs_of(graph: SignedLabelGraph) -> dict[tuple[int, int], int]:
    edges = zip(*graph.edge_index.tolist(), graph.edge_sign.tolist(), strict=True)
    return {(source, target): sign for source, target, sign in edges if source < target}


@pytest.mark.parametrize(("labels", "count"), [(3, 1), (40, 3), (40, 19), (500, 4)])
@pytest.mark.parametrize("rows", [7, 1024])
def test_every_label_gets_its_nearest_and_farthest(
    labels: int, count: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bncl_pyg.graph.edges.MOST_ROWS", rows)
    units = clustered(labels)
    graph = nearest_graph(units, count)
    assert graph.provenance["search"] == "exact"
    assert signs_of(graph) == by_hand(units, count)
    assert graph.edge_weight.numpy() == pytest.approx((units @ units.T)[tuple(graph.edge_index)], abs=1e-6)


def test_equal_cosines_go_by_the_labels_order() -> None:
    """Along the axes, both ways: every product is exactly 1, 0 or -1."""
    axes = np.concatenate([np.eye(4), -np.eye(4), np.eye(4)]).astype(np.float32)
    assert signs_of(nearest_graph(axes, 2)) == by_hand(axes, 2)


@settings(max_examples=40, deadline=None)
@given(st.integers(20, 260), st.integers(1, 8), st.sampled_from([4, 16, 64]), st.integers(0, 1000))
def test_also_where_very_many_cosines_are_equal(labels: int, count: int, dimensions: int, seed: int) -> None:
    """Entries ±1/√dimensions, a power of 2: every cosine is exact, and one of few numbers."""
    drawn = np.random.default_rng(seed).choice([-1, 1], (labels, dimensions))
    units = (drawn / math.sqrt(dimensions)).astype(np.float32)
    assert signs_of(nearest_graph(units, count)) == by_hand(units, count)


@pytest.mark.parametrize("neighbours", [0, 5])
def test_a_number_that_cannot_be_is_refused(neighbours: int) -> None:
    with pytest.raises(InputError, match=f"{neighbours} nearest and .* but each of 10 labels .* can have 1 to 4"):
        nearest_graph(clustered(10), neighbours)
    with pytest.raises(InputError, match="3 labels are needed"):
        nearest_graph(clustered(2), 1)


def test_faiss_finds_nearly_all_and_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("faiss")
    units = clustered(3000)
    true = signs_of(nearest_graph(units, 5))
    monkeypatch.setattr("bncl_pyg.graph.nearest.ROWS_A_SEARCH", 1000)
    search = NearestSearch(exact_labels=1000)
    graph = nearest_graph(units, 5, search=search)
    mine, provenance = signs_of(graph), graph.provenance
    assert provenance["search"] == "faiss"
    assert provenance["search_settings"]["recall"] == 0.95
    assert provenance["recall"]["sample"] == 500
    for kind, sign in (("friends", 1), ("enemies", -1)):
        wanted = {pair for pair, its_sign in true.items() if its_sign == sign}
        share = len(wanted & {pair for pair, its_sign in mine.items() if its_sign == sign}) / len(wanted)
        assert provenance["recall"][kind] >= 0.95
        assert share == pytest.approx(provenance["recall"][kind], abs=0.03)
    again = nearest_graph(units, 5, search=search)
    assert torch.equal(graph.edge_index, again.edge_index)
    assert torch.equal(graph.edge_weight, again.edge_weight)


def test_faiss_in_all_clusters_is_exact() -> None:
    pytest.importorskip("faiss")
    units = clustered(200)
    # A recall that is never enough, so that every cluster is searched.
    graph = nearest_graph(units, 4, search=NearestSearch(exact_labels=10, recall=math.inf))
    assert graph.provenance["recall"]["friends"] == graph.provenance["recall"]["enemies"] == 1
    assert graph.provenance["probes"] == [graph.provenance["clusters"]] * 2
    assert signs_of(graph) == by_hand(units, 4)


def test_faiss_finds_as_many_as_asked_for_even_in_small_clusters() -> None:
    pytest.importorskip("faiss")
    graph = nearest_graph(clustered(200), 8, search=NearestSearch(exact_labels=10, recall=0))
    assert graph.provenance["probes"] == [1, 1]  # one cluster is enough
    for edges, least in ((graph.pos_edge_index, 8), (graph.neg_edge_index, 1)):
        assert int(torch.bincount(edges[1], minlength=200).min()) >= least


def test_without_faiss_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"of 20 labels need faiss: pip install 'bncl-pyg\[scale\]'"):
        nearest_graph(clustered(20), 2, search=NearestSearch(exact_labels=10))


@settings(max_examples=40, deadline=None)
@given(st.integers(10, 120), st.integers(1, 12), st.integers(1, 5), st.integers(0, 1000))
def test_shards_of_an_index_find_what_one_finds(labels: int, count: int, parts: int, seed: int) -> None:
    """Also where very many cosines are equal: they go by place, whichever shard has them."""
    pytest.importorskip("faiss")
    generator = np.random.default_rng(seed)
    units = (generator.choice([-1, 1], (labels, 4)) / 2).astype(np.float32)
    centroids, clusters = units[:5].copy(), generator.integers(0, 5, labels)
    searched = np.argsort(generator.random((labels, 5)), axis=1)[:, :3]
    cuts = np.linspace(0, labels, parts + 1).astype(int).tolist()
    shards = [IndexShard(units[a:b], a, clusters[a:b], centroids) for a, b in pairwise(cuts)]
    cosines, places = merge_shards([shard(units, searched, count) for shard in shards], count)
    for row in range(labels):
        inside = [place for place in range(labels) if clusters[place] in searched[row]]
        best = sorted(inside, key=lambda place: (-float(units[row] @ units[place]), place))[:count]
        assert places[row].tolist() == best + [-1] * (count - len(best))
        assert cosines[row, : len(best)].tolist() == [float(units[row] @ units[place]) for place in best]
