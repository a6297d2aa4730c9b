"""The collective loss: what the predictions of all texts together should look like."""

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import binary_cross_entropy

from bncl_pyg.features import Pairs, all_pairs

FLOOR = 1e-6
"""A tolerance: the smallest number whose logarithm is taken; a state can be exactly 0."""
TINY = 1e-30
"""A tolerance: what keeps the gradient of a root finite at 0."""
SUM = 2
"""How torch's own functions call a sum as reduction."""


class CollectiveLoss(torch.nn.Module):
    r"""The paper's loss over a batch of texts, :math:`L_1 + α_2 L_2 + α_3 L_3 + α_4 L_4`.

    .. math::
        L_1 &= \sum_i \|p_i + \bar{p}_i - 1\|_2 &
        L_2 &= \sum_l \Big(N λ_l - \sum_i s_{il}\Big)^2 \\
        L_3 &= \sum_i \Big(κ - \sum_l s_{il}\Big)^2 &
        L_4 &= -\sum_{i \in D_A} \sum_l y_{il} \log p_{il} + (1 - y_{il}) \log \bar{p}_{il}

    with :math:`s_{il} = σ(C (p_{il} - \bar{p}_{il}))`, a smooth :math:`1[p_{il} > \bar{p}_{il}]`.

    Args:
        cardinality: κ.
        prevalence: λ, (labels,).
        weights: α₂, α₃, α₄.
        sharpness: C.
        hesitation: `norm` as above; `squares` is the authors' code, :math:`\sum_i \|p_i + \bar{p}_i - 1\|_2^2`.
        annotation: `likelihood` as above, where a state above 1 counts as 1, as a probability must; `literal` without
            that, which has no lower bound: training then inflates the states instead of fitting the annotations
            (benchmarks/results/quality-reuters21578.md); `sharpened` is the authors' code, the cross-entropy of
            :math:`s` to y.
    """

    def __init__(
        self,
        cardinality: float,
        prevalence: Tensor,
        weights: tuple[float, float, float] = (0.1, 0.5, 100.0),
        sharpness: float = 10.0,
        hesitation: Literal["norm", "squares"] = "norm",
        annotation: Literal["likelihood", "literal", "sharpened"] = "likelihood",
    ) -> None:
        super().__init__()
        self.cardinality = cardinality
        self.register_buffer("prevalence", prevalence.to(torch.get_default_dtype()))
        self.prevalence: Tensor
        self.register_buffer("weights", torch.tensor([1.0, *weights], dtype=torch.get_default_dtype()))
        self.weights: Tensor
        self.sharpness = sharpness
        self.hesitation = hesitation
        self.annotation = annotation

    def indicator(self, entailment: Tensor, contradiction: Tensor) -> Tensor:
        """Return s, a smooth "is predicted"; (texts, labels)."""
        return torch.sigmoid(self.sharpness * (entailment - contradiction))

    def forward(
        self,
        entailment: Tensor,
        contradiction: Tensor,
        truth: Tensor | None = None,
        annotated: Tensor | None = None,
        others: Tensor | None = None,
        texts: int | None = None,
        pairs: Pairs | None = None,
        known: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return L1 (hesitation), L2 (prevalence), L3 (cardinality) and L4 (annotation), (4,), and s, as p is.

        Where texts have candidates, only these pairs count, and L2 is over the labels that occur among them. Where
        several processes hold a batch (`pairs.ranks`), L2 is that of the whole batch and the rest is of the texts that
        this process holds: the gradients of all processes add up to those of the whole batch.

        Args:
            entailment: p, (texts, labels), or of the pairs.
            contradiction: p̄, likewise.
            truth: y of the annotated texts, (annotated, labels).
            annotated: which rows these are, (annotated,).
            others: Σ s over the texts of the corpus that are not in this batch, (labels,), so that L2 is over all of D.
            texts: N, how many texts batch and others are together; the batch's size if there are no others.
            pairs: which pairs p and p̄ are of; all, if not given.
            known: 1 where y is known and 0 where L4 leaves it out, (annotated, labels); all, if not given.
        """
        pairs = all_pairs(entailment) if pairs is None else pairs
        parts, predicted = _Collective.apply(  # type: ignore[no-untyped-call]
            entailment, contradiction, self._missing(entailment, others, texts, pairs), pairs, self._numbers()
        )
        if truth is not None and annotated is not None and len(annotated):
            if self.annotation == "sharpened":
                annotation = binary_cross_entropy(predicted[annotated], truth, known, reduction="sum")
            else:
                most = 1.0 if self.annotation == "likelihood" else None
                of_true = truth * entailment[annotated].clamp(FLOOR, most).log()
                of_false = (1 - truth) * contradiction[annotated].clamp(FLOOR, most).log()
                likelihood = of_true + of_false
                annotation = -(likelihood if known is None else likelihood * known).sum()
            parts = torch.cat([parts[:3], annotation[None]])
        return parts, predicted

    @torch.no_grad()
    def with_gradients(
        self,
        entailment: Tensor,
        contradiction: Tensor,
        truth: Tensor | None = None,
        annotated: Tensor | None = None,
        others: Tensor | None = None,
        texts: int | None = None,
        pairs: Pairs | None = None,
    ) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
        """Return the parts, s, and the gradients of the weighted sum in p and p̄, without torch's autograd.

        All arguments are those of `forward`; each annotated text stands once in `annotated`.
        """
        pairs = all_pairs(entailment) if pairs is None else pairs
        missing = self._missing(entailment, others, texts, pairs)
        parts, predicted, kept = _collect(entailment, contradiction, missing, pairs, self._numbers())
        weights = self.weights.to(parts.dtype)
        if truth is None or annotated is None or not len(annotated):
            of_p, of_against, _ = _gradients(kept, pairs, self._numbers(), weights, None)
            return parts, predicted, (of_p, of_against)
        if self.annotation == "sharpened":
            own = predicted.index_select(0, annotated)
            parts[3] = binary_cross_entropy(own, truth, reduction="sum")
            of_own = torch.ops.aten.binary_cross_entropy_backward(weights[3], own, truth, None, SUM)
            of_predicted = torch.zeros_like(predicted).index_copy_(0, annotated, of_own)
            of_p, of_against, _ = _gradients(kept, pairs, self._numbers(), weights, of_predicted)
            return parts, predicted, (of_p, of_against)
        of_p, of_against, _ = _gradients(kept, pairs, self._numbers(), weights, None)
        for states, of_states, wanted in ((entailment, of_p, truth), (contradiction, of_against, 1 - truth)):
            value, gradient = self._log_likelihood(states.index_select(0, annotated), wanted)
            parts[3] -= value
            of_states.index_add_(0, annotated, gradient.mul_(-weights[3]))
        return parts, predicted, (of_p, of_against)

    def _log_likelihood(self, states: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
        """Return the sum of the logarithms of the wanted states, and its gradient; one beyond the caps has none."""
        capped = states.clamp(FLOOR, 1.0 if self.annotation == "likelihood" else None)
        return (wanted * capped.log()).sum(), (wanted / capped).mul_(capped == states)

    def _missing(self, entailment: Tensor, others: Tensor | None, texts: int | None, pairs: Pairs) -> Tensor:
        """Return how often a batch should have each label, (labels,)."""
        expected = (pairs.texts if texts is None else texts) * self.prevalence.to(entailment.dtype)
        return expected if others is None else expected - others

    def _numbers(self) -> "_Numbers":
        return _Numbers(self.cardinality, self.sharpness, self.hesitation == "norm")

    def total(self, parts: Tensor) -> Tensor:
        """Return the weighted sum of the parts."""
        return parts @ self.weights.to(parts.dtype)


class _Numbers(NamedTuple):
    """What L1, L2 and L3 depend on beside states and prevalences."""

    cardinality: float
    sharpness: float
    is_norm: bool


def _collect(
    entailment: Tensor, contradiction: Tensor, missing: Tensor, pairs: Pairs, numbers: _Numbers
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Return the parts, L4 at 0, s, and what `_gradients` needs; `missing` is how often a batch should have a label."""
    predicted = (entailment - contradiction).mul_(numbers.sharpness).sigmoid_()
    rest = (entailment + contradiction).sub_(1)
    # `norm` would go through labels-first memory number by number.
    lengths = rest.square().sum(dim=1)
    if numbers.is_norm:
        lengths = lengths.add_(TINY).sqrt_()
    of_labels = (missing - pairs.sums(predicted)).mul_(pairs.counts > 0)
    of_texts = numbers.cardinality - predicted.sum(dim=1)
    parts = lengths.sum(), of_labels.dot(of_labels), of_texts.dot(of_texts), lengths.new_zeros(())
    return torch.stack(parts), predicted, (predicted, rest, lengths, of_labels, of_texts)


def _gradients(
    kept: Sequence[Tensor], pairs: Pairs, numbers: _Numbers, of_parts: Tensor | None, of_predicted: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of p, p̄ and `missing`, given those of the parts and of s."""
    predicted, rest, lengths, of_labels, of_texts = kept
    of_lengths, for_labels, for_texts, _ = [0.0] * 4 if of_parts is None else of_parts.tolist()
    of_labels, of_texts = 2 * for_labels * of_labels, 2 * for_texts * of_texts
    # As the states lie: else everything that follows would go through memory number by number.
    wanted = torch.add(
        -pairs.broadcast_to_pairs(of_labels), of_texts[:, None], alpha=-1, out=torch.empty_like(predicted)
    )
    if of_predicted is not None:
        wanted += of_predicted
    of_difference = torch.ops.aten.sigmoid_backward(wanted, predicted).mul_(numbers.sharpness)
    of_sum = rest * ((of_lengths / lengths)[:, None] if numbers.is_norm else 2 * of_lengths)
    return of_sum + of_difference, of_sum - of_difference, of_labels


class _Collective(torch.autograd.Function):
    """L1, L2 and L3 in few passes over a batch: as many small operations, a step would be mostly these."""

    @staticmethod
    def forward(
        ctx: Any, entailment: Tensor, contradiction: Tensor, missing: Tensor, pairs: Pairs, numbers: _Numbers
    ) -> tuple[Tensor, Tensor]:
        """Return the parts, L4 at 0, and s."""
        parts, predicted, kept = _collect(entailment, contradiction, missing, pairs, numbers)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*kept)
        ctx.pairs, ctx.numbers = pairs, numbers
        return parts, predicted

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_parts: Tensor | None, of_predicted: Tensor | None) -> tuple[Tensor | None, ...]:
        """Return the gradients of p, p̄ and `missing`."""
        return *_gradients(ctx.saved_tensors, ctx.pairs, ctx.numbers, of_parts, of_predicted), None, None


def choose_sharpness(entailment: Tensor, contradiction: Tensor, certainty: float = 0.9999) -> int:
    """Return the smallest whole C for which σ(C(p − p̄)) is above `certainty` wherever p > p̄: the paper's procedure.

    Args:
        entailment: of a small sample of texts, (texts, labels).
        contradiction: (texts, labels).
        certainty: how near to 1 every predicted pair must come.
    """
    margins = (entailment - contradiction).double()
    margins = margins[margins > 0]
    if not margins.numel():
        raise ValueError("No label is predicted for any text of the sample, so that no sharpness can be chosen.")
    smallest = float(margins.min())
    needed = math.log(certainty / (1 - certainty))
    return math.floor(needed / smallest) + 1
