"""The collective loss: what the predictions of all texts together should look like."""

import math
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import binary_cross_entropy

from bncl_pyg.nn.pairs import AllPairs, Pairs

FLOOR = 1e-6
"""The smallest number whose logarithm is taken: a state can be exactly 0."""

TINY = 1e-30
"""What keeps the gradient of a root finite at 0."""


class LossParts(NamedTuple):
    """The four parts, before their weights."""

    hesitation: Tensor
    """L1: entailment and contradiction do not add up to 1."""
    prevalence: Tensor
    """L2: a label is predicted for more or fewer texts than expected."""
    cardinality: Tensor
    """L3: a text has more or fewer labels than expected."""
    annotation: Tensor
    """L4: an annotated text's labels are unlikely."""


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
        self.weights = weights
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
    ) -> tuple[LossParts, Tensor]:
        """Return the four parts, and s.

        Where texts have candidates, only these pairs count, and L2 is over the labels that occur among them.

        Args:
            entailment: p, (texts, labels), or of the pairs.
            contradiction: p̄, likewise.
            truth: y of the annotated texts, (annotated, labels).
            annotated: which rows these are, (annotated,).
            others: Σ s over the texts of the corpus that are not in this batch, (labels,), so that L2 is over all of D.
            texts: N, how many texts batch and others are together; the batch's size if there are no others.
            pairs: which pairs p and p̄ are of; all, if not given.
        """
        pairs = AllPairs(*entailment.shape) if pairs is None else pairs
        expected = (len(entailment) if texts is None else texts) * self.prevalence.to(entailment.dtype)
        missing = expected if others is None else expected - others
        found: tuple[Tensor, Tensor, Tensor, Tensor] = _FreeParts.apply(  # type: ignore[no-untyped-call]
            entailment, contradiction, missing, self, pairs
        )
        hesitation, prevalence, cardinality, predicted = found
        annotation = predicted.new_zeros(())
        if truth is not None and annotated is not None and len(annotated):
            if self.annotation == "sharpened":
                annotation = binary_cross_entropy(predicted[annotated], truth, reduction="sum")
            else:
                most = 1.0 if self.annotation == "likelihood" else None
                likely = truth * entailment[annotated].clamp(FLOOR, most).log()
                unlikely = (1 - truth) * contradiction[annotated].clamp(FLOOR, most).log()
                annotation = -(likely + unlikely).sum()
        return LossParts(hesitation, prevalence, cardinality, annotation), predicted

    def total(self, parts: LossParts) -> Tensor:
        """Return the weighted sum of the parts."""
        of_labels, of_texts, of_annotated = self.weights
        return (
            parts.hesitation
            + of_labels * parts.prevalence
            + of_texts * parts.cardinality
            + of_annotated * parts.annotation
        )


class _FreeParts(torch.autograd.Function):
    """L1, L2 and L3, and s. A batch is small: by hand the gradient takes a third of the operations."""

    @staticmethod
    def forward(
        ctx: Any, entailment: Tensor, contradiction: Tensor, missing: Tensor, loss: CollectiveLoss, pairs: Pairs
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return them; `missing` is how many more texts a label should have with the batch than without it."""
        predicted = loss.indicator(entailment, contradiction)
        rest = (entailment + contradiction).sub_(1)
        squares = rest.square().sum(dim=1)
        # `norm` would go through labels-first memory number by number.
        roots = squares.add(TINY).sqrt_() if loss.hesitation == "norm" else None
        missing = (missing - pairs.sums(predicted)) * (pairs.counts > 0)
        short = loss.cardinality - predicted.sum(dim=1)
        ctx.save_for_backward(predicted, rest, roots, missing, short)
        ctx.set_materialize_grads(False)
        ctx.sharpness, ctx.pairs = loss.sharpness, pairs
        hesitation = squares.sum() if roots is None else roots.sum()
        return hesitation, missing.square().sum(), short.square().sum(), predicted

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *of_outputs: Tensor | None) -> tuple[Tensor | None, ...]:
        """Return the gradients of p and p̄."""
        predicted, rest, roots, missing, short = ctx.saved_tensors
        hesitation, prevalence, cardinality = (0.0 if of is None else float(of) for of in of_outputs[:3])
        of_margin = ctx.pairs.spread(missing * (-2 * prevalence)) + (short * (-2 * cardinality))[:, None]
        if of_outputs[3] is not None:
            of_margin += of_outputs[3]
        of_margin *= (predicted * ctx.sharpness).mul_(1 - predicted)
        of_rest = rest * (2 * hesitation if roots is None else (hesitation / roots)[:, None])
        return of_rest + of_margin, of_rest - of_margin, None, None, None


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
