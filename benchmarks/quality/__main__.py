"""The paper's tables and the baselines, on real data, in one command.

    BNCL_DATA=folder python -m benchmarks.quality --datasets reuters21578 --seeds 10
    BNCL_DATA=folder python -m benchmarks.quality --features benchmarks/.cache/scorers --methods paper,reference
    BNCL_DATA=folder python -m benchmarks.quality --features benchmarks/.cache/scorers --methods paper --main-rows

The folder holds a folder for each data set, with `labels.jsonl`, `train.jsonl` and `test.jsonl`, and, for the graph of
the paper, GloVe's word vectors. With `--features`, texts are not scored but read from the feature stores that
`benchmarks.scorers` keeps; those of the scorer `strong` serve `light`, too. A run that is stopped goes on when the same
command is given again: what the folder of results holds already is not measured again. No choice is made on test data.
"""

import importlib.util
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.quality.datasets import DataSet
from benchmarks.quality.pages import Outcomes, as_markdown, calibrated, summary_page
from benchmarks.quality.plan import FREE, LEVELS, RECIPES, SCARCE, SETFIT, SUPERVISED, Trial, all_trials, is_main
from benchmarks.quality.plots import plot_levels, plot_reliability
from benchmarks.quality.records import Records
from benchmarks.quality.workers import measured
from benchmarks.results import FOLDER
from bncl_pyg.errors import InputError
from bncl_pyg.persistence import folder_lock, read_json, write_bytes

DATASETS = ("reuters21578", "stackex-cooking", "goemotions", "debtags")


def main(
    data: Annotated[Path, typer.Option(envvar="BNCL_DATA", help="The folder with the data sets.")],
    datasets: Annotated[str, typer.Option(help="Which of them, with commas between.")] = ",".join(DATASETS),
    seeds: Annotated[
        int, typer.Option(min=1, help="At most; the paper's recipes have 3 where a training takes longer than seconds.")
    ] = 10,
    out: Annotated[Path, typer.Option(help="The folder for JSON, Markdown and plots.")] = FOLDER,
    cache: Annotated[Path, typer.Option(help="Where vectors and scores are kept.")] = Path("benchmarks/.cache"),
    features: Annotated[
        Path | None,
        typer.Option(
            envvar="BNCL_FEATURES", help="A folder with feature stores, NAME-train and NAME-test, to read instead."
        ),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Trials at once, a core each.")] = os.cpu_count() or 1,
    methods: Annotated[
        str | None,
        typer.Option(help="Measure only these, with commas between; if not given, all but SetFit, which is slow."),
    ] = None,
    main_rows: Annotated[
        bool, typer.Option("--main-rows", help="Measure only each method with its own choices, at the main levels.")
    ] = False,
    levels: Annotated[
        str | None,
        typer.Option(help=f"Measure only with so many annotated texts, with commas between: 0, {SCARCE} (labels), 5%."),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Fewer than the recipes', for a quick look only.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Begin no trial of a data set later than this.")] = None,
) -> None:
    """Measure what is missing and write the pages."""
    chosen, at_levels = _methods(methods), _levels(levels)
    sets = [DataSet(data / name, cache, typer.echo, features) for name in datasets.split(",")]
    for dataset in sets:
        with _alone(cache, dataset.name):
            dataset.prepare()
            records = Records(out / f"quality-{dataset.name}.json", dataset.about, epochs)
            plan = [
                trial
                for trial in all_trials(dataset.default_vectors, strong=dataset.has_strong)
                if trial.method in chosen
                and trial.level in at_levels
                and (not main_rows or is_main(trial, dataset.default_vectors))
            ]
            _measure(dataset, records, list(records.todo(plan, seeds)), workers, minutes)
        _write_pages(out)


def _measure(
    dataset: DataSet, records: Records, todo: list[tuple[Trial, int]], workers: int, minutes: float | None
) -> None:
    began = time.perf_counter()
    typer.echo(f"{dataset.name}: {len(records.runs)} outcomes are there, {len(todo)} to measure")
    if not todo:
        return
    records.start_session()
    last = None if minutes is None else began + 60 * minutes
    outcomes = measured(dataset, todo, workers, records.epochs, last)
    for done, (trial, seed, outcome) in enumerate(outcomes, start=1):
        line = f"{dataset.name} {done}/{len(todo)} {time.perf_counter() - began:.0f} s: {trial.as_dict()} seed {seed}"
        if isinstance(outcome, InputError):
            typer.echo(f"{line}: left out. {outcome}")
        else:
            records.add(trial, seed, outcome)
            typer.echo(f"{line}: {' '.join(f'{value:.3f}' for value in outcome.metrics)}")


def _write_pages(folder: Path) -> None:
    """Make all pages and plots anew from the JSON files in the folder."""
    sets = []
    for path in sorted(folder.glob("quality-*.json"), key=lambda path: path.stem):
        outcomes = Outcomes(read_json(path))
        write_bytes(path.with_suffix(".md"), as_markdown(outcomes).encode())
        plot_levels(outcomes, path.with_name(f"{path.stem}-levels.png"))
        if calibrated(outcomes):
            plot_reliability(outcomes, path.with_name(f"{path.stem}-reliability.png"))
        sets.append(outcomes)
    if sets:
        write_bytes(folder / "quality.md", summary_page(sets).encode())


def _methods(wanted: str | None) -> set[str]:
    known = {*RECIPES, *FREE, *SUPERVISED}
    if wanted is None:
        return known - {SETFIT}
    chosen = set(wanted.split(","))
    for name in sorted(chosen - known):
        raise InputError(f"There is no method '{name}'; there are: {', '.join((*RECIPES, *FREE, *SUPERVISED))}.")
    if SETFIT in chosen and importlib.util.find_spec("setfit") is None:
        raise InputError("SetFit is not installed; run: pip install 'bncl-pyg[bench]'.")
    return chosen


def _levels(wanted: str | None) -> set[str]:
    known = ("0", SCARCE, *LEVELS)
    if wanted is None:
        return set(known)
    chosen = set(wanted.split(","))
    for level in sorted(chosen - set(known)):
        raise InputError(f"There is no level '{level}'; there are: {', '.join(known)}.")
    return chosen


@contextmanager
def _alone(cache: Path, name: str) -> Iterator[None]:
    """Keep a second run away from the same data set: each would overwrite the other's outcomes."""
    folder = cache / "running" / name
    folder.mkdir(parents=True, exist_ok=True)
    with folder_lock(folder):
        yield


if __name__ == "__main__":
    try:
        typer.run(main)
    except InputError as error:
        typer.echo(f"Error: {error}", err=True)
        raise SystemExit(2) from None
