"""Estimates of cardinality and prevalence from the scores of unlabelled texts, each of them a guess of another kind.

estimation.py joins them: `PriorEstimation.unknown_prevalence` is what `auto` uses.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bncl_pyg.features import Features, pairs_of, word_counts
from bncl_pyg.nn import log_odds, solve_text_offsets
from bncl_pyg.training.regression import LEAST_SHARE, PCAInputs, fit_logistic, mean_by_label

Shares = NDArray[np.float64]

TINY = 1e-9
"""A tolerance: what keeps logarithms finite."""
OFFSET_START, OFFSET_STEPS = -3.0, 25
"""Tolerances of the solver of `competition_probabilities`."""


def estimate_cardinality(features: Features) -> float:
    """Return how many labels have entailment above contradiction for the average text, but at least 1."""
    return max(1.0, float(features.zero_shot().sum()) / max(len(features), 1))


def topk_prevalence(features: Features, cardinality: float, floor: float, most: float) -> Shares:
    """Return λ as if each text had its κ best labels by entailment, and every label some texts more; (labels,).

    Args:
        features: of unlabelled texts.
        cardinality: κ.
        floor: what a label gets besides, as a share of the average label's texts.
        most: no label is taken to be more common.
    """
    texts, labels = len(features), len(features.labels)
    pairs = pairs_of(features.candidates, features.entailment, labels)
    fewer = min(int(cardinality), features.entailment.shape[1])
    more = min(fewer + 1, features.entailment.shape[1])
    best = features.entailment.topk(more, dim=1).indices
    # κ need not be whole: the last of the best labels counts for what is left.
    counts = torch.zeros(features.entailment.shape).scatter_(1, best, cardinality - fewer)
    counts.scatter_(1, best[:, :fewer], 1.0)
    shares = (pairs.sums(counts) / texts).double().numpy()
    return rescale_to_sum(shares + floor * cardinality / labels, cardinality, most)


def named_prevalence(features: Features, cardinality: float, floor: float, most: float) -> Shares:
    """Return λ as if each text had the labels that it names, and every label some texts more; (labels,).

    A text counts that has the rarest word of a label's name, or of its description where more texts have that one's.
    The arguments are those of `topk_prevalence`.
    """
    assert features.words is not None
    texts, labels = len(features), len(features.labels)
    texts_with_word = np.bincount(features.words.indices, minlength=features.words.shape[1])
    counts = np.zeros(labels)
    for names in (features.labels.names, features.labels.descriptions):
        words = word_counts(names)
        known = np.flatnonzero(np.diff(words.indptr))
        if len(known):
            rarest = np.minimum.reduceat(texts_with_word[words.indices], words.indptr[known])
            counts[known] = np.maximum(counts[known], rarest)
    return rescale_to_sum(counts / texts + floor * cardinality / labels, cardinality, most)


def competition_prevalence(
    features: Features,
    inputs: PCAInputs,
    cardinality: float,
    C: float,
    *,
    slope: float,
    text_slope: float,
    mean_shrinkage: float,
    rounds: int,
    steps: int,
    unseen: float,
    most: float,
) -> Shares:
    """Estimate λ by how the labels share the texts when each text must have κ of them; (labels,).

    The scores that compete are log(q / q̄), whose label means are shrunk towards the common mean: some labels
    are entailed by everything. The shares are taken twice, from the scores alone and after the text has had its say (a
    regression of the shares on the text, some rounds); the result is the geometric mean.

    Args:
        features: of unlabelled texts.
        inputs: what is known of them besides their scores.
        cardinality: κ.
        C: of the regression.
        slope: how steep scores become labels.
        text_slope: the same beside the text.
        mean_shrinkage: how far label means are shrunk towards the common one, 0 is not at all.
        rounds: of the regression.
        steps: of L-BFGS in each.
        unseen: how many of the texts have a label that is no text's candidate.
        most: no label is taken to be more common.
    """
    texts = len(features)
    pairs = pairs_of(features.candidates, features.entailment, len(features.labels))
    counts = pairs.counts.clamp_min(1)
    scores = log_odds(features.entailment, features.contradiction)
    scores = scores.masked_fill(features.entailment + features.contradiction <= 0, float(scores.min()))
    own = pairs.broadcast_to_pairs(pairs.sums(scores) / counts)
    scores = scores - ((1 - mean_shrinkage) * own + mean_shrinkage * scores.mean())
    scores = scores / scores.std().clamp_min(LEAST_SHARE)
    probabilities = competition_probabilities(slope * scores, cardinality)
    of_scores = of_text = pairs.sums(probabilities) / texts
    if inputs.rotated.shape[1]:
        for _ in range(rounds):
            base = torch.logit(mean_by_label(probabilities, pairs))
            text = fit_logistic(inputs, probabilities, base, C, steps=steps, pairs=pairs)
            logits = pairs.linear(inputs.rotated, inputs.axes.T @ text.weights) + pairs.broadcast_to_pairs(base)
            probabilities = competition_probabilities(text_slope * scores + logits - logits.mean(), cardinality)
        of_text = pairs.sums(probabilities) / texts
    # Of a label that is nobody's candidate, nothing is known but that it is rare.
    shares = torch.where(pairs.counts > 0, (of_scores * of_text).sqrt(), unseen / texts)
    return rescale_to_sum(shares.double().numpy(), cardinality, most)


def competition_probabilities(logits: Tensor, cardinality: float) -> Tensor:
    """Return probabilities of which each text has κ, by one offset a text; of the shape of the logits."""
    start = torch.full((len(logits),), OFFSET_START)
    offsets = solve_text_offsets(logits, cardinality, start, OFFSET_STEPS)
    return torch.sigmoid(logits + offsets[:, None])


def geometric_mean(estimates: list[Shares]) -> Shares:
    """Return the geometric mean of estimates, label by label; (labels,)."""
    mean: Shares = np.exp(np.mean([np.log(np.maximum(estimate, TINY)) for estimate in estimates], axis=0))
    return mean


def shrunk_prevalence(counts: NDArray[np.int64], texts: int, estimate: Shares, weight: float) -> Shares:
    """Return λ from counts among annotated texts, shrunk towards an estimate as if `weight` more texts had shown it."""
    shares: Shares = (counts + weight * estimate) / (texts + weight)
    return shares


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
