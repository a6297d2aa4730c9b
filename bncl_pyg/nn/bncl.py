"""The paper's network: one balanced layer a hop. A label is predicted where p > p̄ (`training/paper.py`)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from bncl_pyg.graph import Neighbourhood
from bncl_pyg.nn.balanced_conv import Backend, BalancedConv
from bncl_pyg.nn.fused_update import FusedNeighbourhood, Tape, fused_update, update_on_tape


class BNCL(torch.nn.Module):
    r"""Balanced updates over K hops; layer k uses the neighbourhoods at hop k.

    .. math::
        (h^{(0)}, \bar{h}^{(0)}) = (q, \bar{q}), \quad
        (h^{(k)}, \bar{h}^{(k)}) = \mathrm{BalancedConv}_k(h^{(k-1)}, \bar{h}^{(k-1)}), \quad
        (p, \bar{p}) = (h^{(K)}, \bar{h}^{(K)})

    .. code-block:: python

        model = BNCL(balanced_neighbourhoods(graph)).to(device)
        p, against = model(entailment, contradiction)

    Args:
        neighbourhoods: of hops 1 … K, as `balanced_neighbourhoods` returns them.
        backend: how each layer computes; see `BalancedConv`.

    Shapes:
        - **input:** entailment q (texts, labels), contradiction q̄ (texts, labels)
        - **output:** p (texts, labels), p̄ (texts, labels)
    """

    def __init__(self, neighbourhoods: Sequence[Neighbourhood], backend: Backend = "auto") -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(BalancedConv(one, backend=backend) for one in neighbourhoods)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw all weights anew."""
        for layer in self.layers:
            layer.reset_parameters(generator)  # type: ignore[operator]

    def forward(self, entailment: Tensor, contradiction: Tensor) -> tuple[Tensor, Tensor]:
        """Update both channels hop by hop."""
        if self.is_fused:
            return fused_update(self._full_graphs(), entailment, contradiction)
        for layer in self.layers:
            entailment, contradiction = layer(entailment, contradiction)
        return entailment, contradiction

    @property
    def is_fused(self) -> bool:
        """Whether one pass updates all layers, so that `on_tape` can be asked."""
        return len(self.layers) > 0 and all(layer.is_fused for layer in self.layers)

    def on_tape(self, entailment: Tensor, contradiction: Tensor) -> tuple[tuple[Tensor, Tensor], Tape]:
        """Update both channels without torch's autograd: the tape gives the gradients of the layers' weights."""
        return update_on_tape(self._full_graphs(), entailment, contradiction)

    def _full_graphs(self) -> list[tuple[FusedNeighbourhood, Tensor]]:
        return [layer.full_graph() for layer in self.layers if isinstance(layer, BalancedConv)]

    def of_candidates(self, entailment: Tensor, contradiction: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
        """Update texts of which only some labels are known, on the labels that occur and the sources of their messages.

        A label that is not a text's candidate is unknown, not false: it starts with neither entailment nor
        contradiction, can pass on the messages it gets, and is not returned. Labels that no path leads from to any
        candidate are left out; what is returned is what the whole graph would give.

        Args:
            entailment: (texts, candidates).
            contradiction: (texts, candidates).
            candidates: which labels these are, (texts, candidates).
        """
        layers = [layer for layer in self.layers if isinstance(layer, BalancedConv)]
        chosen = torch.unique(candidates)
        # A label that is no candidate has no state, and so no message, at the first hop.
        for layer in reversed(layers[1:]):
            chosen = torch.unique(torch.cat([chosen, layer.sources(chosen)]))
        places = torch.searchsorted(chosen, candidates.contiguous())
        shape = len(candidates), len(chosen)
        states = [scores.new_zeros(shape).scatter(1, places, scores) for scores in (entailment, contradiction)]
        p, against = fused_update([layer.subgraph(chosen) for layer in layers], *states)
        return p.gather(1, places), against.gather(1, places)
