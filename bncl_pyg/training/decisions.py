"""From probabilities to decisions: as common as λ says, or where F1 is expected to be highest.

What is above a threshold, and the best label of a text without any, is `decide` (nn/collective.py). Decisions are made
on logits that are steeper than those of probabilities, whose temperature is in calibration.py.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from bncl_pyg.features import Pairs, reachable
from bncl_pyg.nn import CollectiveProjection, decide
from bncl_pyg.ranks import ALONE, Ranks

DINKELBACH_STEPS, LEAST_GAIN = 30, 1e-6
"""Tolerances of `highest_f1`."""
MOST_FACTOR, FACTOR_STEPS = 2.0, 6
"""Tolerances of `match_prediction_count`: by how much λ is multiplied at most, and how finely that is found."""
TURNS, LEAST_SLOPE, MAX_THRESHOLD = 10, 0.02, 14.0
"""Tolerances of `expected_thresholds`: how often thresholds and the decisions that they depend on are found in turn;
logits that rise less say nothing of thresholds; how far thresholds go."""
PROBABILITY_BOUNDS = 1e-6, 0.999
"""Likewise: between which probabilities thresholds are looked for."""


@dataclass(frozen=True)
class Decisions:
    """The number of decisions that aim at F1.

    Args:
        macro_weight: how much the labels' own F1, averaged, counts beside the F1 of all decisions together.
    """

    macro_weight: float = 5.0

    def expected_thresholds(self, margins: Tensor, logits: Tensor, slope: float, pairs: Pairs) -> Tensor:
        """Return above which margin a label should be given, so that F1 is expected to be high; (labels,).

        A decision adds to the F1 of all decisions together where its probability is above half of the highest such F1.
        For a common label, that is what counts. For a rare one it is not: what it does to all decisions together is
        next to nothing, and its own decisions are best left as they are, where its margin is above 0. The threshold
        lies between the two, by how much of either F1 depends on the label.

        Args:
            margins: above 0 where a label would be given otherwise.
            logits: of the probabilities.
            slope: how much steeper these logits are than the margins, over a label's texts. Where they hardly rise,
                they say nothing of thresholds, which are then 0.
            pairs: which pairs all these are of.
        """
        thresholds = torch.zeros(pairs.labels)
        if slope < LEAST_SLOPE:
            return thresholds
        probabilities = torch.sigmoid(logits)
        # Margin and logit differ by the slope and by about this much.
        shift = pairs.sums(logits - slope * margins) / pairs.counts.clamp_min(1)
        enough = torch.logit(torch.tensor(highest_f1(probabilities, pairs.ranks) / 2).clamp(*PROBABILITY_BOUNDS))
        expected, given = pairs.sums(probabilities), pairs.sums((margins > 0).to(probabilities))
        for _ in range(TURNS):
            sizes = (given + expected).clamp_min(1e-6)
            weight = sizes / (sizes + self.macro_weight * sizes.sum() / pairs.labels)
            thresholds = (weight * (enough - shift) / slope).clamp(-MAX_THRESHOLD, MAX_THRESHOLD)
            above = margins > pairs.broadcast_to_pairs(thresholds)
            given = (given + pairs.sums(above.to(probabilities))) / 2
        return torch.where(pairs.counts > 0, thresholds, 0.0)


def match_prediction_count(
    exact: CollectiveProjection, logits: Tensor, prevalence: Tensor, pairs: Pairs, *, at_least_one: bool
) -> CollectiveProjection:
    """Return offsets with which decisions are as many as λ says, found with λ times one factor for all labels.

    Where a label is rare and its texts are hard to tell, few probabilities exceed a half, though they add up to λ.

    Args:
        exact: offsets with which probabilities add up to λ.
        logits: of the training texts; of annotated ones, as predicted without having seen their labels.
        prevalence: λ, (labels,).
        pairs: which pairs the logits are of.
        at_least_one: whether a text without any label gets its best one.
    """
    wanted = float(reachable(prevalence * pairs.texts, pairs, exact.steps.least_reachable).sum())

    def count(projection: CollectiveProjection) -> float:
        decisions = decide(projection(logits, pairs), at_least_one=at_least_one)
        return pairs.ranks.total(float(decisions.sum()))[0]

    low, high, matched = 1.0, MOST_FACTOR, exact
    if count(exact) >= wanted:
        return exact
    for _ in range(FACTOR_STEPS):
        factor = (low * high) ** 0.5
        matched = CollectiveProjection.fit(
            logits,
            (factor * prevalence).clamp(max=1),
            exact.cardinality,
            exact.competition,
            pairs,
            exact.steps,
            at_least_one=exact.at_least_one,
        )
        low, high = (factor, high) if count(matched) < wanted else (low, factor)
    return matched


def highest_f1(probabilities: Tensor, ranks: Ranks = ALONE) -> float:
    """Return the highest F1 of all decisions together that probabilities let expect.

    It is reached by all decisions whose probability is above half of it: found by taking an F1 that is too low, then
    that of the decisions above half of it, which is higher, and so on until nothing changes (Dinkelbach's method).

    Args:
        probabilities: of the texts that this process holds.
        ranks: who holds the others.
    """
    (expected,), best = ranks.total(float(probabilities.sum(dtype=torch.float64))), 0.0
    for _ in range(DINKELBACH_STEPS):
        decisions = probabilities > best / 2
        own = float(probabilities[decisions].sum(dtype=torch.float64)), float(decisions.sum())
        right, given = ranks.total(*own)
        f1 = 2 * right / max(given + expected, 1e-12)
        if f1 <= best + LEAST_GAIN:
            break
        best = f1
    return best
