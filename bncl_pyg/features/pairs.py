"""Which (text, label) pairs are looked at: all of them, or each text's candidates.

Everything that is done to pairs is one of a handful of sums and products. Here they are, once for all
pairs, with values (texts, labels), and once for candidates, with values (texts, candidates). A pair that is not among
the candidates is unknown, not false: it has no value, takes part in no sum, says nothing and is never predicted. Where
every label is a candidate of every text, the two give the same.

Where several processes each hold some of the texts (`bncl_pyg.ranks`), values are of the texts that this one holds, and
sums over texts are over all. Sums are taken in double precision: rounded to single precision, they are then the same
in whatever order they were taken, and what follows from them is, too.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from bncl_pyg.ranks import ALONE, LABEL_SUMS, Ranks
from bncl_pyg.sparse import SparsePattern, starts_of

BLOCK_LABELS = 4096
"""How many labels are fitted at once where texts have candidates."""
DIMENSIONS_AT_ONCE = 128
CACHED_NUMBERS, LEAST_ROWS = 2**17, 64
"""How many numbers stay in a core's cache; with fewer rows at a time, a matrix product wastes more than it saves."""
WHOLE_ROWS = 64
"""A multiple of so many rows is what vector instructions take whole, whatever the number of labels: the last numbers of
a tensor that is not are computed by others, which may differ in the last digit."""


class PairBlock(Protocol):
    """Some labels and the pairs with them: what a regression works on.

    Attributes:
        labels: which.
        counts: of how many texts each is a candidate, (labels,).
        ranks: who holds the other texts.
    """

    labels: slice
    counts: Tensor
    ranks: Ranks

    def take(self, values: Tensor) -> Tensor:
        """Return the values of these pairs."""
        ...

    def own_sums(self, values: Tensor) -> Tensor:
        """Return the sum of such values over the texts that this process holds; in double precision, (labels,)."""
        ...

    def broadcast_to_pairs(self, numbers: Tensor) -> Tensor:
        """Return, for each pair, its label's number; what is given is (labels,)."""
        ...

    def linear(self, inputs: Tensor, weights: Tensor) -> Tensor:
        """Return inputs @ weights, (dimensions, labels), at these pairs."""
        ...

    def add_products(self, inputs: Tensor, values: Tensor, into: Tensor, *, exact: bool = False) -> None:
        """Add inputsᵀ @ values of these pairs, (dimensions, labels): what `linear` passes on, passed back.

        Args:
            inputs: of the texts that this process holds, (texts, dimensions).
            values: of the pairs.
            into: what it is added to, in double precision.
            exact: whether the product is in double precision, too, which takes twice the time.
        """
        ...

    def parts(self, inputs: Tensor) -> Iterator[tuple[slice, slice]]:
        """Yield which inputs go with which values: all at once, or as many at a time as stay in the cache."""
        ...


