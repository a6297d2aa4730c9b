"""The most and the least similar pairs of all: percentiles of their cosines without ever holding all of them.

A float32 is looked up by its bits, high half first: one pass over all pairs counts the high halves, a second the low
halves within those few high halves that hold the wanted ranks. After that the two thresholds and the number of pairs
beyond them are known exactly, and a third pass collects these pairs.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bncl_pyg.errors import InputError
from bncl_pyg.graph.blocks import Arrays, Work, hash_of, tensor_of
from bncl_pyg.graph.edges import BYTES_A_PAIR, Edges, rows_at_once
from bncl_pyg.graph.walks import ENEMY, FRIEND

_HALF = 2**16
_PIECE = 2**20
"""How many cosines are counted at a time: so many that they stay in the processor's cache."""


class _Ranked(NamedTuple):
    """The cosine at one rank, and how many pairs lie below it and up to it."""

    cosine: float
    below: int
    up_to: int


class _Between(NamedTuple):
    """A percentile and the ranks around it."""

    before: _Ranked
    after: _Ranked
    threshold: float

    def at_most(self) -> int:
        """Return how many pairs lie at the percentile or below."""
        return self.after.up_to if self.threshold >= self.after.cosine else self.before.up_to

    def below(self) -> int:
        """Return how many pairs lie below the percentile."""
        return self.before.below if self.threshold <= self.before.cosine else self.after.below


def percentile_edges(
    units: NDArray[np.float32], percentiles: tuple[float, float], memory: float, work: Work
) -> tuple[Edges, tuple[float, float]]:
    """Return the pairs in the two tails of the cosines of all pairs, and the two thresholds.

    Args:
        units: vectors of length 1, (labels, dimensions).
        percentiles: of the enemies' and of the friends' threshold, as `numpy.percentile` computes them.
        memory: the budget in GB; more pairs than fit into it are refused.
        work: keeps finished blocks.
    """
    low, high = percentiles
    pairs = len(units) * (len(units) - 1) // 2
    check_percentiles(len(units), percentiles, memory)
    all_pairs = _AllPairs(PairBlocks(units, rows_at_once(len(units), memory)), work)
    enemies, friends = all_pairs.percentiles(low, high)
    lower, upper = enemies.threshold, friends.threshold
    if lower >= upper:
        raise InputError(
            f"The percentiles {low:g} and {high:g} of the label cosines are the same number, {lower:g}: "
            f"friends and enemies cannot be told apart."
        )
    _check_memory(enemies.at_most() + pairs - friends.below(), len(units), memory)
    return all_pairs.beyond(lower, upper), (lower, upper)


