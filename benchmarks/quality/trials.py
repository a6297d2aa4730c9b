"""One trial with one seed: from a data set to metrics.

The same draw of annotated texts serves every method, except the recipe `reference`, which draws with replacement as its
authors do.
"""

import resource
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.quality.datasets import DataSet
from benchmarks.quality.plan import COSINE_QUANTILE, DEFAULT, ESTIMATED, SETFIT, Rough, Trial, group_of, grouped
from bncl_pyg.corpus import WORDS, RoughPriors, Supervision
from bncl_pyg.evaluation import Metrics, Reliability, evaluate, reliability
from bncl_pyg.evaluation.baselines import BASELINES, Evidence, prevalence_quantile
from bncl_pyg.features import Features
from bncl_pyg.graph import balanced_neighbourhoods
from bncl_pyg.nn import BNCL
from bncl_pyg.training import (
    DefaultRecipe,
    DefaultTrainer,
    EpochLog,
    Recipe,
    Setting,
    Start,
    Trainer,
    adapted_recipe,
    estimated_cardinality,
    supervise,
)

RESET_PEAK = Path("/proc/self/clear_refs")
_started: dict[tuple[Path, str], tuple[DefaultTrainer, Start, float, int]] = {}
"""Of the last data set and graph, what the default recipe learned before annotated texts, its seconds and megabytes."""


@dataclass(frozen=True)
class Outcome:
    """What a trial with one seed gave.

    Args:
        metrics: with the last epoch.
        best_on_test: for each metric its highest value over all epochs; what choosing the epoch on the test set, as the
            authors' code does, would have shown. Only for the recipe `reference`.
        seconds: from features and vectors to decisions.
        peak_megabytes: of the process, with the data set in memory.
        calibration: the probabilities beside the truth and the zero-shot start's; only for the recipe `default`.
    """

    metrics: Metrics
    best_on_test: Metrics | None
    seconds: float
    peak_megabytes: int
    calibration: dict[str, Reliability] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        rounded: dict[str, Any] = {"metrics": _rounded(self.metrics)}
        if self.best_on_test is not None:
            rounded["best_on_test"] = _rounded(self.best_on_test)
        if self.calibration is not None:
            rounded["calibration"] = {
                name: [
                    [int(pairs), round(float(said), 4), round(float(true), 4)]
                    for pairs, said, true in zip(*one, strict=True)
                ]
                for name, one in self.calibration.items()
            }
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
    if RESET_PEAK.exists():
        RESET_PEAK.write_text("5")
    began = time.perf_counter()
    probabilities = None
    seconds_before, megabytes_before = 0.0, 0
    if trial.method == DEFAULT:
        said, probabilities, seconds_before, megabytes_before = _default(trial, data, seed)
        decisions = [said]
    elif trial.method in BASELINES or trial.method in (COSINE_QUANTILE, SETFIT):
        decisions = [_decide(trial, data, seed)]
    else:
        decisions = _train(trial, data, seed, epochs)
    seconds = seconds_before + time.perf_counter() - began
    assert data.test.annotations is not None
    found = [evaluate(data.test.annotations, said) for said in decisions]
    best = Metrics(*(max(column) for column in zip(*found, strict=True))) if trial.method == "reference" else None
    calibration = None
    if probabilities is not None:
        start = data.scored[1].zero_shot_probabilities().numpy()
        calibration = {
            "model": reliability(data.test.annotations, probabilities),
            "zero-shot": reliability(data.test.annotations, start),
        }
    return Outcome(found[-1], best, seconds, max(megabytes_before, _peak_megabytes()), calibration)


def _load(trial: Trial, data: DataSet) -> list[Any]:
    """Read what the trial needs, so that its time is its own."""
    needed: list[Any] = [data.scored, data.encoder]
    if trial.vectors:
        needed.append(data.graph(trial.vectors, trial.percentiles, trial.hops))
    if trial.method == COSINE_QUANTILE:
        needed.append(data.cosines)
    return needed


def _decide(trial: Trial, data: DataSet, seed: int) -> NDArray[np.bool_]:
    if trial.method == COSINE_QUANTILE:
        return prevalence_quantile(data.cosines[1], data.cosines[0], data.priors.prevalence)
    train, test = data.scored
    annotated = None
    if trial.level != "0":
        # Drawn as for a recipe; κ and λ are not estimated from the draw, which may hold no label at all.
        drawn = _supervision(replace(trial, setting=Setting.DOMAIN_SUPERVISOR), data, seed)
        annotated = data.train.rows(drawn.annotated)
    priors = data.priors
    if trial.rough == "auto":
        priors = replace(priors, cardinality=estimated_cardinality(train))
    given = Evidence(train, test, priors, annotated, data.test.texts, data.encoder.encode, seed)
    if trial.method == SETFIT:
        from benchmarks.quality.setfit_baseline import decide

        return decide(given)
    return BASELINES[trial.method].decide(given)