class Pairs(Protocol):
    """The pairs of some texts.

    Attributes:
        texts: how many, those of other processes too.
        labels: how many.
        counts: of how many texts each label is a candidate, (labels,).
        ranks: who holds the other texts.
    """

    labels: int
    ranks: Ranks

    @property
    def texts(self) -> int:
        """How many texts there are, those of other processes too."""
        ...

    @property
    def counts(self) -> Tensor:
        """Of how many texts each label is a candidate, (labels,)."""
        ...

    def sums(self, values: Tensor) -> Tensor:
        """Return the sum of values over texts; (labels,)."""
        ...

    def lowest(self, values: Tensor) -> Tensor:
        """Return each label's lowest value; (labels,)."""
        ...

    def probability_sums(self, logits: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
        """Return Σ p and Σ p(1 − p) over texts, where p = σ(logits + the label's offset); (labels,) each."""
        ...

    def broadcast_to_pairs(self, numbers: Tensor) -> Tensor:
        """Return, for each pair, its label's number; what is given is (labels,)."""
        ...

    def linear(self, inputs: Tensor, weights: Tensor) -> Tensor:
        """Return inputs, (texts, dimensions), @ weights, (dimensions, labels), at the pairs."""
        ...

    def rows(self, rows: Tensor, texts: int | None = None) -> "Pairs":
        """Return the pairs of some of the texts.

        Args:
            rows: which of those that this process holds.
            texts: how many these are in all processes, if that is known; else they are counted when it is asked for.
        """
        ...

    def select(self, matrix: Any) -> Tensor:
        """Return what a sparse boolean matrix, (texts, labels), says of the pairs, 0 or 1."""
        ...

    def blocks(self) -> Iterator[PairBlock]:
        """Yield all labels, some at a time."""
        ...


class AllPairs:
    """Every text with every label.

    Args:
        texts: how many this process holds.
        labels: how many.
        device: where values are.
        ranks: who holds the other texts.
    """

    labels: Any

    def __init__(self, texts: int, labels: int, device: torch.device | None = None, ranks: Ranks = ALONE) -> None:
        self._held, self.labels, self._device, self.ranks = texts, labels, device, ranks

    @cached_property
    def texts(self) -> int:
        """See `Pairs`."""
        return int(self.ranks.total(self._held)[0])

    @cached_property
    def counts(self) -> Tensor:
        """See `Pairs`."""
        return torch.full((self.labels,), float(self.texts), device=self._device)

    def sums(self, values: Tensor) -> Tensor:
        """See `Pairs`."""
        return self.ranks.sum(values.sum(dim=0, dtype=torch.float64), LABEL_SUMS).to(values.dtype)

    def lowest(self, values: Tensor) -> Tensor:
        """See `Pairs`."""
        own = values.min(dim=0).values if len(values) else values.new_full((self.labels,), torch.inf)
        return self.ranks.lowest(own, LABEL_SUMS)

    def probability_sums(self, logits: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
        """See `Pairs`."""
        sums, slopes = both = torch.zeros(2, *offsets.shape, dtype=torch.float64, device=offsets.device)
        for rows in row_blocks(logits):
            probabilities = (logits[rows] + offsets).sigmoid_()
            sums += probabilities.sum(dim=0, dtype=torch.float64)
            slopes += probabilities.mul_(1 - probabilities).sum(dim=0, dtype=torch.float64)
        sums, slopes = self.ranks.sum(both, LABEL_SUMS).to(offsets.dtype)
        return sums, slopes

    def broadcast_to_pairs(self, numbers: Tensor) -> Tensor:
        """See `Pairs`; what is returned broadcasts over texts."""
        return numbers

    def linear(self, inputs: Tensor, weights: Tensor) -> Tensor:
        """See `Pairs`."""
        return inputs @ weights

    def rows(self, rows: Tensor, texts: int | None = None) -> "AllPairs":
        """See `Pairs`."""
        chosen = AllPairs(len(rows), self.labels, self._device, self.ranks)
        if texts is not None:
            chosen.texts = texts
        return chosen

    def select(self, matrix: Any) -> Tensor:
        """See `Pairs`."""
        return torch.from_numpy(matrix.toarray()).float().to(self._device)

    def blocks(self) -> Iterator[PairBlock]:
        """See `Pairs`: one block."""
        yield _WholeBlock(self)


class _WholeBlock:
    """All labels at once."""

    def __init__(self, pairs: AllPairs) -> None:
        self.labels, self.counts, self.ranks = slice(0, pairs.labels), pairs.counts, pairs.ranks
        self.broadcast_to_pairs, self.linear = pairs.broadcast_to_pairs, pairs.linear

    def take(self, values: Tensor) -> Tensor:
        return values

    def own_sums(self, values: Tensor) -> Tensor:
        return values.sum(dim=0, dtype=torch.float64)

    def add_products(self, inputs: Tensor, values: Tensor, into: Tensor, *, exact: bool = False) -> None:
        if exact:
            inputs, values = inputs.double(), values.double()
        into += inputs.T @ values

    def parts(self, inputs: Tensor) -> Iterator[tuple[slice, slice]]:
        yield from ((rows, rows) for rows in row_blocks(inputs, len(self.counts)))


class Candidates:
    """Each text with its candidates.

    Args:
        candidates: for each text that this process holds, the labels, ascending, (texts, candidates).
        labels: how many there are.
        ranks: who holds the other texts.
    """

    def __init__(self, candidates: Tensor, labels: int, ranks: Ranks = ALONE) -> None:
        self.candidates, self.labels, self.ranks = candidates.long(), labels, ranks
        self._flat = self.candidates.flatten()

    @cached_property
    def texts(self) -> int:
        """See `Pairs`."""
        return int(self.ranks.total(len(self.candidates))[0])

    @cached_property
    def counts(self) -> Tensor:
        """See `Pairs`."""
        return self.ranks.sum(torch.bincount(self._flat, minlength=self.labels), LABEL_SUMS).float()

    def sums(self, values: Tensor) -> Tensor:
        """See `Pairs`."""
        return self.ranks.sum(self._own_sums(values), LABEL_SUMS).to(values.dtype)

    def _own_sums(self, values: Tensor) -> Tensor:
        return _sums_by(self._flat, values.flatten(), self.labels)

    def lowest(self, values: Tensor) -> Tensor:
        """See `Pairs`; infinite where a label is nobody's candidate."""
        own = values.new_full((self.labels,), torch.inf).scatter_reduce_(0, self._flat, values.flatten(), "amin")
        return self.ranks.lowest(own, LABEL_SUMS)

    def probability_sums(self, logits: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
        """See `Pairs`."""
        probabilities = (logits + self.broadcast_to_pairs(offsets)).sigmoid_()
        own = self._own_sums(probabilities), self._own_sums(probabilities.mul_(1 - probabilities))
        sums, slopes = self.ranks.sum(torch.stack(own), LABEL_SUMS).to(offsets.dtype)
        return sums, slopes

    def broadcast_to_pairs(self, numbers: Tensor) -> Tensor:
        """See `Pairs`."""
        return numbers[self.candidates]

    def linear(self, inputs: Tensor, weights: Tensor) -> Tensor:
        """See `Pairs`."""
        if not inputs.shape[1] or not len(inputs):
            return inputs.new_zeros(self.candidates.shape)
        columns = self._flat
        if len(columns) < self.labels:
            # Few texts: only their labels' weights are looked at.
            occurring, columns = torch.unique(columns, return_inverse=True)
            weights = weights[:, occurring]
        texts = torch.arange(len(inputs), device=inputs.device).repeat_interleave(self.candidates.shape[1])
        pattern = SparsePattern(texts, columns, (len(inputs), weights.shape[1]), by_columns=False)
        empty = pattern.matrix(inputs.new_zeros(len(self._flat)))
        products: Tensor = torch.sparse.sampled_addmm(empty, inputs, weights, beta=0.0).values()
        return products.view(self.candidates.shape)

    def rows(self, rows: Tensor, texts: int | None = None) -> "Candidates":
        """See `Pairs`."""
        chosen = Candidates(self.candidates[rows], self.labels, self.ranks)
        if texts is not None:
            chosen.texts = texts
        return chosen

    def select(self, matrix: Any) -> Tensor:
        """See `Pairs`; what is true of other labels is left out."""
        entries = matrix.tocoo()
        keys = torch.from_numpy(entries.row.astype("int64") * self.labels + entries.col).to(self.candidates.device)
        own = torch.arange(len(self.candidates), device=keys.device)[:, None] * self.labels + self.candidates
        return torch.isin(own, keys).float()

    def blocks(self) -> Iterator[PairBlock]:
        """See `Pairs`."""
        order = torch.argsort(self._flat, stable=True)
        starts = starts_of(self._flat, self.labels)
        for first in range(0, self.labels, BLOCK_LABELS):
            last = min(first + BLOCK_LABELS, self.labels)
            # The same blocks in every process: those in which there is any text of any of them.
            if bool(self.counts[first:last].any()):
                yield _LabelBlock(self, slice(first, last), order[starts[first] : starts[last]])


class _LabelBlock:
    """Some labels and the texts whose candidates they are, ordered by label."""

    def __init__(self, pairs: Candidates, labels: slice, places: Tensor) -> None:
        self.labels, self._places, self.ranks = labels, places, pairs.ranks
        self.counts = pairs.counts[labels]
        self._label = pairs._flat[places] - labels.start
        self._text = places // pairs.candidates.shape[1]
        shape = len(self.counts), len(pairs.candidates)
        self._pattern = SparsePattern(self._label, self._text, shape, by_columns=False)

    def take(self, values: Tensor) -> Tensor:
        return values.flatten()[self._places]

    def own_sums(self, values: Tensor) -> Tensor:
        return _sums_by(self._label, values, len(self.counts))

    def broadcast_to_pairs(self, numbers: Tensor) -> Tensor:
        return numbers[self._label]

    def linear(self, inputs: Tensor, weights: Tensor) -> Tensor:
        products = torch.zeros(len(self._label), dtype=inputs.dtype, device=inputs.device)
        if len(weights):
            self._pattern.add_sampled(products, weights.t().contiguous(), inputs)
        return products

    def add_products(self, inputs: Tensor, values: Tensor, into: Tensor, *, exact: bool = False) -> None:  # noqa: ARG002
        wide = values.double()
        # Some dimensions at a time: in double precision, all would need twice the memory of the inputs.
        for some, rows in zip(inputs.split(DIMENSIONS_AT_ONCE, dim=1), into.split(DIMENSIONS_AT_ONCE), strict=True):
            if some.shape[1]:
                rows += self._pattern.product(wide, some.double()).t()

    def parts(self, inputs: Tensor) -> Iterator[tuple[slice, slice]]:  # noqa: ARG002
        yield slice(None), slice(None)


def _sums_by(labels: Tensor, values: Tensor, count: int) -> Tensor:
    """Return the sum of the values of each label, in double precision; (count,)."""
    sums = torch.zeros(count, dtype=torch.float64, device=values.device)
    return sums.index_add_(0, labels, values.double())


def reachable(totals: Tensor, pairs: Pairs, least: float) -> Tensor:
    """Return how many texts each label is asked to have, where it should have so many; (labels,).

    The fewer of all texts a label is a candidate of, the more of its true texts may lie elsewhere: no more than
    `least` of those whose candidate it is are asked for where these are few, and all of them where it is every text's.
    """
    counts = pairs.counts.to(totals)
    return totals.minimum(counts * (least + (1 - least) * counts / pairs.texts))


def row_blocks(values: Tensor, width: int | None = None) -> Iterator[slice]:
    """Yield all rows, as many at a time as stay in the cache, if they are so wide, while things are done to them."""
    fitting = CACHED_NUMBERS // max(1, values.shape[1] if width is None else width)
    size = max(LEAST_ROWS, fitting - fitting % WHOLE_ROWS if fitting > WHOLE_ROWS else fitting)
    yield from (slice(first, first + size) for first in range(0, len(values), size))


def pairs_of(candidates: Tensor | None, like: Tensor, labels: int, ranks: Ranks = ALONE) -> Pairs:
    """Return the pairs of texts with these candidates, or with all labels; `like` has a row a text.

    Whoever predicts looks at its own texts only, and gives no `ranks`.
    """
    if candidates is None:
        return AllPairs(len(like), labels, like.device, ranks)
    return Candidates(candidates, labels, ranks)


def all_pairs(values: Tensor) -> AllPairs:
    """Return the pairs of a whole matrix of values, (texts, labels)."""
    return AllPairs(values.shape[0], values.shape[1], values.device)
