"""Chooses the scale and the middle of every known scorer on WordNet's hypernyms, which no recipe is measured on.

    BNCL_DATA=folder python -m benchmarks.calibrate_scorers [--ship]

A scorer's raw score (cosine, MaxSim, relevance, the embedded head's margin) becomes z = scale · (score − middle): the
scale by maximum likelihood, so that one unit of log-odds means the same in all of them, the middle where the plain
decision z > 0 has the highest ebF1. The task: glosses of synsets, and which of some synsets are their parents or
grandparents. `--ship` writes the embedded head with its new middle, and prints its hash; the other numbers go into
`bncl_pyg/scorers/load.py`. The network of the embedded head stays as `benchmarks.train_head` trained it.
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
from bncl_pyg.persistence import read_json, sha256_of
from bncl_pyg.scorers import (
    EMBEDDED_FILE,
    BiEncoderScorer,
    CorrectedHead,
    LateInteractionScorer,
    RelevanceScorer,
    Scorer,
    embedded_head,
    hypotheses_of,
    load_scorer,
    save_head,
)

SET = "wordnet-hypernyms"
LABELS, TEXTS, LEAST = 150, 2000, 20
"""How many labels are drawn of those with at least so many training texts, and how many of their texts."""
PAIRED = 40
"""How many texts the cross-encoder reads, which is slow."""
PARTS = ("light", "bge", "colbert", "fast", "multilingual", "ms-marco")


@dataclass(frozen=True)
class Task:
    """Glosses, the synsets that may be their hypernyms, and which are."""

    texts: list[str]
    hypotheses: list[Any]
    truth: csr_array


def main(
    data: Annotated[Path, typer.Option(envvar="BNCL_DATA", help="The folder with the data sets.")],
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


def read_task(folder: Path, seed: int = 0) -> Task:
    """Draw labels and texts of the training split."""
    chance = random.Random(seed)
    labels = [json.loads(line) for line in (folder / "labels.jsonl").open()]
    drawn = chance.sample([label for label in labels if label["n_train"] >= LEAST], LABELS)
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
    numbers = {"scale": found.temperature * unit / 2, "middle": found.middle / unit}
    said = float((raw * unit > found.middle).sum() / len(raw))
    ranking = float(label_ranking_average_precision_score(task.truth.toarray(), raw.numpy()))
    if name == "light" and ship:
        _ship(Calibration(found.temperature, found.middle))
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
    typer.run(main)
