"""One trial with one seed: from a data set to metrics.

Recipes are tried through `BNCLClassifier`, as a user has them: the figures are those of the public class. The
same draw of annotated texts serves every method, except the recipe `reference`, which draws with replacement as its
authors do.

A trial is a whole training: nothing is carried from one seed to the next, also where only the annotated texts differ.
One of the recipe `reference` is trained twice, see `_best_on_test`.
"""

import resource
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.quality.datasets import DataSet
from benchmarks.quality.plan import (
    COSINE_QUANTILE,
    DEFAULT,
    PAPERS,
    RECIPES,
    SETFIT,
    Trial,
    group_of,
    grouped,
)
from benchmarks.quality.vectors import RememberingEncoder
from benchmarks.stores import STRONG
from bncl_pyg.estimator import BNCLClassifier
from bncl_pyg.evaluation import Metrics, Reliability, evaluate, reliability
from bncl_pyg.evaluation.baselines import BASELINES, Evidence, prevalence_quantile
from bncl_pyg.features import Features
from bncl_pyg.graph import SignedLabelGraph
from bncl_pyg.priors import WORDS, Priors
from bncl_pyg.training import (
    REFERENCE,
    Annotated,
    DefaultRecipe,
    PaperRecipe,
    Recipe,
    Setting,
    Trainer,
    TrainingStep,
    draw,
    estimate_cardinality,
    find_recipe,
)

RESET_PEAK = Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Outcome:
    """What a trial with one seed gave.

    Args:
        metrics: of the trained model.
        best_on_test: for each metric its highest value over all epochs; what choosing the epoch on the test set, as the
            authors' code does, would have shown. Only for the recipe `reference`.
        seconds: from features and vectors to decisions, once.
        peak_megabytes: of the process, with the data set in memory.
        calibration: the probabilities beside the truth and the zero-shot ones; only for the recipe `default`.
        percentiles: of the label graph, where the recipe said which.
    """

    metrics: Metrics
    best_on_test: Metrics | None
    seconds: float
    peak_megabytes: int
    calibration: dict[str, Reliability] | None = None
    percentiles: list[float] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        rounded: dict[str, Any] = {"metrics": _rounded(self.metrics)}
        if self.best_on_test is not None:
            rounded["best_on_test"] = _rounded(self.best_on_test)
        if self.calibration is not None:
            rounded["calibration"] = {
                name: [
                    [int(pairs), round(float(mean), 4), round(float(true), 4)]
                    for pairs, mean, true in zip(*one, strict=True)
                ]
                for name, one in self.calibration.items()
            }
        if self.percentiles is not None:
            rounded["percentiles"] = self.percentiles
        return {**rounded, "seconds": round(self.seconds, 2), "peak_megabytes": self.peak_megabytes}


def perform(trial: Trial, data: DataSet, seed: int, epochs: int | None = None) -> Outcome:
    """Run a trial.

    Args:
        trial: what to do.
        data: on what.
        seed: of the draw, the weights and the batches.
        epochs: instead of the recipe's own; for a quick look only.
    """
    _load(trial, data)
    truth = data.test.annotations
    assert truth is not None
    if RESET_PEAK.exists():
        RESET_PEAK.write_text("5")
    began = time.perf_counter()
    best = calibration = None
    if trial.method in RECIPES:
        training = Training.of(trial, data, seed, epochs)
        classifier = training.fit(data.scored_by(trial.scorer)[0])
        predicted = classifier.predictions(data.scored_by(trial.scorer)[1])
        decisions = predicted.indicator()
    else:
        decisions = _decide(trial, data, seed)
    seconds, megabytes = time.perf_counter() - began, _peak_megabytes()
    if trial.method == DEFAULT:
        zero_shot = data.scored_by(trial.scorer)[1].zero_shot_probabilities().numpy()
        probabilities = predicted.probability_matrix()
        calibration = {"model": reliability(truth, probabilities), "zero-shot": reliability(truth, zero_shot)}
    if trial.method == REFERENCE.name:
        best = _best_on_test(training, paper_recipe(trial, epochs), classifier.graph_, data)
    percentiles = None
    if trial.method in PAPERS and not trial.percentiles:
        percentiles = classifier.graph_.provenance["percentiles"]
    return Outcome(evaluate(truth, decisions), best, seconds, megabytes, calibration, percentiles)


def _load(trial: Trial, data: DataSet) -> list[Any]:
    """Read what the trial needs, so that its time is its own."""
    needed: list[Any] = [data.scored_by(trial.scorer)]
    if trial.method not in RECIPES:
        needed.append(_encoder(trial, data))
    if trial.vectors:
        needed.append(data.graph(trial.vectors, trial.percentiles, trial.hops))
    if trial.method == COSINE_QUANTILE:
        needed.append(data.cosines)
    return needed


def _encoder(trial: Trial, data: DataSet) -> RememberingEncoder:
    """Return what a baseline has vectors of texts from: the encoders of the trial's scorer."""
    return data.strong_encoder if trial.scorer == STRONG else data.encoder


def _decide(trial: Trial, data: DataSet, seed: int) -> NDArray[np.bool_]:
    """Return a baseline's decisions on the test texts; boolean, (texts, labels)."""
    if trial.method == COSINE_QUANTILE:
        return prevalence_quantile(data.cosines[1], data.cosines[0], data.priors.shares)
    train, test = data.scored_by(trial.scorer)
    count = trial.annotations(len(data.train), len(data.labels))
    annotated = data.train.rows(draw(len(data.train), count, seed)) if count else None
    priors = data.priors
    if trial.rough == "auto":
        priors = replace(priors, cardinality=estimate_cardinality(train))
    given = Evidence(train, test, priors, annotated, data.test.texts, _encoder(trial, data).encode, seed)
    if trial.method == SETFIT:
        from benchmarks.quality.setfit_baseline import decide

        return decide(given)
    return BASELINES[trial.method].decide(given)


