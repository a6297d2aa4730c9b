"""Balanced neighbourhoods: friends and enemies over k hops, by sparse products only."""

from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from bncl_pyg.errors import InputError
from bncl_pyg.graph.signed import ENEMY, FRIEND, SignedLabelGraph

MANY = 2**31 - 1
"""Where walk counts stop growing: only "more than none" and comparisons matter, and no product may overflow."""


@dataclass(frozen=True)
class Neighbourhood:
    """Who is whose friend and enemy at one hop; u is in v's neighbourhood where the count at (u, v) is above 0.

    Args:
        friends: D^(k,+), walks of k edges with an even number of enemies; int64, (labels, labels).
        enemies: D^(k,−), walks of k edges with an odd number of enemies; int64, (labels, labels).
    """

    friends: csr_array
    enemies: csr_array

    def edge_indices(self) -> tuple[Tensor, Tensor]:
        """Return friends and enemies as edge indices, (2, edges), from u to v."""
        return _edge_index(self.friends), _edge_index(self.enemies)


def balanced_neighbourhoods(
    graph: SignedLabelGraph, hops: int | None = None, *, simple: bool = False
) -> list[Neighbourhood]:
    """Return the neighbourhoods at hops 1 … K by balance theory: the enemy of my enemy is my friend.

    .. math::
        D^{(k,+)} &= (A^+)^T D^{(k-1,+)} + (A^-)^T D^{(k-1,-)} \\\\
        D^{(k,-)} &= (A^+)^T D^{(k-1,-)} + (A^-)^T D^{(k-1,+)}, \\quad D^{(1,±)} = A^±

    Args:
        graph: the signed label graph.
        hops: K; the graph's own if not given.
        simple: as the authors' code does it: only whether there is a walk, and no label is its own neighbour, at every
            hop. It differs from the paper in that walks do not return through their own start.
    """
    hops = graph.hops if hops is None else hops
    if hops < 1:
        raise InputError(f"Neighbourhoods need at least 1 hop, but {hops} were asked for.")
    positive, negative = graph.adjacency(FRIEND), graph.adjacency(ENEMY)
    found = [Neighbourhood(positive, negative)]
    positive_t, negative_t = positive.T.tocsr(), negative.T.tocsr()
    tidy = _binarised_without_diagonal if simple else _saturated
    while len(found) < hops:
        last = found[-1]
        friends = positive_t @ last.friends + negative_t @ last.enemies
        enemies = positive_t @ last.enemies + negative_t @ last.friends
        found.append(Neighbourhood(tidy(friends), tidy(enemies)))
    return found


def _saturated(counts: csr_array) -> csr_array:
    counts.data = np.minimum(counts.data, MANY)
    return counts


def _binarised_without_diagonal(counts: csr_array) -> csr_array:
    entries = counts.tocoo()
    off = entries.row != entries.col
    ones = np.ones(int(off.sum()), dtype=np.int64)
    return csr_array((ones, (entries.row[off], entries.col[off])), shape=counts.shape)


def _edge_index(counts: csr_array) -> Tensor:
    entries = counts.tocoo()
    return torch.from_numpy(np.stack([entries.row, entries.col]).astype(np.int64))
