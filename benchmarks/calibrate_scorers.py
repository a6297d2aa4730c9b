"""Chooses the scale and the middle of every known scorer on WordNet's hypernyms, which no recipe is measured on.

    BNCL_DATA=folder python -m benchmarks.calibrate_scorers scales [--ship]
    BNCL_DATA=folder python -m benchmarks.calibrate_scorers temperature

A scorer's raw score (cosine, MaxSim, relevance, the embedded head's margin) becomes z = scale · (score − middle): the
scale by maximum likelihood, so that one unit of log-odds means the same in all of them, divided by `TEMPERATURE`, one
number for all; the middle where the plain decision z > 0 has the highest ebF1. The task: glosses of synsets, and
which of some synsets are their parents or grandparents. `--ship` writes the embedded head with its new middle, and
prints its hash; the other numbers go into `bncl_pyg/scorers/load.py`. The network of the embedded head stays as
`benchmarks.train_head` trained it. `temperature` shows what the default recipe makes of scores at several
temperatures.
"""

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from scipy.sparse import csr_array
from sklearn.metrics import label_ranking_average_precision_score
from torch import Tensor

from benchmarks.results import FOLDER, about_this_run, footer, markdown_table, save
from benchmarks.train_head import Calibration, LabelTask, calibrate
from bncl_pyg.corpus import LabelSet
from bncl_pyg.evaluation import evaluate
from bncl_pyg.features import Features, word_counts
from bncl_pyg.graph import graph_of
from bncl_pyg.persistence import read_json, sha256_of
from bncl_pyg.priors import Priors
from bncl_pyg.scorers import (
    EMBEDDED_FILE,
    STRONG_PARTS,
    BiEncoderScorer,
    CorrectedHead,
    LateInteractionScorer,
    RelevanceScorer,
    Scorer,
    embedded_head,
    hypotheses_of,
    join_scores,
    join_vectors,
    load_scorer,
    save_head,
)
from bncl_pyg.training import find_recipe

SET = "wordnet-hypernyms"
LABELS, TEXTS, LEAST = 150, 2000, 20
"""How many labels are drawn of those with at least so many training texts, and how many of their texts."""
PAIRED = 40
"""How many texts the cross-encoder reads, which is slow."""
TEMPERATURE = 2.0
"""What log-odds of maximum likelihood are divided by: the default recipe starts best from there (`temperature`)."""
TEMPERATURES, DRAWS, DRAWN = (1.0, 1.4, 2.0, 2.8), (1, 2, 3), 300
"""Which are tried, on which draws of how many labels."""
PARTS = ("light", "bge", "colbert", "fast", "multilingual", "ms-marco")


@dataclass(frozen=True)
class Task:
    """Glosses, the synsets that may be their hypernyms, and which are."""

    texts: list[str]
    hypotheses: list[Any]
    truth: csr_array


app = typer.Typer()
Data = Annotated[Path, typer.Option(envvar="BNCL_DATA", help="The folder with the data sets.")]


@app.command()
def scales(
    data: Data,
    ship: Annotated[bool, typer.Option("--ship", help="Write the embedded head.")] = False,
    parts: Annotated[str, typer.Option(help="Which scorers, with commas.")] = ",".join(PARTS),
) -> None:
    """Measure and write the table."""
    task = read_task(data / SET)
    file = FOLDER / "calibration.json"
    there = read_json(file)["rows"] if file.is_file() else []
    for name in parts.split(","):
        row = _measured(name, task, ship=ship)
        typer.echo(json.dumps(row))
        there = [*(other for other in there if other["scorer"] != name), row]
        content = {"about": about_this_run(), "labels": LABELS, "texts": TEXTS, "rows": there}
        save("calibration", content, as_markdown(content))


