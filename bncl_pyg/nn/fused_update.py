"""The fused kernel: balanced updates around sparse or dense products, with a backward of its own.

Differentiating through torch's own CSR product forms a dense (labels × labels) gradient for the values. Here the
backward of a sparse layer is a product with the transpose (for the states) and a sampled dense-dense product (for the
weights), so that memory stays O(edges + labels × texts).

What limits sparse products is how fast the neighbours' states come from memory. Three things follow:

- A product is `embedding_bag`: a weighted sum of rows, which fetches the rows ahead; a CSR product does not.
- Only as many texts are updated at once as fit, with all labels, into the cache, through all layers.
- All four sums of an update are one product, so that little is done between the products.

Where many pairs are neighbours, matrix products do more than is needed, but at the speed of the processor. What limits
a dense layer is then to put the weights into matrices and to take gradients out, so that both go through memory in the
order of the edges.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from bncl_pyg.sparse import SparsePattern

CACHE_BYTES, LEAST_TEXTS = 4 * 2**20, 16
"""One channel's states of the texts that are updated at once take about so many bytes; at least so many texts are,
since the edges are read once for all of them. Neither changes a result."""
LARGE = 2**17
"""From so many numbers on, a second thread is worth waking."""


class SparseNeighbourhood(torch.nn.Module):
    """The friends and enemies of all labels at one hop, ready for `fused_update`; it moves with its layer.

    All four sums of an update are one product. The states of both channels stand one below the other; so do the sums:
    entailment's messages from friends and from enemies, then contradiction's from enemies and from friends. This is
    also the order of the weights: W⁺, W̄⁻, W⁻, W̄⁺.

    Args:
        friends: edge index (2, edges) from u to v, sorted by target, then source.
        enemies: the same.
        num_labels: how many there are.
    """

    def __init__(self, friends: Tensor, enemies: Tensor, num_labels: int) -> None:
        super().__init__()
        self.texts_at_once = _texts_at_once(num_labels)
        parts = (friends, enemies, enemies, friends)
        targets = torch.cat([edges[1].to(torch.int32) + part * num_labels for part, edges in enumerate(parts)])
        sources = torch.cat([edges[0].to(torch.int32) + part % 2 * num_labels for part, edges in enumerate(parts)])
        self.pattern = SparsePattern(targets, sources, (4 * num_labels, 2 * num_labels))

    def matrix(self, weights: Tensor) -> Tensor:
        """Return the weights as `sums` and `gradient` want them: as they are."""
        return weights

    def sums(self, matrix: Tensor, states: Tensor) -> Tensor:
        """Return the four weighted sums, (2, 2, labels, texts), of the states, (2, labels, texts)."""
        return self.pattern.product(matrix, states.flatten(0, 1)).view(2, *states.shape)

    def gradient(self, so_far: Tensor | None, of_sums: Tensor, states: Tensor) -> Tensor:
        """Return the gradient of the weights: of the texts so far, if there were some, and of these."""
        gradient = of_sums.new_zeros(len(self.pattern.columns)) if so_far is None else so_far
        self.pattern.add_sampled(gradient, of_sums.flatten(0, 2), states.flatten(0, 1))
        return gradient

    def by_edges(self, gradient: Tensor) -> Tensor:
        """Return the gradient as the weights are."""
        return gradient

    def transposed(self, matrix: Tensor) -> Tensor:
        """Return the weights as `add_through` wants them."""
        return self.pattern.sorted_by_column(matrix)

    def add_through(self, transposed: Tensor, of_sums: Tensor, grads: Tensor) -> Tensor:
        """Return the gradients of the states: those of the updated ones, and what the sums contribute."""
        return self.pattern.transposed_product(transposed, of_sums.flatten(0, 2)).view_as(grads).add_(grads)


class DenseNeighbourhood(torch.nn.Module):
    """The same by four (labels × labels) matrices, with a row a target; see `SparseNeighbourhood` for all methods.

    Args:
        friends: edge index (2, edges) from u to v, sorted by target, then source.
        enemies: the same.
        num_labels: how many there are.
    """

    places: Tensor

    def __init__(self, friends: Tensor, enemies: Tensor, num_labels: int) -> None:
        super().__init__()
        self.texts_at_once, self.num_labels = _texts_at_once(num_labels), num_labels
        # Matrices that multiply the same channel stand one below the other: W⁺, W⁻ and W̄⁻, W̄⁺.
        parts = ((0, friends), (2, enemies), (1, enemies), (3, friends))
        # Ascending within a matrix, since edges are sorted by target: neighbours in memory stay neighbours.
        places = [(matrix * num_labels + edges[1]) * num_labels + edges[0] for matrix, edges in parts]
        self.register_buffer("places", torch.cat(places), persistent=False)

    def matrix(self, weights: Tensor) -> Tensor:
        """Return the matrices, (2, 2 · labels, labels): by the channel that they multiply."""
        matrices = weights.new_zeros(4 * self.num_labels**2).index_copy_(0, self.places, weights)
        return matrices.view(2, 2 * self.num_labels, self.num_labels)

    def sums(self, matrix: Tensor, states: Tensor) -> Tensor:
        """Return the four weighted sums."""
        return torch.bmm(matrix, states).view(2, *states.shape).transpose(0, 1)

    def gradient(self, so_far: Tensor | None, of_sums: Tensor, states: Tensor) -> Tensor:
        """Return the gradient of the matrices."""
        left, right = self._by_source(of_sums), states.transpose(1, 2)
        return torch.bmm(left, right) if so_far is None else so_far.baddbmm_(left, right)

    def by_edges(self, gradient: Tensor) -> Tensor:
        """Return the gradient of the weights."""
        return gradient.view(-1).index_select(0, self.places)

    def transposed(self, matrix: Tensor) -> Tensor:
        """Return the transposes of the matrices, which need not be formed."""
        return matrix.transpose(1, 2)

    def add_through(self, transposed: Tensor, of_sums: Tensor, grads: Tensor) -> Tensor:
        """Return the gradients of the states."""
        return grads.baddbmm_(transposed, self._by_source(of_sums))

    def _by_source(self, of_sums: Tensor) -> Tensor:
        """Return what belongs to the sums, (2, 2, labels, texts), in the order in which the matrices have it."""
        return of_sums.transpose(0, 1).reshape(2, 2 * self.num_labels, of_sums.shape[-1])


FusedNeighbourhood = SparseNeighbourhood | DenseNeighbourhood


def _texts_at_once(num_labels: int) -> int:
    return max(LEAST_TEXTS, CACHE_BYTES // (4 * num_labels) // LEAST_TEXTS * LEAST_TEXTS)


def fused_update(
    layers: Sequence[tuple[FusedNeighbourhood, Tensor]], entailment: Tensor, contradiction: Tensor
) -> tuple[Tensor, Tensor]:
    """Update both channels by layers, one after the other, in one pass.

    Args:
        layers: of each layer the neighbourhoods and the weights, all four one after the other; see
            `BalancedConv.full_graph` and `BalancedConv.subgraph`.
        entailment: (texts, labels).
        contradiction: (texts, labels).
    """
    for what in ("shape", "dtype", "device"):
        if getattr(entailment, what) != getattr(contradiction, what):
            raise ValueError(f"Both channels must have the same {what}.")
    neighbourhoods, weights = zip(*layers, strict=True)
    updated: tuple[Tensor, Tensor] = BalancedUpdate.apply(  # type: ignore[no-untyped-call]
        entailment, contradiction, neighbourhoods, torch.is_grad_enabled(), *weights
    )
    return updated


@dataclass(frozen=True)
class Tape:
    """What a backward needs of some updates.

    Args:
        neighbourhoods: of the layers.
        matrices: each layer's weights as its neighbourhood wants them.
        states: for each block of texts and each layer the states before it, and the sums after the ReLU.
        at_once: how many texts a block has.
        is_transposed: of each channel whether its states lay in memory labels first.
    """

    neighbourhoods: Sequence[FusedNeighbourhood]
    matrices: Sequence[Tensor]
    states: Sequence[Tensor]
    at_once: int
    is_transposed: Sequence[bool]

    @torch.no_grad()
    def gradients(
        self, of_updated: Sequence[Tensor], *, wants_states: bool, wants_weights: bool = True
    ) -> tuple[list[Tensor | None], list[Tensor | None]]:
        """Return the gradients of both channels, and of each layer's weights, given those of the updated channels."""
        at_once, layers = self.at_once, len(self.neighbourhoods)
        of_matrices: list[Tensor | None] = [None] * layers
        transposed = [
            each.transposed(own) if wants_states or number else own
            for number, (each, own) in enumerate(zip(self.neighbourhoods, self.matrices, strict=True))
        ]
        # A gradient that lies in memory as its states do need not be transposed again.
        of_states = [
            (grad.new_empty(grad.shape[::-1]).t() if is_transposed else grad.new_empty(grad.shape))
            if wants_states
            else None
            for grad, is_transposed in zip(of_updated, self.is_transposed, strict=True)
        ]
        for place in range(0, len(of_updated[0]), at_once):
            grads = torch.stack([_labels_first(channel[place : place + at_once]) for channel in of_updated])
            for number in reversed(range(layers)):
                neighbourhood = self.neighbourhoods[number]
                states, sums = self.states[2 * (place // at_once * layers + number) :][:2]
                of_sums = torch.ops.aten.threshold_backward(grads[:, None].expand_as(sums), sums, 0)
                if wants_weights:
                    of_matrices[number] = neighbourhood.gradient(of_matrices[number], of_sums, states)
                if wants_states or number:
                    grads = neighbourhood.add_through(transposed[number], of_sums, grads)
            for of_channel, grad in zip(of_states, grads, strict=True):
                if of_channel is not None:
                    _copy(of_channel[place : place + at_once], grad.t())
        of_weights = [
            None if grad is None else each.by_edges(grad)
            for each, grad in zip(self.neighbourhoods, of_matrices, strict=True)
        ]
        return of_states, of_weights


@torch.no_grad()
def update_on_tape(
    layers: Sequence[tuple[FusedNeighbourhood, Tensor]], entailment: Tensor, contradiction: Tensor, *, keep: bool = True
) -> tuple[tuple[Tensor, Tensor], Tape]:
    """Do what `fused_update` does without torch's autograd, whose bookkeeping takes longer than a small step.

    The products want labels first. Everything inside is so; as many texts as the cache holds go through all layers.

    Args:
        layers: see `fused_update`.
        entailment: (texts, labels).
        contradiction: (texts, labels).
        keep: whether the tape is wanted; else it has no states.
    """
    neighbourhoods = [neighbourhood for neighbourhood, _ in layers]
    at_once = min(each.texts_at_once for each in neighbourhoods)
    matrices = [neighbourhood.matrix(weights) for neighbourhood, weights in layers]
    inputs = entailment, contradiction
    kept: list[Tensor] = []
    updated = entailment.new_empty(2, *entailment.shape[::-1])
    for place in range(0, len(entailment), at_once):
        states = entailment.new_empty(2, *entailment[place : place + at_once].shape[::-1])
        for into, channel in zip(states, inputs, strict=True):
            _copy(into, channel[place : place + at_once].t())
        for neighbourhood, matrix in zip(neighbourhoods, matrices, strict=True):
            sums = neighbourhood.sums(matrix, states).relu_()
            kept += [states, sums] if keep else []
            states = (sums[:, 0] + sums[:, 1]).add_(states)
        if len(entailment) <= at_once:
            updated = states
        else:
            updated[:, :, place : place + at_once] = states
    is_transposed = [channel.t().is_contiguous() and not channel.is_contiguous() for channel in inputs]
    return (updated[0].t(), updated[1].t()), Tape(neighbourhoods, matrices, kept, at_once, is_transposed)


class BalancedUpdate(torch.autograd.Function):
    """Balanced updates, one after the other, differentiable in weights and states."""

    @staticmethod
    def forward(
        ctx: Any,
        entailment: Tensor,
        contradiction: Tensor,
        neighbourhoods: Sequence[FusedNeighbourhood],
        keep: bool,
        *weights: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Update both channels, (texts, labels), once a neighbourhood; `weights` are all four of each, in one.

        Nothing is kept for a backward if `keep` is false: in here one cannot see whether there will be one.
        """
        layers = list(zip(neighbourhoods, (own.detach() for own in weights), strict=True))
        updated, tape = update_on_tape(layers, entailment.detach(), contradiction.detach(), keep=keep)
        ctx.save_for_backward(*tape.matrices, *tape.states)
        ctx.tape = replace(tape, matrices=(), states=())
        return updated

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *of_updated: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of both channels and of the weights."""
        layers = len(ctx.tape.neighbourhoods)
        tape = replace(ctx.tape, matrices=ctx.saved_tensors[:layers], states=ctx.saved_tensors[layers:])
        wants_states, wants_weights = any(ctx.needs_input_grad[:2]), any(ctx.needs_input_grad[4:])
        of_states, of_weights = tape.gradients(of_updated, wants_states=wants_states, wants_weights=wants_weights)
        return *of_states, None, None, *of_weights


def _labels_first(states: Tensor) -> Tensor:
    """Return the transpose of (texts, labels), contiguous by texts."""
    transposed = states.t()
    if transposed.stride(1) == 1:
        return transposed
    copied = states.new_empty(transposed.shape)
    _copy(copied, transposed)
    return copied


def _copy(into: Tensor, states: Tensor) -> None:
    """Copy from a transpose."""
    if states.numel() < LARGE:
        into.copy_(states)
        return
    # torch transposes a whole matrix in one thread, but a part of one in all.
    along = int(states.shape[1] > states.shape[0])
    for place, part in zip(into.tensor_split(2, along), states.tensor_split(2, along), strict=True):
        place.copy_(part)
