"""The model: one balanced layer a hop."""

from collections.abc import Sequence

import torch
from torch import Tensor

from bncl_pyg.graph import Neighbourhood
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
            return update([layer.whole() for layer in layers], entailment, contradiction)
        for layer in layers:
            entailment, contradiction = layer(entailment, contradiction)
        return entailment, contradiction

    def of_candidates(self, entailment: Tensor, contradiction: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
        """Update texts of which only some labels are known, on the labels that occur and those they hear from.

        A label that is not a text's candidate is unknown, not false: it starts with neither entailment nor
        contradiction, can carry on what it hears, and is not returned. Labels that can say nothing to any candidate,
        not even from hop to hop, are left out; what is returned is what the whole graph would give.

        Args:
            entailment: (texts, candidates).
            contradiction: (texts, candidates).
            candidates: which labels these are, (texts, candidates).
        """
        layers = [layer for layer in self.layers if isinstance(layer, BalancedConv)]
        chosen = torch.unique(candidates)
        # What is no candidate has nothing to say at the first hop.
        for layer in reversed(layers[1:]):
            chosen = torch.unique(torch.cat([chosen, layer.sources(chosen)]))
        places = torch.searchsorted(chosen, candidates.contiguous())
        shape = len(candidates), len(chosen)
        states = [scores.new_zeros(shape).scatter(1, places, scores) for scores in (entailment, contradiction)]
        p, against = update([layer.among(chosen) for layer in layers], *states)
        return p.gather(1, places), against.gather(1, places)
