"""What a signed label graph looks like in numbers, and whether its neighbourhoods are still sparse."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from bncl_pyg.graph.neighbourhoods import Neighbourhood, balanced_neighbourhoods
from bncl_pyg.graph.signed import ENEMY, FRIEND, SignedLabelGraph

DENSE = 0.5
"""From this share of all label pairs on, a neighbourhood is called dense."""


@dataclass(frozen=True)
class HopStatistics:
    """One hop's neighbourhoods; densities are shares of all ordered pairs of labels, the label itself included."""

    hop: int
    friend_density: float
    enemy_density: float
    labels_without_friends: list[str]
    labels_without_enemies: list[str]
    ambivalent_pairs: int
    """Ordered pairs that are friend and enemy at once, because walks of both kinds join them."""


@dataclass(frozen=True)
class GraphStatistics:
    """The graph and each of its hops."""

    labels: int
    friends: int
    enemies: int
    triangles: int
    balanced_triangles: float | None
    """The share of triangles with an even number of enemies; `None` where there is no triangle."""
    hops: list[HopStatistics]

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers, lists and dictionaries."""
        return asdict(self)

    def warnings(self) -> list[str]:
        """Return a sentence for each thing that a user should know before training."""
        found = []
        for hop in self.hops:
            density = max(hop.friend_density, hop.enemy_density)
            if density > DENSE:
                found.append(
                    f"At hop {hop.hop}, {density:.0%} of all pairs of labels are neighbours: sparsity is lost and "
                    f"labels can hardly be told apart; use fewer hops or percentiles further out."
                )
        return found


def graph_statistics(graph: SignedLabelGraph, hops: int | None = None) -> GraphStatistics:
    """Count edges, triangles and neighbours; everything by sparse products."""
    triangles, balanced = _triangles(graph)
    neighbourhoods = balanced_neighbourhoods(graph, hops)
    return GraphStatistics(
        labels=graph.num_nodes,
        friends=graph.count(FRIEND),
        enemies=graph.count(ENEMY),
        triangles=triangles,
        balanced_triangles=balanced / triangles if triangles else None,
        hops=[_hop(graph, number, hood) for number, hood in enumerate(neighbourhoods, start=1)],
    )


def _hop(graph: SignedLabelGraph, number: int, hood: Neighbourhood) -> HopStatistics:
    pairs = graph.num_nodes**2
    both = (hood.friends > 0).multiply(hood.enemies > 0)
    return HopStatistics(
        hop=number,
        friend_density=hood.friends.nnz / pairs,
        enemy_density=hood.enemies.nnz / pairs,
        labels_without_friends=_without(graph, hood.friends),
        labels_without_enemies=_without(graph, hood.enemies),
        ambivalent_pairs=int(both.nnz),
    )


def _without(graph: SignedLabelGraph, counts: csr_array) -> list[str]:
    neighbours = np.bincount(counts.indices, minlength=graph.num_nodes)
    return [graph.label_names[place] for place in np.flatnonzero(neighbours == 0)]


def _triangles(graph: SignedLabelGraph) -> tuple[int, int]:
    """Return how many triangles there are and how many are balanced (the product of their signs is 1)."""
    positive, negative = graph.adjacency(FRIEND), graph.adjacency(ENEMY)
    any_sign, signed = positive + negative, positive - negative
    # Each triangle is counted once an ordered choice of its corners: six times.
    total = int((any_sign @ any_sign).multiply(any_sign).sum()) // 6
    balance = int((signed @ signed).multiply(signed).sum()) // 6
    return total, (total + balance) // 2
