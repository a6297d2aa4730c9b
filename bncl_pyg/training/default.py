"""The default recipe: rival full supervision without annotated texts, and never lose to them where they are.

0. `sampling.py`: where there are very many texts, some of them.
1. `self_training.py`: z-scores, the collective projection, the text, the label graph; no annotated text is needed.
2. `estimation.py`, `prevalence.py`: κ and λ where they are not known in numbers, from unlabelled and annotated texts.
3. `correction.py`: what annotated texts teach.
4. `calibration.py`: how sure to be; `decisions.py`: which labels to give.

No step looks at anything but what the setting allows; docs/default-recipe.md has the objective and the ten numbers.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bncl_pyg.errors import InputError
from bncl_pyg.features import Features
from bncl_pyg.graph import LazyGraph
from bncl_pyg.priors import Priors
from bncl_pyg.training.annotated import Annotated, draw
from bncl_pyg.training.calibration import CalibratedFit, Calibration
from bncl_pyg.training.config import to_config
from bncl_pyg.training.correction import Correction, CorrectionFit
from bncl_pyg.training.decisions import Decisions
from bncl_pyg.training.default_model import DefaultModel
from bncl_pyg.training.estimation import PriorEstimation
from bncl_pyg.training.prevalence import (
    LEAST_CARDINALITY,
    Shares,
    estimate_cardinality,
    guess_error,
    posterior_prevalence,
    rescale_to_sum,
)
from bncl_pyg.training.recipe import Progress, TrainingStep
from bncl_pyg.training.sampling import sampled
from bncl_pyg.training.self_training import Prepared, SelfTrained, SelfTraining

if TYPE_CHECKING:
    from bncl_pyg.graph import SignedLabelGraph

log = logging.getLogger(__name__)

Aim = Literal["f1", "prevalence"]
"""What decisions aim at: a high F1, or that each label is given about as often as λ says."""
ROUNDS = 2
"""How often λ is estimated from annotated texts: from their counts, then from what a model says of all texts."""


@dataclass(frozen=True)
class DefaultRecipe:
    """The ten numbers of the default recipe, by the step that they belong to.

    Args:
        name: what it is called.
        aim: what decisions aim at: `f1`, or `prevalence`, that each label is given about as often as λ says.
        self_training: what needs no annotated text.
        estimation: of κ and λ where they are not known.
        calibration: of probabilities.
        decisions: which labels to give.

    Example::

        model = DefaultRecipe().fit(features, graph, Priors.exact(1.2, prevalence))
        model.predict(features).indicator()
    """

    name: str = "default"
    aim: Aim = "f1"
    self_training: SelfTraining = field(default_factory=SelfTraining)
    estimation: PriorEstimation = field(default_factory=PriorEstimation)
    calibration: Calibration = field(default_factory=Calibration)
    decisions: Decisions = field(default_factory=Decisions)

    def __post_init__(self) -> None:
        if self.aim not in get_args(Aim):
            raise InputError(f"aim must be one of {', '.join(get_args(Aim))}, but is '{self.aim}'.")

    @property
    def resumes(self) -> bool:
        """It has no epochs, and needs no checkpoint."""
        return False

    def fit(
        self,
        features: Features,
        graph: "SignedLabelGraph",
        priors: Priors | None,
        annotated: Annotated | None = None,
        *,
        seed: int = 0,
        progress: Progress | None = None,
        checkpoint: Path | None = None,  # noqa: ARG002 (part of `Recipe`)
    ) -> DefaultModel:
        """Train; see `Recipe`. The same inputs and seed give the same model."""
        features, annotated = sampled(features, annotated, seed)
        data = self.self_training.prepare(features, graph)
        if features.vectors is None and features.words is None:
            log.warning(
                "These features hold neither vectors nor words of the texts: only the scores are learned from. "
                "Featurizing the texts again adds them."
            )
        training = _Training(self, data, seed, progress, None if priors is None else priors.at_least_one)
        is_exact = priors is not None and priors.is_exact
        if annotated is None:
            if priors is None:
                raise InputError("Without annotated texts, training needs priors, if only `Priors.nothing`.")
            return training.without_annotated(priors)
        if is_exact:
            assert priors is not None
            return training.with_known_prevalence(priors, annotated)
        return training.with_estimated_prevalence(priors, annotated)

    def load(
        self,
        tensors: Mapping[str, Tensor],
        config: Mapping[str, Any],
        graph: LazyGraph,  # noqa: ARG002 (part of `Recipe`: it was needed to train, not to predict)
        priors: Priors,
    ) -> DefaultModel:
        """Make a saved model again; see `Recipe`."""
        return DefaultModel.load(tensors, config, priors)

    def draw(self, texts: int, count: int, seed: int) -> NDArray[np.int64]:
        """Draw annotated texts without replacement; see `Recipe`."""
        return draw(texts, count, seed)

    def adapted(self, **options: Any) -> "DefaultRecipe":
        """Return the recipe with another aim; there is no other option."""
        for name in options:
            if name != "aim":
                raise InputError(f"The recipe {self.name} has no {name}; paper, paper-literal and reference have.")
        return replace(self, **options)

    def config(self) -> dict[str, Any]:
        """Return every number; see `Recipe`."""
        numbers: dict[str, Any] = to_config(self)
        return numbers


class _Training:
    """One training by the default recipe."""

    def __init__(
        self, recipe: DefaultRecipe, data: Prepared, seed: int, progress: Progress | None, at_least_one: bool | None
    ) -> None:
        self.recipe, self.data, self.seed, self.progress = recipe, data, seed, progress
        self.at_least_one = at_least_one
        self.step, self.steps = 0, 1

    def without_annotated(self, priors: Priors) -> DefaultModel:
        """Train on κ and λ alone; those that are not known are estimated first."""
        known = priors
        if not priors.is_exact:
            self.steps = 2
            known = self._resolve(priors)
        prevalence, cardinality = _rescaled_to_cardinality(known)
        unsupervised = self._self_train(torch.from_numpy(prevalence).float(), cardinality)
        return self._finished(Priors.exact(cardinality, prevalence), unsupervised, None)

    def with_known_prevalence(self, priors: Priors, annotated: Annotated) -> DefaultModel:
        """Train on κ, λ and annotated texts."""
        self.steps = 2
        prevalence, cardinality = _rescaled_to_cardinality(priors)
        unsupervised = self._self_train(torch.from_numpy(prevalence).float(), cardinality)
        correction = self._correct(unsupervised, annotated)
        return self._finished(Priors.exact(cardinality, prevalence), unsupervised, correction)

    def with_estimated_prevalence(self, priors: Priors | None, annotated: Annotated) -> DefaultModel:
        """Train on annotated texts and what is roughly known of κ and λ, or nothing; λ is estimated round by round."""
        self.steps, given = 5, None
        if priors is not None and priors.knows_labels:
            self.steps = 6
            given = self._resolve(priors).shares
        cardinality = self._cardinality(priors, annotated)
        guess = self.recipe.estimation.unknown_prevalence(self.data.features, cardinality) if given is None else given
        counts, texts = _counts(annotated), annotated.known_counts.astype(np.float64)
        error = guess_error(counts, texts, guess)

        def estimate(counts: Shares, texts: Shares) -> Tensor:
            shares = rescale_to_sum(posterior_prevalence(counts, texts, guess, error), cardinality, most=1.0)
            return torch.from_numpy(shares).float()

        prevalence = estimate(counts, texts)
        self._tell("estimating how common the labels are", {"cardinality": cardinality, "error": error})
        for _ in range(ROUNDS):
            unsupervised = self._self_train(prevalence, cardinality)
            correction = self._correct(unsupervised, annotated)
            # What the model says of all texts is a better estimate than what few annotated texts could show.
            every = np.full(len(counts), float(self.data.pairs.texts))
            prevalence = estimate(every * _shares_of_all(self.data, correction, annotated), every)
        known = Priors.exact(cardinality, prevalence.double().numpy())
        return self._finished(known, unsupervised, correction)

    def _cardinality(self, priors: Priors | None, annotated: Annotated) -> float:
        """Return κ as it is known, or as annotated texts have it."""
        if priors is not None and priors.cardinality is not None:
            return priors.cardinality
        if priors is None and not annotated.labels.nnz:
            raise InputError("None of the annotated texts has a label, so that no cardinality can be estimated.")
        counts = annotated.labels_a_text()
        if not len(counts):
            # Of no text everything is known: what is known of parts says nothing of how many labels there are.
            return estimate_cardinality(self.data.features, at_least_one=self.at_least_one)
        return float(max(counts.mean(), LEAST_CARDINALITY))

    def _resolve(self, priors: Priors) -> Priors:
        resolved = self.recipe.estimation.resolve(self.data, priors, self.recipe.self_training)
        assert resolved.cardinality is not None
        self._tell("estimating what is not known of the labels", {"cardinality": resolved.cardinality})
        return resolved

    def _self_train(self, prevalence: Tensor, cardinality: float) -> SelfTrained:
        learned = self.recipe.self_training.fit(self.data, prevalence, cardinality, at_least_one=self.at_least_one)
        figures = {"labels_changed_a_text": learned.change}
        self._tell("self-training on scores, text and label graph", figures)
        return learned

    def _correct(self, unsupervised: SelfTrained, annotated: Annotated) -> Correction:
        recipe = self.recipe
        slope = recipe.calibration.slope(unsupervised, self.data.pairs)
        # A label's line may be off by what a standard deviation of its score is worth.
        correction = CorrectionFit(recipe.self_training.slope, slope)
        learned = correction.fit(self.data, unsupervised, annotated, self.seed)
        figures = {"C": learned.C, "median_slope": float(learned.regression.slopes.median())}
        self._tell("learning from annotated texts", figures)
        return learned

    def _finished(self, known: Priors, unsupervised: SelfTrained, correction: Correction | None) -> DefaultModel:
        """Calibrate probabilities and decisions; see `CalibratedFit`."""
        recipe = self.recipe
        decisions = recipe.decisions if recipe.aim == "f1" else None
        last = CalibratedFit(self.data, recipe.self_training, recipe.calibration, decisions)
        return last.fit(known, unsupervised, correction, self.at_least_one)

    def _tell(self, what: str, figures: dict[str, float]) -> None:
        self.step += 1
        if self.progress is not None:
            self.progress(TrainingStep(self.step, self.steps, what, figures))


def _rescaled_to_cardinality(known: Priors) -> tuple[NDArray[np.float64], float]:
    """Return λ that adds up to κ, and κ: where they disagree, the one number is more likely right than the many."""
    assert known.cardinality is not None
    return rescale_to_sum(known.shares, known.cardinality, most=1.0), known.cardinality


def _counts(annotated: Annotated) -> Shares:
    """Return how many annotated texts have each label; (labels,)."""
    return np.asarray(annotated.labels.sum(axis=0), dtype=np.float64)


def _shares_of_all(data: Prepared, correction: Correction, annotated: Annotated) -> Shares:
    """Return the share of all texts that has each label, known or as the corrected logits have it; (labels,)."""
    probabilities = torch.sigmoid(correction.logits)
    # Of candidates alone, annotated texts have labels that are no pairs: they are counted beside the others.
    unknown = 0.0 if correction.known is None else 1 - correction.known
    probabilities[correction.rows] = probabilities[correction.rows] * unknown
    shares = (data.pairs.sums(probabilities).double().numpy() + _counts(annotated)) / data.pairs.texts
    return np.asarray(shares, dtype=np.float64)
