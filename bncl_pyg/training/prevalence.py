"""Estimates of cardinality and prevalence from the scores of unlabelled texts, each of them a guess of another kind.

estimation.py joins them: `PriorEstimation.unknown_prevalence` is what `auto` uses.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bncl_pyg.features import Features, Pairs, pairs_of
from bncl_pyg.nn import log_odds, solve_text_offsets

Shares = NDArray[np.float64]

TINY = 1e-9
"""A tolerance: what keeps logarithms finite."""
OFFSET_START, OFFSET_STEPS = -3.0, 25
"""Tolerances of the solver of `competition_probabilities`."""
QUADRATURE_NODES, MODE_STEPS = 20, 50
"""Tolerances of `posterior_prevalence`: how finely it is integrated, and steps of Newton's method to its mode."""
LEAST_CARDINALITY = 0.1
"""A tolerance: κ at least, where it is counted or estimated and texts may have no label."""
GUESS_ERRORS = np.exp(np.linspace(math.log(0.5), math.log(5.0), 24))
"""Among which errors `guess_error` looks for the likeliest: a handful of texts cannot show that a guess is better."""


def estimate_cardinality(features: Features, *, at_least_one: bool | None = None) -> float:
    """Return a guess at κ: the geometric mean of 1 and of how many labels have entailment above contradiction.

    The scorer's own count is off by a factor of 2 to 5, either way; halfway to 1 (in logarithms) it is off by less. It
    is at least 1 unless somebody says that texts may have none of the labels: the scores alone cannot tell labels that
    most texts have none of from labels that the scorer hardly sees.

    Args:
        features: of unlabelled texts.
        at_least_one: whether every text has a label; `None` where nobody said so.
    """
    counted, texts = features.ranks.total(float(features.zero_shot().sum()), len(features))
    least = LEAST_CARDINALITY if at_least_one is False else 1.0
    return max(least, math.sqrt(counted / max(texts, 1)))


def guess_prevalence(features: Features, cardinality: float, power: float, most: float) -> Shares:
    """Return λ as if each text had its κ best labels; (labels,).

    The best ones by entailment, and by log(q / q̄) with each label's mean shrunk halfway towards 0: some labels are
    entailed by everything. The result is the geometric mean of the two counts, to a power above 1: scores that err
    make rare labels look more common than they are, and common ones rarer.

    Args:
        features: of unlabelled texts.
        cardinality: κ; where it is below 1, the best labels are counted as if each text had one.
        power: of the counts.
        most: no label is taken to be more common.
    """
    pairs = pairs_of(features.candidates, features.entailment, len(features.labels), features.ranks)
    scores = log_odds(features.entailment, features.contradiction)
    lowest = float(features.ranks.lowest(scores.min()))
    scores = scores.masked_fill(features.entailment + features.contradiction <= 0, lowest)
    centred = scores - pairs.broadcast_to_pairs(pairs.sums(scores) / pairs.counts.clamp_min(1)) / 2
    # Half a text for every label: one that is nowhere among the best is rare, not impossible.
    counts = [_best_counts(values, max(cardinality, 1.0), pairs) + 0.5 for values in (features.entailment, centred)]
    return rescale_to_sum((counts[0] * counts[1]) ** (power / 2), cardinality, most)


def _best_counts(scores: Tensor, cardinality: float, pairs: Pairs) -> Shares:
    """Return how many texts each label is among the κ best of; (labels,)."""
    fewer = min(int(cardinality), scores.shape[1])
    best = scores.topk(min(fewer + 1, scores.shape[1]), dim=1).indices
    # κ need not be whole: the last of the best labels counts for what is left.
    counts = torch.zeros(scores.shape).scatter_(1, best, cardinality - fewer)
    counts.scatter_(1, best[:, :fewer], 1.0)
    total: Shares = pairs.sums(counts).double().numpy()
    return total


def competition_probabilities(logits: Tensor, cardinality: float) -> Tensor:
    """Return probabilities of which each text has κ, by one offset a text; of the shape of the logits."""
    start = torch.full((len(logits),), OFFSET_START)
    offsets = solve_text_offsets(logits, cardinality, start, OFFSET_STEPS)
    return torch.sigmoid(logits + offsets[:, None])


def posterior_prevalence(counts: Shares, texts: Shares, guess: Shares, std: float) -> Shares:
    r"""Return λ after so many of so many annotated texts had each label; (labels,).

    The posterior mean, where log λ is normal around log of the guess and counts are Poisson around n λ:

    .. math:: p(λ \mid c) ∝ λ^c e^{-n λ} \exp(-(\log λ - \log g)^2 / 2 σ^2)

    The more examples a label has, the less the guess says; a rare label's absence from few texts says next to nothing.

    Args:
        counts: c, (labels,); they need not be whole.
        texts: n, of how many texts it is known whether they have the label, (labels,).
        guess: g, (labels,).
        std: σ, how far the guess may be off, in logarithms.
    """
    logs, heights, _ = _posterior_nodes(counts, texts, guess, std)
    shares: Shares = (heights * np.exp(logs)).sum(axis=1) / heights.sum(axis=1)
    return shares


def guess_error(counts: Shares, texts: Shares, guess: Shares) -> float:
    """Return the σ of `posterior_prevalence` under which the counts are likeliest (empirical Bayes)."""
    best = (-math.inf, 1.0)
    for std in GUESS_ERRORS:
        _, heights, highest = _posterior_nodes(counts, texts, guess, std)
        total = float((highest + np.log(heights.sum(axis=1))).sum())
        best = max(best, (total, float(std)))
    return best[1]


def _posterior_nodes(counts: Shares, texts: Shares, guess: Shares, std: float) -> tuple[Shares, Shares, Shares]:
    """Return where log λ is looked at, (labels, nodes), how high its posterior is there, and of what the logarithm is.

    Gauss-Hermite quadrature around the posterior's mode, which Newton's method finds: it may be much narrower than the
    prior.
    """
    prior = np.log(np.maximum(guess, TINY))
    # From above the mode, Newton's method goes down to it without overshooting.
    mode = np.maximum(prior, np.log(np.maximum(counts, TINY) / np.maximum(texts, 1)))
    for _ in range(MODE_STEPS):
        expected = texts * np.exp(mode)
        mode = mode - ((mode - prior) / std**2 + expected - counts) / (std**-2 + expected)
    width = (std**-2 + texts * np.exp(mode)) ** -0.5
    nodes, weights = np.polynomial.hermite_e.hermegauss(QUADRATURE_NODES)
    logs = mode[:, None] + width[:, None] * nodes
    density = counts[:, None] * logs - texts[:, None] * np.exp(logs) - ((logs - prior[:, None]) / std) ** 2 / 2
    density += nodes**2 / 2 + np.log(weights) + np.log(width / std)[:, None]
    highest = density.max(axis=1)
    return logs, np.exp(density - highest[:, None]), highest


def rescale_to_sum(prevalence: Shares, total: float, most: float) -> Shares:
    """Scale shares so that they add up to a total, none above `most`; as near to the total as that allows."""
    is_full, scaled = np.zeros(len(prevalence), dtype=bool), prevalence
    for _ in range(len(prevalence)):
        left, rest = total - most * int(is_full.sum()), float(prevalence[~is_full].sum())
        scaled = np.where(is_full, most, prevalence * max(left, 0.0) / max(rest, 1e-12))
        if not (scaled > most).any():
            break
        is_full |= scaled > most
    return np.minimum(scaled, most)
