from itertools import pairwise, product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bncl_pyg.errors import InputError
from bncl_pyg.graph import SignedLabelGraph, balanced_neighbourhoods, neighbourhoods


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
    for length, hood in enumerate(balanced_neighbourhoods(graph, 4), start=1):
        assert (hood.friends.toarray() == count_walks(signs, length, 1)).all()
        assert (hood.enemies.toarray() == count_walks(signs, length, -1)).all()


@settings(max_examples=50, deadline=None)
@given(signed_graphs())
def test_simple_neighbourhoods_are_the_authors(graph: SignedLabelGraph) -> None:
    signs = signs_of(graph)
    positive, negative = (signs > 0).astype(int), (signs < 0).astype(int)
    friends, enemies = positive, negative
    off = 1 - np.eye(len(signs), dtype=int)
    for hood in balanced_neighbourhoods(graph, 3, simple=True):
        assert (hood.friends.toarray() == friends).all()
        assert (hood.enemies.toarray() == enemies).all()
        friends, enemies = (
            ((positive @ friends + negative @ enemies) > 0) * off,
            ((positive @ enemies + negative @ friends) > 0) * off,
        )


def test_counts_stop_growing_before_they_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbourhoods, "MANY", 5)
    graph = make_graph(6, {(u, v): 1 for u in range(6) for v in range(u + 1, 6)})
    hops = balanced_neighbourhoods(graph, 40)
    assert hops[-1].friends.max() == 5
    assert hops[-1].friends.nnz == 36


def test_the_graph_says_how_many_hops() -> None:
    graph = make_graph(3, {(0, 1): 1}, hops=3)
    assert len(balanced_neighbourhoods(graph)) == 3
    with pytest.raises(InputError, match="at least 1 hop, but 0"):
        balanced_neighbourhoods(graph, 0)
