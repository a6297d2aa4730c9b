"""Cardinality and prevalence where they are only roughly known: what the scores of unlabelled texts say about them."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bncl_pyg.corpus import WORDS, RoughPriors, Supervision
from bncl_pyg.errors import InputError
from bncl_pyg.features import Features, pairs_of, word_counts
from bncl_pyg.nn import log_odds, solve_text_offsets
from bncl_pyg.training.regression import Inputs, regress

SLOPE, LATER_SLOPE = 5.0, 3.5
"""How steep scores become labels, alone and beside the text."""
ROUNDS, STEPS = 2, 15
RAREST, RAREST_SHARE = 2.0, 0.02
"""How many of the training texts have a label that is almost unseen, and at least what share of the average label's."""
UNSEEN = 0.5
"""How many of the training texts have a label that is no text's candidate."""
RATIOS = (3.0, 16.0)
"""How many times as common a word is as the next rarer one: at least, at most."""
FIRST_TRUST, TRUST, TRAINED = 0.6, 0.8, 0.75
"""How far the scores may tell labels with the same word apart, at first and in the end, 0 is not at all; and how much
of the latter a trained model says."""
RARE_SHARE = 0.8
"""How much `guessed` says of the rarest labels where nothing is known; of an average label, half of that."""
FLOOR = 0.1
"""What a label gets, beside the texts that it is among the best labels of: this share of the average label's texts."""
MOST = 0.9
"""No label is taken to be more common than this, unless somebody said so."""


def settled(
    rough: RoughPriors,
    features: Features,
    inputs: Inputs,
    strength: float,
    logits: Callable[[Supervision], Tensor],
) -> Supervision:
    """Return κ and λ: what is known as it is, the rest estimated.

    - κ, if not given: the mean number of labels with entailment above contradiction, but at least 1 and at least the
      sum of the λ that are given.
    - λ, where nothing is known: see `unaided_prevalence`.
    - λ, where a word is known: "almost unseen" is two texts of the training texts, but at least a fiftieth of what the
      average label has; and each further word so many times as common that all λ add up to κ, from 3 to 16 times.
      Labels with the same word are then spread, to the power of 0.8, by the geometric mean of two estimates: how the
      labels share the texts when a model trained with a first spread competes for them with the words as its prior
      (weight 0.75), and how often a label is among a text's best, which is also the first spread (0.25).

    Args:
        rough: what is known.
        features: the training texts.
        inputs: what is known of them besides their scores.
        strength: of the regression on these inputs.
        logits: trains with κ and λ; returns logits of the training texts, before label offsets.
    """
    if rough.labels == 1 and not rough.sure.all():
        raise InputError("How common a label is cannot be estimated where there is no other; give its prevalence.")
    cardinality = rough.cardinality
    numbers = rough.sure
    if cardinality is None:
        cardinality = max(estimated_cardinality(features), float(rough.prevalence[numbers].sum()))
    worded = rough.words >= 0
    estimate = often_best(features, cardinality)
    unknown = ~worded & ~numbers
    if unknown.any():
        estimate = np.where(unknown, unaided_prevalence(features, inputs, cardinality, strength), estimate)
    left = max(cardinality - float(rough.prevalence[numbers].sum()), 0.1 * cardinality)

    def spread(estimate: NDArray[np.float64], trust: float) -> NDArray[np.float64]:
        found = np.where(numbers, rough.prevalence, estimate)
        if worded.any():
            found[worded] = _from_words(rough.words[worded], estimate[worded], left, len(features), trust)
        found[~numbers] = adding_up(found[~numbers], left)
        return found

    if worded.any():
        start = torch.from_numpy(spread(estimate, 0.0)).float().clamp_min(1e-6)
        pairs = pairs_of(features.candidates, len(features), rough.labels)
        trained = logits(Supervision(cardinality, spread(estimate, FIRST_TRUST)))
        shares = pairs.sums(_shared(trained + pairs.spread(start.log()), cardinality)) / len(features)
        shares = np.maximum(shares.double().numpy(), 1e-9)
        estimate = np.where(worded, shares**TRAINED * estimate ** (1 - TRAINED), estimate)
    return Supervision(cardinality, spread(estimate, TRUST))


def estimated_cardinality(features: Features) -> float:
    """Return how many labels have entailment above contradiction for the average text, but at least 1."""
    said = float(features.zero_shot().sum()) / max(len(features), 1)
    return max(1.0, said)


def often_best(features: Features, cardinality: float) -> NDArray[np.float64]:
    """Return λ as if each text had its κ best labels by entailment, and every label some texts more; (labels,)."""
    texts, labels = len(features), len(features.labels)
    pairs = pairs_of(features.candidates, texts, labels)
    fewer = min(int(cardinality), features.entailment.shape[1])
    more = min(fewer + 1, features.entailment.shape[1])
    best = features.entailment.topk(more, dim=1).indices
    # κ need not be whole: the last of the best labels counts for what is left.
    counts = torch.zeros(features.entailment.shape).scatter_(1, best, cardinality - fewer)
    counts.scatter_(1, best[:, :fewer], 1.0)
    found = (pairs.sums(counts) / texts).double().numpy()
    return adding_up(found + FLOOR * cardinality / labels, cardinality)


