"""The numbers of self-training and their neighbours, the label graph's share, and texts without any label.

    BNCL_DATA=folder BNCL_FEATURES=folder python -m benchmarks.choices [--datasets reuters21578,stackex-cooking]

The second folder holds a feature store of the scorer `strong` for each set, `NAME-train`. Training texts alone: a fifth
is held out, of the rest up to `TEXTS` are trained on; no test text is read. Each training is saved when it is done; a
run that is stopped goes on.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

from benchmarks.results import FOLDER, about_this_run, footer, markdown_table
from benchmarks.stores import STRONG, read_scored, store_of
from bncl_pyg.corpus import Corpus, LabelSet, rows_of
from bncl_pyg.evaluation import evaluate, reliability
from bncl_pyg.features import Features, select_labels
from bncl_pyg.graph import build_graph
from bncl_pyg.persistence import read_json, write_bytes, write_json
from bncl_pyg.priors import Priors
from bncl_pyg.training import DefaultRecipe

NAME = "choices"
DATASETS = ("reuters21578", "stackex-cooking", "goemotions", "debtags")
TEXTS, DRAWS = 3500, 2
"""How many texts are trained on, and how many draws of a third of the labels there are."""
NUMBERS: dict[str, tuple[float, ...]] = {
    "slope": (2.0, 2.5, 3.0),
    "text_weight": (2.0, 4.0, 6.0),
    "competition": (0.5, 0.75, 1.0),
    "text_C": (250.0, 500.0, 1000.0),
    "rounds": (1, 3, 5),
    "graph_texts": (0.0, 5.0, 10.0, 20.0, 1000.0),
    "lsa_weight": (1.0, 2.0),
    "lsa_rank": (200, 400),
}
"""Of self-training, with known priors; at 0 texts' worth the label graph is not used."""
POWERS = (1.0, 1.25, 1.5)
"""Of the guess at λ, where nothing is known."""


@dataclass(frozen=True)
class Job:
    """One training: a number of self-training or of the estimation, or a third of the labels."""

    dataset: str
    what: str
    value: float

    @property
    def key(self) -> str:
        """What it is called in the file of results."""
        return f"{self.dataset}/{self.what}/{self.value:g}"


def main(
    data: Annotated[Path, typer.Option(envvar="BNCL_DATA", help="The folder with the data sets.")],
    features: Annotated[Path, typer.Option(envvar="BNCL_FEATURES", help="The folder with the feature stores.")],
    datasets: Annotated[str, typer.Option(help="Which, with commas between.")] = ",".join(DATASETS),
    out: Annotated[Path, typer.Option(help="The folder for JSON and Markdown.")] = FOLDER,
) -> None:
    """Measure what is missing and write the page."""
    file = out / f"{NAME}.json"
    content: dict[str, Any] = read_json(file) if file.is_file() else {"runs": {}, "sessions": []}
    content["sessions"].append(about_this_run())
    for name in datasets.split(","):
        for job in jobs(name):
            if job.key not in content["runs"]:
                content["runs"][job.key] = perform(data, features, job)
                typer.echo(f"{job.key}: {content['runs'][job.key]}")
                write_json(file, content)
    write_bytes(out / f"{NAME}.md", as_markdown(content).encode())


def jobs(dataset: str) -> Iterator[Job]:
    """Yield the trainings."""
    usual = DefaultRecipe().self_training
    yield Job(dataset, "usual", 0)
    for number, values in NUMBERS.items():
        yield from (Job(dataset, number, value) for value in values if value != getattr(usual, number))
    yield from (Job(dataset, "guess_power", power) for power in POWERS)
    for draw in range(DRAWS):
        yield from (Job(dataset, f"a third, {known}", draw) for known in ("may have none", "at least one", "auto"))


