"""Choices about scorers, on samples of training texts: windows of long texts, 8 bits, reranking.

    BNCL_DATA=folder python -m benchmarks.scorer_choices windows|int8|rerank

Each table is kept set by set, so that a run that is stopped goes on. No test text is read.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.metrics import label_ranking_average_precision_score
from torch import Tensor

from benchmarks.results import FOLDER, about_this_run, footer, markdown_table
from bncl_pyg.corpus import Corpus, LabelSet
from bncl_pyg.estimator import BNCLClassifier
from bncl_pyg.evaluation import evaluate
from bncl_pyg.features import Features, score_texts
from bncl_pyg.persistence import read_json, write_bytes, write_json
from bncl_pyg.priors import Priors
from bncl_pyg.scorers import RERANKER, BiEncoderScorer, hypotheses_of, join_scores, load_scorer

LONG = ("stackex-cooking", "reuters21578", "debtags")
"""The sets with texts that are longer than a window."""
ALL = (*LONG, "goemotions")
TEXTS = {"windows": 800, "int8": 1500, "rerank": 100}
WINDOWS, CANDIDATES = 4, 15
app = typer.Typer()
Data = Annotated[Path, typer.Option(envvar="BNCL_DATA", help="The folder with the data sets.")]


def sample(folder: Path, count: int) -> tuple[LabelSet, Corpus]:
    """Draw training texts, in their order."""
    labels = LabelSet.read(folder / "labels.jsonl")
    corpus = Corpus.read(folder / "train.jsonl", labels)
    rows = np.random.default_rng(1).choice(len(corpus), min(count, len(corpus)), replace=False)
    return labels, corpus.rows(np.sort(rows))


def quality(features: Features, corpus: Corpus) -> list[float]:
    """Return ebF1, miF1 and maF1 of the default recipe, annotation-free with κ and λ known, on its own texts."""
    assert corpus.annotations is not None
    priors = Priors.from_annotations(corpus.annotations)
    predicted = BNCLClassifier(prevalence=priors).fit(features).predict(features)
    found = evaluate(corpus.annotations, predicted)
    return [round(value, 4) for value in (found.ebF1, found.miF1, found.maF1)]


@app.command()
def windows(data: Data) -> None:
    """Compare the first window alone with the mean of up to four, and with the best of them."""

    def one(name: str) -> list[dict[str, Any]]:
        labels, corpus = sample(data / name, TEXTS["windows"])
        first, several = (load_scorer("light", windows=count) for count in (1, WINDOWS))
        assert isinstance(several, BiEncoderScorer)
        reading = several.reading(corpus.texts)
        assert reading is not None
        best = score_texts(corpus, labels, several)
        rules = {
            "the first window": score_texts(corpus, labels, first),
            f"the mean of up to {WINDOWS}": mean_window(corpus, labels, several, best),
            f"the best of up to {WINDOWS}": best,
        }
        return [
            {"set": name, "rule": rule, "windows": reading.windows, "metrics": quality(features, corpus)}
            for rule, features in rules.items()
        ]

    _keep("windows", LONG, one, ["set", "rule", "windows a text (of up to 4)"], _windows_row, WINDOWS_TEXT)


def mean_window(corpus: Corpus, labels: LabelSet, scorer: BiEncoderScorer, best: Features) -> Features:
    """Return features whose scores are of the mean of a text's window vectors."""
    against = scorer.label_vectors(hypotheses_of(labels.phrases()))
    entailment, contradiction = scorer.head(scorer.vectors(corpus.texts), against)
    return Features(corpus.ids, labels, entailment, contradiction, {}, best.vectors, best.words)


@app.command()
def int8(data: Data) -> None:
    """Compare `light` in 8 bits with torch in float32."""

    def one(name: str) -> list[dict[str, Any]]:
        labels, corpus = sample(data / name, TEXTS["int8"])
        rows = []
        for backend in ("torch", "onnx-int8"):
            features = score_texts(corpus, labels, load_scorer("light", backend=backend))
            rows.append({"set": name, "backend": backend, "metrics": quality(features, corpus)})
        return rows

    _keep("int8", ALL, one, ["set", "light computed by"], lambda row: [row["set"], row["backend"]], INT8_TEXT)