def estimated_prevalence(
    features: Features, inputs: Inputs, cardinality: float, strength: float
) -> NDArray[np.float64]:
    """Estimate λ from unlabelled texts: how the labels share the texts when each text must have κ of them.

    The scores that compete are log(q / q̄), whose label means are pulled halfway to the common mean: some labels are
    entailed by everything. The shares are taken twice, from the scores alone and after the text has had its say (a
    regression of the shares on the text, twice); the result is the geometric mean.
    """
    pairs = pairs_of(features.candidates, len(features), len(features.labels))
    counts = pairs.counts.clamp_min(1)
    scores = log_odds(features.entailment, features.contradiction)
    scores = scores.masked_fill(features.entailment + features.contradiction <= 0, float(scores.min()))
    scores = scores - (pairs.spread(pairs.sums(scores) / counts) + scores.mean()) / 2
    scores = scores / scores.std().clamp_min(1e-6)
    shares = _shared(SLOPE * scores, cardinality)
    first = last = pairs.sums(shares) / len(features)
    if inputs.rotated.shape[1]:
        for _ in range(ROUNDS):
            base = torch.logit((pairs.sums(shares) / counts).clamp(1e-6, 1 - 1e-6))
            text = regress(inputs, shares, base, strength, steps=STEPS, pairs=pairs)
            of_text = pairs.linear(inputs.rotated, inputs.axes.T @ text.weights) + pairs.spread(base)
            shares = _shared(LATER_SLOPE * scores + of_text - of_text.mean(), cardinality)
        last = pairs.sums(shares) / len(features)
    # Of a label that is nobody's candidate, nothing is known but that it is rare.
    found = torch.where(pairs.counts > 0, (first * last).sqrt(), UNSEEN / len(features))
    return adding_up(found.double().numpy(), cardinality)


def often_named(features: Features, cardinality: float) -> NDArray[np.float64]:
    """Return λ as if each text had the labels that it names, and every label some texts more; (labels,).

    A text counts that has the rarest word of a label's name, or of its description where more texts have that one's.
    """
    assert features.words is not None
    texts, labels = len(features), len(features.labels)
    having = np.bincount(features.words.indices, minlength=features.words.shape[1])
    found = np.zeros(labels)
    for said in (features.labels.names, features.labels.descriptions):
        words = word_counts(said)
        known = np.flatnonzero(np.diff(words.indptr))
        if len(known):
            rarest = np.minimum.reduceat(having[words.indices], words.indptr[known])
            found[known] = np.maximum(found[known], rarest)
    return adding_up(found / texts + FLOOR * cardinality / labels, cardinality)


def guessed(features: Features, estimate: NDArray[np.float64], cardinality: float) -> NDArray[np.float64]:
    """Return the geometric mean of all that says, without annotated texts, which label is more common; (labels,).

    The common labels are best told by `estimated_prevalence`; rare ones, of which there are many, by all together.
    """
    guesses = [estimate, often_best(features, cardinality)]
    if features.words is not None:
        guesses.append(often_named(features, cardinality))
    found: NDArray[np.float64] = np.exp(np.mean([np.log(np.maximum(guess, 1e-9)) for guess in guesses], axis=0))
    return found


def unaided_prevalence(features: Features, inputs: Inputs, cardinality: float, strength: float) -> NDArray[np.float64]:
    """Return λ where nothing is known: of common labels as `estimated_prevalence`, of rare ones more like `guessed`."""
    estimate = estimated_prevalence(features, inputs, cardinality, strength)
    share = RARE_SHARE / (1 + estimate * len(estimate) / cardinality)
    return adding_up(estimate ** (1 - share) * guessed(features, estimate, cardinality) ** share, cardinality)


def pooled(counts: NDArray[np.int64], texts: int, estimate: NDArray[np.float64], weight: float) -> NDArray[np.float64]:
    """Return λ from counts among annotated texts, as if `weight` more texts had shown what is estimated."""
    found: NDArray[np.float64] = (counts + weight * estimate) / (texts + weight)
    return found


def _shared(logits: Tensor, cardinality: float) -> Tensor:
    """Return probabilities of which each text has κ."""
    offsets = solve_text_offsets(logits, cardinality, torch.full((len(logits),), -3.0), 25)
    return torch.sigmoid(logits + offsets[:, None])


def _from_words(
    words: NDArray[np.int64], estimate: NDArray[np.float64], total: float, texts: int, trust: float
) -> NDArray[np.float64]:
    low, high = RATIOS
    average = total / len(words)
    lowest = min(max(RAREST / max(texts, 1), RAREST_SHARE * average), average)
    for _ in range(60):
        ratio = (low * high) ** 0.5
        low, high = (ratio, high) if float((lowest * ratio**words).sum()) < total else (low, ratio)
    found = ratio ** words.astype(np.float64)
    reach = 1.5 * ratio**0.5
    for word in range(len(WORDS)):
        mine = words == word
        if mine.any():
            logs = np.log(np.maximum(estimate[mine], 1e-9))
            spread = np.exp(np.clip(trust * (logs - logs.mean()), -np.log(reach), np.log(reach)))
            found[mine] *= spread / spread.mean()
    return adding_up(found, total)


def adding_up(prevalence: NDArray[np.float64], total: float, most: float = MOST) -> NDArray[np.float64]:
    """Scale shares so that they add up to a total, none above `most`; as near to the total as that allows."""
    full, found = np.zeros(len(prevalence), dtype=bool), prevalence
    for _ in range(len(prevalence)):
        left, rest = total - most * int(full.sum()), float(prevalence[~full].sum())
        found = np.where(full, most, prevalence * max(left, 0.0) / max(rest, 1e-12))
        if not (found > most).any():
            break
        full |= found > most
    return np.minimum(found, most)