@app.command()
def temperature(data: Data) -> None:
    """Train the default recipe, annotation-free with κ and λ known, on scores at several temperatures."""
    file = FOLDER / "temperature.json"
    content: dict[str, Any] = read_json(file) if file.is_file() else {"rows": []}
    for draw in DRAWS:
        if any(row["draw"] == draw for row in content["rows"]):
            continue
        task = read_task(data / SET, draw, DRAWN)
        scorers = {name: load_scorer(name) for name in STRONG_PARTS}
        # As maximum likelihood has them: what is shipped, with the temperature taken out again.
        raw = {name: _log_odds(scorer.score(task.texts, task.hypotheses)) for name, scorer in scorers.items()}
        vectors = {name: scorer.vectors(task.texts) for name, scorer in scorers.items()}
        for heat in TEMPERATURES:
            parts = {name: _shares(odds * TEMPERATURE / heat) for name, odds in raw.items()}
            for name, scores, own in (
                ("light", parts["light"], vectors["light"]),
                ("strong", join_scores(list(parts.values())), join_vectors(list(vectors.values()))),
            ):
                row = {"draw": draw, "scorer": name, "temperature": heat, "metrics": _recipe(task, scores, own)}
                typer.echo(json.dumps(row))
                content["rows"].append(row)
        content["about"] = about_this_run()
        save("temperature", content, temperature_page(content))


def _log_odds(scores: Tensor) -> Tensor:
    """Return z of scores that are the softmax of (z, 0, −z) or nearly so."""
    odds: Tensor = (scores[0] / scores[1]).log() / 2
    return odds


def _shares(z: Tensor) -> Tensor:
    shares = torch.softmax(torch.stack([z, torch.zeros_like(z), -z]), dim=0)
    return torch.stack([shares[0], shares[2]])


def _recipe(task: Task, scores: Tensor, vectors: Tensor | None) -> list[float]:
    """Return ebF1, miF1 and maF1 of the default recipe on its own texts."""
    labels = LabelSet.of([f"{hypothesis} {place}" for place, hypothesis in enumerate(task.hypotheses)])
    ids = tuple(str(row) for row in range(len(task.texts)))
    features = Features(ids, labels, scores[0], scores[1], {}, vectors, word_counts(task.texts))
    priors = Priors.from_annotations(task.truth)
    model = find_recipe("default").fit(features, graph_of(labels, None), priors)
    found = evaluate(task.truth, model.predict(features).indicator())
    return [round(value, 4) for value in (found.ebF1, found.miF1, found.maF1)]


def temperature_page(content: dict[str, Any]) -> str:
    """Return the page that shows what the temperature does, the mean of the draws."""
    rows = []
    for name in ("light", "strong"):
        for heat in TEMPERATURES:
            found = [row["metrics"] for row in content["rows"] if (row["scorer"], row["temperature"]) == (name, heat)]
            rows.append([name, f"{heat:g}", *(f"{value:.4f}" for value in np.mean(found, axis=0)), str(len(found))])
    columns = ["scorer", "temperature", "ebF1", "miF1", "maF1", "draws"]
    return (
        "# The temperature of scores\n\n"
        f"WordNet's hypernyms, training split: {DRAWN} labels drawn, up to {TEXTS} glosses, default recipe, "
        "annotation-free with κ and λ known. Log-odds of maximum likelihood are divided by the temperature; "
        f"{TEMPERATURE:g} is shipped, for all known scorers.\n\n"
        f"{markdown_table(columns, rows)}\n\n{footer(content['about'])}"
    )


def read_task(folder: Path, seed: int = 0, count: int = LABELS) -> Task:
    """Draw labels and texts of the training split."""
    chance = random.Random(seed)
    labels = [json.loads(line) for line in (folder / "labels.jsonl").open()]
    drawn = chance.sample([label for label in labels if label["n_train"] >= LEAST], count)
    place = {label["label"]: column for column, label in enumerate(drawn)}
    rows = [json.loads(line) for line in (folder / "train.jsonl").open()]
    rows = [row for row in rows if any(name in place for name in row["labels"])]
    rows = chance.sample(rows, min(TEXTS, len(rows)))
    truth = np.zeros((len(rows), len(drawn)), dtype=bool)
    for row, content in enumerate(rows):
        for name in content["labels"]:
            if name in place:
                truth[row, place[name]] = True
    hypotheses = hypotheses_of([label["description"] for label in drawn])
    return Task([row["text"] for row in rows], hypotheses, csr_array(truth))


