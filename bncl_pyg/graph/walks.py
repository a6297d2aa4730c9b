"""The neighbourhood at one hop: between which labels signed walks go, how many, and how that is stored."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

FRIEND, ENEMY = 1, -1
"""The signs of edges."""
MAX_WALKS = 2**31 - 1
"""Where walk counts stop growing: only "more than none" and comparisons matter, and no product may overflow."""
MAX_HOPS = 64
"""Over how many hops neighbourhoods can reach: far fewer are of use, and a file must not ask for a million."""


@dataclass(frozen=True)
class Neighbourhood:
    """Who is whose friend and enemy at one hop; u is in v's neighbourhood where the count at (u, v) is above 0.

    A `BalancedConv` is made from it: `BalancedConv(neighbourhood)`.

    Args:
        friends: D^(k,+), walks of k edges with an even number of enemies; int64, (labels, labels).
        enemies: D^(k,−), walks of k edges with an odd number of enemies; int64, (labels, labels).
    """

    friends: csr_array
    enemies: csr_array

    @property
    def num_labels(self) -> int:
        """How many labels there are."""
        return int(self.friends.shape[0])

    def edge_indices(self) -> tuple[Tensor, Tensor]:
        """Return friends and enemies as edge indices, (2, edges), from u to v."""
        return _edge_index(self.friends), _edge_index(self.enemies)


def to_tensors(hops: Sequence[Neighbourhood]) -> dict[str, Tensor]:
    """Return the neighbourhoods at hops 1, 2, … as named tensors; indices and counts are int32."""
    tensors = {}
    for hop, neighbourhood in enumerate(hops, start=1):
        for kind, counts in (("friends", neighbourhood.friends), ("enemies", neighbourhood.enemies)):
            tensors[f"{hop}.{kind}.starts"] = torch.from_numpy(counts.indptr.astype(np.int64))
            tensors[f"{hop}.{kind}.targets"] = torch.from_numpy(counts.indices.astype(np.int32))
            tensors[f"{hop}.{kind}.walks"] = torch.from_numpy(counts.data.astype(np.int32))
    return tensors


def from_tensors(tensors: dict[str, Tensor], labels: int) -> list[Neighbourhood]:
    """Return the neighbourhoods that `to_tensors` wrote down; raise `ValueError` where it did not write these."""

    def counts(hop: int, kind: str) -> csr_array:
        starts, targets, walks = (tensors[f"{hop}.{kind}.{part}"].numpy() for part in ("starts", "targets", "walks"))
        return _checked(csr_array((walks.astype(np.int64), targets, starts), shape=(labels, labels)))

    hops = len(tensors) // 6
    names = {f"{hop}.{kind}.{part}" for hop in range(1, hops + 1) for kind in _KINDS for part in _PARTS}
    if set(tensors) != names:
        raise ValueError("the neighbourhoods are not those of hops 1, 2, …")
    return [Neighbourhood(counts(hop, "friends"), counts(hop, "enemies")) for hop in range(1, hops + 1)]


_KINDS, _PARTS = ("friends", "enemies"), ("starts", "targets", "walks")


def _checked(counts: csr_array) -> csr_array:
    counts.check_format(full_check=True)
    return counts


def _edge_index(counts: csr_array) -> Tensor:
    entries = counts.tocoo()
    return torch.from_numpy(np.stack([entries.row, entries.col]).astype(np.int64))
