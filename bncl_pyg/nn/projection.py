r"""The collective projection: the least change to the logits after which all predictions together look right.

.. math:: p_{il} = σ(s_{il} + ρ a_i + b_l), \quad \sum_i p_{il} = N λ_l, \quad \sum_l σ(s_{il} + a_i + b_l) = κ

It meets what the paper's L2 and L3 only ask for: each label is as common as it should be, and each text has κ labels,
as far as ρ, the competition among a text's labels, demands. The two are solved in turn; eight turns leave λ a few per
cent off. Where texts may have no label at all, a text's offset is never above 0: a text that no label fits is not given
any, and one that has more than the larger of κ and 1 loses some.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from bncl_pyg.features import Pairs, all_pairs, reachable, row_blocks

MAX_STEP, MAX_OFFSET = 2.0, 40.0
"""Tolerances of the solver: how far an offset moves at once, and how far from 0 it gets."""
TINY, MARGIN = 1e-12, 1e-3
"""Likewise: what keeps a logarithm finite, and how far a total is kept from nothing and from everything."""


@dataclass(frozen=True)
class ProjectionSteps:
    """Tolerances of the solver: how far the projection is solved.

    Args:
        turns: how often label offsets and text offsets are solved in turn.
        first: steps of Newton's method in the first turn; a new text's offset takes twice as many.
        later: steps in each later turn.
        least_reachable: see `bncl_pyg.features.reachable`.
    """

    turns: int = 8
    first: int = 8
    later: int = 2
    least_reachable: float = 0.5


def solve_text_offsets(logits: Tensor, cardinality: float, start: Tensor, steps: int) -> Tensor:
    """Return for each text the offset a that, added to its logits, gives it so many labels; (texts,).

    Args:
        logits: (texts, labels), or of some pairs.
        cardinality: how many.
        start: offsets to start from, (texts,).
        steps: of Newton's method.
    """
    total = min(cardinality, logits.shape[1] - MARGIN)
    solved = torch.empty_like(start)
    # Some texts at a time, through all steps: they stay in the cache.
    for rows in row_blocks(logits):
        block, offsets = logits[rows], start[rows]
        totals = torch.full_like(offsets, total)
        for _ in range(steps):
            probabilities = (block + offsets[:, None]).sigmoid_()
            sums = probabilities.sum(dim=1)
            slopes = probabilities.mul_(1 - probabilities).sum(dim=1)
            offsets = _newton_step(offsets, totals, sums, slopes)
        solved[rows] = offsets
    return solved


def solve_label_offsets(logits: Tensor, totals: Tensor, start: Tensor, steps: int, pairs: Pairs) -> Tensor:
    """Return for each label the offset b that, added to its logits, gives it to so many texts; (labels,).

    Args:
        logits: of the pairs.
        totals: how many, (labels,), above 0 and below the number of texts whose candidate the label is.
        start: offsets to start from, (labels,).
        steps: of Newton's method.
        pairs: which pairs the logits are of.
    """
    offsets = start
    for _ in range(steps):
        offsets = _newton_step(offsets, totals, *pairs.probability_sums(logits, offsets))
    return offsets


def _newton_step(offsets: Tensor, totals: Tensor, sums: Tensor, slopes: Tensor) -> Tensor:
    """Take a step of Newton's method on the logarithm of the sum, which is nearly linear where a total is small."""
    sums = sums.clamp_min(TINY)
    change = (totals.log() - sums.log()) * sums / slopes.clamp_min(TINY)
    return (offsets + change.clamp(-MAX_STEP, MAX_STEP)).clamp(-MAX_OFFSET, MAX_OFFSET)


