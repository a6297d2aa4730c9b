"""Calibration, how sure to be: from logits to probabilities and to decisions, both of which meet κ and λ."""

from dataclasses import dataclass

import torch
from torch import Tensor

from bncl_pyg.features import Pairs
from bncl_pyg.nn import CollectiveModel, CollectiveProjection
from bncl_pyg.priors import Priors
from bncl_pyg.training.correction import MAX_LOGIT, Correction, root_mean_square
from bncl_pyg.training.decisions import Decisions, match_prediction_count
from bncl_pyg.training.default_model import DefaultModel
from bncl_pyg.training.self_training import Prepared, SelfTrained, SelfTraining

LEAST_STD = 1e-3
"""A tolerance: the least standard deviation of logits that is divided by."""


@dataclass(frozen=True)
class Calibration:
    """The temperature of probabilities.

    Args:
        logit_std: the standard deviation, around their label's mean, that the logits of probabilities have where no
            text is annotated.
    """

    logit_std: float = 1.25

    def slope(self, unsupervised: SelfTrained, pairs: Pairs) -> float:
        """Return what logits without annotated texts are multiplied with to become those of probabilities."""
        return self.logit_std / std_within_labels(unsupervised.projection(unsupervised.logits, pairs), pairs)


@dataclass(frozen=True)
class CalibratedFit:
    """The last step of the default recipe.

    Args:
        data: the training texts.
        self_training: whose slope and competition are used.
        calibration: its number.
        decisions: its number, if decisions aim at F1; `None` where they are to be as common as λ says.
    """

    data: Prepared
    self_training: SelfTraining
    calibration: Calibration
    decisions: Decisions | None

    def fit(
        self,
        known: Priors,
        unsupervised: SelfTrained,
        correction: Correction | None,
        every_text_has_one: bool | None = None,
    ) -> DefaultModel:
        """Calibrate probabilities and decisions.

        Args:
            known: κ and λ that predictions are to meet.
            unsupervised: what was learned without annotated texts.
            correction: what was learned from them, if there are any.
            every_text_has_one: whether every text has a label; where nobody says so, annotated texts do, else a κ of
                at least 1.
        """
        pairs, tensors = self.data.pairs, unsupervised.tensors
        prevalence = torch.from_numpy(known.shares).float()
        if correction is None:
            at_least_one = bool((known.cardinality or 0) >= 1) if every_text_has_one is None else every_text_has_one
            logits, competition, sharpness = unsupervised.logits, self.self_training.competition, 1.0
            beta = self.calibration.slope(unsupervised, pairs)
        else:
            # What annotated texts teach of the competition among a text's labels is in the logits.
            at_least_one = correction.at_least_one if every_text_has_one is None else every_text_has_one
            logits, competition, sharpness = correction.logits, 0.0, self.self_training.slope
            beta, tensors = correction.inverse_temperature, {**tensors, **correction.tensors()}

        def project(scaled: Tensor) -> CollectiveProjection:
            assert known.cardinality is not None
            return CollectiveProjection.fit(
                scaled,
                prevalence,
                known.cardinality,
                competition,
                pairs,
                at_least_one=unsupervised.projection.at_least_one,
            )

        calibration, decision, sharp = project(beta * logits), project(sharpness * logits), sharpness * logits
        if correction is not None:
            decision = match_prediction_count(decision, sharp, prevalence, pairs, at_least_one=at_least_one)
        thresholds = torch.zeros(len(prevalence))
        if self.decisions is not None:
            margins, tempered = decision(sharp, pairs), calibration(beta * logits, pairs)
            thresholds = self.decisions.expected_thresholds(margins, tempered, beta / sharpness, pairs)
        network = CollectiveModel(
            self.data.standardizer,
            tensors={**tensors, "thresholds": thresholds},
            projections={"unsupervised": unsupervised.projection, "calibration": calibration, "decision": decision},
            inverse_temperature=beta,
            decision_inverse_temperature=sharpness,
            max_logit=MAX_LOGIT,
            at_least_one=at_least_one,
        )
        return DefaultModel(self.data.text_inputs, network, known, self.data.features.entailment.shape[1]).eval()


def std_within_labels(logits: Tensor, pairs: Pairs) -> float:
    """Return the standard deviation of logits around their label's mean."""
    mean = pairs.sums(logits) / pairs.counts.clamp_min(1)
    return max(root_mean_square(logits - pairs.broadcast_to_pairs(mean), pairs), LEAST_STD)
