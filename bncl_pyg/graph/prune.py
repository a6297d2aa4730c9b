"""Neighbourhoods that stay sparse: hop by hop, each label keeps only its strongest friends and enemies.

A hop is one sparse matrix with a row a target v and two columns a source u: the first counts the walks that make u a
friend of v, the other, `labels` further right, those that make it an enemy. So a single product takes all signed walks
one step further.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array, vstack
from torch import Tensor

from bncl_pyg.errors import InputError
from bncl_pyg.graph.blocks import Arrays, Compute, Work, hash_of, tensor_of
from bncl_pyg.graph.nearest import top_k
from bncl_pyg.graph.walks import ENEMY, MAX_WALKS, Neighbourhood

if TYPE_CHECKING:
    from bncl_pyg.graph.signed import SignedLabelGraph

BYTES_AN_ENTRY = 100
"""What an entry takes before pruning at its peak: the product's, and what ranks it."""
BYTES_A_KEPT_ENTRY = 40
"""What an entry takes after pruning: as a factor of the next product and in its neighbourhood."""
BLOCK_SHARE = 1 / 8
MOST_ROWS = 16_384
_COSINES_AT_ONCE = 2**14


def pruned_neighbourhoods(
    graph: "SignedLabelGraph", units: NDArray[np.float32], max_neighbours: int, memory: float, work: Work
) -> list[Neighbourhood]:
    """Return the neighbourhoods at all the graph's hops, each label's friends and enemies pruned to the strongest.

    Strongest are the sources with the most walks, then friends with the highest and enemies with the lowest cosine,
    then the first in the labels' order. Later hops walk only over kept edges:

    .. math::
        E^{(k,+)} &= E^{(k-1,+)} E^{(1,+)} + E^{(k-1,-)} E^{(1,-)} \\\\
        E^{(k,-)} &= E^{(k-1,+)} E^{(1,-)} + E^{(k-1,-)} E^{(1,+)}

    where row v of each :math:`E` has v's sources, at most `max_neighbours`; a `Neighbourhood` holds the transposes.

    Args:
        graph: the signed label graph.
        units: vectors of length 1, or 0 where a label has none, (labels, dimensions).
        max_neighbours: how many friends and how many enemies each label keeps at each hop.
        memory: the budget in GB that decides how many rows are multiplied at a time.
        work: keeps finished blocks.
    """
    if max_neighbours < 1:
        raise InputError(f"Each label must keep at least 1 neighbour, but max_neighbours is {max_neighbours}.")
    pruning = _Pruning(Strongest(units, max_neighbours), memory, work)
    made_from = hash_of(units, graph.edge_index.numpy(), graph.edge_sign.numpy(), max_neighbours)
    hops = [first := pruning.first(graph, made_from)]
    # Along an enemy's edge, friends become enemies and enemies friends.
    step = vstack([first, _signs_flipped(first, len(units))], format="csr")
    while len(hops) < graph.hops:
        hops.append(pruning.further(hops[-1], step, f"hop{len(hops) + 1}", made_from))
    return [_neighbourhood(hop, len(units)) for hop in hops]


@dataclass(frozen=True)
class Strongest:
    """Prunes rows of a hop.

    Args:
        units: vectors of length 1, or 0 where a label has none, (labels, dimensions).
        most: how many friends and how many enemies each label keeps.
    """

    units: NDArray[np.float32]
    most: int

    @property
    def labels(self) -> int:
        """How many there are."""
        return len(self.units)

    def matrix(self, walks: NDArray[np.int64], columns: NDArray[np.int64], starts: NDArray[np.int64]) -> csr_array:
        """Return rows of a hop."""
        matrix = csr_array((walks, columns, starts), shape=(len(starts) - 1, 2 * self.labels))
        matrix.sort_indices()
        return matrix

    def keep(self, counts: csr_array, begin: int) -> Arrays:
        """Return what is kept of some rows, the first of which is the target `begin`."""
        counts.sort_indices()
        walks, columns = tensor_of(counts.data), tensor_of(counts.indices.astype(np.int64))
        rows = torch.from_numpy(np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr)))
        # A target's friends, and after them its enemies, are a group.
        sizes = torch.bincount(2 * rows + (columns >= self.labels), minlength=2 * counts.shape[0])
        kept = torch.ones(len(walks), dtype=torch.bool)
        starts = sizes.cumsum(0) - sizes
        for groups in _groups_by_size(sizes, self.most):
            places = torch.arange(int(sizes[groups].max()))
            inside = places < sizes[groups, None]
            members = (starts[groups, None] + places).clamp_(max=len(walks) - 1)
            walked = walks[members].masked_fill_(~inside, 0)
            least = walked.topk(self.most, dim=1).values[:, -1:]
            # More walks than the last that is kept: kept for sure. As many: the cosine decides.
            rank = torch.where(walked > least, 2.0 + places, -torch.inf)
            contested = inside & (walked == least)
            entries = members[contested]
            sources = columns[entries]
            cosines = self._cosines(rows[entries] + begin, sources % self.labels)
            rank[contested] = torch.where(sources < self.labels, cosines, -cosines)
            _, best = top_k(rank, self.most)
            kept[members[inside]] = False
            kept[members.gather(1, best)] = True
        return {
            "sizes": torch.bincount(rows[kept], minlength=counts.shape[0]).numpy().astype(np.int32),
            "sources": columns[kept].numpy().astype(np.int32),
            "walks": walks[kept].numpy().astype(np.int32),
        }

    def _cosines(self, targets: Tensor, sources: Tensor) -> Tensor:
        cosines, units = torch.empty(len(targets)), tensor_of(self.units)
        for start in range(0, len(targets), _COSINES_AT_ONCE):
            here = slice(start, start + _COSINES_AT_ONCE)
            cosines[here] = torch.linalg.vecdot(units[targets[here]], units[sources[here]])
        return cosines


