"""Cuts of training splits: some texts to train on, others held out; no test text is read."""

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from benchmarks.stores import STRONG, read_scored, store_of
from bncl_pyg.corpus import Corpus, LabelSet, rows_of
from bncl_pyg.evaluation import evaluate, reliability
from bncl_pyg.features import Features, Predictions, select_labels

DATASETS = ("reuters21578", "stackex-cooking", "goemotions", "debtags")
HYPERNYMS = "wordnet-hypernyms"
USUAL_TEXTS, MOST_HELD_OUT = 3500, 6000
"""How many texts of a set are trained on, and how many are held out, at most."""


@dataclass(frozen=True)
class Cut:
    """Texts to train on and texts held out, with their labels, boolean, (texts, labels).

    Args:
        train: texts to train on.
        held_out: other texts.
        known: labels of the former.
        truth: labels of the latter.
        prevalence: the share of all texts of the split that has each label, (labels,): where there are so many labels
            that most of them occur in no text of the cut, `known` does not say how common they are.
    """

    train: Features
    held_out: Features
    known: csr_array
    truth: csr_array
    prevalence: NDArray[np.float64]

    def some_labels(self, chosen: NDArray[np.int64]) -> "Cut":
        """Return the cut with some of the labels; texts that have none of them stay."""
        names, descriptions = self.train.labels.names, self.train.labels.descriptions
        labels = LabelSet(tuple(names[one] for one in chosen), tuple(descriptions[one] for one in chosen))
        train, held_out = select_labels(self.train, labels), select_labels(self.held_out, labels)
        return Cut(train, held_out, self.known[:, chosen], self.truth[:, chosen], self.prevalence[chosen])

    def third(self, draw: int) -> "Cut":
        """Return the cut with a third of the labels, drawn; every draw keeps a label that occurs."""
        labels = self.known.shape[1]
        return self.some_labels(np.sort(np.random.default_rng(draw).choice(labels, labels // 3, replace=False)))

    def some_texts(self, count: int) -> "Cut":
        """Return the cut with fewer texts to train on."""
        rows = np.sort(np.random.default_rng(0).permutation(len(self.train))[:count])
        return replace(self, train=self.train.rows(rows), known=self.known[rows])


@cache
def read_cut(data: Path, stores: Path, dataset: str, scorer: str = STRONG, texts: int = USUAL_TEXTS) -> Cut:
    """Return the cut of a data set whose training texts were scored.

    Args:
        data: the folder with the data sets.
        stores: the folder with the feature stores.
        dataset: its name.
        scorer: of the store.
        texts: how many are trained on, at most.
    """
    labels = LabelSet.read(data / dataset / "labels.jsonl")
    scored = read_scored(store_of(stores, dataset, "train"), scorer)
    corpus = Corpus.read(data / dataset / "train.jsonl", labels)
    corpus = corpus.rows(rows_of(scored.ids, corpus.ids, "The training split"))
    assert corpus.annotations is not None
    order = np.random.default_rng(100).permutation(len(corpus))
    fifth = min(len(order) // 5, MOST_HELD_OUT)
    held, rest = np.sort(order[:fifth]), np.sort(order[fifth:][:texts])
    known, truth = corpus.annotations[rest], corpus.annotations[held]
    prevalence = np.asarray(corpus.annotations.mean(axis=0), dtype=np.float64).ravel()
    return Cut(scored.rows(rest), scored.rows(held), known, truth, prevalence)


def figures_of(cut: Cut, predicted: Predictions) -> dict[str, float | list[float]]:
    """Return what predictions of the texts held out are worth."""
    decisions, truth = predicted.indicator(), cut.truth
    none, given_none = (np.asarray(part.sum(axis=1)).ravel() == 0 for part in (truth, decisions))
    metrics = evaluate(truth, decisions)
    figures: dict[str, float | list[float]] = {
        "metrics": [round(value, 4) for value in metrics],
        "F1 of none": round(float(2 * (none & given_none).sum() / max((none.sum() + given_none.sum()), 1)), 4),
        "without any": round(float(none.mean()), 3),
        # ebF1 is 0 for a text without labels whatever is said of it; here a text that is rightly given none counts 1.
        "ebF1 with none": round(float(metrics[2] + (none & given_none).mean()), 4),
        "labels given": round(float(decisions.sum() / max(len(none), 1)), 3),
    }
    if predicted.candidates is None:
        probabilities, start = predicted.probability_matrix(), cut.held_out.zero_shot_probabilities().numpy()
        figures["calibration error"] = round(reliability(truth, probabilities).error(), 4)
        figures["calibration error of the start"] = round(reliability(truth, start).error(), 4)
    return figures
