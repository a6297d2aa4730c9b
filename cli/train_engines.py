"""What does the work of `bncl train`: this process, several, or a cluster; and what is said of it."""

import os
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from .terminal import echo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bncl_pyg.distributed import RayOptions, TrainingJob
    from bncl_pyg.estimator import BNCLClassifier
    from bncl_pyg.priors import Priors

NOT_FOR_RANKS = ("engine", "processes", "address", "workers")
OTHER_FLAGS = {"identifier": "--id"}


def train_alone(job: "TrainingJob", json: Path | None) -> None:
    """Train in this process."""
    from .show import training_bar

    with _stoppable(job), training_bar() as progress:
        classifier = job.run(progress=progress)
    _tell(job, classifier, json, {})


def train_as_one_of_many(job: "TrainingJob", json: Path | None, timeout: float | None = None) -> None:
    """Train as one of the processes that torchrun started; the first one speaks for all."""
    from bncl_pyg.distributed import LEFT_ALONE, tell_missing
    from bncl_pyg.ranks import TIMEOUT, LostRankError, process_group

    from . import show

    if os.environ["RANK"] != "0":
        show.be_silent()
    try:
        with _stoppable(job), process_group(timeout or TIMEOUT) as ranks, show.training_bar() as progress:
            classifier = job.run(ranks, progress)
    except LostRankError as error:
        # Whoever started the processes says which was lost.
        tell_missing(error.ranks)
        if LEFT_ALONE not in os.environ:
            echo(f"Error: {error} The same command {job.sequel}.", err=True)
        raise typer.Exit(int(os.environ.get(LEFT_ALONE, "1"))) from None
    if not ranks.rank:
        traffic = ranks.traffic
        figures = {"processes": ranks.size, "communication": traffic.figures(), "bytes": traffic.total}
        _tell(job, classifier, json, {**figures, "seconds_of_communication": traffic.seconds})


def train_by_torchrun(job: "TrainingJob", given: Mapping[str, Any], processes: int | None) -> None:
    """Start processes on this machine with the same options, and say which was lost, if one is.

    Args:
        job: what they train.
        given: the options of the command by name.
        processes: how many.
    """
    from torch.distributed.elastic.multiprocessing import SignalException

    from bncl_pyg.distributed import LaunchError, launch

    try:
        could_use_input = launch("bncl_pyg", _words(given), processes or os.cpu_count() or 1)
    except LaunchError as error:
        echo(f"Error: {error}: the same command {job.sequel}.", err=True)
        raise typer.Exit(1) from None
    except (SignalException, KeyboardInterrupt):
        echo(f"Stopped; the same command {job.sequel}.", err=True)
        raise typer.Exit(130) from None
    if not could_use_input:
        raise typer.Exit(2)


def train_by_ray(job: "TrainingJob", options: "RayOptions", json: Path | None) -> None:
    """Train by the workers of a cluster."""
    from bncl_pyg.distributed import train_on_ray

    with _stoppable(job):
        classifier, figures = train_on_ray(job, options)
    _tell(job, classifier, json, figures)


def _words(given: Mapping[str, Any]) -> list[str]:
    """Return the words with which a process is given the same options."""
    from .show import err

    words = [*(["--quiet"] if err.quiet else []), "train", str(given["features"]), "--engine", "rank"]
    for name, value in given.items():
        if name in NOT_FOR_RANKS or name == "features" or value is None or value is False:
            continue
        flag = OTHER_FLAGS.get(name, f"--{name.replace('_', '-')}")
        words += [flag] if value is True else [flag, str(value)]
    return [*words, "--or-none"] if given["at_least_one"] is False else words


@contextmanager
def _stoppable(job: "TrainingJob") -> "Iterator[None]":
    """Say how to go on when training is stopped, or cannot go on."""
    from bncl_pyg.errors import InputError

    from .show import is_silent

    try:
        yield
    except InputError as error:
        if job.checkpoint.name in str(error):
            raise InputError(f"{error} With --fresh, it is removed.") from None
        raise
    except KeyboardInterrupt:
        if not is_silent():
            echo(f"Stopped; the same command {job.sequel}.", err=True)
        raise typer.Exit(130) from None


def _tell(job: "TrainingJob", classifier: "BNCLClassifier", json: Path | None, more: dict[str, Any]) -> None:
    """Say what was trained, and write the figures."""
    from .outputs import write_figures
    from .show import say

    count, last, names = len(classifier.annotated_), classifier.log_[-1], classifier.labels_.names
    texts = f"{classifier.n_texts_} texts" + (f", {count} of them annotated" if count else "")
    loss = f", {last.number} epochs, last loss {last.figures['loss']:.4g}" if "loss" in last.figures else ""
    priors = classifier.priors_
    write_figures(
        json,
        {
            "model": str(job.out),
            "setting": str(classifier.setting_),
            "recipe": job.recipe.name,
            "texts": classifier.n_texts_,
            "annotated": count,
            "cardinality": priors.cardinality,
            "prevalence": dict(zip(names, priors.shares.tolist(), strict=True)),
            **last.figures,
            **more,
        },
    )
    say(f"{job.out}: trained {classifier.setting_} on {texts}, recipe {job.recipe.name}{loss}.")
    if "communication" in more:
        say(f"{more['processes']} processes, each of which sent {_sent(more, last.figures)}.")
    if tried := [step for step in classifier.log_ if step.what.startswith("graph ")]:
        figures = "; ".join(
            f"{step.what.removeprefix('graph ')}: {name} {value:.4g}"
            for step in tried
            for name, value in step.figures.items()
        )
        low, high = classifier.graph_.provenance["percentiles"]
        say(f"Chosen for the label graph: percentiles {low:g}/{high:g} (on held-out texts {figures}).")
    if job.priors is None or not job.priors.is_exact:
        say(f"Estimated: {_estimated(priors, names)}.")


def _sent(figures: Mapping[str, Any], last: Mapping[str, float]) -> str:
    """Say how much a process sent, a step where there are steps, else a sum over labels."""
    whole = f"{figures['bytes'] / 1e6:.3g} MB"
    if "bytes_a_step" in last:
        return f"{whole}, {last['bytes_a_step'] / 1e3:.3g} kB a step"
    sums = figures["communication"].get("label sums")
    return whole if sums is None else f"{whole}, {sums['bytes_a_call']:.3g} bytes for a sum over labels"


def _estimated(known: "Priors", names: tuple[str, ...]) -> str:
    """Say what was estimated: the cardinality and the most common labels."""
    most = (-known.shares).argsort(kind="stable")[:3]
    labels = ", ".join(f"{names[place]} {known.shares[place]:.2g}" for place in most)
    return f"{known.cardinality:.3g} labels a text; most common: {labels}"
