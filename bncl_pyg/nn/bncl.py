"""The model: one balanced layer a hop."""

from collections.abc import Sequence

import torch
from torch import Tensor

from bncl_pyg.graph.neighbourhoods import Neighbourhood
from bncl_pyg.nn.balanced_conv import BalancedConv, Path, update


class BNCL(torch.nn.Module):
    """Balanced updates over K hops; layer k uses the neighbourhoods at hop k.

    Args:
        neighbourhoods: of hops 1 … K.
        path: how each layer computes; see `BalancedConv`.

    Shapes:
        - **input:** entailment q (texts, labels), contradiction q̄ (texts, labels)
        - **output:** p (texts, labels), p̄ (texts, labels)
    """

    def __init__(self, neighbourhoods: Sequence[Neighbourhood], path: Path = "auto") -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(
            BalancedConv(*hood.edge_indices(), labels=hood.friends.shape[0], path=path) for hood in neighbourhoods
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw all weights anew."""
        for layer in self.layers:
            layer.reset_parameters(generator)  # type: ignore[operator]

    def forward(self, entailment: Tensor, contradiction: Tensor) -> tuple[Tensor, Tensor]:
        """Update both channels hop by hop."""
        layers = [layer for layer in self.layers if isinstance(layer, BalancedConv)]
        if layers and all(layer.path == "sparse" for layer in layers):
            return update(layers, entailment, contradiction)
        for layer in layers:
            entailment, contradiction = layer(entailment, contradiction)
        return entailment, contradiction
