"""A trained classifier against the truth, beside the scores that it started from and what one could use instead."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from scipy.sparse import csr_array
from torch import Tensor

from bncl_pyg.corpus import Corpus, digest, rows_of
from bncl_pyg.errors import InputError
from bncl_pyg.estimator import BNCLClassifier
from bncl_pyg.evaluation.baselines import Evidence, run_baselines
from bncl_pyg.evaluation.metrics import (
    Decisions,
    LabelScores,
    Metrics,
    Scores,
    coverage,
    evaluate,
    label_table,
    precision_at,
    reliability,
)
from bncl_pyg.features import Features

log = logging.getLogger(__name__)

BEST = (1, 3, 5)
"""The k of precision@k."""


@dataclass(frozen=True)
class Evaluation:
    """A classifier's figures on test texts, and those of what one could use instead."""

    texts: int
    metrics: Metrics
    baselines: dict[str, Metrics]
    annotated: int
    """How many annotated texts the baselines that learn from them were given."""
    ranking: dict[str, float]
    calibration: dict[str, float]
    """The expected calibration error of the model's probabilities and of the zero-shot start's."""
    cardinality: float
    """How many labels a text is given on average."""
    true_cardinality: float
    """How many it has."""
    labels: list[LabelScores]

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        return {
            "metrics": self.metrics._asdict(),
            "baselines": {name: metrics._asdict() for name, metrics in self.baselines.items()},
            "baselines_annotated_texts": self.annotated,
            "ranking": self.ranking,
            "calibration_error": self.calibration,
            "texts": self.texts,
            "predicted_cardinality": self.cardinality,
            "true_cardinality": self.true_cardinality,
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
        if digest(self.training.ids) != classifier.texts_digest_:
            raise InputError(
                f"The model was trained on {classifier.n_texts_} texts, but the folder of training features "
                f"holds others ({len(self.training)}): give those that the model was trained on."
            )
        annotated = self.annotated
        if classifier.annotated_:
            annotated = self._annotated_in_training(classifier)
        if annotated is not None:
            _check_disjoint(annotated, test.ids, texts)
        return Evidence(self.training.filled(), test.filled(), classifier.priors_, annotated, texts, self.encode)

    def _annotated_in_training(self, classifier: BNCLClassifier) -> Corpus:
        """Return the annotated texts that the model was trained on."""
        used, given = classifier.annotated_, self.annotated
        if given is None:
            raise InputError(
                f"The model was trained on {len(used)} annotated texts; give them to the baselines too, with "
                f'annotated="TEXTS".'
            )
        missing = sorted(used.keys() - set(given.ids))
        if missing:
            raise InputError(
                f"The annotated texts lack {len(missing)} of the {len(used)} that the model was trained on, such as "
                f"'{missing[0]}': give all that it was trained on."
            )
        own = given.rows(rows_of(list(used), given.ids, "The file of annotated texts"))
        assert own.annotations is not None
        for row, (identifier, names) in enumerate(used.items()):
            if {classifier.labels_.place(name) for name in names} != set(own.annotations[[row]].indices.tolist()):
                raise InputError(
                    f"The annotated text '{identifier}' has other labels than when the model was trained: "
                    f"{', '.join(names) or 'none'}."
                )
        return own


def _check_disjoint(annotated: Corpus, ids: Sequence[str], texts: Sequence[str]) -> None:
    """Refuse annotated texts that are test texts; the same words under another id are only logged."""
    tested = set(zip(ids, texts, strict=True))
    for identifier, text in zip(annotated.ids, annotated.texts, strict=True):
        if (identifier, text) in tested:
            raise InputError(
                f"The text '{identifier}' is both an annotated text and a test text: the baselines would learn what "
                f"they are tested on; give training texts as annotated texts."
            )
    known = set(texts)
    same = sum(text in known for text in annotated.texts)
    if same:
        log.warning("%d annotated texts are, word for word, test texts too: the baselines know their labels.", same)


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
    predictions = classifier.predictions(features)
    predicted, scores = predictions.indicator(), predictions.probability_matrix()
    ranking = {f"P@{k}": precision_at(true, scores, k) for k in BEST if k <= len(features.labels)}
    start = features.sparse(features.zero_shot())
    decisions: dict[str, Decisions] = {"zero-shot": start}
    annotated = 0
    if inputs is not None:
        given = inputs.evidence(classifier, features, [truth.texts[row] for row in rows])
        decisions = dict(run_baselines(given))
        annotated = 0 if given.annotated is None else len(given.annotated)
    return Evaluation(
        texts=len(features),
        metrics=evaluate(true, predicted),
        baselines={name: evaluate(true, one) for name, one in decisions.items()},
        annotated=annotated,
        ranking={**ranking, "coverage": coverage(true, scores)},
        calibration={
            "model": reliability(true, scores).error(),
            "zero-shot": reliability(true, _as_scored(features)).error(),
        },
        cardinality=float(predicted.sum()) / max(len(features), 1),
        true_cardinality=true.nnz / len(features),
        labels=label_table(true, predicted, features.labels),
    )


def _as_scored(features: Features) -> Scores:
    """Return the zero-shot start's probabilities, sparse where texts have candidates."""
    start = features.zero_shot_probabilities()
    return start.numpy() if features.candidates is None else features.sparse(start)
