"""The baselines by name, and what they are allowed to see."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bncl_pyg.corpus import Corpus
from bncl_pyg.errors import InputError
from bncl_pyg.evaluation.baselines.linear import EncoderLogistic, TfidfSVC
from bncl_pyg.evaluation.baselines.ml_aram import MLARAM
from bncl_pyg.evaluation.baselines.ml_knn import MLkNN
from bncl_pyg.evaluation.baselines.thresholds import prevalence_quantile, top_cardinality
from bncl_pyg.features import Features
from bncl_pyg.priors import Priors


@dataclass(frozen=True)
class Evidence:
    """What a baseline may see; no test label is in it.

    Args:
        train: the scored training texts.
        test: the scored texts to decide on.
        priors: κ and λ, in numbers.
        annotated: the annotated texts, if there are any.
        test_texts: the texts to decide on, in the order of `test`.
        encode: from texts to unit vectors, (texts, dimensions).
        seed: of whatever a baseline draws.
    """

    train: Features
    test: Features
    priors: Priors
    annotated: Corpus | None
    test_texts: Sequence[str]
    encode: Callable[[Sequence[str]], Tensor]
    seed: int = 0

    def __post_init__(self) -> None:
        self.train.labels.check_same(self.test.labels, "the training features", "the test features")
        if self.train.scorer != self.test.scorer:
            raise InputError(
                "The training texts were scored by another scorer than the test texts, or with other options: "
                "thresholds cannot be carried over."
            )
        if len(self.test_texts) != len(self.test):
            raise InputError(f"There are {len(self.test)} scored texts, but {len(self.test_texts)} texts.")

    @property
    def examples(self) -> Corpus:
        """The annotated texts, where a baseline cannot do without."""
        if self.annotated is None or self.annotated.annotations is None:
            raise InputError("This baseline needs annotated texts.")
        return self.annotated

    @cached_property
    def example_vectors(self) -> NDArray[np.float32]:
        """The annotated texts' vectors, (annotated texts, dimensions)."""
        return self.encode(self.examples.texts).numpy()

    @cached_property
    def test_vectors(self) -> NDArray[np.float32]:
        """The vectors of the texts to decide on, (texts, dimensions)."""
        return self.encode(self.test_texts).numpy()


class Baseline(NamedTuple):
    """One method."""

    needs_annotations: bool
    decide: Callable[[Evidence], NDArray[np.bool_]]
    """Returns which labels each text has; boolean, (texts, labels)."""


def _top_cardinality(given: Evidence) -> NDArray[np.bool_]:
    assert given.priors.cardinality is not None
    return top_cardinality(given.test.entailment, given.priors.cardinality)


def _quantile(given: Evidence) -> NDArray[np.bool_]:
    decisions = prevalence_quantile(given.test.entailment, given.train.entailment, given.priors.shares)
    # A label that was not even a candidate for a text has no score, and a threshold may be as low as that.
    scored: NDArray[np.bool_] = (given.test.entailment > 0).numpy()
    return decisions & scored


def _ml_knn(given: Evidence) -> NDArray[np.bool_]:
    return MLkNN().fit(given.example_vectors, given.examples.annotations).predict(given.test_vectors)


def _ml_aram(given: Evidence) -> NDArray[np.bool_]:
    return MLARAM().fit(given.example_vectors, given.examples.annotations).predict(given.test_vectors)


def _tfidf_svc(given: Evidence) -> NDArray[np.bool_]:
    return TfidfSVC().fit(given.examples.texts, given.examples.annotations).predict(given.test_texts)


def _logistic(given: Evidence) -> NDArray[np.bool_]:
    model = EncoderLogistic(seed=given.seed).fit(given.example_vectors, given.examples.annotations)
    return model.predict(given.test_vectors)


BASELINES = {
    "zero-shot": Baseline(False, lambda given: given.test.zero_shot().numpy()),
    "top-κ": Baseline(False, _top_cardinality),
    "λ-quantile": Baseline(False, _quantile),
    "ML-kNN": Baseline(True, _ml_knn),
    "ML-ARAM": Baseline(True, _ml_aram),
    "TF-IDF + LinearSVC": Baseline(True, _tfidf_svc),
    "encoder + logistic regression": Baseline(True, _logistic),
}


def run_baselines(given: Evidence) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yield the name and the decisions of every baseline that the evidence allows."""
    for name, baseline in BASELINES.items():
        if given.annotated is not None or not baseline.needs_annotations:
            yield name, baseline.decide(given)