@cache
def _cut(data: Path, stores: Path, dataset: str) -> tuple[Features, Features, Any, Any]:
    """Return texts to train on and texts held out, with their labels."""
    labels = LabelSet.read(data / dataset / "labels.jsonl")
    scored = read_scored(store_of(stores, dataset, "train"), STRONG)
    corpus = Corpus.read(data / dataset / "train.jsonl", labels)
    corpus = corpus.rows(rows_of(scored.ids, corpus.ids, "The training split"))
    assert corpus.annotations is not None
    order = np.random.default_rng(100).permutation(len(corpus))
    held, rest = np.sort(order[: len(order) // 5]), np.sort(order[len(order) // 5 :][:TEXTS])
    return scored.rows(rest), scored.rows(held), corpus.annotations[rest], corpus.annotations[held]


def perform(data: Path, stores: Path, job: Job) -> dict[str, Any]:
    """Train once, and measure on the texts held out."""
    train, held_out, known, truth = _cut(data, stores, job.dataset)
    recipe, priors = DefaultRecipe(), Priors.from_annotations(known)
    if job.what.startswith("a third"):
        chosen = np.sort(np.random.default_rng(int(job.value)).choice(known.shape[1], known.shape[1] // 3, False))
        names, descriptions = train.labels.names, train.labels.descriptions
        labels = LabelSet(tuple(names[one] for one in chosen), tuple(descriptions[one] for one in chosen))
        train, held_out = select_labels(train, labels), select_labels(held_out, labels)
        known, truth = known[:, chosen], truth[:, chosen]
        priors = Priors.from_annotations(known)
        if job.what.endswith("auto"):
            priors = replace(Priors.nothing(len(labels)), at_least_one=False)
        elif job.what.endswith("at least one"):
            priors = replace(priors, at_least_one=True)
    elif job.what == "guess_power":
        recipe = replace(recipe, estimation=replace(recipe.estimation, guess_power=job.value))
        priors = Priors.nothing(len(train.labels))
    elif job.what == "graph_texts" and not job.value:
        recipe = replace(recipe, self_training=replace(recipe.self_training, parts=("vectors", "words")))
    elif job.what != "usual":
        value = int(job.value) if job.what in ("rounds", "lsa_rank") else job.value
        changed: dict[str, Any] = {job.what: value}
        recipe = replace(recipe, self_training=replace(recipe.self_training, **changed))
    torch.manual_seed(0)
    began = time.perf_counter()
    model = recipe.fit(train, build_graph(train.labels), priors)
    seconds = time.perf_counter() - began
    predicted = model.predict(held_out)
    decisions = predicted.indicator()
    none, given_none = (np.asarray(part.sum(axis=1)).ravel() == 0 for part in (truth, decisions))
    return {
        "metrics": [round(value, 4) for value in evaluate(truth, decisions)],
        "calibration error": round(reliability(truth, predicted.probability_matrix()).error(), 4),
        "F1 of none": round(float(2 * (none & given_none).sum() / max((none.sum() + given_none.sum()), 1)), 4),
        "without any": round(float(none.mean()), 3),
        "cardinality": round(float(model.priors.cardinality or 0), 3),
        "seconds": round(seconds, 1),
    }


def as_markdown(content: dict[str, Any]) -> str:
    """Return the page that shows the figures."""
    lines = [
        "# The default recipe's numbers and their neighbours, on training texts\n",
        f"Scorer `strong`. A fifth of each training split is held out, of the rest up to {TEXTS} texts are trained on, "
        "without annotation; no test text was read. With known priors, one number changed at a time; `graph_texts` 0 "
        "is without the label graph, 1000 lets all labels listen to it alike. `guess_power`: nothing is known. *A "
        "third*: only a third of the labels are there, drawn, and texts with none of them stay: priors that say so, "
        "priors that say that every text has one, and nothing but that texts may have none (`auto`).\n",
    ]
    for name in DATASETS:
        rows = [
            [
                key.split("/")[1],
                key.split("/")[2],
                *(f"{run['metrics'][place]:.4f}" for place in (2, 3, 4)),
                f"{run['calibration error']:.4f}",
                f"{run['cardinality']:.2f}",
                f"{run['F1 of none']:.3f} ({run['without any']:.0%})" if run["without any"] else "",
                f"{run['seconds']:.1f}",
            ]
            for key, run in content["runs"].items()
            if key.split("/")[0] == name
        ]
        if rows:
            columns = ["number", "value", "ebF1", "miF1", "maF1", "calibration error", "κ", "F1 of none", "seconds"]
            lines.append(f"## {name}\n\n{markdown_table(columns, rows)}")
    return "\n".join(lines) + footer(content["sessions"][-1])


if __name__ == "__main__":
    typer.run(main)
