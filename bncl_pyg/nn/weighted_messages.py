"""Weighted messages along a label graph by a sparse product: what `SignedMessages` computes, without PyG."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from bncl_pyg.features import Pairs
from bncl_pyg.sparse import SparsePattern


class WeightedMessages(torch.nn.Module):
    r"""The weighted messages of a label's neighbours: :math:`m_v = \sum_{u ∈ N_v} w_{uv} z_u`.

    Loaded models have these. `SignedMessages`, which training makes, has the same forward and is a PyG layer.

    Args:
        edge_index: from u to v, (2, edges), sorted by target, then source, each edge once.
        labels: how many.
        options: for PyG's `MessagePassing`, which `SignedMessages` inherits from too.

    Shapes:
        - **input:** states (texts, labels)
        - **output:** messages (texts, labels)
    """

    def __init__(self, edge_index: Tensor, labels: int, **options: Any) -> None:
        super().__init__(**options)
        self.labels = labels
        self.register_buffer("edge_index", edge_index, persistent=False)
        self.edge_index: Tensor
        self.weight = torch.nn.Parameter(torch.zeros(edge_index.shape[1]))
        self._pattern = SparsePattern(edge_index[1], edge_index[0], (labels, labels))

    def forward(self, states: Tensor, weight: Tensor | None = None, pairs: Pairs | None = None) -> Tensor:
        """Return the sum of every label's messages.

        Args:
            states: (texts, labels), or of some pairs.
            weight: other weights than its own.
            pairs: which pairs the states are of; all, if not given. A label that is not a text's candidate neither
                sends nor gets messages there.
        """
        weight = self.weight if weight is None else weight
        routes = None if pairs is None else pairs.routes(self.edge_index)
        if routes is not None:
            sent = weight[routes.edges] * states.flatten()[routes.sources]
            return torch.zeros_like(states).flatten().index_add(0, routes.targets, sent).view_as(states)
        sums: Tensor = _SparseProduct.apply(weight, states, self._pattern)  # type: ignore[no-untyped-call]
        return sums

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(labels={self.labels}, edges={self.edge_index.size(1)})"


class _SparseProduct(torch.autograd.Function):
    """A sparse product that is differentiable in the weights without any dense (labels × labels) matrix."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, states: Tensor, pattern: SparsePattern) -> Tensor:
        ctx.save_for_backward(values, states)
        ctx.pattern = pattern
        return pattern.product(values, states.t().contiguous()).t()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        values, states = ctx.saved_tensors
        by_label = gradient.t().contiguous()
        of_values = of_states = None
        if ctx.needs_input_grad[0]:
            of_values = torch.zeros_like(values)
            ctx.pattern.add_sampled(of_values, by_label, states.t())
        if ctx.needs_input_grad[1]:
            of_states = ctx.pattern.transposed_product(ctx.pattern.sorted_by_column(values), by_label).t()
        return of_values, of_states, None
