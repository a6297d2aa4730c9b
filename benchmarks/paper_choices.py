"""What the recipe `paper` leaves open, looked at on training texts: the start, the label graph, and what chooses it.

    BNCL_DATA=folder BNCL_FEATURES=folder python -m benchmarks.paper_choices [--datasets stackex-cooking,debtags]

The second folder holds a feature store for each set, `NAME-train`, of the scorer `strong` or `light`; `light` is looked
at. A part of the training texts is drawn and a fifth of it held out, for figures with labels as well as for what can be
known without: no test text is read. Each training is saved when it is done; a run that is stopped goes on.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

from benchmarks.quality.datasets import GLOVE
from benchmarks.quality.plan import DENSITIES
from benchmarks.results import FOLDER, about_this_run, footer, markdown_table
from benchmarks.stores import LIGHT, read_scored, store_of
from bncl_pyg.corpus import Corpus, LabelSet
from bncl_pyg.evaluation import evaluate
from bncl_pyg.features import Features
from bncl_pyg.graph import SignedLabelGraph, build_graph, embed_labels
from bncl_pyg.persistence import read_json, write_bytes, write_json
from bncl_pyg.priors import Priors
from bncl_pyg.training import PAPER, PaperModel, Trainer, recalibrate, shifted
from bncl_pyg.training import Annotated as AnnotatedTexts

NAME = "paper-choices"
DATASETS = ("stackex-cooking", "debtags")
TEXTS = 3000
"""How many training texts are drawn."""
STARTS = ("as scored", "cardinality", "cardinality, neutral scaled")
"""Scores as they are; shifted with what is neutral kept; shifted with q, q̄ and neutral scaled to add up to 1 again."""
LEVELS = ("0", "100%", "10%")
OTHER_DECAYS = (0.9,)


@dataclass(frozen=True)
class Job:
    """One training."""

    dataset: str
    level: str = "0"
    percentiles: tuple[float, float] = DENSITIES[1]
    start: str = "cardinality"
    decay: float = PAPER.decay

    @property
    def key(self) -> str:
        """What it is called in the file of results."""
        return (
            f"{self.dataset}/{self.level}/{self.percentiles[0]:g}-{self.percentiles[1]:g}/{self.start}/{self.decay:g}"
        )


def main(
    data: Annotated[Path, typer.Option(envvar="BNCL_DATA", help="The folder with the data sets and GloVe's vectors.")],
    features: Annotated[Path, typer.Option(envvar="BNCL_FEATURES", help="The folder with the feature stores.")],
    datasets: Annotated[str, typer.Option(help="Which sets, with commas between.")] = ",".join(DATASETS),
    out: Annotated[Path, typer.Option(help="The folder for JSON and Markdown.")] = FOLDER,
) -> None:
    """Measure what is missing and write the page."""
    torch.set_num_threads(1)
    file = out / f"{NAME}.json"
    content: dict[str, Any] = read_json(file) if file.is_file() else {"runs": {}, "sets": {}, "sessions": []}
    content["sessions"].append(about_this_run())
    for name in datasets.split(","):
        cut = Cut.of(data / name, features)
        content["sets"][name] = cut.about
        for job in jobs(name):
            if job.key not in content["runs"]:
                content["runs"][job.key] = figures = perform(job, cut)
                typer.echo(f"{job.key}: {figures}")
                write_json(file, content)
    write_json(file, content)
    write_bytes(out / f"{NAME}.md", as_markdown(content).encode())


def jobs(dataset: str) -> Iterator[Job]:
    """Yield the trainings."""
    yield from (Job(dataset, percentiles=pair) for pair in DENSITIES)
    yield from (Job(dataset, start=start) for start in STARTS if start != "cardinality")
    yield from (Job(dataset, level, pair) for level in LEVELS[1:] for pair in DENSITIES)
    yield from (Job(dataset, level, DENSITIES[-1], decay=decay) for level in ("0", "100%") for decay in OTHER_DECAYS)


@dataclass(frozen=True)
class Cut:
    """Training texts in two parts.

    Args:
        train: to train on.
        held_out: to look at.
        truth: the labels of both.
        priors: κ and λ of the first part.
        graphs: by percentiles.
        about: what identifies them.
    """

    train: Features
    held_out: Features
    truth: tuple[Any, Any]
    priors: Priors
    graphs: dict[tuple[float, float], SignedLabelGraph]
    about: dict[str, Any]

    @classmethod
    def of(cls, folder: Path, stores: Path) -> "Cut":
        """Draw texts of a set, and hold a fifth of them out."""
        labels = LabelSet.read(folder / "labels.jsonl")
        scored = read_scored(store_of(stores, folder.name, "train"), LIGHT)
        corpus = Corpus.read(folder / "train.jsonl", labels)
        places = {identifier: place for place, identifier in enumerate(corpus.ids)}
        drawn = np.random.default_rng(0).permutation(len(scored))[:TEXTS]
        parts = np.sort(drawn[len(drawn) // 5 :]), np.sort(drawn[: len(drawn) // 5])
        assert corpus.annotations is not None
        truth = [corpus.annotations[[places[scored.ids[row]] for row in rows]] for rows in parts]
        vectors = embed_labels(labels, str(folder.parent / GLOVE))
        about = {"texts": [len(rows) for rows in parts], "labels": len(labels), "scorer": scored.scorer}
        return cls(
            scored.rows(parts[0]),
            scored.rows(parts[1]),
            (truth[0], truth[1]),
            Priors.from_annotations(truth[0]),
            {pair: build_graph(labels, vectors, pair) for pair in DENSITIES},
            about,
        )


def perform(job: Job, cut: Cut) -> dict[str, Any]:
    """Train once on the first part; return the F1s on the other, and what can be known of it without its labels."""
    assert cut.priors.cardinality is not None
    offset = recalibrate(cut.train.entailment, cut.train.contradiction, cut.priors.cardinality)
    train, held_out = (_started(part, offset, job.start) for part in (cut.train, cut.held_out))
    annotated = None
    if job.level != "0":
        count = round(len(train) * float(job.level.removesuffix("%")) / 100)
        rows = PAPER.draw(len(train), count, 0)
        annotated = AnnotatedTexts(rows, cut.truth[0][rows])
    began = time.perf_counter()
    recipe = replace(PAPER, decay=job.decay)
    trainer = Trainer(recipe.network(cut.graphs[job.percentiles]), train, cut.priors, annotated, recipe)
    trainer.run()
    seconds = time.perf_counter() - began
    model = PAPER.model(trainer, train, cut.priors)
    metrics = evaluate(cut.truth[1], model.predict(held_out).indicator())
    start = evaluate(cut.truth[1], held_out.zero_shot().numpy())
    return {
        "metrics": [round(value, 4) for value in metrics[2:]],
        "start": [round(value, 4) for value in start[2:]],
        "loss": round(_loss(model, trainer, held_out), 1),
        "training loss": round(_loss(model, trainer, train), 1),
        "predicted": round(float(held_out.zero_shot().sum(dim=1).float().mean()), 3),
        "seconds": round(seconds, 1),
    }


@torch.no_grad()
def _loss(model: PaperModel, trainer: Trainer, texts: Features) -> float:
    """Return the mean over batches of the loss without L4, as the recipe's choice has it."""
    batches = [texts.rows(slice(first, first + PAPER.batch)) for first in range(0, len(texts), PAPER.batch)]
    return float(np.mean([float(trainer.loss.total(trainer.loss(*model.states(batch))[0])) for batch in batches]))