class CollectiveProjection(torch.nn.Module):
    """Offsets that make predictions meet cardinality and prevalence.

    Args:
        offsets: b, (labels,).
        cardinality: κ.
        competition: ρ; at 0, texts have no offset.
        steps: how far offsets are solved.
        at_least_one: whether every text has a label; else text offsets only take away.

    Shapes:
        - **input:** logits (texts, labels), or of some pairs
        - **output:** logits of the same shape

    Example::

        projection = CollectiveProjection.fit(logits, prevalence, cardinality=1.2, competition=0.75)
        probabilities = torch.sigmoid(projection(logits))
    """

    def __init__(
        self,
        offsets: Tensor,
        cardinality: float,
        competition: float,
        steps: ProjectionSteps | None = None,
        *,
        at_least_one: bool = True,
    ) -> None:
        super().__init__()
        self.register_buffer("offsets", offsets)
        self.offsets: Tensor
        self.cardinality, self.competition = cardinality, competition
        self.steps = ProjectionSteps() if steps is None else steps
        self.at_least_one = at_least_one

    @classmethod
    def fit(
        cls,
        logits: Tensor,
        prevalence: Tensor,
        cardinality: float,
        competition: float,
        pairs: Pairs | None = None,
        steps: ProjectionSteps | None = None,
        *,
        at_least_one: bool = True,
    ) -> "CollectiveProjection":
        """Find the label offsets on (training) texts.

        Where texts have candidates only, a label's true texts may lie elsewhere: the fewer of all texts it is a
        candidate of, the fewer of these it is asked to have (see `reachable`). A label that is nobody's candidate keeps
        the offset that its prevalence alone suggests.

        Args:
            logits: s, (texts, labels), or of the pairs.
            prevalence: λ, (labels,); a label with λ = 0 gets an offset below which nothing is predicted.
            cardinality: κ.
            competition: ρ.
            pairs: which pairs the logits are of; all, if not given.
            steps: how far to solve.
            at_least_one: whether every text has a label; else text offsets only take away.
        """
        pairs, steps = all_pairs(logits) if pairs is None else pairs, steps or ProjectionSteps()
        texts, counts = pairs.texts, pairs.counts
        wanted = prevalence.to(logits) * texts
        totals = reachable(wanted, pairs, steps.least_reachable)
        totals = totals.minimum(counts - MARGIN).clamp_min(MARGIN)
        of_prevalence = torch.logit(wanted / texts).clamp(-MAX_OFFSET, MAX_OFFSET)
        offsets = torch.where(counts > 0, torch.logit(totals / counts.clamp_min(1)), of_prevalence)
        of_texts = logits.new_zeros(len(logits))
        for turn in range(steps.turns):
            count = steps.later if turn else steps.first
            shifted = logits
            if competition:
                shifted = logits + pairs.broadcast_to_pairs(offsets)
                of_texts = _text_offsets(shifted, cardinality, of_texts, count, at_least_one=at_least_one)
                shifted = logits + competition * of_texts[:, None]
            solved = solve_label_offsets(shifted, totals, offsets, count, pairs)
            offsets = torch.where(counts > 0, solved, of_prevalence)
            if not competition and turn:
                break
        return cls(offsets, cardinality, competition, steps, at_least_one=at_least_one)

    def forward(self, logits: Tensor, pairs: Pairs | None = None) -> Tensor:
        """Add the offsets; each text's own is found anew, from it alone."""
        offsets = self.offsets if pairs is None else pairs.broadcast_to_pairs(self.offsets)
        if self.competition:
            logits = logits + self.competition * self.text_offsets(logits, pairs)[:, None]
        return logits + offsets

    def text_offsets(self, logits: Tensor, pairs: Pairs | None = None) -> Tensor:
        """Return a, each text's own offset, of which ρ times as much is added; (texts,)."""
        offsets = self.offsets if pairs is None else pairs.broadcast_to_pairs(self.offsets)
        start = logits.new_zeros(len(logits))
        return _text_offsets(
            logits + offsets, self.cardinality, start, 2 * self.steps.first, at_least_one=self.at_least_one
        )

    def config(self) -> dict[str, float | bool]:
        """Return κ, ρ and whether every text has a label, as JSON can hold them."""
        return {
            "cardinality": float(self.cardinality),
            "competition": float(self.competition),
            "at_least_one": self.at_least_one,
        }


def _text_offsets(logits: Tensor, cardinality: float, start: Tensor, steps: int, *, at_least_one: bool) -> Tensor:
    """Return for each text the offset with which it has κ labels; see `CollectiveProjection`; (texts,)."""
    if at_least_one:
        return solve_text_offsets(logits, cardinality, start, steps)
    return solve_text_offsets(logits, max(cardinality, 1.0), start, steps).clamp(max=0)