@dataclass(frozen=True)
class FirstHop:
    """The graph's edges, pruned, a block of targets at a time.

    Args:
        strongest: prunes.
        cuts: where blocks begin and end.
        starts: where the edges of each target begin, (labels + 1,).
        sources: of the edges, sorted by target.
        signs: of the edges.
    """

    strongest: Strongest
    cuts: list[int]
    starts: NDArray[np.int64]
    sources: NDArray[np.int64]
    signs: NDArray[np.int8]

    def __call__(self, number: int) -> Arrays:
        """Prune a block."""
        begin, end = self.cuts[number : number + 2]
        here = slice(self.starts[begin], self.starts[end])
        columns = self.sources[here] + np.where(self.signs[here] == ENEMY, self.strongest.labels, 0)
        ones = np.ones(len(columns), dtype=np.int64)
        rows = self.strongest.matrix(ones, columns, self.starts[begin : end + 1] - self.starts[begin])
        return self.strongest.keep(rows, begin)


@dataclass(frozen=True)
class FurtherHop:
    """One step further from a hop, pruned, a block of targets at a time.

    Args:
        strongest: prunes.
        cuts: where blocks begin and end.
        last: the hop.
        step: takes its walks one step further.
    """

    strongest: Strongest
    cuts: list[int]
    last: csr_array
    step: csr_array

    def __call__(self, number: int) -> Arrays:
        """Take a block's walks further, and prune."""
        begin, end = self.cuts[number : number + 2]
        product = self.last[begin:end] @ self.step
        product.data = np.minimum(product.data, MAX_WALKS)
        return self.strongest.keep(product, begin)


class _Pruning:
    def __init__(self, strongest: Strongest, memory: float, work: Work) -> None:
        self.strongest, self.most, self.memory, self.work = strongest, strongest.most, memory, work
        self.labels = strongest.labels
        self.kept = 0

    def first(self, graph: "SignedLabelGraph", made_from: str) -> csr_array:
        """Return the graph's edges, pruned: of each pair there is one walk, so that only the cosine decides."""
        starts = np.searchsorted(graph.edge_index[1].numpy(), np.arange(self.labels + 1))
        sources, signs = graph.edge_index[0].numpy(), graph.edge_sign.numpy()
        cuts = self._cuts(np.diff(starts), "hop1")
        return self._collect("hop1", made_from, cuts, FirstHop(self.strongest, cuts, starts, sources, signs))

    def further(self, last: csr_array, step: csr_array, stage: str, made_from: str) -> csr_array:
        """Go one step further from a hop, and prune."""
        entries = last.astype(bool).astype(np.int64) @ np.diff(step.indptr)
        cuts = self._cuts(entries, stage)
        return self._collect(stage, made_from, cuts, FurtherHop(self.strongest, cuts, last, step))

    def _cuts(self, entries: NDArray[np.int64], stage: str) -> list[int]:
        """Return where blocks of rows begin and end, so that each one's entries before pruning fit into the budget."""
        self._check_memory(entries, stage)
        most = self.memory * 1e9 * BLOCK_SHARE / BYTES_AN_ENTRY
        ends = np.cumsum(entries)
        cuts = [0]
        while cuts[-1] < self.labels:
            begin = cuts[-1]
            fitting = int(np.searchsorted(ends, ends[begin] - entries[begin] + most, side="right"))
            cuts.append(min(max(fitting, begin + 1), begin + MOST_ROWS, self.labels))
        return cuts

    def _check_memory(self, entries: NDArray[np.int64], stage: str) -> None:
        """Raise unless what is kept of all hops up to this one fits into the budget."""
        self.kept += int(np.minimum(entries, 2 * min(self.most, self.labels)).sum())
        needed = self.kept * BYTES_A_KEPT_ENTRY / 1e9
        if needed > self.memory:
            raise InputError(
                f"With {self.most} neighbours a label, hops 1 to {stage.removeprefix('hop')} may keep {self.kept:,} "
                f"neighbours, which takes {needed:.1f} GB, but the memory budget is {self.memory:g} GB: "
                f"use a smaller max_neighbours, fewer hops, or more memory."
            )

    def _collect(self, stage: str, made_from: str, cuts: list[int], compute: Compute) -> csr_array:
        blocks = list(self.work.blocks(stage, hash_of(made_from, cuts), len(cuts) - 1, compute))
        sizes, columns, walks = (
            np.concatenate([block[name] for block in blocks]) for name in ("sizes", "sources", "walks")
        )
        starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        return self.strongest.matrix(walks.astype(np.int64), columns, starts)


def _groups_by_size(sizes: Tensor, most: int) -> Iterator[Tensor]:
    """Yield the places of groups with more than `most` members, those together whose sizes differ at most twofold."""
    largest = int(sizes.max())
    while most < largest:
        groups = ((sizes > most) & (sizes <= 2 * most)).nonzero()[:, 0]
        if len(groups):
            yield groups
        most *= 2


def _signs_flipped(hop: csr_array, labels: int) -> csr_array:
    """Return a hop with friends and enemies exchanged."""
    flipped = csr_array((hop.data, (hop.indices + labels) % (2 * labels), hop.indptr), shape=hop.shape)
    flipped.sort_indices()
    return flipped


def _neighbourhood(hop: csr_array, labels: int) -> Neighbourhood:
    def transposed(part: csr_array) -> csr_array:
        return csc_array((part.data, part.indices, part.indptr), shape=(labels, labels)).tocsr()

    return Neighbourhood(transposed(hop[:, :labels]), transposed(hop[:, labels:]))
