"""Resolving priors: from what is roughly known of κ and λ, a number, an interval, a word or nothing, to numbers.

An interval, and the range of shares that a word stands for, say how far a share may be off. What the texts themselves
say of it is found twice, by how often a label is among a text's best and by how labels share the texts once a model is
trained. It counts the less, the more it differs from what is known: what is beyond that doubt is its own error. Each
estimate is a function of prevalence.py; here they are joined.
"""

import logging
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from bncl_pyg.errors import InputError
from bncl_pyg.features import Features
from bncl_pyg.priors import WORDS, Priors
from bncl_pyg.training.prevalence import (
    TINY,
    Shares,
    competition_probabilities,
    estimate_cardinality,
    guess_prevalence,
    rescale_to_sum,
)
from bncl_pyg.training.self_training import Prepared, SelfTraining

log = logging.getLogger(__name__)

BISECTIONS = 60
"""A tolerance: how finely the ratio between two words is found."""
RAREST_TEXTS, LEAST_RATIO, MOST_RATIO = 2.0, 1.5, 100.0
"""A label that is "almost unseen" is in two texts; and between which ratios the one between two words is looked for."""
MAX_PREVALENCE = 0.9
"""A tolerance: no label is taken to be more common, unless somebody said so."""
LEAST_LEFT = 0.1
"""A tolerance: what is left of κ for labels without a number, at least, as a share of κ."""


@dataclass(frozen=True)
class PriorEstimation:
    """The number of estimated priors.

    Args:
        guess_power: of λ where nothing is known; see `guess_prevalence`.
    """

    guess_power: float = 1.25

    def resolve(self, data: Prepared, priors: Priors, self_training: SelfTraining) -> Priors:
        """Return κ and λ in numbers.

        - κ, if not given: `estimate_cardinality`, but at least the sum of the λ that are given.
        - λ, a number: as it is.
        - λ, nothing known: see `guess_prevalence`.
        - λ, a word: shares in a range, each word's as many times as common as the next rarer one's, so that all λ add
          up to κ.
        - λ, an interval or a word: pulled towards what the texts say, as far as it may be off (see `_pulled`).
        """
        if len(priors) == 1 and not priors.has_share.all():
            raise InputError("How common a label is cannot be estimated where there is no other; give its prevalence.")
        given = float(priors.shares[priors.has_share].sum())
        cardinality = priors.cardinality
        if cardinality is None:
            guessed = estimate_cardinality(data.features, at_least_one=priors.at_least_one)
            cardinality = max(guessed, given)
            log.warning(
                "How many labels a text has was not given: %.2g is taken, which may be off by a factor of 2 or "
                "more.%s This one number would help most, or ten annotated texts.",
                cardinality,
                " Every text is taken to have a label." if priors.at_least_one is None and cardinality >= 1 else "",
            )
        guess = self.unknown_prevalence(data.features, cardinality)
        shares, stds = self._ranges(priors, guess, cardinality, data.pairs.texts)
        if (stds > 0).any():
            first = torch.from_numpy(shares).float()
            trained = self_training.fit(data, first, cardinality, at_least_one=priors.at_least_one)
            logits = trained.logits + data.pairs.broadcast_to_pairs(first.clamp_min(TINY).log())
            shared = data.pairs.sums(competition_probabilities(logits, cardinality)) / data.pairs.texts
            # Two estimates that err in other ways: their geometric mean.
            evidence = (np.log(np.maximum(shared.double().numpy(), TINY)) + np.log(np.maximum(guess, TINY))) / 2
            shares = _pulled(shares, stds, evidence, priors.words)
            shares = self._rescaled(priors, shares, cardinality)
        return Priors.exact(cardinality, shares, at_least_one=priors.at_least_one)

    def unknown_prevalence(self, features: Features, cardinality: float) -> Shares:
        """Return λ where nothing is known: `guess_prevalence` with this number."""
        return guess_prevalence(features, cardinality, self.guess_power, MAX_PREVALENCE)

    def _ranges(self, priors: Priors, guess: Shares, cardinality: float, texts: int) -> tuple[Shares, Shares]:
        """Return λ and, in logarithms, how far it may be off: not at all where it is a number or a mere guess."""
        shares, stds = np.where(priors.has_share, priors.shares, guess), priors.stds.copy()
        has_word = priors.words >= 0
        if has_word.any():
            known = float(shares[~has_word].sum())
            left = max(cardinality - known, LEAST_LEFT * cardinality)
            shares[has_word], ratio = _from_words(priors.words[has_word], left, texts)
            stds[has_word] = np.log(ratio) / 2
        return self._rescaled(priors, shares, cardinality), np.nan_to_num(stds)

    def _rescaled(self, priors: Priors, shares: Shares, cardinality: float) -> Shares:
        """Return shares that add up to κ; numbers that were given stay, if that is possible."""
        is_number = priors.stds == 0
        left = max(cardinality - float(shares[is_number].sum()), LEAST_LEFT * cardinality)
        scaled = shares.copy()
        scaled[~is_number] = rescale_to_sum(shares[~is_number], left, MAX_PREVALENCE)
        return scaled


def _from_words(words: NDArray[np.int64], total: float, texts: int) -> tuple[Shares, float]:
    """Return λ of labels that are known by words, and the ratio between two words."""
    lowest = min(RAREST_TEXTS / max(texts, 1), total / len(words))
    low, high = LEAST_RATIO, MOST_RATIO
    for _ in range(BISECTIONS):
        ratio = (low * high) ** 0.5
        low, high = (ratio, high) if float((lowest * ratio**words).sum()) < total else (low, ratio)
    return rescale_to_sum(lowest * ratio ** words.astype(np.float64), total, MAX_PREVALENCE), ratio


def _pulled(shares: Shares, stds: Shares, evidence: Shares, words: NDArray[np.int64]) -> Shares:
    r"""Return λ pulled towards the evidence, label by label.

    .. math:: \log λ_l ← \log λ_l + w_l r_l, \quad r_l = e_l - \log λ_l - \bar r, \quad w_l = σ_l^2 / (σ_l^2 + τ_l^2)

    σ is how far λ may be off, and τ² how far the evidence is: what its differences r from λ, of all labels or of this
    one, exceed σ² by, and no less than σ², since what somebody said is never taken to be worse than what the texts say.
    So a label that the scores do not see is hardly pulled at all. Labels with the same word are compared with each
    other, and stay together as common as they were.

    Args:
        shares: λ, (labels,).
        stds: σ, (labels,); where it is 0, λ stays.
        evidence: log λ as the texts have it, (labels,).
        words: the place of each label's word, or -1, (labels,).
    """
    pulled, open_ = shares.copy(), stds > 0
    groups = [open_ & (words == word) for word in range(-1, len(WORDS))]
    differences = evidence - np.log(np.maximum(shares, TINY))
    for group in groups:
        differences[group] -= differences[group].mean() if group.any() else 0.0
    for is_word in (False, True):
        kind = open_ & ((words >= 0) == is_word)
        if not kind.any():
            continue
        variances, own = stds[kind] ** 2, differences[kind]
        doubts = np.maximum(np.maximum(own.var(), own**2) - variances.mean(), variances)
        pulled[kind] *= np.exp(variances / (variances + doubts) * own)
    for group in groups[1:]:
        if group.any():
            pulled[group] *= shares[group].sum() / pulled[group].sum()
    return pulled