@dataclass(frozen=True)
class Training:
    """What a recipe gets in a trial.

    Args:
        recipe: without what the trial leaves out.
        setting: which signals it sees.
        graph: the label graph.
        priors: what is known of κ and λ; `None` where the setting gives nothing.
        annotated: annotated texts, if there are any.
        seed: of the weights and the batches; the draw is done.
    """

    recipe: Recipe
    setting: str
    graph: SignedLabelGraph
    priors: Priors | None
    annotated: Annotated | None
    seed: int

    @classmethod
    def of(cls, trial: Trial, data: DataSet, seed: int, epochs: int | None = None) -> "Training":
        """Return what the recipe of a trial gets; see `perform`."""
        recipe: Recipe = default_recipe(trial) if trial.method == DEFAULT else paper_recipe(trial, epochs)
        annotated = None
        texts = len(data.train)
        count = trial.annotations(texts, len(data.labels))
        if count:
            assert data.train.annotations is not None
            everything = Annotated(np.arange(texts), data.train.annotations)
            annotated = everything.drawn(recipe.draw(texts, count, seed))
        priors = None if trial.setting == Setting.SCARCE_ANNOTATION else known_priors(trial, data.priors, seed)
        graph = data.graph(trial.vectors, trial.percentiles, trial.hops)
        return cls(recipe, trial.setting, graph, priors, annotated, seed)

    def fit(self, train: Features) -> BNCLClassifier:
        """Train on the training texts."""
        classifier = BNCLClassifier(
            prevalence=self.priors, recipe=self.recipe, setting=self.setting, graph=self.graph, seed=self.seed
        )
        return classifier.fit(train, self.annotated)


def default_recipe(trial: Trial) -> DefaultRecipe:
    """Return the default recipe without the parts that a trial leaves out."""
    usual = DefaultRecipe().self_training
    parts = tuple(part for part in usual.parts if part not in trial.without)
    competition = 0.0 if "competition" in trial.without else usual.competition
    return DefaultRecipe(self_training=replace(usual, parts=parts, competition=competition))


def paper_recipe(trial: Trial, epochs: int | None = None) -> PaperRecipe:
    """Return a recipe of the paper without the losses that a trial leaves out, and with its other choices."""
    recipe = find_recipe(trial.method)
    assert isinstance(recipe, PaperRecipe)
    if epochs is not None:
        recipe = recipe.adapted(epochs=epochs)
    prevalence, cardinality, annotation = recipe.loss_weights
    weights = (0.0 if "L2" in trial.without else prevalence, 0.0 if "L3" in trial.without else cardinality, annotation)
    return replace(
        recipe,
        loss_weights=weights,
        annotation="literal" if trial.literal else recipe.annotation,
        start="as scored" if trial.start else recipe.start,
        decay=trial.decay or recipe.decay,
    )


def known_priors(trial: Trial, exact: Priors, seed: int) -> Priors:
    """Return what is known of κ and λ in a trial, given the exact numbers."""
    labels, cardinality = len(exact), exact.cardinality
    assert cardinality is not None
    if trial.rough == "auto":
        return Priors.nothing(labels)
    if trial.rough == "only κ":
        return Priors(cardinality, (None,) * labels)
    if trial.rough == "words":
        return Priors(cardinality, tuple(WORDS[group] for group in group_of(exact.shares, len(WORDS))))
    if trial.rough == "factor 2":
        factors = np.random.default_rng(seed).choice([0.5, 2.0], labels)
        return Priors.exact(cardinality, np.minimum(exact.shares * factors, 1.0))
    return Priors.exact(cardinality, grouped(exact.shares, trial.groups)) if trial.groups else exact


def _best_on_test(training: Training, recipe: PaperRecipe, graph: SignedLabelGraph, data: DataSet) -> Metrics:
    """Return each metric's highest value over the epochs, which nobody without test labels could choose.

    The classifier predicts after the last epoch only. The same training is repeated here and looked at after each; it
    is not timed.
    """
    (train, test), truth = data.scored, data.test.annotations
    assert truth is not None
    priors = training.priors
    if priors is None:
        assert training.annotated is not None
        priors = Priors.from_annotations(training.annotated.labels)
    trainer = Trainer(recipe.network(graph), train, priors, training.annotated, recipe, training.seed)
    model = recipe.model(trainer, train, priors)
    epochs: list[Metrics] = []

    def look(_: TrainingStep) -> None:
        epochs.append(evaluate(truth, model.predict(test).indicator()))

    trainer.run(progress=look)
    return Metrics(*(max(column) for column in zip(*epochs, strict=True)))


def _rounded(metrics: Metrics) -> list[float]:
    return [round(value, 6) for value in metrics]


def _peak_megabytes() -> int:
    """Return the highest memory since the trial began where Linux tells it, else since the process began."""
    if RESET_PEAK.exists():
        lines = Path("/proc/self/status").read_text().splitlines()
        line = next(line for line in lines if line.startswith("VmHWM"))
        return int(line.split()[1]) // 1024
    unit = 1024**2 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // unit