def _started(texts: Features, offset: float, start: str) -> Features:
    if start == "as scored":
        return texts
    if start == "cardinality":
        return shifted(texts, offset)
    factor = float(np.exp(offset / 2))
    entailment, contradiction = texts.entailment * factor, texts.contradiction / factor
    total = entailment + contradiction + (1 - texts.entailment - texts.contradiction).clamp_min(0)
    return replace(texts, entailment=entailment / total, contradiction=contradiction / total)


def as_markdown(content: dict[str, Any]) -> str:
    """Return the page that shows the figures."""
    lines = [
        "# What the recipe `paper` leaves open, on training texts\n",
        "Scorer `light`, label graph from GloVe, one seed. Texts of the training split, of which a fifth is held out: "
        "F1 with their labels, and beside it what can be known without, the mean loss (L1 + α₂L2 + α₃L3) over batches "
        "of held-out texts and of those that were trained on. No test text was read. `decay` is what the learning rate "
        'is multiplied with every ten epochs, both readings of "10% decay rate".\n',
    ]
    for name, about in content["sets"].items():
        lines.append(f"## {name}\n\n{about['texts'][0]} / {about['texts'][1]} texts, {about['labels']} labels.\n")
        rows = []
        for job in jobs(name):
            run = content["runs"].get(job.key)
            if run is not None:
                pair = f"{job.percentiles[0]:g}/{job.percentiles[1]:g}"
                before, after = ([f"{value:.4f}" for value in run[key]] for key in ("start", "metrics"))
                losses = [f"{run[key]:.1f}" for key in ("loss", "training loss")]
                rows.append([job.level, pair, job.start, f"{job.decay:g}", " / ".join(before), *after, *losses])
        columns = [
            "annotated",
            "percentiles",
            "start",
            "decay",
            "ebF1 / miF1 / maF1 of the start",
            "ebF1",
            "miF1",
            "maF1",
        ]
        lines.append(markdown_table([*columns, "held-out loss", "training loss"], rows))
        wanted = len(list(jobs(name)))
        if len(rows) < wanted:
            lines.append(f"{len(rows)} of {wanted} trainings are done; the same command goes on.\n")
    return "\n".join(lines) + footer(content["sessions"][-1])


if __name__ == "__main__":
    typer.run(main)
