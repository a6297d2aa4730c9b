"""The default recipe by scorer: strong, its parts, light and fast, on test texts; and what reading them costs.

    BNCL_DATA=folder python -m benchmarks.scorers [--datasets reuters21578] [--minutes 60]

Features are made once and kept in the cache; every training is saved when it is done; a run that is stopped goes on.
No choice is made on test data: recipes and scorers are as they are released.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.quality.plan import Trial
from benchmarks.quality.trials import known_priors
from benchmarks.results import FOLDER, footer, markdown_table
from benchmarks.runs import CORES, Minutes, Workers, measure, open_results
from benchmarks.stores import only_part
from bncl_pyg.corpus import Corpus, LabelSet
from bncl_pyg.estimator import BNCLClassifier
from bncl_pyg.evaluation import evaluate, reliability
from bncl_pyg.features import Features, featurize, read_features
from bncl_pyg.graph import build_graph
from bncl_pyg.persistence import write_bytes
from bncl_pyg.priors import Priors
from bncl_pyg.scorers import load_scorer
from bncl_pyg.training import Annotated as AnnotatedTexts
from bncl_pyg.training import draw

DATASETS = ("reuters21578", "stackex-cooking", "goemotions", "debtags")
SOME = {"debtags": {"train": 6000, "test": 2000}, "goemotions": {"train": 10_000}}
"""Of how many texts, drawn by chance, a set is measured, where all of them would take hours."""
STORED = ("strong", "fast")
"""What is featurized; the parts of strong are read from its store."""
SCORERS = ("strong", "light", "bge", "colbert", "fast")
LEVELS = ("0", "L", "100%")
"""How many texts are annotated: none, as many as there are labels, all."""
ROUGH = ("words", "auto", "scarce")
"""What is known instead of κ and λ, with `strong`: a word a label, nothing, nothing but L annotated texts."""
METRICS = ("ACC", "HA", "ebF1", "miF1", "maF1")
NAME = "scorers"


@dataclass(frozen=True)
class Job:
    """One training."""

    dataset: str
    scorer: str
    level: str = "0"
    rough: str = ""
    seed: int = 0

    @property
    def key(self) -> str:
        """What it is called in the file of results."""
        return "/".join((self.dataset, self.scorer, self.rough or "known", self.level, str(self.seed)))


def main(
    data: Annotated[Path, typer.Option(envvar="BNCL_DATA", help="The folder with the data sets.")],
    datasets: Annotated[str, typer.Option(help="Which of them, with commas between.")] = ",".join(DATASETS),
    kept: Annotated[Path, typer.Option("--cache", help="Where features are kept.")] = Path("benchmarks/.cache/scorers"),
    seeds: Annotated[int, typer.Option(min=1, help="Draws of annotated texts.")] = 3,
    workers: Workers = CORES,
    minutes: Minutes = None,
    out: Annotated[Path, typer.Option(help="The folder for JSON and Markdown.")] = FOLDER,
) -> None:
    """Measure what is missing and write the page."""
    last = None if minutes is None else time.perf_counter() + 60 * minutes
    file = out / f"{NAME}.json"
    content = open_results(file)
    content.setdefault("sets", {})
    for name in datasets.split(","):
        content["sets"][name] = prepare(data / name, kept)
        measure(content, file, jobs(name, seeds), partial(perform, data, kept), workers, last)
    write_bytes(out / f"{NAME}.md", as_markdown(content).encode())


def jobs(dataset: str, seeds: int) -> Iterator[Job]:
    """Yield the trainings, those that matter most first."""
    yield from (Job(dataset, scorer) for scorer in SCORERS)
    yield from (Job(dataset, "strong", rough=rough) for rough in ROUGH if rough != "scarce")
    yield from (Job(dataset, scorer, "L") for scorer in SCORERS)
    yield Job(dataset, "strong", "L", "scarce")
    yield from (Job(dataset, scorer, "100%") for scorer in SCORERS)
    for seed in range(1, seeds):
        yield Job(dataset, "strong", "L", seed=seed)
        yield Job(dataset, "strong", "L", "scarce", seed)


def prepare(folder: Path, kept: Path) -> dict[str, Any]:
    """Featurize both splits by what is stored; return what identifies them."""
    labels = LabelSet.read(folder / "labels.jsonl")
    about: dict[str, Any] = {"labels": len(labels), "scorers": {}}
    for name in STORED:
        scorer = load_scorer(name)
        about["scorers"][name] = scorer.config()
        for split in ("train", "test"):
            texts = _drawn(Corpus.read(folder / f"{split}.jsonl"), folder.name, split)
            rows = list(zip(texts.ids, texts.texts, strict=True))
            done = featurize(lambda rows=rows: rows, labels, scorer, _store(kept, folder.name, split, name))  # type: ignore[misc]
            about[split] = done.texts
    return about


def _store(kept: Path, dataset: str, split: str, scorer: str) -> Path:
    return kept / (f"{dataset}-{split}" if scorer == "strong" else f"{dataset}-{split}-{scorer}")


@cache
def _features(kept: Path, dataset: str, scorer: str) -> tuple[Features, Features]:
    """Return training and test texts as a scorer sees them: one that is stored, or a part of strong."""
    stored = scorer if scorer in STORED else "strong"
    both = []
    for split in ("train", "test"):
        features = read_features(_store(kept, dataset, split, stored), parts=scorer not in STORED)
        both.append(features if scorer in STORED else only_part(features, scorer))
    return both[0], both[1]


@cache
def _corpora(folder: Path) -> tuple[LabelSet, Corpus, Corpus]:
    labels = LabelSet.read(folder / "labels.jsonl")
    train, test = (
        _drawn(Corpus.read(folder / f"{split}.jsonl", labels), folder.name, split) for split in ("train", "test")
    )
    return labels, train, test


def _drawn(corpus: Corpus, dataset: str, split: str) -> Corpus:
    """Return some of the texts, where not all are measured."""
    count = SOME.get(dataset, {}).get(split, len(corpus))
    if count >= len(corpus):
        return corpus
    return corpus.rows(np.sort(np.random.default_rng(0).choice(len(corpus), count, replace=False)))


def perform(data: Path, kept: Path, job: Job) -> dict[str, Any]:
    """Train once, and measure on the test texts."""
    labels, train, test = _corpora(data / job.dataset)
    scored, held_out = _features(kept, job.dataset, job.scorer)
    assert train.annotations is not None
    assert test.annotations is not None
    exact = Priors.from_annotations(train.annotations)
    priors: Priors | None = exact
    if job.rough:
        priors = None if job.rough == "scarce" else known_priors(Trial("default", rough=job.rough), exact, job.seed)  # type: ignore[arg-type]
    annotated = None
    if job.level != "0":
        everything = AnnotatedTexts(np.arange(len(train)), train.annotations)
        count = len(train) if job.level == "100%" else min(len(labels), len(train))
        annotated = everything.drawn(draw(len(train), count, job.seed))
    began = time.perf_counter()
    classifier = BNCLClassifier(prevalence=priors, graph=build_graph(labels), seed=job.seed).fit(scored, annotated)
    predicted = classifier.predictions(held_out)
    seconds = time.perf_counter() - began
    truth = test.annotations
    error = reliability(truth, predicted.probability_matrix()).error()
    return {
        "metrics": [round(value, 6) for value in evaluate(truth, predicted.indicator())],
        "zero-shot": [round(value, 6) for value in evaluate(truth, held_out.zero_shot().numpy())],
        "calibration error": round(error, 6),
        "seconds": round(seconds, 1),
    }


def as_markdown(content: dict[str, Any]) -> str:
    """Return the page that shows the figures."""
    lines = [
        "# The default recipe by scorer\n",
        "Test texts. *known*: κ and λ are known, of the training split; *words*: λ in four words; *auto*: nothing is "
        "known; *scarce*: nothing but the annotated texts. L is as many annotated texts as there are labels (mean of "
        "the draws, with their number). bge and colbert are parts of strong, as light is; colbert has no vectors of "
        "whole texts and is shown with MiniLM's. Constants of recipe and scorers were chosen on training splits of "
        "these sets and on WordNet's hypernyms; the README here says how.\n",
    ]
    for name, about in content["sets"].items():
        shown: list[list[str]] = []
        for scorer in SCORERS:
            for rough, level in [
                ("", "0"),
                *((rough, "0") for rough in ROUGH[:2]),
                ("scarce", "L"),
                ("", "L"),
                ("", "100%"),
            ]:
                runs = [
                    content["runs"][job.key]
                    for job in (Job(name, scorer, level, rough, seed) for seed in range(100))
                    if job.key in content["runs"]
                ]
                if not runs:
                    continue
                if not shown or shown[-1][0] != scorer:
                    start = runs[0]["zero-shot"]
                    shown.append([scorer, "zero-shot start", "0", *(f"{value:.4f}" for value in start), ""])
                means = np.mean([run["metrics"] for run in runs], axis=0)
                texts = level if len(runs) == 1 else f"{level} ({len(runs)})"
                error = float(np.mean([run["calibration error"] for run in runs]))
                shown.append([scorer, rough or "known", texts, *(f"{value:.4f}" for value in means), f"{error:.4f}"])
        columns = ["scorer", "priors", "annotated texts", *METRICS, "calibration error"]
        some = ", of which the set has more: they were drawn by chance" if name in SOME else ""
        lines.append(f"## {name}\n\n{about['train']} / {about['test']} texts{some}; {about['labels']} labels.\n")
        lines.append(markdown_table(columns, shown))
    return "\n".join(lines) + footer(content["sessions"][-1])


if __name__ == "__main__":
    typer.run(main)
