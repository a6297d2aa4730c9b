"""Resolving priors: from what is roughly known of κ and λ, a number, an interval, a word or nothing, to numbers.

Each guess is a function of prevalence.py; here they are joined. Where given λ do not add up to κ, the default recipe
rescales them (`prevalence.rescale_to_sum`).
"""

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
    topk_prevalence,
)
from bncl_pyg.training.self_training import Prepared, SelfTraining

BISECTIONS = 60
"""A tolerance: how finely the ratio between two words is found."""


@dataclass(frozen=True)
class PriorEstimation:
    """Every number by which priors are estimated.

    Args:
        guess_power: of λ where nothing is known; see `guess_prevalence`.
        floor: what a label with a word gets, beside the texts that it is among the best labels of: this share of the
            average label's texts.
        max_prevalence: no label is taken to be more common than this, unless somebody said so.
        least_left: what is left of κ for labels without a number, at least, as a share of κ.
        rarest_texts: how many of the training texts have a label that is "almost unseen".
        rarest_share: the same at least, as a share of the average label's.
        word_ratios: how many times as common a word is as the next rarer one: at least, at most.
        initial_trust: how far estimates tell labels with the same word apart at first; at 0, not at all.
        trust: the same in the end.
        trained_share: how much a trained model says of that in the end.
        reach: how far labels with the same word are told apart at most, times the root of the ratio between two words.
    """

    guess_power: float = 1.25
    floor: float = 0.1
    max_prevalence: float = 0.9
    least_left: float = 0.1
    rarest_texts: float = 2.0
    rarest_share: float = 0.02
    word_ratios: tuple[float, float] = (3.0, 16.0)
    initial_trust: float = 0.6
    trust: float = 0.8
    trained_share: float = 0.75
    reach: float = 1.5

    def resolve(self, data: Prepared, priors: Priors, self_training: SelfTraining) -> Priors:
        """Return κ and λ in numbers: what is known as it is, the rest estimated.

        - κ, if not given: `estimate_cardinality`, but at least the sum of the λ that are given.
        - λ, where nothing is known: see `guess_prevalence`.
        - λ, where a word is known: "almost unseen" is two texts of the training texts, but at least a fiftieth of what
          the average label has; and each further word so many times as common that all λ add up to κ, from 3 to 16
          times. Labels with the same word are told apart, to the power of 0.8, by the geometric mean of two estimates:
          how the labels share the texts when a model trained with a first guess competes for them with the words as
          its prior (weight 0.75), and how often a label is among a text's best, which is also the first guess (0.25).
        """
        has_share, has_word = priors.has_share, priors.words >= 0
        if len(priors) == 1 and not has_share.all():
            raise InputError("How common a label is cannot be estimated where there is no other; give its prevalence.")
        known = float(priors.shares[has_share].sum())
        cardinality = priors.cardinality
        if cardinality is None:
            cardinality = max(estimate_cardinality(data.features), known)
        estimate = topk_prevalence(data.features, cardinality, self.floor, self.max_prevalence)
        if not (has_share | has_word).all():
            estimate = np.where(has_share | has_word, estimate, self.unknown_prevalence(data.features, cardinality))
        left = max(cardinality - known, self.least_left * cardinality)
        if has_word.any():
            first = self._joined(priors, estimate, left, len(data.features), self.initial_trust)
            pseudo = self_training.fit(data, torch.from_numpy(first).float(), cardinality)
            prior = torch.from_numpy(self._joined(priors, estimate, left, len(data.features), 0.0)).float()
            logits = pseudo.logits + data.pairs.broadcast_to_pairs(prior.clamp_min(1e-6).log())
            shares = data.pairs.sums(competition_probabilities(logits, cardinality)) / len(data.features)
            trained = np.maximum(shares.double().numpy(), TINY)
            mixed = trained**self.trained_share * estimate ** (1 - self.trained_share)
            estimate = np.where(has_word, mixed, estimate)
        return Priors.exact(cardinality, self._joined(priors, estimate, left, len(data.features), self.trust))

    def unknown_prevalence(self, features: Features, cardinality: float) -> Shares:
        """Return λ where nothing is known: `guess_prevalence` with these numbers."""
        return guess_prevalence(features, cardinality, self.guess_power, self.max_prevalence)

    def _joined(self, priors: Priors, estimate: Shares, left: float, texts: int, trust: float) -> Shares:
        """Return the shares that are given, and what is left of κ among the others."""
        shares = np.where(priors.has_share, priors.shares, estimate)
        has_word = priors.words >= 0
        if has_word.any():
            shares[has_word] = self._from_words(priors.words[has_word], estimate[has_word], left, texts, trust)
        shares[~priors.has_share] = rescale_to_sum(shares[~priors.has_share], left, self.max_prevalence)
        return shares

    def _from_words(self, words: NDArray[np.int64], estimate: Shares, total: float, texts: int, trust: float) -> Shares:
        """Return λ of labels that are known by words; the estimate tells those with the same word apart."""
        low, high = self.word_ratios
        average = total / len(words)
        lowest = min(max(self.rarest_texts / max(texts, 1), self.rarest_share * average), average)
        for _ in range(BISECTIONS):
            ratio = (low * high) ** 0.5
            low, high = (ratio, high) if float((lowest * ratio**words).sum()) < total else (low, ratio)
        shares = ratio ** words.astype(np.float64)
        reach = self.reach * ratio**0.5
        for word in range(len(WORDS)):
            same = words == word
            if same.any():
                logs = np.log(np.maximum(estimate[same], TINY))
                factors = np.exp(np.clip(trust * (logs - logs.mean()), -np.log(reach), np.log(reach)))
                shares[same] *= factors / factors.mean()
        return rescale_to_sum(shares, total, self.max_prevalence)
