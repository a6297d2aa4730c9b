"""From probabilities to decisions: which labels to give a text so that F1 is as high as can be expected.

What is above a half, and the best label of a text without any, is `decide` (nn/collective.py). Decisions and
probabilities have temperatures of their own: that of probabilities is in calibration.py.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from bncl_pyg.features import Pairs, reachable
from bncl_pyg.nn import CollectiveProjection, decide

DINKELBACH_STEPS, LEAST_GAIN = 30, 1e-6
"""Tolerances of `highest_f1`."""


@dataclass(frozen=True)
class Decisions:
    """Every number of decisions.

    Args:
        inverse_temperature: what logits learned from annotated texts are multiplied with to become decisions; without
            annotated texts it is 1.
        macro_weight: how much the labels' own F1, averaged, counts beside the F1 of all decisions together.
        match_factors: by which factors λ may be multiplied so that decisions are as many as λ says.
        match_steps: how finely the factor is found.
        turns: how often thresholds and the decisions that they depend on are found in turn.
        least_slope: logits that rise less over a label's texts say nothing of thresholds.
        probability_bounds: between which probabilities thresholds are looked for.
        max_threshold: how far thresholds go at most.
        jackknife_groups: into how many parts annotated texts are cut to see how far a difference in F1 is chance.
    """

    inverse_temperature: float = 2.0
    macro_weight: float = 5.0
    match_factors: tuple[float, float] = (1.0, 2.0)
    match_steps: int = 6
    turns: int = 10
    least_slope: float = 0.02
    probability_bounds: tuple[float, float] = (1e-6, 0.999)
    max_threshold: float = 14.0
    jackknife_groups: int = 10

    def match_prediction_count(
        self,
        exact: CollectiveProjection,
        logits: Tensor,
        prevalence: Tensor,
        pairs: Pairs,
        rows: Tensor,
        truth: Tensor,
        *,
        at_least_one: bool,
    ) -> CollectiveProjection:
        """Return offsets with which decisions are as many as λ says, found with λ times one factor for all labels.

        Where a label is rare and its texts are hard to tell, few probabilities exceed a half, though they add up to λ.
        The offsets stay as they are where annotated texts clearly fare better so: by more than the standard error of
        their mean F1.

        Args:
            exact: offsets with which probabilities add up to λ.
            logits: of the training texts; of annotated ones, as predicted without having seen their labels.
            prevalence: λ, (labels,).
            pairs: which pairs the logits are of.
            rows: which texts are annotated.
            truth: of their pairs, whether they are true, 0 or 1.
            at_least_one: whether a text without any label gets its best one.
        """
        wanted = float(reachable(prevalence * pairs.texts, pairs, exact.steps.least_reachable).sum())

        def decisions_of(projection: CollectiveProjection) -> Tensor:
            return decide(projection(logits, pairs), at_least_one=at_least_one)

        before = decisions_of(exact)
        if float(before.sum()) >= wanted:
            return exact
        (low, high), matched, after = self.match_factors, exact, before
        for _ in range(self.match_steps):
            factor = (low * high) ** 0.5
            matched = CollectiveProjection.fit(
                logits, factor * prevalence, exact.cardinality, exact.competition, pairs, steps=exact.steps
            )
            after = decisions_of(matched)
            low, high = (factor, high) if float(after.sum()) < wanted else (low, factor)
        if not len(rows):
            return matched
        gain = _f1_of_texts(after[rows], truth) - _f1_of_texts(before[rows], truth)
        error = float(gain.std(correction=0)) / len(rows) ** 0.5
        return exact if float(gain.mean()) < -error else matched

    def expected_thresholds(
        self, margins: Tensor, logits: Tensor, ceiling: Tensor, slope: float, macro_weight: float, pairs: Pairs
    ) -> Tensor:
        """Return above which margin a label should be given, so that F1 is expected to be high; (labels,).

        A decision adds to the F1 of all decisions together where its probability is above half of the highest such F1.
        For a common label, that is what counts. For a rare one it is not: what it does to all decisions together is
        next to nothing, and its own decisions are best left as they are, where its margin is above 0. The threshold
        lies between the two, by how much of either F1 depends on the label.

        Args:
            margins: above 0 where a label would be given otherwise.
            logits: of the probabilities.
            ceiling: what σ of them is multiplied with, (labels,).
            slope: how much steeper these logits are than the margins, over a label's texts. Where they hardly rise,
                they say nothing of thresholds, which are then 0.
            macro_weight: how much the labels' own F1, averaged, counts beside the F1 of all decisions together.
            pairs: which pairs all these are of.
        """
        thresholds = torch.zeros(pairs.labels)
        if slope < self.least_slope:
            return thresholds
        probabilities = torch.sigmoid(logits) * pairs.broadcast_to_pairs(ceiling)
        # Margin and logit differ by the slope and by about this much.
        shift = pairs.sums(logits - slope * margins) / pairs.counts.clamp_min(1)
        enough = torch.logit((highest_f1(probabilities) / 2 / ceiling).clamp(*self.probability_bounds))
        expected, given = pairs.sums(probabilities), pairs.sums((margins > 0).to(probabilities))
        for _ in range(self.turns):
            sizes = (given + expected).clamp_min(1e-6)
            weight = sizes / (sizes + macro_weight * sizes.sum() / pairs.labels)
            thresholds = (weight * (enough - shift) / slope).clamp(-self.max_threshold, self.max_threshold)
            above = margins > pairs.broadcast_to_pairs(thresholds)
            given = (given + pairs.sums(above.to(probabilities))) / 2
        return torch.where(pairs.counts > 0, thresholds, 0.0)

    def is_clearly_worse(self, after: Tensor, before: Tensor, truth: Tensor, pairs: Pairs) -> bool:
        """Return whether F1, of all decisions together and averaged over labels, falls by more than its standard error.

        The error is the jackknife's: how the difference varies when a tenth of the texts is left out.

        Args:
            after: decisions about annotated texts, boolean.
            before: others, to compare with.
            truth: 0 or 1.
            pairs: which pairs these are of.
        """
        groups = min(self.jackknife_groups, pairs.texts)
        parts = [torch.arange(start, pairs.texts, groups) for start in range(groups)]
        counts = torch.stack([_counts(after, before, truth, part, pairs) for part in parts])
        total = counts.sum(dim=0)
        without = torch.tensor([_gain(total - part) for part in counts])
        error = float(((without - without.mean()).square().sum() * (groups - 1) / groups).sqrt())
        return _gain(total) < -error


def highest_f1(probabilities: Tensor) -> float:
    """Return the highest F1 of all decisions together that probabilities let expect.

    It is reached by all decisions whose probability is above half of it: found by taking an F1 that is too low, then
    that of the decisions above half of it, which is higher, and so on until nothing changes (Dinkelbach's method).
    """
    expected, best = float(probabilities.sum(dtype=torch.float64)), 0.0
    for _ in range(DINKELBACH_STEPS):
        decisions = probabilities > best / 2
        right = float(probabilities[decisions].sum(dtype=torch.float64))
        f1 = 2 * right / max(float(decisions.sum()) + expected, 1e-12)
        if f1 <= best + LEAST_GAIN:
            break
        best = f1
    return best


def _counts(after: Tensor, before: Tensor, truth: Tensor, part: Tensor, pairs: Pairs) -> Tensor:
    """Return for either decisions how many were right and how many were given or true; (2, 2, labels)."""
    of_part, true = pairs.rows(part), truth[part]

    def count(decisions: Tensor) -> Tensor:
        return torch.stack([of_part.sums(decisions * true), of_part.sums(decisions + true)])

    return torch.stack([count(decisions[part].to(true)) for decisions in (after, before)])


def _gain(counts: Tensor) -> float:
    right, sizes = counts.unbind(dim=1)
    micro = 2 * right.sum(dim=1) / sizes.sum(dim=1).clamp_min(1)
    macro = (2 * right / sizes.clamp_min(1)).mean(dim=1)
    after, before = (micro + macro).tolist()
    return float(after - before)


def _f1_of_texts(decisions: Tensor, truth: Tensor) -> Tensor:
    """Return the F1 of each text, 1 where it neither has nor gets a label; (texts,)."""
    sizes = decisions.sum(dim=1) + truth.sum(dim=1)
    return torch.where(sizes > 0, 2 * (decisions * truth).sum(dim=1) / sizes.clamp_min(1), 1.0)