def raw_scores(scorer: Scorer, task: Task) -> Tensor:
    """Return the number that a scorer's head turns into log-odds, (texts, labels)."""
    if isinstance(scorer, LateInteractionScorer):
        return scorer.max_sim(task.texts, task.hypotheses)
    if isinstance(scorer, BiEncoderScorer) and not isinstance(scorer.head, CorrectedHead):
        return scorer.cosines(task.texts, task.hypotheses)
    entailment, contradiction = scorer.score(task.texts, task.hypotheses)
    odds: Tensor = (entailment / contradiction).log()
    if isinstance(scorer, RelevanceScorer):
        numbers = scorer.head.chosen
        odds = odds / 2 / numbers["cosine_scale"] + numbers["cosine_middle"]
    return odds


def _measured(name: str, task: Task, *, ship: bool) -> dict[str, Any]:
    if name == "ms-marco":
        task = Task(task.texts[:PAIRED], task.hypotheses, csr_array(task.truth[:PAIRED]))
    scorer = load_scorer(name)
    raw = raw_scores(scorer, task)
    # As `train_head.calibrate` expects it: about the size of log-odds.
    unit = 1.0 if name == "light" else float(1 / raw.std())
    found = calibrate([raw * unit], [LabelTask(torch.empty(0), torch.empty(0), task.truth)])
    # The head's log-odds of entailment against contradiction are 2 z.
    numbers = {"scale": found.temperature / TEMPERATURE * unit / 2, "middle": found.middle / unit}
    said = float((raw * unit > found.middle).sum() / len(raw))
    ranking = float(label_ranking_average_precision_score(task.truth.toarray(), raw.numpy()))
    if name == "light" and ship:
        _ship(Calibration(found.temperature / TEMPERATURE, found.middle))
    return {"scorer": name, **numbers, "LRAP": ranking, "labels a text": said, "texts": len(task.texts)}


def _ship(found: Calibration) -> None:
    """Write the embedded head with log-odds temperature · (odds − middle) instead of odds."""
    head = embedded_head()
    assert isinstance(head, CorrectedHead)
    with torch.no_grad():
        for parameter in (*head.network.last.parameters(), head.cosine.offsets):
            parameter.mul_(found.temperature)
        head.cosine.log_slopes.add_(float(np.log(found.temperature)))
        shift = found.temperature * found.middle / 2
        head.cosine.offsets.add_(torch.tensor([-shift, shift]))
    head.facts |= {
        "data": f"nli/train (103,506 pairs); calibration: training split of {SET}, {LABELS} labels drawn",
        "calibration": {"temperature": found.temperature, "middle": found.middle, "sets": [SET]},
    }
    save_head(head, EMBEDDED_FILE)
    typer.echo(f"EMBEDDED_HEAD_SHA256 = {sha256_of(EMBEDDED_FILE)!r}")


def as_markdown(content: dict[str, Any]) -> str:
    """Return the page that shows the figures."""
    columns = ["scorer", "scale", "middle", "LRAP", "labels a text said", "texts"]
    rows = [
        [
            row["scorer"],
            *(f"{row[key]:.4f}" for key in ("scale", "middle", "LRAP")),
            f"{row['labels a text']:.2f}",
            str(row["texts"]),
        ]
        for row in content["rows"]
    ]
    return (
        "# Scale and middle of the known scorers\n\n"
        f"WordNet's hypernyms, training split: {content['labels']} labels drawn, up to {content['texts']} glosses. "
        "z = scale · (raw score − middle); of `light`, the raw score is the log-odds of its head as it was.\n\n"
        f"{markdown_table(columns, rows)}\n\n{footer(content['about'])}"
    )


if __name__ == "__main__":
    app()