def _default(trial: Trial, data: DataSet, seed: int) -> tuple[NDArray[np.bool_], NDArray[np.float32], float, int]:
    """Return decisions and probabilities of the default recipe on the test texts, and what earlier work to count.

    With exact prevalences, everything that comes before annotated texts is the same at every level and for every seed.
    It is learned once, and its seconds and megabytes are counted every time.
    """
    train, test = data.scored
    parts: dict[str, Any] = {"parts": tuple(part for part in DefaultRecipe().parts if part not in trial.without)}
    if "competition" in trial.without:
        parts["competition"] = 0.0
    recipe = replace(DefaultRecipe(), **parts)
    graph = data.graph(trial.vectors, trial.percentiles, trial.hops)
    start, seconds, megabytes = None, 0.0, 0
    usual = Trial(DEFAULT, trial.setting, trial.level, trial.vectors)
    if trial == usual and trial.setting != Setting.SCARCE_ANNOTATION:
        key = data.folder, trial.vectors
        if key not in _started:
            _started.clear()
            began = time.perf_counter()
            trainer = DefaultTrainer(train, graph, recipe)
            start = trainer.start(data.priors)
            _started[key] = trainer, start, time.perf_counter() - began, _peak_megabytes()
        else:
            trainer, start, seconds, megabytes = _started[key]
        trainer.seed = seed
    else:
        trainer = DefaultTrainer(train, graph, recipe, seed)
    estimated = trial.setting == Setting.SCARCE_ANNOTATION or trial.rough in ESTIMATED
    if trial.rough not in ESTIMATED:
        known = _supervision(trial, data, seed)
        if trial.rough:
            factors = np.random.default_rng(seed).choice([0.5, 2.0], len(data.labels))
            known = replace(data.priors, prevalence=np.minimum(data.priors.prevalence * factors, 1.0))
    else:
        known = trainer.settle(_roughly(trial.rough, data.priors))
    model = trainer.run(known, estimated=estimated, start=start)
    with torch.inference_mode():
        logits = model(test.entailment, test.contradiction, model.inputs(test.vectors, test.words, len(test)))
        return model.decide(logits).numpy(), model.probabilities(logits).numpy(), seconds, megabytes


def _roughly(rough: Rough, exact: Supervision) -> RoughPriors:
    """Return what somebody knows who knows the prevalences only roughly."""
    nothing = RoughPriors.nothing(len(exact.prevalence))
    if rough == "auto":
        return nothing
    words = group_of(exact.prevalence, len(WORDS)) if rough == "words" else nothing.words
    return replace(nothing, cardinality=exact.cardinality, words=words)


def _train(trial: Trial, data: DataSet, seed: int, epochs: int | None) -> list[NDArray[np.bool_]]:
    """Return the decisions on the test texts: of the last epoch, or of all epochs for the recipe `reference`."""
    train, test = data.scored
    recipe = _recipe(trial, epochs)
    graph = data.graph(trial.vectors, trial.percentiles, trial.hops)
    model = BNCL(balanced_neighbourhoods(graph, simple=recipe.simple_hops))
    trainer = Trainer(model, train, _supervision(trial, data, seed, recipe), recipe, seed)
    decisions: list[NDArray[np.bool_]] = []

    def look(entry: EpochLog) -> None:
        if trial.method == "reference" or entry.epoch == recipe.epochs:
            decisions.append(_predict(model, test, recipe))

    trainer.run(progress=look)
    return decisions


@torch.inference_mode()
def _predict(model: BNCL, features: Features, recipe: Recipe) -> NDArray[np.bool_]:
    decide = torch.ge if recipe.ties_count else torch.gt
    parts = zip(features.entailment.split(4096), features.contradiction.split(4096), strict=True)
    return torch.cat([decide(*model(*part)) for part in parts]).numpy()


def _recipe(trial: Trial, epochs: int | None) -> Recipe:
    recipe = adapted_recipe(trial.method, epochs=epochs)
    assert isinstance(recipe, Recipe)
    labels, texts, annotated = recipe.loss_weights
    weights = (0.0 if "L2" in trial.without else labels, 0.0 if "L3" in trial.without else texts, annotated)
    return replace(recipe, loss_weights=weights, annotation="literal" if trial.literal else recipe.annotation)


def _supervision(trial: Trial, data: DataSet, seed: int, recipe: Recipe | None = None) -> Supervision:
    setting = Setting(trial.setting)
    priors = data.priors
    if trial.groups:
        priors = replace(priors, prevalence=grouped(priors.prevalence, trial.groups))
    count = trial.annotations(len(data.train), len(data.labels))
    return supervise(
        setting,
        data.scored[0],
        None if setting is Setting.SCARCE_ANNOTATION else priors,
        data.train if count else None,
        count or None,
        seed,
        replacement=recipe is not None and recipe.replacement,
    )


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
