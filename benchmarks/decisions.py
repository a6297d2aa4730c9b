"""Whether a refactoring changed what is predicted: dump decisions and probabilities before and after it, and compare.

    python -m benchmarks.decisions dump before --data folder      at the commit before
    python -m benchmarks.decisions dump after --data folder       at the commit after
    python -m benchmarks.decisions compare before after

The public class is trained with all three settings and recipes, and with priors in words or none, on the bundled set
and on each data set, with one thread: sums in another order may differ in the last digit. Give both dumps the same
cache, so that they read the same features. A dump that is stopped goes on when the same command is given again.
"""

import io
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from threadpoolctl import threadpool_limits

from benchmarks.quality.datasets import DataSet
from benchmarks.quality.plan import DEFAULT, PAPERS, SCARCE, Trial
from benchmarks.quality.trials import Training
from benchmarks.results import about_this_run
from bncl_pyg.demo import demo_folder
from bncl_pyg.errors import InputError
from bncl_pyg.features import Predictions
from bncl_pyg.persistence import read_json, write_bytes, write_json

DEMO = "demo"
DATASETS = (DEMO, "reuters21578", "stackex-cooking", "goemotions", "debtags")
TOLERANCE = 1e-5
"""How far probabilities may differ."""
ABOUT = "about.json"

app = typer.Typer(add_completion=False)


def scenarios() -> dict[str, Trial]:
    """Return what is trained on every data set, by name."""
    ours = Trial(DEFAULT, vectors="embedded")
    trials = {
        f"{recipe}-{setting}": Trial(recipe, setting, level, "embedded")
        for recipe in (DEFAULT, *PAPERS)
        for setting, level in (("annotation-free", "0"), ("scarce-annotation", SCARCE), ("domain-supervisor", SCARCE))
    }
    return {**trials, "default-words": replace(ours, rough="words"), "default-auto": replace(ours, rough="auto")}


@app.command()
def dump(
    out: Annotated[Path, typer.Argument(help="The folder for the dumps, one a scenario.")],
    data: Annotated[
        Path | None, typer.Option(envvar="BNCL_DATA", help="The folder with the data sets; the bundled one needs none.")
    ] = None,
    datasets: Annotated[
        str | None, typer.Option(help="Which of them, with commas between; if not given, all that there is.")
    ] = None,
    cache: Annotated[Path, typer.Option(help="Where vectors and scores are kept.")] = Path("benchmarks/.cache"),
    epochs: Annotated[int | None, typer.Option(help="Fewer than the recipes', for a quick look.")] = None,
) -> None:
    """Train every scenario that is not there yet, and write what it predicts of the test texts."""
    names = (DATASETS if data is not None else (DEMO,)) if datasets is None else datasets.split(",")
    out.mkdir(parents=True, exist_ok=True)
    _check_same_run(out, {"commit": about_this_run()["commit"], "epochs": epochs})
    with threadpool_limits(1):
        torch.set_num_threads(1)
        for name in names:
            missing = {key: trial for key, trial in scenarios().items() if not _file(out, name, key).exists()}
            if not missing:
                continue
            given = DataSet(_folder(name, data), cache, typer.echo)
            given.prepare()
            for key, trial in missing.items():
                train, test = given.scored
                predicted = Training.of(trial, given, seed=0, epochs=epochs).fit(train).predictions(test)
                write_bytes(_file(out, name, key), _packed(predicted))
                typer.echo(f"{name} {key}: {int(predicted.decisions.sum())} labels for {len(predicted)} texts")


@app.command()
def compare(before: Path, after: Path) -> None:
    """Print how many decisions differ and by how much probabilities do; exit code 1 where that is too much."""
    for folder in (before, after):
        typer.echo(f"{folder}: {read_json(folder / ABOUT)}")
    pairs = changed = 0
    files = [{path.name: path for path in folder.glob("*.npz")} for folder in (before, after)]
    lonely, largest = files[0].keys() ^ files[1].keys(), 0.0
    for name in sorted(files[0].keys() & files[1].keys()):
        (decisions, probabilities), (others, other_probabilities) = (_unpacked(of[name]) for of in files)
        if decisions.shape != others.shape:
            raise InputError(
                f"{name}: the shapes are {decisions.shape} and {others.shape}; the texts or labels differ."
            )
        flips = int((decisions != others).sum())
        difference = float(np.abs(probabilities - other_probabilities).max(initial=0.0))
        typer.echo(
            f"{Path(name).stem}: {flips} of {decisions.size} decisions differ, probabilities by {difference:.1e}"
        )
        pairs, changed, largest = pairs + decisions.size, changed + flips, float(np.maximum(largest, difference))
    for name in sorted(lonely):
        typer.echo(f"{Path(name).stem}: only in {before if name in files[0] else after}")
    typer.echo(f"all: {changed} of {pairs} decisions differ, probabilities by at most {largest:.1e}")
    # NaN is not below anything, and `np.maximum` keeps it.
    if changed or lonely or not pairs or not largest <= TOLERANCE:
        raise typer.Exit(1)


def _folder(name: str, data: Path | None) -> Path:
    if name == DEMO:
        return demo_folder()
    if data is None:
        raise InputError(f"Say where the data set '{name}' is (--data).")
    return data / name


def _check_same_run(folder: Path, about: dict[str, Any]) -> None:
    """Refuse to go on with what another commit began: half of the dump would then be of each."""
    path = folder / ABOUT
    if path.exists() and read_json(path) != about:
        raise InputError(f"{folder} holds a dump of {read_json(path)}, but this is {about}; choose another folder.")
    write_json(path, about)


def _file(folder: Path, dataset: str, scenario: str) -> Path:
    return folder / f"{dataset}_{scenario}.npz"


def _packed(predicted: Predictions) -> bytes:
    content = io.BytesIO()
    probabilities = predicted.probability_matrix().astype(np.float32)
    np.savez(content, decisions=np.packbits(predicted.indicator()), probabilities=probabilities)
    return content.getvalue()


def _unpacked(path: Path) -> tuple[Any, Any]:
    """Return decisions and probabilities, (texts, labels) both."""
    with np.load(path, allow_pickle=False) as content:
        probabilities = content["probabilities"]
        decisions = np.unpackbits(content["decisions"], count=probabilities.size).reshape(probabilities.shape)
    return decisions.astype(bool), probabilities


if __name__ == "__main__":
    try:
        app()
    except InputError as error:
        typer.echo(f"Error: {error}", err=True)
        raise SystemExit(2) from None
