"""Sparse patterns: weighted sums of rows and sampled products, which all that is sparse here is made of.

Differentiating through torch's own CSR product forms a dense gradient for the values; these never do.
"""

import warnings
from functools import cache

import torch
from torch import Tensor


class SparsePattern(torch.nn.Module):
    """Where a sparse matrix has entries, by rows and (for the backward) by columns.

    A module, so that what it holds moves with the layer it belongs to; nothing of it is part of a state.

    Args:
        rows: (entries,), sorted; within a row sorted by column.
        columns: (entries,).
        shape: of the matrix.
        by_columns: whether the transpose is wanted too.
    """

    row_starts: Tensor
    columns: Tensor
    by_column: Tensor
    column_starts: Tensor
    rows_by_column: Tensor

    def __init__(self, rows: Tensor, columns: Tensor, shape: tuple[int, int], *, by_columns: bool = True) -> None:
        super().__init__()
        self.shape = shape
        # All kernels take 32-bit indices; some would convert 64-bit ones at every call.
        self._hold("row_starts", starts_of(rows, shape[0]))
        self._hold("columns", columns)
        if not by_columns:
            return
        by_column = torch.argsort(self.columns, stable=True)
        self._hold("by_column", by_column)
        self._hold("column_starts", starts_of(columns, shape[1]))
        self._hold("rows_by_column", rows[by_column])

    def _hold(self, name: str, indices: Tensor) -> None:
        self.register_buffer(name, indices.to(torch.int32), persistent=False)

    def matrix(self, values: Tensor) -> Tensor:
        """Return the CSR matrix with these values, (entries,)."""
        return _csr(self.row_starts, self.columns, values, self.shape)

    def sorted_by_column(self, values: Tensor) -> Tensor:
        """Return the values in the order in which the transpose has them."""
        return values.index_select(0, self.by_column)

    def product(self, values: Tensor, states: Tensor) -> Tensor:
        """Return the matrix with these values times the states, (columns, texts)."""
        return _weighted_sums(states, self.columns, self.row_starts, values)

    def transposed_product(self, values_by_column: Tensor, states: Tensor) -> Tensor:
        """Return the transpose times the states, (rows, texts); the values come from `sorted_by_column`."""
        return _weighted_sums(states, self.rows_by_column, self.column_starts, values_by_column)

    def add_sampled(self, sums: Tensor, left: Tensor, right: Tensor) -> None:
        """Add left[row] · right[column] to every entry's sum; left is (rows, texts), right (columns, texts)."""
        if len(sums):
            matrix = self.matrix(sums)
            torch.sparse.sampled_addmm(matrix, left, right.t(), out=matrix)


def _weighted_sums(states: Tensor, places: Tensor, starts: Tensor, values: Tensor) -> Tensor:
    """Return for every slice of `places` the weighted sum of these rows of the states, (places, texts)."""
    if not len(places):
        return states.new_zeros(len(starts) - 1, states.shape[1])
    # Sums (mode 0) with a weight a row; the last start is the end.
    sums: Tensor = torch.embedding_bag(states, places, starts, False, 0, False, values, True)[0]
    return sums


def starts_of(places: Tensor, count: int) -> Tensor:
    """Return where each place's entries begin once they are sorted by place, and the end; int64, (count + 1,)."""
    starts = torch.zeros(count + 1, dtype=torch.int64, device=places.device)
    starts[1:] = torch.bincount(places, minlength=count).cumsum(0)
    return starts


def ranges(firsts: Tensor, lengths: Tensor) -> Tensor:
    """Return the numbers of many ranges, one range after the other; int64."""
    before = lengths.cumsum(0) - lengths
    return torch.arange(int(lengths.sum()), device=firsts.device) + (firsts - before).repeat_interleave(lengths)


def _csr(starts: Tensor, places: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    _silence_beta_warning()
    return torch.sparse_csr_tensor(starts, places, values, size=shape, check_invariants=False)


@cache
def _silence_beta_warning() -> None:
    """Make the first CSR matrix, with which torch warns, once, that they are in beta state."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")
        warnings.filterwarnings("ignore", message="Sparse invariant checks are implicitly disabled")
        nothing = torch.zeros(1, dtype=torch.int32)
        torch.sparse_csr_tensor(nothing, nothing[:0], torch.zeros(0), size=(0, 0), check_invariants=False)