def check_percentiles(labels: int, percentiles: tuple[float, float], memory: float) -> None:
    """Raise unless percentiles make sense and the pairs of labels beyond them fit into `memory` GB."""
    low, high = percentiles
    if not 0 <= low < high <= 100:
        raise InputError(f"Percentiles must be two numbers with 0 ≤ LOW < HIGH ≤ 100, but are {low:g} and {high:g}.")
    _check_memory(round(labels * (labels - 1) // 2 * (low + 100 - high) / 100), labels, memory)


def _check_memory(pairs: int, labels: int, memory: float) -> None:
    needed = pairs * BYTES_A_PAIR / 1e9
    if needed > memory:
        raise InputError(
            f"These percentiles connect {pairs:,} pairs of {labels:,} labels, which takes {needed:.1f} GB, but the "
            f"memory budget is {memory:g} GB: use neighbours=10 instead, percentiles further out, or more memory."
        )


@dataclass(frozen=True)
class PairBlocks:
    """The cosines of all pairs, a block of rows at a time; what is done with a block.

    Args:
        units: vectors of length 1, (labels, dimensions).
        rows: how many a block has.
    """

    units: NDArray[np.float32]
    rows: int

    def count_high(self, number: int) -> Arrays:
        """Count the high halves of a block's cosines."""
        counts = np.zeros(_HALF, dtype=np.int64)
        for keys in self._keys(number):
            counts += np.bincount((keys >> 16) + _HALF // 2, minlength=_HALF)
        return {"counts": counts}

    def count_low(self, halves: list[int], number: int) -> Arrays:
        """Count, for each of some high halves, the low halves that occur with it in a block."""
        counts = np.zeros((len(halves), _HALF), dtype=np.int64)
        for keys in self._keys(number):
            high = (keys >> 16) + _HALF // 2
            for row, half in enumerate(halves):
                counts[row] += np.bincount(keys[high == half] & (_HALF - 1), minlength=_HALF)
        return {"counts": counts}

    def beyond(self, enemy: np.float32, friend: np.float32, number: int) -> Arrays:
        """Return a block's pairs at or beyond the thresholds."""
        parts = [_chosen(cosines, row, column, enemy, friend) for cosines, row, column in self._upper(number)]
        return {name: np.concatenate([part[name] for part in parts], axis=-1) for name in parts[0]}

    def _keys(self, number: int) -> Iterator[NDArray[np.int32]]:
        """Yield a block's cosines as whole numbers in the same order."""
        for cosines, row, column in self._upper(number):
            flat = cosines[np.triu_indices(len(cosines), k=1)] if row == column else cosines.ravel()
            for start in range(0, len(flat), _PIECE):
                yield _sortable(flat[start : start + _PIECE].view(np.int32))

    def _upper(self, number: int) -> Iterator[tuple[NDArray[np.float32], int, int]]:
        """Yield a block's cosines with the place of their corner: first the square on the diagonal, then the rest."""
        start, units = number * self.rows, tensor_of(self.units)
        block = units[start : start + self.rows]
        for column, others in ((start, block), (start + len(block), units[start + len(block) :])):
            # Adding 0 makes -0 to 0: their bits differ.
            yield (block @ others.T).clamp_(-1, 1).add_(0.0).numpy(), start, column


class _AllPairs:
    """The cosines of all pairs, gone through block by block."""

    def __init__(self, each: PairBlocks, work: Work) -> None:
        self.each, self.work = each, work
        labels = len(each.units)
        self.pairs = labels * (labels - 1) // 2
        self.blocks = math.ceil(labels / each.rows)
        self.made_from = hash_of(each.units, each.rows)

    def percentiles(self, *wanted: float) -> list[_Between]:
        """Return percentiles as numpy computes them, between the cosines at two ranks."""
        places = [(self.pairs - 1) * (percentile / 100) for percentile in wanted]
        firsts = [int(place) for place in places]
        ranked = self._ranked(sorted({min(first + step, self.pairs - 1) for first in firsts for step in (0, 1)}))
        percentiles = []
        for place, first in zip(places, firsts, strict=True):
            before, after = ranked[first], ranked[min(first + 1, self.pairs - 1)]
            share, step = place - first, float(np.float32(after.cosine - before.cosine))
            threshold = after.cosine - step * (1 - share) if share >= 0.5 else before.cosine + step * share
            percentiles.append(_Between(before, after, threshold))
        return percentiles

    def beyond(self, lower: float, upper: float) -> Edges:
        """Return the pairs at or beyond the thresholds."""
        compute = partial(self.each.beyond, _float32_at_most(lower), -_float32_at_most(-upper))
        made_from = hash_of(self.made_from, lower, upper)
        blocks = list(self.work.blocks("edges", made_from, self.blocks, compute))
        return Edges(*(np.concatenate([block[name] for block in blocks], axis=-1) for name in Edges._fields))

    def _ranked(self, ranks: list[int]) -> dict[int, _Ranked]:
        """Return the cosines at some ranks, counted from 0."""
        high = np.zeros(_HALF, dtype=np.int64)
        for block in self.work.blocks("coarse", self.made_from, self.blocks, self.each.count_high):
            high += block["counts"]
        ends = np.cumsum(high)
        halves = {rank: int(np.searchsorted(ends, rank, side="right")) for rank in ranks}
        counts = self._count_low(sorted(set(halves.values())))
        ranked = {}
        for rank, half in halves.items():
            within = int(ends[half] - high[half]) + np.cumsum(counts[half])
            low = int(np.searchsorted(within, rank, side="right"))
            key = np.array([(half - _HALF // 2) * _HALF + low], dtype=np.int32)
            up_to = int(within[low])
            cosine = float(_sortable(key).view(np.float32)[0])
            ranked[rank] = _Ranked(cosine, up_to - int(counts[half][low]), up_to)
        return ranked

    def _count_low(self, halves: list[int]) -> dict[int, NDArray[np.int64]]:
        """Count, for each of some high halves, the low halves that occur with it."""
        total = np.zeros((len(halves), _HALF), dtype=np.int64)
        compute = partial(self.each.count_low, halves)
        for block in self.work.blocks("fine", hash_of(self.made_from, halves), self.blocks, compute):
            total += block["counts"]
        return dict(zip(halves, total, strict=True))


def _sortable(bits: NDArray[np.int32]) -> NDArray[np.int32]:
    """Map the bits of float32 numbers to whole numbers in the same order, or back."""
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


def _float32_at_most(number: float) -> np.float32:
    """Return the largest float32 that is not above a number."""
    nearest = np.float32(number)
    return nearest if float(nearest) <= number else np.nextafter(nearest, np.float32(-np.inf))


def _chosen(cosines: NDArray[np.float32], row: int, column: int, enemy: np.float32, friend: np.float32) -> Arrays:
    chosen = (cosines <= enemy) | (cosines >= friend)
    if row == column:
        chosen = np.triu(chosen, k=1)
    rows, columns = np.nonzero(chosen)
    weights = cosines[rows, columns]
    return {
        "pairs": np.stack([rows + row, columns + column]).astype(np.int32),
        "signs": np.where(weights >= friend, FRIEND, ENEMY).astype(np.int8),
        "weights": weights,
    }
