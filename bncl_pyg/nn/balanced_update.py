"""The fused kernel: balanced updates around sparse products, with a sparse backward.

Differentiating through torch's own CSR product forms a dense (labels × labels) gradient for the values. Here the
backward is a product with the transpose (for the states) and a sampled dense-dense product (for the weights), so that
memory stays O(edges + labels × texts).

What limits the speed is how fast the neighbours' states come from memory. Three things follow:

- A product is `embedding_bag`: a weighted sum of rows, which fetches the rows ahead; a CSR product does not.
- Only as many texts are updated at once as fit, with all labels, into the cache, through all layers.
- The sampled product, which does not fetch ahead, goes through the labels tile by tile for the same reason.
"""

import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CACHED, LEAST_TEXTS = 8 * 2**20, 32
"""One channel's states of the texts that are updated at once take about so many bytes; at least so many texts are,
since the edges are read once for all of them."""
TILE = 4 * 2**20
"""A tile's states take so many bytes."""

LARGE = 2**20
"""From so many numbers on, a second thread is worth waking."""


class SparsePattern:
    """Where a sparse matrix has entries, by rows and (for the backward) by columns.

    Args:
        rows: (entries,), sorted; within a row sorted by column.
        columns: (entries,).
        shape: of the matrix.
        by_columns: whether the transpose is wanted too.
    """

    def __init__(self, rows: Tensor, columns: Tensor, shape: tuple[int, int], *, by_columns: bool = True) -> None:
        self.shape = shape
        self.row_starts = _starts(rows, shape[0])
        # All kernels take 32-bit indices; some would convert 64-bit ones at every call.
        self.columns = columns.to(torch.int32)
        if not by_columns:
            return
        by_column = torch.argsort(columns * shape[0] + rows)
        self.by_column = by_column.to(torch.int32)
        self.column_starts = _starts(columns, shape[1])
        self.rows_by_column = rows[by_column].to(torch.int32)

    def matrix(self, values: Tensor) -> Tensor:
        """Return the CSR matrix with these values, (entries,)."""
        return _csr(self.row_starts, self.columns, values, self.shape)

    def transposed(self, values: Tensor) -> Tensor:
        """Return the transpose of `matrix`, also as CSR."""
        return _csr(self.column_starts, self.rows_by_column, self.sorted_by_column(values), self.shape[::-1])

    def sorted_by_column(self, values: Tensor) -> Tensor:
        """Return the values in the order in which the transpose has them."""
        return values.index_select(0, self.by_column)

    def product(self, values: Tensor, states: Tensor) -> Tensor:
        """Return the matrix with these values times the states, (columns, texts)."""
        return _weighted_sums(states, self.columns, self.row_starts, values)

    def transposed_product(self, values_by_column: Tensor, states: Tensor) -> Tensor:
        """Return the transpose times the states, (rows, texts); the values come from `sorted_by_column`."""
        return _weighted_sums(states, self.rows_by_column, self.column_starts, values_by_column)


