from itertools import pairwise, product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch_geometric import EdgeIndex
from torch_geometric.data import Data

from bncl_pyg.errors import InputError
from bncl_pyg.graph import SignedLabelGraph, balanced_neighbourhoods


@st.composite
def signed_graphs(draw: st.DrawFn) -> SignedLabelGraph:
    labels = draw(st.integers(2, 6))
    pairs = [(u, v) for u in range(labels) for v in range(u + 1, labels)]
    signs = draw(st.lists(st.sampled_from([-1, 0, 1]), min_size=len(pairs), max_size=len(pairs)))
    return make_graph(labels, {pair: sign for pair, sign in zip(pairs, signs, strict=True) if sign})


def make_graph(labels: int, edges: dict[tuple[int, int], int], hops: int = 2) -> SignedLabelGraph:
    pairs = torch.tensor(list(edges), dtype=torch.int64).reshape(-1, 2).t()
    signs = torch.tensor(list(edges.values()), dtype=torch.int8)
    return SignedLabelGraph.from_pairs(tuple("ABCDEF"[:labels]), pairs, signs, signs.float(), hops)


def signs_of(graph: SignedLabelGraph) -> NDArray[np.int64]:
    signs = np.zeros((graph.num_nodes, graph.num_nodes), dtype=np.int64)
    signs[tuple(graph.edge_index.numpy())] = graph.edge_sign.numpy()
    return signs


def count_walks(signs: NDArray[np.int64], length: int, parity: int) -> NDArray[np.int64]:
    """Go every walk, step by step, and count it where it ends if the product of its signs is `parity`."""
    labels = len(signs)
    counts = np.zeros_like(signs)
    for walk in product(range(labels), repeat=length + 1):
        steps = [signs[u, v] for u, v in pairwise(walk)]
        counts[walk[0], walk[-1]] += np.prod(steps) == parity
    return counts


@settings(max_examples=25, deadline=None)
@given(signed_graphs())
def test_neighbourhoods_count_signed_walks(graph: SignedLabelGraph) -> None:
    signs = signs_of(graph)
    for length, neighbourhood in enumerate(balanced_neighbourhoods(graph, 4), start=1):
        assert (neighbourhood.friends.toarray() == count_walks(signs, length, 1)).all()
        assert (neighbourhood.enemies.toarray() == count_walks(signs, length, -1)).all()


@settings(max_examples=50, deadline=None)
@given(signed_graphs())
def test_simple_neighbourhoods_are_the_authors(graph: SignedLabelGraph) -> None:
    signs = signs_of(graph)
    positive, negative = (signs > 0).astype(int), (signs < 0).astype(int)
    friends, enemies = positive, negative
    off = 1 - np.eye(len(signs), dtype=int)
    for neighbourhood in balanced_neighbourhoods(graph, 3, simple=True):
        assert (neighbourhood.friends.toarray() == friends).all()
        assert (neighbourhood.enemies.toarray() == enemies).all()
        friends, enemies = (
            ((positive @ friends + negative @ enemies) > 0) * off,
            ((positive @ enemies + negative @ friends) > 0) * off,
        )


def test_counts_stop_growing_before_they_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bncl_pyg.graph.neighbourhoods.MAX_WALKS", 5)
    graph = make_graph(6, {(u, v): 1 for u in range(6) for v in range(u + 1, 6)})
    hops = balanced_neighbourhoods(graph, 40)
    assert hops[-1].friends.max() == 5
    assert hops[-1].friends.nnz == 36


def test_the_graph_says_how_many_hops() -> None:
    graph = make_graph(3, {(0, 1): 1}, hops=3)
    assert len(balanced_neighbourhoods(graph)) == 3
    with pytest.raises(InputError, match="at least 1 hop, but 0"):
        balanced_neighbourhoods(graph, 0)


POSITIVE = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
NEGATIVE = torch.tensor([[2, 3], [3, 2]])


def test_every_representation_of_the_edges_gives_the_same_neighbourhoods() -> None:
    expected = balanced_neighbourhoods(make_graph(5, {(0, 1): 1, (1, 2): 1, (2, 3): -1}), 3)
    positive, negative = (torch.zeros(5, 5) for _ in range(2))
    positive[tuple(POSITIVE)], negative[tuple(NEGATIVE)] = 1, 1
    signs = torch.tensor([1, 1, 1, 1, -1, -1])
    forms: list[Data | tuple[object, object]] = [
        (POSITIVE, NEGATIVE),
        (EdgeIndex(POSITIVE, sparse_size=(5, 5)), EdgeIndex(NEGATIVE)),
        (EdgeIndex(POSITIVE, is_undirected=True), EdgeIndex(NEGATIVE, sort_order="row")),
        (positive.to_sparse_csr(), negative.to_sparse_csc()),
        (positive.to_sparse_coo(), NEGATIVE),
        Data(pos_edge_index=POSITIVE, neg_edge_index=NEGATIVE, num_nodes=5),
        Data(edge_index=torch.cat([POSITIVE, NEGATIVE], dim=1), edge_sign=signs, num_nodes=5),
    ]
    for form in forms:
        mine = balanced_neighbourhoods(form, 3, num_labels=5)
        for one, other in zip(mine, expected, strict=True):
            assert (one.friends.toarray() == other.friends.toarray()).all()
            assert (one.enemies.toarray() == other.enemies.toarray()).all()
    assert [one.num_labels for one in balanced_neighbourhoods((POSITIVE, NEGATIVE))] == [4, 4]
    assert balanced_neighbourhoods((EdgeIndex(POSITIVE, sparse_size=(6, 6)), NEGATIVE))[0].num_labels == 6


def test_edges_that_make_no_signed_graph_are_refused() -> None:
    with pytest.raises(InputError, match="from label '1' to '2' has no opposite"):
        balanced_neighbourhoods((POSITIVE, torch.tensor([[1], [2]])))
    with pytest.raises(InputError, match="two edges between labels '2' and '1'"):
        balanced_neighbourhoods((POSITIVE, torch.tensor([[1, 2], [2, 1]])))
    with pytest.raises(InputError, match="numbers from 0 to 2"):
        balanced_neighbourhoods((POSITIVE, NEGATIVE), num_labels=3)
    with pytest.raises(InputError, match="has pos_edge_index and neg_edge_index, or edge_index and edge_sign"):
        balanced_neighbourhoods(Data(edge_index=POSITIVE))
    with pytest.raises(InputError, match="must be 1"):
        balanced_neighbourhoods(Data(edge_index=POSITIVE, edge_sign=torch.tensor([1, 1, 0, 0])))
