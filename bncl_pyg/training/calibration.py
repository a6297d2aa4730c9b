"""Calibration, how sure to be: from logits to probabilities and to decisions, both of which meet κ and λ.

`Calibration` has the temperature and the ceiling of probabilities; the temperature of decisions is in decisions.py.
The slope that annotated texts show when they are held out is found by `regression.platt_scaling` in `correction.py`.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from bncl_pyg.features import Pairs
from bncl_pyg.nn import CollectiveModel, CollectiveProjection, decide
from bncl_pyg.priors import Priors
from bncl_pyg.training.correction import Correction
from bncl_pyg.training.decisions import Decisions
from bncl_pyg.training.default_model import DefaultModel
from bncl_pyg.training.scarce import ScarcePrevalence
from bncl_pyg.training.self_training import Prepared, SelfTrained, SelfTraining

LEAST_STD = 1e-3
"""A tolerance: the least standard deviation of logits that is divided by."""


@dataclass(frozen=True)
class Calibration:
    """Every number of calibration.

    Args:
        inverse_temperature: what logits without annotated texts are multiplied with to become probabilities, over the
            dispersion of the scores (see `SelfTrained`).
        bounds: between which it is then kept.
    """

    inverse_temperature: float = 0.32
    bounds: tuple[float, float] = (0.15, 0.5)

    def unsupervised(self, dispersion: float) -> float:
        """Return the inverse temperature without annotated texts: the more the scores repeat themselves, the less."""
        lowest, highest = self.bounds
        return min(max(self.inverse_temperature / max(dispersion, 1e-6), lowest), highest)

    @staticmethod
    def ceiling(prevalence: Tensor, dispersion: float) -> Tensor:
        """Return each label's highest probability, (labels,): 1 / dispersion, or halfway from λ to 1 if that is more.

        Scores that say the same thing many times over are wrong together, even where they are surest.
        """
        return ((1 + prevalence) / 2).clamp_min(1 / max(dispersion, 1.0))


@dataclass(frozen=True)
class CalibratedFit:
    """The last step of the default recipe.

    Args:
        data: the training texts.
        self_training: whose competition and projection are used.
        scarce: whose `shrinkage_texts` say how much few annotated texts are worth.
        calibration: its numbers.
        decisions: likewise.
        max_logit: see `CorrectionFit`.
    """

    data: Prepared
    self_training: SelfTraining
    scarce: ScarcePrevalence
    calibration: Calibration
    decisions: Decisions
    max_logit: float

    def fit(
        self,
        known: Priors,
        unsupervised: SelfTrained,
        correction: Correction | None,
        guessed: Tensor | None,
        every_text_has_one: bool | None = None,
    ) -> DefaultModel:
        """Calibrate probabilities and decisions.

        Args:
            known: κ and λ that predictions are to meet.
            unsupervised: what was learned without annotated texts.
            correction: what was learned from them, if there are any.
            guessed: of which labels λ is only a guess, so that decisions aim at F1; boolean, (labels,).
            every_text_has_one: whether every text has a label; where nobody says so, annotated texts do, else a κ of
                at least 1.
        """
        pairs, cardinality = self.data.pairs, known.cardinality
        assert cardinality is not None
        prevalence = torch.from_numpy(known.shares).float()
        beta = self.calibration.unsupervised(unsupervised.dispersion)
        ceiling, tensors = torch.ones(len(prevalence)), unsupervised.tensors
        if correction is None:
            ceiling = self.calibration.ceiling(prevalence, unsupervised.dispersion)
            logits, competition, decision_beta = unsupervised.logits, self.self_training.competition, 1.0
            at_least_one = bool(cardinality >= 1) if every_text_has_one is None else every_text_has_one
        else:
            logits, competition, decision_beta = correction.logits, 0.0, self.decisions.inverse_temperature
            beta = self._learned(beta, unsupervised, correction, prevalence, cardinality)
            at_least_one = correction.at_least_one if every_text_has_one is None else every_text_has_one
            tensors = {**tensors, **correction.tensors()}
        at_least_one_in_training = unsupervised.projection.at_least_one
        calibration = self._project(
            beta * logits, prevalence, cardinality, competition, ceiling, at_least_one=at_least_one_in_training
        )
        sharp = decision_beta * logits
        decision = self._project(sharp, prevalence, cardinality, competition, at_least_one=at_least_one_in_training)
        if correction is not None:
            rows, truth = correction.distinct()
            decision = self.decisions.match_prediction_count(
                decision, sharp, prevalence, pairs, rows, truth, at_least_one=at_least_one
            )
        thresholds = torch.zeros(len(prevalence))
        if guessed is not None:
            margins, tempered = decision(sharp, pairs), calibration(beta * logits, pairs)
            aimed = self._thresholds(margins, tempered, ceiling, beta / decision_beta, correction)
            thresholds = torch.where(guessed, aimed, 0.0)
        network = CollectiveModel(
            self.data.standardizer,
            tensors={**tensors, "ceiling": ceiling, "thresholds": thresholds},
            projections={"unsupervised": unsupervised.projection, "calibration": calibration, "decision": decision},
            inverse_temperature=beta,
            decision_inverse_temperature=decision_beta,
            max_logit=self.max_logit,
            at_least_one=at_least_one,
        )
        return DefaultModel(self.data.text_inputs, network, known, self.data.features.entailment.shape[1]).eval()

    def _learned(
        self,
        usual: float,
        unsupervised: SelfTrained,
        correction: Correction,
        prevalence: Tensor,
        cardinality: float,
    ) -> float:
        """Return the inverse temperature that annotated texts show, shrunk towards what is usual without them."""
        # Few texts cannot tell how sure to be; the probabilities without them were as sure as this.
        pairs, learned = self.data.pairs, correction.inverse_temperature
        tempered = usual * unsupervised.logits
        projection = self._project(
            tempered,
            prevalence,
            cardinality,
            self.self_training.competition,
            at_least_one=unsupervised.projection.at_least_one,
        )
        expected = _std_within_labels(projection(tempered, pairs), pairs)
        doubt = self.scarce.shrinkage_texts / (self.scarce.shrinkage_texts + len(correction.rows))
        ratio = expected / _std_within_labels(learned * correction.logits, pairs)
        return float(learned * ratio**doubt)

    def _thresholds(
        self, margins: Tensor, logits: Tensor, ceiling: Tensor, slope: float, correction: Correction | None
    ) -> Tensor:
        """Return `expected_thresholds`, or 0 where annotated texts that were held out clearly fare better so."""
        pairs, macro_weight = self.data.pairs, self.decisions.macro_weight
        if correction is None:
            return self.decisions.expected_thresholds(margins, logits, ceiling, slope, macro_weight, pairs)
        rows, truth = correction.distinct()
        # What few texts say of how sure to be is little to go by.
        macro_weight *= 1 + self.scarce.shrinkage_texts / max(len(rows), 1)
        thresholds = self.decisions.expected_thresholds(margins, logits, ceiling, slope, macro_weight, pairs)
        if not len(rows):
            return thresholds
        annotated = pairs.rows(rows)
        before, after = (
            decide(values, at_least_one=correction.at_least_one)
            for values in (margins[rows], margins[rows] - annotated.broadcast_to_pairs(thresholds))
        )
        is_worse = self.decisions.is_clearly_worse(after, before, truth, annotated)
        return torch.zeros_like(thresholds) if is_worse else thresholds

    def _project(
        self,
        logits: Tensor,
        prevalence: Tensor,
        cardinality: float,
        competition: float,
        ceiling: Tensor | None = None,
        *,
        at_least_one: bool,
    ) -> CollectiveProjection:
        return CollectiveProjection.fit(
            logits,
            prevalence,
            cardinality,
            competition,
            self.data.pairs,
            ceiling,
            self.self_training.projection,
            at_least_one=at_least_one,
        )


def _std_within_labels(logits: Tensor, pairs: Pairs) -> float:
    """Return the standard deviation of logits around their label's mean."""
    mean = pairs.sums(logits) / pairs.counts.clamp_min(1)
    return float((logits - pairs.broadcast_to_pairs(mean)).square().mean().sqrt().clamp_min(LEAST_STD))
