"""A trained classifier against the truth, beside the scores that it started from and what one could use instead."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from torch import Tensor

from bncl_pyg.classifier import BNCLClassifier
from bncl_pyg.corpus import Corpus, rows_of
from bncl_pyg.errors import InputError
from bncl_pyg.evaluation.baselines import Evidence, run_baselines
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
    annotated: int
    """How many annotated texts the baselines that learn from them were given."""
    ranking: dict[str, float]
    cardinality: float
    """How many labels a text is given on average."""
    labels: list[LabelScores]

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        return {
            "metrics": self.metrics._asdict(),
            "baselines": {name: metrics._asdict() for name, metrics in self.baselines.items()},
            "baselines_annotated_texts": self.annotated,
            "ranking": self.ranking,
            "texts": self.texts,
            "predicted_cardinality": self.cardinality,
            "labels": [row._asdict() for row in self.labels],
        }


@dataclass(frozen=True)
class BaselineInputs:
    """What the baselines need besides the test texts.

    Args:
        training: the scored texts that the model was trained on.
        annotated: annotated texts, if there are any; of those that the model was trained on, the same are used.
        encode: from texts to unit vectors, (texts, dimensions).
    """

    training: Features
    annotated: Corpus | None
    encode: Callable[[Sequence[str]], Tensor]

    def evidence(self, classifier: BNCLClassifier, test: Features, texts: Sequence[str]) -> Evidence:
        """Return what the model saw, for the baselines to see; annotated texts must not be among the test texts."""
        used = list(dict.fromkeys(classifier.annotated_ids_))
        annotated = self.annotated
        if used and annotated is None:
            raise InputError(
                f"The model was trained on {len(used)} annotated texts; give them to the baselines too, "
                f"with --annotated TEXTS."
            )
        if used and annotated is not None:
            annotated = annotated.rows(rows_of(used, annotated.ids, "The file of annotated texts"))
        if annotated is not None:
            tested = set(zip(test.ids, texts, strict=True))
            for identifier, text in zip(annotated.ids, annotated.texts, strict=True):
                if (identifier, text) in tested:
                    raise InputError(
                        f"The text '{identifier}' is both an annotated text and a test text: the baselines would "
                        f"learn what they are tested on."
                    )
        return Evidence(self.training, test, classifier.supervision_, annotated, texts, self.encode)


def evaluate_classifier(
    classifier: BNCLClassifier, features: Features, truth: Corpus, inputs: BaselineInputs | None = None
) -> Evaluation:
    """Compare a classifier's predictions with the truth; every text must be in both, in any order.

    Args:
        classifier: trained.
        features: the scored test texts.
        truth: the test texts and their labels.
        inputs: what all baselines need; without it, only the zero-shot start stands beside the model.
    """
    assert truth.annotations is not None
    rows = rows_of(features.ids, truth.ids, "The truth")
    rows_of(truth.ids, features.ids, "The folder of features")
    true: csr_array = truth.annotations[rows]
    predicted, scores = classifier.predict(features), classifier.predict_proba(features)
    ranking = {f"P@{k}": precision_at(true, scores, k) for k in BEST if k <= len(features.labels)}
    decided, annotated = {"zero-shot": features.zero_shot().numpy()}, 0
    if inputs is not None:
        given = inputs.evidence(classifier, features, [truth.texts[row] for row in rows])
        decided = dict(run_baselines(given))
        annotated = 0 if given.annotated is None else len(given.annotated)
    return Evaluation(
        texts=len(features),
        metrics=evaluate(true, predicted),
        baselines={name: evaluate(true, said) for name, said in decided.items()},
        annotated=annotated,
        ranking={**ranking, "coverage": coverage(true, scores)},
        cardinality=float(np.mean(predicted.sum(axis=1))),
        labels=label_table(true, predicted, features.labels),
    )
