"""What the default recipe costs beside scoring the texts: training from features, and prediction.

    BNCL_DATA=folder python -m benchmarks.default_cost

Prediction is measured against `featurize` of the same texts in the same run, in turn; each figure is a median.
"""

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated as Argument
from typing import Any, TypeVar

import numpy as np
import typer

from benchmarks.quality.datasets import DataSet
from benchmarks.results import about_this_run, footer, markdown_table, save
from bncl_pyg.estimator import BNCLClassifier
from bncl_pyg.features import featurize, read_features
from bncl_pyg.scorers import embedded_scorer
from bncl_pyg.training import Annotated, draw

TEXTS = 512
T = TypeVar("T")


def main(
    data: Argument[Path, typer.Option(envvar="BNCL_DATA", help="The folder with the data sets.")],
    datasets: Argument[str, typer.Option(help="Which of them.")] = "reuters21578,stackex-cooking,goemotions,debtags",
    cache: Argument[Path, typer.Option(help="Where vectors and scores are kept.")] = Path("benchmarks/.cache"),
    repeats: int = 3,
) -> None:
    """Measure and write the table."""
    rows = [measured(DataSet(data / name, cache, typer.echo), repeats) for name in datasets.split(",")]
    content = {"about": about_this_run(), "repeats": repeats, "texts": TEXTS, "sets": rows}
    save("default-cost", content, as_markdown(content))
    typer.echo(as_markdown(content))


def as_markdown(content: dict[str, Any]) -> str:
    """Return the page that shows the figures of a run."""
    lines = [
        [
            row["name"],
            f"{row['train']} × {row['labels']}",
            f"{row['training']:.1f} s",
            f"{row['taught']:.1f} s",
            f"{row['featurize']:.2f} s",
            f"{row['predict']:.3f} s",
            f"{row['predict'] / row['featurize']:.1%}",
        ]
        for row in content["sets"]
    ]
    columns = ["data set", "training texts × labels", "training, annotation-free", "training, with L annotated texts"]
    columns += [f"scoring {content['texts']} texts", "predicting them", "prediction beside scoring"]
    return (
        "# What the default recipe costs\n\n"
        f"From features, with all choices; medians of {content['repeats']} runs; a training of more than 5 million "
        f"(text, label) pairs runs once. Prediction is from features, scoring is `bncl featurize` with the embedded "
        f"scorer; both in the same run.\n\n" + markdown_table(columns, lines) + footer(content["about"])
    )


def measured(data: DataSet, repeats: int) -> dict[str, Any]:
    """Return the sizes of a data set and the seconds of training, scoring and prediction."""
    data.prepare()
    train, _ = data.scored
    graph = data.graph("embedded", (5.0, 95.0), 2)
    count = 1 if len(train) * len(train.labels) > 5_000_000 else repeats
    classifier = BNCLClassifier(prevalence=data.priors, graph=graph)
    annotated = _annotated(data)
    with_annotated = _timed(lambda: classifier.fit(train, annotated), count)[1]
    training = _timed(lambda: classifier.fit(train), count)[1]
    texts = list(zip(data.test.ids, data.test.texts, strict=True))[:TEXTS]
    featurizing, predicting = [], []
    with TemporaryDirectory() as folder:
        for turn in range(repeats):
            path, scorer = Path(folder) / str(turn), embedded_scorer()  # a new one: it remembers the last texts
            began = time.perf_counter()
            featurize(lambda: texts, data.labels, scorer, path)
            featurizing.append(time.perf_counter() - began)
            scored = read_features(path)
            predicting.append(_timed(lambda scored=scored: list(classifier.predict_rows(scored)), 1)[1])  # type: ignore[misc]
    return {
        "name": data.name,
        "train": len(train),
        "labels": len(train.labels),
        "training": training,
        "taught": with_annotated,
        "featurize": statistics.median(featurizing),
        "predict": statistics.median(predicting),
    }


def _annotated(data: DataSet) -> Annotated:
    """Return as many annotated texts as there are labels."""
    assert data.train.annotations is not None
    texts = len(data.train)
    everything = Annotated(np.arange(texts), data.train.annotations)
    return everything.drawn(draw(texts, min(len(data.labels), texts), seed=0))


def _timed(work: Callable[[], T], repeats: int) -> tuple[T, float]:
    """Return what the work gives and the median of its times."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - began)
    return result, statistics.median(times)


if __name__ == "__main__":
    typer.run(main)
