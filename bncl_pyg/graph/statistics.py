"""What a signed label graph looks like in numbers, and whether its neighbourhoods are still sparse."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from bncl_pyg.graph.neighbourhoods import check_hops, each_neighbourhood
from bncl_pyg.graph.signed import SignedLabelGraph
from bncl_pyg.graph.walks import ENEMY, FRIEND, Neighbourhood

DENSE = 0.5
"""From this share of all label pairs on, a neighbourhood is called dense."""
MOST_STEPS, MOST_ENTRIES = 10**9, 5 * 10**7
"""A sparse product that needs more additions, or may have more entries, is not computed just to describe a graph."""


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
    triangles: int | None
    """`None` where they are too many to count."""
    balanced_triangles: float | None
    """The share of triangles with an even number of enemies; `None` where there is none, or they are not counted."""
    hops: list[HopStatistics]
    left_out: list[str]
    """A sentence for each thing that was too large to count."""

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers, lists and dictionaries."""
        return asdict(self)

    def warnings(self) -> list[str]:
        """Return a sentence for each thing that a user should know before training."""
        sentences = []
        for hop in self.hops:
            density = max(hop.friend_density, hop.enemy_density)
            if density > DENSE:
                sentences.append(
                    f"At hop {hop.hop}, {density:.0%} of all pairs of labels are neighbours: sparsity is lost and "
                    f"labels can hardly be told apart; use fewer hops or percentiles further out."
                )
        return sentences + self.left_out


def graph_statistics(graph: SignedLabelGraph, hops: int | None = None, *, triangles: bool = True) -> GraphStatistics:
    """Count edges, triangles and neighbours; everything by sparse products, and only those that are not too large.

    Args:
        graph: the signed label graph.
        hops: over how many hops; the graph's own if not given.
        triangles: whether to count them.
    """
    wanted = check_hops(graph, hops)
    described: list[HopStatistics] = []
    left_out: list[str] = []
    for neighbourhood in each_neighbourhood(graph):
        described.append(_hop(graph, len(described) + 1, neighbourhood))
        if len(described) == wanted:
            break
        if not graph.pruned and _too_large(_steps(graph, neighbourhood), graph.num_nodes):
            left_out.append(
                f"Hop {len(described) + 1} is not counted, because it has too many walks: build the graph with "
                f"max_neighbours=10 or so to keep it sparse."
            )
            break
    counted = balanced = None
    if triangles:
        degrees = np.bincount(graph.edge_index[1].cpu().numpy(), minlength=graph.num_nodes)
        if _too_large(int((degrees**2).sum()), graph.num_nodes):
            left_out.append("Triangles are not counted, because labels with very many neighbours have too many.")
        else:
            counted, balanced = _triangles(graph)
    return GraphStatistics(
        labels=graph.num_nodes,
        friends=graph.count(FRIEND),
        enemies=graph.count(ENEMY),
        triangles=counted,
        balanced_triangles=balanced / counted if counted and balanced is not None else None,
        hops=described,
        left_out=left_out,
    )


def _steps(graph: SignedLabelGraph, neighbourhood: Neighbourhood) -> int:
    """Return how many additions the hop after this one needs without pruning."""
    degrees = np.bincount(graph.edge_index[0].cpu().numpy(), minlength=graph.num_nodes)
    entries = np.diff(neighbourhood.friends.indptr) + np.diff(neighbourhood.enemies.indptr)
    return int(degrees @ entries)


def _too_large(steps: int, labels: int) -> bool:
    return steps > MOST_STEPS or min(steps, 2 * labels**2) > MOST_ENTRIES


def _hop(graph: SignedLabelGraph, number: int, neighbourhood: Neighbourhood) -> HopStatistics:
    pairs = graph.num_nodes**2
    both = (neighbourhood.friends > 0).multiply(neighbourhood.enemies > 0)
    return HopStatistics(
        hop=number,
        friend_density=neighbourhood.friends.nnz / pairs,
        enemy_density=neighbourhood.enemies.nnz / pairs,
        labels_without_friends=_without(graph, neighbourhood.friends),
        labels_without_enemies=_without(graph, neighbourhood.enemies),
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
