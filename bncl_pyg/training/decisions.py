"""From probabilities to decisions: which labels to give a text so that F1 is as high as can be expected."""

import torch
from torch import Tensor

from bncl_pyg.features import Pairs, reachable
from bncl_pyg.nn import FARTHEST, CollectiveProjection, decided

MOST_WIDENED, STEPS_OF_WIDENING = (1.0, 2.0), 6
"""By which factors λ may be multiplied so that decisions are as many as they should be, and how finely it is found."""
TURNS, MOST_TURNS, LEAST_GAIN = 10, 30, 1e-6
LEAST_PROBABLE, MOST_PROBABLE = 1e-6, 0.999
LEAST_SLOPE = 0.02
GROUPS = 10
"""Into how many parts annotated texts are cut to see how much a difference in F1 is left to chance."""


def widened(
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

    Where a label is rare and its texts are hard to tell, few probabilities exceed a half, though they add up to λ. The
    offsets stay as they are where annotated texts clearly fare better so: by more than the standard error of their mean
    F1.

    Args:
        exact: offsets with which probabilities add up to λ.
        logits: of the training texts; of annotated ones, as predicted without having seen their labels.
        prevalence: λ, (labels,).
        pairs: which pairs the logits are of.
        rows: which texts are annotated.
        truth: of their pairs, whether they are true, 0 or 1.
        at_least_one: whether a text without any label gets its best one.
    """
    wanted = float(reachable(prevalence * pairs.texts, pairs).sum())

    def decisions(projection: CollectiveProjection) -> Tensor:
        return decided(projection(logits, pairs), at_least_one=at_least_one)

    narrow = decisions(exact)
    if float(narrow.sum()) >= wanted:
        return exact
    (low, high), found, wide = MOST_WIDENED, exact, narrow
    for _ in range(STEPS_OF_WIDENING):
        factor = (low * high) ** 0.5
        found = CollectiveProjection.solved(logits, factor * prevalence, exact.cardinality, exact.competition, pairs)
        wide = decisions(found)
        low, high = (factor, high) if float(wide.sum()) < wanted else (low, factor)
    gain = _of_texts(wide[rows], truth) - _of_texts(narrow[rows], truth)
    error = float(gain.std(correction=0)) / len(rows) ** 0.5
    return exact if float(gain.mean()) < -error else found


def expected_thresholds(
    certain: Tensor, logits: Tensor, ceiling: Tensor, slope: float, own_weight: float, pairs: Pairs
) -> Tensor:
    """Return above which certainty a label should be given, so that F1 is expected to be high; (labels,).

    A decision adds to the F1 of all decisions together where its probability is above half of the highest such F1. For
    a common label, that is what counts. For a rare one it is not: what it does to all decisions together is next to
    nothing, and its own decisions are best left as they are, where its certainty is above 0. The threshold lies between
    the two, by how much of either F1 depends on the label.

    Args:
        certain: above 0 where a label would be given otherwise.
        logits: of the probabilities.
        ceiling: what σ of them is multiplied with, (labels,).
        slope: how much steeper these logits are than `certain`, over a label's texts. Where they hardly rise, they say
            nothing of thresholds, which are then 0.
        own_weight: how much the labels' own F1, averaged, counts beside the F1 of all decisions together.
        pairs: which pairs all these are of.
    """
    found = torch.zeros(pairs.labels)
    if slope < LEAST_SLOPE:
        return found
    likely = torch.sigmoid(logits) * pairs.spread(ceiling)
    # Certainty and logit differ by the slope and by about this much.
    shift = pairs.sums(logits - slope * certain) / pairs.counts.clamp_min(1)
    enough = torch.logit((highest_f1(likely) / 2 / ceiling).clamp(LEAST_PROBABLE, MOST_PROBABLE))
    totals, given = pairs.sums(likely), pairs.sums((certain > 0).to(likely))
    for _ in range(TURNS):
        sizes = (given + totals).clamp_min(1e-6)
        weight = sizes / (sizes + own_weight * sizes.sum() / pairs.labels)
        found = (weight * (enough - shift) / slope).clamp(-FARTHEST, FARTHEST)
        given = (given + pairs.sums((certain > pairs.spread(found)).to(likely))) / 2
    return torch.where(pairs.counts > 0, found, 0.0)


def highest_f1(likely: Tensor) -> float:
    """Return the highest F1 of all decisions together that probabilities let expect.

    It is reached by all decisions whose probability is above half of it: found by taking an F1 that is too low, then
    that of the decisions above half of it, which is higher, and so on until nothing changes (Dinkelbach's method).
    """
    expected, best = float(likely.sum(dtype=torch.float64)), 0.0
    for _ in range(MOST_TURNS):
        said = likely > best / 2
        right = float(likely[said].sum(dtype=torch.float64))
        found = 2 * right / max(float(said.sum()) + expected, 1e-12)
        if found <= best + LEAST_GAIN:
            break
        best = found
    return best


def clearly_worse(after: Tensor, before: Tensor, truth: Tensor, pairs: Pairs) -> bool:
    """Return whether F1, of all decisions together and averaged over labels, falls by more than its standard error.

    The error is the jackknife's: how the difference varies when a tenth of the texts is left out.

    Args:
        after: decisions about annotated texts, boolean.
        before: others, to compare with.
        truth: 0 or 1.
        pairs: which pairs these are of.
    """
    groups = min(GROUPS, pairs.texts)
    parts = [torch.arange(start, pairs.texts, groups) for start in range(groups)]
    counts = torch.stack([_counts(after, before, truth, part, pairs) for part in parts])
    whole = counts.sum(dim=0)
    without = torch.tensor([_gain(whole - part) for part in counts])
    error = float(((without - without.mean()).square().sum() * (groups - 1) / groups).sqrt())
    return _gain(whole) < -error


def _counts(after: Tensor, before: Tensor, truth: Tensor, part: Tensor, pairs: Pairs) -> Tensor:
    """Return for either decisions how many were right and how many were said or true; (2, 2, labels)."""
    mine, true = pairs.rows(part), truth[part]

    def of(said: Tensor) -> Tensor:
        return torch.stack([mine.sums(said * true), mine.sums(said + true)])

    return torch.stack([of(said[part].to(true)) for said in (after, before)])


def _gain(counts: Tensor) -> float:
    right, sizes = counts.unbind(dim=1)
    together = 2 * right.sum(dim=1) / sizes.sum(dim=1).clamp_min(1)
    averaged = (2 * right / sizes.clamp_min(1)).mean(dim=1)
    after, before = (together + averaged).tolist()
    return float(after - before)


def _of_texts(said: Tensor, truth: Tensor) -> Tensor:
    """Return the F1 of each text, 1 where it neither has nor gets a label; (texts,)."""
    sizes = said.sum(dim=1) + truth.sum(dim=1)
    return torch.where(sizes > 0, 2 * (said * truth).sum(dim=1) / sizes.clamp_min(1), 1.0)
