"""The paper's tables and the baselines, on real data, in one command.

    BNCL_DATA=folder python -m benchmarks.quality --datasets reuters21578 --seeds 10

The folder holds a folder for each data set, with `labels.jsonl`, `train.jsonl` and `test.jsonl`, and, for the graph of
the paper, GloVe's word vectors. A run that is stopped goes on when the same command is given again: what the folder of
results holds already is not measured again. No choice is made on test data.
"""

import importlib.util
import os
import time
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.quality.datasets import DataSet
from benchmarks.quality.pages import write_pages
from benchmarks.quality.plan import all_trials
from benchmarks.quality.records import Records
from benchmarks.quality.workers import measured
from benchmarks.results import FOLDER
from bncl_pyg.errors import InputError

DATASETS = ("reuters21578", "stackex-cooking", "goemotions", "debtags")


def main(
    data: Annotated[Path, typer.Option(envvar="BNCL_DATA", help="The folder with the data sets.")],
    datasets: Annotated[str, typer.Option(help="Which of them, with commas between.")] = ",".join(DATASETS),
    seeds: Annotated[int, typer.Option(min=1)] = 10,
    out: Annotated[Path, typer.Option(help="The folder for JSON, Markdown and plots.")] = FOLDER,
    cache: Annotated[Path, typer.Option(help="Where vectors and scores are kept.")] = Path("benchmarks/.cache"),
    workers: Annotated[int, typer.Option(min=1, help="Trials at once, a core each.")] = os.cpu_count() or 1,
    methods: Annotated[str | None, typer.Option(help="Measure only these now, with commas between.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Fewer than the recipes', for a quick look only.")] = None,
    setfit: Annotated[bool, typer.Option("--setfit", help="Measure SetFit too, which takes minutes a seed.")] = False,
    minutes: Annotated[float | None, typer.Option(help="Start no trial of a data set later than this.")] = None,
) -> None:
    """Measure what is missing and write the pages."""
    if setfit and importlib.util.find_spec("setfit") is None:
        raise InputError("SetFit is not installed; run: pip install 'bncl-pyg[bench]'.")
    chosen = None if methods is None else methods.split(",")
    for name in datasets.split(","):
        began = time.perf_counter()
        dataset = DataSet(data / name, cache, typer.echo)
        dataset.prepare()
        records = Records(out / f"quality-{name}.json", dataset.about, epochs)
        plan = [
            trial
            for trial in all_trials(dataset.default_vectors, setfit=setfit)
            if chosen is None or trial.method in chosen
        ]
        todo = list(records.todo(plan, seeds))
        typer.echo(f"{name}: {len(records.runs)} outcomes are there, {len(todo)} to measure")
        if todo:
            records.start_session()
            last = None if minutes is None else began + 60 * minutes
            outcomes = measured(dataset, todo, workers, epochs, last)
            for done, (trial, seed, outcome) in enumerate(outcomes, start=1):
                records.add(trial, seed, outcome)
                shown = " ".join(f"{value:.3f}" for value in outcome.metrics)
                passed = time.perf_counter() - began
                typer.echo(f"{name} {done}/{len(todo)} {passed:.0f} s: {trial.as_dict()} seed {seed}: {shown}")
    write_pages(out)


if __name__ == "__main__":
    try:
        typer.run(main)
    except InputError as error:
        typer.echo(f"Error: {error}", err=True)
        raise SystemExit(2) from None
