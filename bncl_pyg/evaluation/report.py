"""A trained classifier against the truth, beside the scores that it started from."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from bncl_pyg.classifier import BNCLClassifier
from bncl_pyg.corpus import Corpus, rows_of
from bncl_pyg.evaluation.metrics import LabelScores, Metrics, coverage, evaluate, label_table, precision_at
from bncl_pyg.nli import Features

BEST = (1, 3, 5)
"""The k of precision@k."""


@dataclass(frozen=True)
class Evaluation:
    """What `bncl eval` shows and writes."""

    texts: int
    metrics: Metrics
    baselines: dict[str, Metrics]
    ranking: dict[str, float]
    cardinality: float
    """How many labels a text is given on average."""
    labels: list[LabelScores]

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        return {
            "metrics": self.metrics._asdict(),
            "baselines": {name: metrics._asdict() for name, metrics in self.baselines.items()},
            "ranking": self.ranking,
            "texts": self.texts,
            "predicted_cardinality": self.cardinality,
            "labels": [row._asdict() for row in self.labels],
        }


def evaluate_classifier(classifier: BNCLClassifier, features: Features, truth: Corpus) -> Evaluation:
    """Compare a classifier's predictions with the truth; every text must be in both, in any order."""
    assert truth.annotations is not None
    rows = rows_of(features.ids, truth.ids, "The truth")
    rows_of(truth.ids, features.ids, "The folder of features")
    true: csr_array = truth.annotations[rows]
    predicted, scores = classifier.predict(features), classifier.predict_proba(features)
    ranking = {f"P@{k}": precision_at(true, scores, k) for k in BEST if k <= len(features.labels)}
    return Evaluation(
        texts=len(features),
        metrics=evaluate(true, predicted),
        baselines={"zero-shot": evaluate(true, features.zero_shot().numpy())},
        ranking={**ranking, "coverage": coverage(true, scores)},
        cardinality=float(np.mean(predicted.sum(axis=1))),
        labels=label_table(true, predicted, features.labels),
    )
