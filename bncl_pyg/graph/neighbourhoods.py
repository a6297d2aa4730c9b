"""Balanced neighbourhoods: friends and enemies over k hops, by sparse products only."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from torch_geometric.data import Data

from bncl_pyg.errors import InputError
from bncl_pyg.graph.signed import SignedLabelGraph, as_signed_graph
from bncl_pyg.graph.walks import ENEMY, FRIEND, MAX_HOPS, MAX_WALKS, Neighbourhood


def balanced_neighbourhoods(
    graph: Data | tuple[Any, Any], hops: int | None = None, *, num_labels: int | None = None, simple: bool = False
) -> list[Neighbourhood]:
    """Return the neighbourhoods at hops 1 … K by balance theory: the enemy of my enemy is my friend.

    .. math::
        D^{(k,+)} &= (A^+)^T D^{(k-1,+)} + (A^-)^T D^{(k-1,-)} \\\\
        D^{(k,-)} &= (A^+)^T D^{(k-1,-)} + (A^-)^T D^{(k-1,+)}, \\quad D^{(1,±)} = A^±

    A graph that was built with `max_neighbours` carries its neighbourhoods, pruned to the strongest: it gives these.

    .. code-block:: python

        first, second = balanced_neighbourhoods(graph, hops=2)
        first, second = balanced_neighbourhoods((pos_edge_index, neg_edge_index), hops=2, num_labels=57)
        layer = BalancedConv(second)

    Args:
        graph: a `SignedLabelGraph`; any PyG `Data` with `pos_edge_index` and `neg_edge_index`, or with `edge_index` and
            `edge_sign`; or the pair (positive edges, negative edges), as edge indices, PyG's `EdgeIndex` or sparse
            matrices. Edges go both ways.
        hops: K; if not given, the graph's own, or 2.
        num_labels: how many labels a pair is over; if not given, as many as its sparse size has, or as occur.
        simple: as the authors' code does it: only whether there is a walk, and no label is its own neighbour, at every
            hop. It differs from the paper in that walks do not return through their own start. Of pruned
            neighbourhoods, which are walked beforehand, only the counts and the labels themselves are left out.
    """
    signed = as_signed_graph(graph, num_labels)
    return list(islice(each_neighbourhood(signed, simple=simple), check_hops(signed, hops)))


def check_hops(graph: SignedLabelGraph, hops: int | None) -> int:
    """Return over how many hops to go, the graph's own if not given, after checking that it can."""
    hops = graph.hops if hops is None else hops
    if hops < 1:
        raise InputError(f"Neighbourhoods need at least 1 hop, but {hops} were asked for.")
    if hops > MAX_HOPS:
        raise InputError(f"Neighbourhoods reach over at most {MAX_HOPS} hops, but {hops} were asked for.")
    if graph.pruned and hops > len(graph.pruned):
        raise InputError(
            f"The graph carries its neighbourhoods up to hop {len(graph.pruned)}, but {hops} hops were asked for: "
            f"build it again with hops={hops}."
        )
    return hops


def each_neighbourhood(graph: SignedLabelGraph, *, simple: bool = False) -> Iterator[Neighbourhood]:
    """Yield the neighbourhoods at hops 1, 2, …: the pruned ones that the graph carries, or else without an end."""
    if graph.pruned:
        for neighbourhood in graph.pruned:
            yield _each(neighbourhood, _binarised_without_diagonal) if simple else neighbourhood
        return
    positive, negative = graph.adjacency(FRIEND), graph.adjacency(ENEMY)
    last = Neighbourhood(positive, negative)
    positive_t, negative_t = positive.T.tocsr(), negative.T.tocsr()
    while True:
        yield last
        friends = positive_t @ last.friends + negative_t @ last.enemies
        enemies = positive_t @ last.enemies + negative_t @ last.friends
        last = _each(Neighbourhood(friends, enemies), _binarised_without_diagonal if simple else _saturated)


def _each(neighbourhood: Neighbourhood, change: Callable[[csr_array], csr_array]) -> Neighbourhood:
    return Neighbourhood(change(neighbourhood.friends), change(neighbourhood.enemies))


def _saturated(counts: csr_array) -> csr_array:
    counts.data = np.minimum(counts.data, MAX_WALKS)
    return counts


def _binarised_without_diagonal(counts: csr_array) -> csr_array:
    entries = counts.tocoo()
    off = entries.row != entries.col
    ones = np.ones(int(off.sum()), dtype=np.int64)
    return csr_array((ones, (entries.row[off], entries.col[off])), shape=counts.shape)