@app.command()
def rerank(data: Data) -> None:
    """Rank each text's candidates with and without a cross-encoder that reads text and label together."""

    def one(name: str) -> list[dict[str, Any]]:
        labels, corpus = sample(data / name, TEXTS["rerank"])
        assert corpus.annotations is not None
        hypotheses = hypotheses_of(labels.descriptions)
        strong, marco = load_scorer("strong"), load_scorer(RERANKER)
        candidates = strong.top_labels(corpus.texts, hypotheses, min(CANDIDATES, len(labels)))
        scores = {"strong": strong.score(corpus.texts, hypotheses, candidates)}
        began = time.perf_counter()
        scores[RERANKER] = marco.score(corpus.texts, hypotheses, candidates)
        seconds = time.perf_counter() - began
        # As `--rerank` joins it: one more part beside the three.
        scores["strong, reranked"] = join_scores([*[scores["strong"]] * 3, scores[RERANKER]])
        truth = np.take_along_axis(corpus.annotations.toarray(), candidates.numpy(), axis=1)
        return [
            {"set": name, "scorer": scorer, "metrics": [round(_lrap(truth, one), 4)], "seconds": round(seconds, 1)}
            for scorer, one in scores.items()
        ]

    _keep("rerank", ALL, one, ["set", "scorer"], lambda row: [row["set"], row["scorer"]], RERANK_TEXT, ["LRAP"])


def _lrap(truth: Any, scores: Tensor) -> float:
    some = truth.any(axis=1)
    odds = (scores[0] + 1e-9).log() - (scores[1] + 1e-9).log()
    return float(label_ranking_average_precision_score(truth[some], odds.numpy()[some]))


def _windows_row(row: dict[str, Any]) -> list[str]:
    return [row["set"], row["rule"], f"{row['windows']:.2f}"]


def _keep(
    table: str,
    sets: tuple[str, ...],
    measure: Callable[[str], list[dict[str, Any]]],
    columns: list[str],
    shown: Callable[[dict[str, Any]], list[str]],
    text: str,
    metrics: list[str] | None = None,
) -> None:
    """Measure the sets that are not there yet, and write the table."""
    file = FOLDER / f"{table}.json"
    content: dict[str, Any] = read_json(file) if file.is_file() else {"rows": []}
    for name in sets:
        if any(row["set"] == name for row in content["rows"]):
            continue
        content["rows"] += measure(name)
        content["about"] = about_this_run()
        write_json(file, content)
        for row in content["rows"]:
            typer.echo(str(row)) if row["set"] == name else None
    rows = [[*shown(row), *(f"{value:.4f}" for value in row["metrics"])] for row in content["rows"]]
    page = f"{text}\n\n{markdown_table([*columns, *(metrics or ['ebF1', 'miF1', 'maF1'])], rows)}"
    write_bytes(FOLDER / f"{table}.md", (page + footer(content["about"])).encode())


WINDOWS_TEXT = (
    f"# Whole texts, or their beginning\n\nUp to {TEXTS['windows']} training texts of each set with long texts, "
    "scorer `light`, default recipe, annotation-free with κ and λ known: windows of 128 tokens that share a quarter."
)
INT8_TEXT = (
    f"# 8 bits\n\nUp to {TEXTS['int8']} training texts of each set, scorer `light`, default recipe, annotation-free "
    "with κ and λ known."
)
RERANK_TEXT = (
    f"# Reranking\n\n{TEXTS['rerank']} training texts of each set: how well each text's {CANDIDATES} best labels are "
    "ranked (label ranking average precision, of texts with a true label among them), by `strong`, by the "
    "cross-encoder ms-marco-MiniLM-L12-v2 alone, and by both (`--rerank`)."
)

if __name__ == "__main__":
    app()
