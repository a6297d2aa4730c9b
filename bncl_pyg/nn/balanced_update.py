"""The fused kernel: a whole balanced update around one sparse product, with a sparse backward.

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
        by_columns: whether the transpose is wanted too.
    """

    def __init__(self, rows: Tensor, columns: Tensor, shape: tuple[int, int], *, by_columns: bool = True) -> None:
        self.shape = shape
        self.row_starts = _starts(rows, shape[0])
        # MKL takes 32-bit indices; 64-bit ones would be converted at every product.
        self.columns = columns.to(torch.int32)
        if not by_columns:
            return
        self.by_column = torch.argsort(columns * shape[0] + rows)
        self.column_starts = _starts(columns, shape[1])
        self.rows_by_column = rows[self.by_column].to(torch.int32)

    def matrix(self, values: Tensor) -> Tensor:
        """Return the CSR matrix with these values, (entries,)."""
        return _csr(self.row_starts, self.columns, values, self.shape)

    def transposed(self, values: Tensor) -> Tensor:
        """Return the transpose of `matrix`, also as CSR."""
        return _csr(self.column_starts, self.rows_by_column, values[self.by_column], self.shape[::-1])


class BalancedUpdate(torch.autograd.Function):
    """One whole balanced update, differentiable in weights and states without any dense (labels × labels) matrix.

    The product wants labels first; everything inside stays so, and what goes out are views with texts first.
    """

    @staticmethod
    def forward(
        ctx: Any, values: Tensor, entailment: Tensor, contradiction: Tensor, pattern: SparsePattern
    ) -> tuple[Tensor, Tensor]:
        """Update; `pattern` is (4 × labels, 2 × labels): four sums below each other, two channels beside each other."""
        states = torch.cat([entailment.t(), contradiction.t()])
        sums = (pattern.matrix(values) @ states).clamp_min_(0)
        of_friends, of_enemies, against_enemies, against_friends = sums.tensor_split(4)
        before, before_against = states.tensor_split(2)
        ctx.save_for_backward(values, states, sums > 0)
        ctx.pattern = pattern
        return (of_friends + of_enemies).add_(before).t(), (against_enemies + against_friends).add_(before_against).t()

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, of_entailment: Tensor, of_contradiction: Tensor
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        """Return the gradients of weights and of both channels."""
        values, states, positive = ctx.saved_tensors
        pattern: SparsePattern = ctx.pattern
        direct = torch.cat([of_entailment.t(), of_contradiction.t()])
        labels = len(direct) // 2
        of_sums = direct.view(2, 1, labels, -1).expand(2, 2, labels, -1).reshape(4 * labels, -1).mul_(positive)
        of_values = None
        if ctx.needs_input_grad[0]:
            empty = pattern.matrix(torch.zeros_like(values))
            of_values = torch.sparse.sampled_addmm(empty, of_sums, states.t(), beta=0.0).values()
        if not (ctx.needs_input_grad[1] or ctx.needs_input_grad[2]):
            return of_values, None, None, None
        above, below = direct.add_(pattern.transposed(values) @ of_sums).tensor_split(2)
        return of_values, above.t(), below.t(), None


def _starts(sorted_places: Tensor, count: int) -> Tensor:
    starts = torch.zeros(count + 1, dtype=torch.int64)
    starts[1:] = torch.bincount(sorted_places, minlength=count).cumsum(0)
    return starts.to(torch.int32)


def _csr(starts: Tensor, places: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")
        warnings.filterwarnings("ignore", message="Sparse invariant checks are implicitly disabled")
        return torch.sparse_csr_tensor(starts, places, values, size=shape, check_invariants=False)
