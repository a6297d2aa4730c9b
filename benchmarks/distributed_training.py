"""How training scales with processes: one and two of one thread each, in turns in one run, on this machine.

    python -m benchmarks.distributed_training

Texts are made up: vectors, words and scores that know something of their labels. One process and two train on the same
store by the default recipe and by the recipe `paper`, in turns; what counts is the time of the training itself, without
the start of the processes. The ratio of the times is the scaling. What was measured is kept beside the store: a run
that is stopped goes on.
"""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import torch
import typer

from benchmarks.results import about_this_run, footer, markdown_table, save
from bncl_pyg.corpus import LabelSet
from bncl_pyg.distributed import TrainingJob
from bncl_pyg.features import Features, word_counts, write_features
from bncl_pyg.persistence import write_json
from bncl_pyg.priors import Priors
from bncl_pyg.ranks import ALONE, Ranks, process_group
from bncl_pyg.training import find_recipe

ASKED = 1.5
"""What two processes should do of what one does, at least."""
DIMENSIONS, WORDS, SEED = 384, 4000, 0
RECIPES = ("default", "paper")
MODULE = "benchmarks.distributed_training"


def main(
    folder: Annotated[Path, typer.Argument(help="Where the store and what was measured so far lie.")] = Path(
        "distributed-training"
    ),
    texts: Annotated[int, typer.Option(help="How many texts.")] = 40_000,
    labels: Annotated[int, typer.Option(help="How many labels.")] = 100,
    turns: Annotated[int, typer.Option(min=1, help="How often one and two processes take turns.")] = 3,
    epochs: Annotated[int, typer.Option(min=1, help="Of the recipe paper.")] = 1,
    write: Annotated[bool, typer.Option("--save/--no-save", help="Whether to write the page of results.")] = True,
) -> None:
    """Measure and write the table."""
    folder = folder.resolve()
    store = folder / f"features-{texts}-{labels}"
    if not (store / "manifest.json").is_file():
        write_features(made_up(texts, labels), store, overwrite=store.exists())
    kept = folder / f"runs-{texts}-{labels}-{epochs}.json"
    runs: list[dict[str, Any]] = json.loads(kept.read_text())["runs"] if kept.is_file() else []
    for turn in range(turns):
        for recipe in RECIPES:
            for processes in (1, 2) if turn % 2 == 0 else (2, 1):
                if not any((run["turn"], run["recipe"], run["processes"]) == (turn, recipe, processes) for run in runs):
                    runs.append({"turn": turn, **measured(store, recipe, epochs, processes)})
                    write_json(kept, {"runs": runs})
    content = {"about": about_this_run(), "texts": texts, "labels": labels, "epochs": epochs, "runs": runs}
    content |= {"ratios": {recipe: ratio(runs, recipe) for recipe in RECIPES}, "asked": ASKED}
    if write:
        save("distributed-training", content, as_markdown(content))
    typer.echo(as_markdown(content))


def made_up(texts: int, labels: int) -> Features:
    """Return texts that are made up."""
    draw = np.random.default_rng(SEED)
    names = tuple(f"label {place}" for place in range(labels))
    shares = 1.5 * draw.dirichlet(np.full(labels, 0.5))
    truth = draw.random((texts, labels)) < np.maximum(shares, 2e-3)
    vectors = truth @ draw.normal(size=(labels, DIMENSIONS)) + 2 * draw.normal(size=(texts, DIMENSIONS))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    entailment = torch.from_numpy(1 / (1 + np.exp(3 - 3 * truth - draw.normal(size=truth.shape)))).float()
    usual = 1 / np.arange(1, WORDS + 1)
    words = [" ".join(f"w{word}" for word in draw.choice(WORDS, 40, p=usual / usual.sum())) for _ in range(texts)]
    return Features(
        tuple(str(place) for place in range(texts)),
        LabelSet(names, names),
        entailment,
        0.95 * (1 - entailment),
        {"name": "made up"},
        torch.from_numpy(vectors).float(),
        word_counts(words),
    )


def measured(store: Path, recipe: str, epochs: int, processes: int) -> dict[str, Any]:
    """Train with so many processes; return how long it took."""
    told = store.with_name("told.json")
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    words = [*torchrun, "-m", MODULE, "rank", str(store), recipe, str(epochs), str(told)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    subprocess.run([sys.executable, *words], check=True, env=environment)
    run: dict[str, Any] = json.loads(told.read_text())
    return {"recipe": recipe, "processes": processes, **run}


def train_as_rank(store: Path, recipe: str, epochs: int, told: Path) -> None:
    """Train as one of the processes; the first says how long it took."""
    options = {"epochs": epochs} if recipe == "paper" else {}
    labels = LabelSet.read(store / "labels.jsonl")
    priors = Priors.exact(1.5, np.full(len(labels), 1.5 / len(labels)))
    job = TrainingJob(store, store.with_name("model"), find_recipe(recipe, **options), priors, fresh=True)
    with process_group() as every:
        ranks: Ranks = every if every.size > 1 else ALONE
        # Reading, and what is imported when it is first used, are done once before.
        small = replace(job, out=store.with_name("first"), overwrite=True)
        small.run(ranks)
        began = time.perf_counter()
        replace(job, overwrite=True).run(ranks)
        seconds = time.perf_counter() - began
    if not ranks.rank:
        sent = {"bytes": ranks.traffic.total // 2, "waited": round(ranks.traffic.seconds / 2, 2)}
        write_json(told, {"seconds": round(seconds, 2), **sent})


def ratio(runs: list[dict[str, Any]], recipe: str) -> float:
    """Return how much faster two processes are than one, by the median times."""
    one, two = (
        median(run["seconds"] for run in runs if (run["recipe"], run["processes"]) == (recipe, count))
        for count in (1, 2)
    )
    return round(float(one) / float(two), 2)


def as_markdown(content: dict[str, Any]) -> str:
    """Return the page that shows the figures of a run."""
    rows = [
        [run["recipe"], str(run["processes"]), f"{run['seconds']:.1f} s", f"{run['bytes'] / 1e6:.1f} MB"]
        for run in sorted(content["runs"], key=lambda run: (run["recipe"], run["processes"], run["turn"]))
    ]
    ratios = " and ".join(f"{value:.2f} times with `{recipe}`" for recipe, value in content["ratios"].items())
    return (
        "# Training in several processes\n\n"
        f"{content['texts']:,} texts that are made up, {content['labels']} labels, processes of one thread on one "
        f"machine, in turns; `paper` for {content['epochs']} epochs with each graph. The time of a training with the "
        f"reading of the store, and what a process sent.\n\nTwo processes do what one does, by the median times, "
        f"{ratios} as fast (asked: at least {content['asked']}).\n\n"
        + markdown_table(["recipe", "processes", "duration", "sent"], rows)
        + footer(content["about"])
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        train_as_rank(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), Path(sys.argv[5]))
    else:
        typer.run(main)
