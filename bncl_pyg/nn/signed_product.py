"""The fused kernel: all four sums of a balanced layer as one sparse product, with a sparse backward.

Differentiating through torch's own CSR product forms a dense (labels × labels) gradient for the values. Here the
backward is a product with the transpose (for the states) and a sampled dense-dense product (for the weights), so that
memory stays O(edges + labels × texts).
"""

import warnings
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class SparsePattern:
    """Where a sparse matrix has entries, by rows and (for the backward) by columns.

    Args:
        rows: (entries,), sorted; within a row sorted by column.
        columns: (entries,).
        shape: of the matrix.
    """

    def __init__(self, rows: Tensor, columns: Tensor, shape: tuple[int, int]) -> None:
        self.shape = shape
        self.row_starts = _starts(rows, shape[0])
        # MKL takes 32-bit indices; 64-bit ones would be converted at every product.
        self.columns = columns.to(torch.int32)
        self.by_column = torch.argsort(columns * shape[0] + rows)
        self.column_starts = _starts(columns, shape[1])
        self.rows_by_column = rows[self.by_column].to(torch.int32)

    def matrix(self, values: Tensor) -> Tensor:
        """Return the CSR matrix with these values, (entries,)."""
        return _csr(self.row_starts, self.columns, values, self.shape)

    def transposed(self, values: Tensor) -> Tensor:
        """Return the transpose of `matrix`, also as CSR."""
        return _csr(self.column_starts, self.rows_by_column, values[self.by_column], self.shape[::-1])


class SignedProduct(torch.autograd.Function):
    """`pattern.matrix(values) @ states`, differentiable in values and states without any dense matrix."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, states: Tensor, pattern: SparsePattern) -> Tensor:
        """Multiply; `values` (entries,), `states` (columns, texts), result (rows, texts)."""
        ctx.save_for_backward(values, states)
        ctx.pattern = pattern
        return pattern.matrix(values) @ states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        """Return the gradients of values and states."""
        values, states = ctx.saved_tensors
        pattern: SparsePattern = ctx.pattern
        gradient = gradient.contiguous()
        of_values = of_states = None
        if ctx.needs_input_grad[0]:
            empty = pattern.matrix(torch.zeros_like(values))
            of_values = torch.sparse.sampled_addmm(empty, gradient, states.t(), beta=0.0).values()
        if ctx.needs_input_grad[1]:
            of_states = pattern.transposed(values) @ gradient
        return of_values, of_states, None


def _starts(sorted_places: Tensor, count: int) -> Tensor:
    starts = torch.zeros(count + 1, dtype=torch.int64)
    starts[1:] = torch.bincount(sorted_places, minlength=count).cumsum(0)
    return starts.to(torch.int32)


def _csr(starts: Tensor, places: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")
        warnings.filterwarnings("ignore", message="Sparse invariant checks are implicitly disabled")
        return torch.sparse_csr_tensor(starts, places, values, size=shape, check_invariants=False)
