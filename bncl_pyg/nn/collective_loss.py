"""The collective loss: what the predictions of all texts together should look like."""

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor
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
        predicted: Tensor | None = None,
        pairs: Pairs | None = None,
    ) -> LossParts:
        """Return the four parts.

        Where texts have candidates, only these pairs count, and L2 is over the labels that occur among them.

        Args:
            entailment: p, (texts, labels), or of the pairs.
            contradiction: p̄, likewise.
            truth: y of the annotated texts, (annotated, labels).
            annotated: which rows these are, (annotated,).
            others: Σ s over the texts of the corpus that are not in this batch, (labels,), so that L2 is over all of D.
            texts: N, how many texts batch and others are together; the batch's size if there are no others.
            predicted: s, where `indicator` was called before, as p is.
            pairs: which pairs p and p̄ are of; all, if not given.
        """
        pairs = AllPairs(*entailment.shape) if pairs is None else pairs
        predicted = self.indicator(entailment, contradiction) if predicted is None else predicted
        rest = entailment + contradiction - 1
        squares = rest.square().sum(dim=1)
        # `norm` would go through labels-first memory number by number.
        hesitation = (squares + TINY).sqrt().sum() if self.hesitation == "norm" else squares.sum()
        counts = pairs.sums(predicted) if others is None else pairs.sums(predicted) + others
        expected = (len(predicted) if texts is None else texts) * self.prevalence.to(counts.dtype)
        prevalence = ((expected - counts) * (pairs.counts > 0)).square().sum()
        cardinality = (self.cardinality - predicted.sum(dim=1)).square().sum()
        annotation = predicted.new_zeros(())
        if truth is not None and annotated is not None and len(annotated):
            if self.annotation == "sharpened":
                annotation = binary_cross_entropy(predicted[annotated], truth, reduction="sum")
            else:
                most = 1.0 if self.annotation == "likelihood" else None
                likely = truth * entailment[annotated].clamp(FLOOR, most).log()
                unlikely = (1 - truth) * contradiction[annotated].clamp(FLOOR, most).log()
                annotation = -(likely + unlikely).sum()
        return LossParts(hesitation, prevalence, cardinality, annotation)

    def total(self, parts: LossParts) -> Tensor:
        """Return the weighted sum of the parts."""
        of_labels, of_texts, of_annotated = self.weights
        return (
            parts.hesitation
            + of_labels * parts.prevalence
            + of_texts * parts.cardinality
            + of_annotated * parts.annotation
        )


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