class SampledProduct:
    """The products of rows of two matrices where a pattern has entries, summed over many such pairs of matrices.

    Args:
        pattern: where.
        texts: how many columns the matrices have: the more, the narrower are the tiles.
    """

    def __init__(self, pattern: SparsePattern, texts: int) -> None:
        rows, columns = pattern.shape
        entries = len(pattern.columns)
        # Every tile goes through all rows: there should be entries in most of them.
        tiles = max(1, min(columns * texts * 4 // TILE, entries // max(1, rows)))
        self.width = -(-columns // tiles)
        self.shape = pattern.shape
        self.back: Tensor | None = None
        self.parts = [(0, columns, pattern.row_starts, pattern.columns)]
        if tiles > 1:
            counts = pattern.row_starts.diff()
            rows_of = torch.repeat_interleave(torch.arange(rows), counts)
            tile_of = pattern.columns // self.width
            order = torch.argsort(tile_of, stable=True)
            self.back = torch.empty_like(order, dtype=torch.int32)
            self.back[order] = torch.arange(entries, dtype=torch.int32)
            self.parts = []
            sizes = torch.bincount(tile_of, minlength=tiles).tolist()
            for number, part in enumerate(order.split(sizes)):
                first, last = number * self.width, min(columns, (number + 1) * self.width)
                self.parts.append((first, last, _starts(rows_of[part], rows), pattern.columns[part] - first))

    def zeros(self, like: Tensor) -> Tensor:
        """Return the sums before the first pair; in an order of its own."""
        return torch.zeros(sum(len(columns) for *_, columns in self.parts), dtype=like.dtype)

    def add(self, sums: Tensor, left: Tensor, right: Tensor) -> None:
        """Add left[row] · right[column] to every entry's sum; left is (rows, texts), right (columns, texts)."""
        done = 0
        for first, last, starts, columns in self.parts:
            if len(columns):
                part = _csr(starts, columns, sums[done : done + len(columns)], (self.shape[0], last - first))
                torch.sparse.sampled_addmm(part, left, right[first:last].t(), out=part)
            done += len(columns)

    def in_order(self, sums: Tensor) -> Tensor:
        """Return the sums in the order of the pattern's entries."""
        return sums if self.back is None else sums.index_select(0, self.back)


class SparseHood:
    """The friends and enemies of all labels, ready for `BalancedUpdate`.

    Args:
        friends: edge index (2, edges) from u to v, sorted by target, then source.
        enemies: the same.
        labels: how many there are.
    """

    def __init__(self, friends: Tensor, enemies: Tensor, labels: int) -> None:
        self.texts = max(LEAST_TEXTS, CACHED // (4 * labels) // LEAST_TEXTS * LEAST_TEXTS)
        patterns = [SparsePattern(edges[1], edges[0], (labels, labels)) for edges in (friends, enemies)]
        samples = [SampledProduct(pattern, self.texts) for pattern in patterns]
        # In the order of the weights: W⁺ and W̄⁻ of entailment, W⁻ and W̄⁺ of contradiction.
        self.patterns = [patterns[sign] for sign in (0, 1, 1, 0)]
        self.samples = [samples[sign] for sign in (0, 1, 1, 0)]


class BalancedUpdate(torch.autograd.Function):
    """Balanced updates, one after the other, differentiable in weights and states without (labels × labels) matrices.

    The products want labels first. Everything inside is so; as many texts as the cache holds go through all layers.
    """

    @staticmethod
    def forward(
        ctx: Any,
        entailment: Tensor,
        contradiction: Tensor,
        hoods: Sequence[SparseHood],
        keep: bool,
        *weights: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Update both channels, (texts, labels), once a hood; `weights` are four a hood.

        Nothing is kept for a backward if `keep` is false: in here one cannot see whether there will be one.
        """
        at_once = min(hood.texts for hood in hoods)
        saved: list[Tensor] = []
        inputs, values = (entailment.detach(), contradiction.detach()), [weight.detach() for weight in weights]
        updated = [_Joined(entailment.shape, at_once) for _ in inputs]
        for place in range(0, len(entailment), at_once):
            states = tuple(_labels_first(channel[place : place + at_once]) for channel in inputs)
            for number, hood in enumerate(hoods):
                before = states
                states, sums = _updated(hood, values[4 * number : 4 * number + 4], states)
                saved += [*sums, *before] if keep else []
            for channel, joined in zip(states, updated, strict=True):
                joined.put(place, channel)
        ctx.save_for_backward(*weights, *saved)
        ctx.hoods, ctx.at_once = hoods, at_once
        return updated[0].view(entailment), updated[1].view(contradiction)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *of_updated: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of both channels and of the weights."""
        hoods, at_once = ctx.hoods, ctx.at_once
        weights, saved = ctx.saved_tensors[: 4 * len(hoods)], list(ctx.saved_tensors[4 * len(hoods) :])
        wants_states, wants_weights = any(ctx.needs_input_grad[:2]), any(ctx.needs_input_grad[4:])
        samples = [sample for hood in hoods for sample in hood.samples]
        sums = [sample.zeros(weight) for sample, weight in zip(samples, weights, strict=True)] if wants_weights else []
        patterns = [pattern for hood in hoods for pattern in hood.patterns]
        by_column = [
            pattern.sorted_by_column(weight) if wants_states or number >= 4 else weight
            for number, (pattern, weight) in enumerate(zip(patterns, weights, strict=True))
        ]
        of_inputs = [_Joined(of_updated[0].shape, at_once) for _ in range(2 * wants_states)]
        for place in range(0, len(of_updated[0]), at_once):
            grads = tuple(_labels_first(channel[place : place + at_once]) for channel in of_updated)
            kept = saved[place // at_once * 6 * len(hoods) :][: 6 * len(hoods)]
            for number in reversed(range(len(hoods))):
                own = slice(4 * number, 4 * number + 4)
                *after_relu, entailment, contradiction = kept[6 * number : 6 * number + 6]
                befores = list(grads)
                for part, grad in enumerate(_through_relu(grads, after_relu)):
                    channel = part % 2
                    if wants_weights:
                        samples[own][part].add(sums[own][part], grad, (entailment, contradiction)[channel])
                    if wants_states or number:
                        said = patterns[own][part].transposed_product(by_column[own][part], grad)
                        befores[channel] = said.add_(befores[channel])
                grads = tuple(befores)
            for found, joined in zip(grads, of_inputs, strict=bool(of_inputs)):
                joined.put(place, found)
        of_weights = (
            [sample.in_order(sum_) for sample, sum_ in zip(samples, sums, strict=True)] if wants_weights else []
        )
        of_states: list[Tensor | None] = [joined.view(of_updated[0]) for joined in of_inputs]
        return *(of_states or [None, None]), None, None, *(of_weights or [None] * len(weights))


class _Joined:
    """Puts blocks of texts, labels first, together to a view (texts, labels)."""

    def __init__(self, shape: torch.Size, at_once: int) -> None:
        texts, labels = shape
        self._shape, self._is_single = (labels, texts), 0 < texts <= at_once
        self._whole: Tensor | None = None

    def put(self, place: int, block: Tensor) -> None:
        if self._is_single:
            self._whole = block
            return
        if self._whole is None:
            self._whole = block.new_empty(self._shape)
        self._whole[:, place : place + block.shape[1]] = block

    def view(self, like: Tensor) -> Tensor:
        return like.new_empty(self._shape[::-1]) if self._whole is None else self._whole.t()


def _labels_first(states: Tensor) -> Tensor:
    """Return the transpose of (texts, labels), contiguous."""
    turned = states.t()
    if turned.is_contiguous():
        return turned
    if turned.numel() < LARGE:
        return turned.contiguous()
    found = torch.empty_like(turned, memory_format=torch.contiguous_format)
    # torch turns a whole matrix round in one thread, but a part of one in all.
    for into, part in zip(found.tensor_split(2), turned.tensor_split(2), strict=True):
        into.copy_(part)
    return found


def _updated(
    hood: SparseHood, weights: Sequence[Tensor], states: tuple[Tensor, ...]
) -> tuple[tuple[Tensor, ...], list[Tensor]]:
    """Return the states after one update, and the four sums after the ReLU."""
    sums = [
        pattern.product(weight, states[part % 2]).relu_()
        for part, (pattern, weight) in enumerate(zip(hood.patterns, weights, strict=True))
    ]
    after = ((sums[2 * channel] + sums[2 * channel + 1]).add_(states[channel]) for channel in range(2))
    return tuple(after), sums


def _through_relu(grads: tuple[Tensor, ...], sums: Sequence[Tensor]) -> Iterator[Tensor]:
    """Yield the gradients of the four sums; each lives in the same memory as the one before."""
    grad = torch.empty_like(grads[0])
    for part, sum_ in enumerate(sums):
        torch.ops.aten.threshold_backward.grad_input(grads[part // 2], sum_, 0, grad_input=grad)
        yield grad


def _weighted_sums(states: Tensor, places: Tensor, starts: Tensor, values: Tensor) -> Tensor:
    """Return for every slice of `places` the weighted sum of these rows of the states, (places, texts)."""
    if not len(places):
        return states.new_zeros(len(starts) - 1, states.shape[1])
    # Sums (mode 0) with a weight a row; the last start is the end.
    sums: Tensor = torch.embedding_bag(states, places, starts, False, 0, False, values, True)[0]
    return sums


def _starts(sorted_places: Tensor, count: int) -> Tensor:
    starts = torch.zeros(count + 1, dtype=torch.int64)
    starts[1:] = torch.bincount(sorted_places, minlength=count).cumsum(0)
    return starts.to(torch.int32)


def _csr(starts: Tensor, places: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    _hear_of_beta_state()
    return torch.sparse_csr_tensor(starts, places, values, size=shape, check_invariants=False)


@cache
def _hear_of_beta_state() -> None:
    """Make the first CSR matrix: torch says then, once, that they are in beta state."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")
        warnings.filterwarnings("ignore", message="Sparse invariant checks are implicitly disabled")
        nothing = torch.zeros(1, dtype=torch.int32)
        torch.sparse_csr_tensor(nothing, nothing[:0], torch.zeros(0), size=(0, 0), check_invariants=False)
