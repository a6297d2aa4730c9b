"""One linear decision a label: what most people try first once they have annotated texts."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.svm import LinearSVC

from bncl_pyg.errors import InputError
from bncl_pyg.evaluation.metrics import evaluate
from bncl_pyg.training import PCAInputs, fit_logistic

CS = (1.0, 10.0, 100.0)
HELD_OUT = 5
"""One of so many annotated texts is held out where a C is chosen."""
MOST_STEPS = 60
"""Where fitting ends at the latest."""


class TfidfSVC(BaseEstimator):
    """TF-IDF of the words and a linear support vector machine for each label, with scikit-learn's own defaults."""

    def fit(self, texts: Sequence[str], annotations: csr_array) -> "TfidfSVC":
        """Train; `annotations` is boolean, (texts, labels)."""
        self.vectorizer_ = TfidfVectorizer()
        try:
            vectors = self.vectorizer_.fit_transform(texts)
        except ValueError as error:
            raise InputError(f"TF-IDF cannot be computed for the annotated texts: {error}") from None
        self.always_, self.learned_ = _kinds(annotations)
        columns = csr_array(annotations).astype(np.int8).tocsc()
        self.machines_ = [
            LinearSVC(random_state=0).fit(vectors, columns[:, [label]].toarray().ravel())
            for label in np.flatnonzero(self.learned_)
        ]
        return self

    def predict(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Return which labels each text has; boolean, (texts, labels)."""
        vectors = self.vectorizer_.transform(texts)
        decisions = np.tile(self.always_, (len(texts), 1))
        for label, machine in zip(np.flatnonzero(self.learned_), self.machines_, strict=True):
            decisions[:, label] = machine.decision_function(vectors) > 0
        return decisions


class EncoderLogistic(BaseEstimator):
    r"""Logistic regression of every label on the encoder's vectors, all labels at once.

    .. math:: \min_{w, b} \sum_i \log(1 + e^{-y_i (w · x_i + b)}) + \frac{1}{2C} \|w\|^2

    Args:
        C: the inverse of the regularization; if not given, the one of 1, 10 and 100 whose miF1 is best on a fifth of
            the annotated texts, held out for that; the model is then fitted to all of them.
        seed: of the choice of the texts held out.
    """

    def __init__(self, C: float | None = None, seed: int = 0) -> None:
        self.C = C
        self.seed = seed

    def fit(self, vectors: NDArray[np.floating], annotations: csr_array) -> "EncoderLogistic":
        """Train; `annotations` is boolean, (texts, labels)."""
        self.always_, self.learned_ = _kinds(annotations)
        truth = csr_array(annotations).toarray().astype(bool)
        self.C_ = self._chosen(vectors, truth) if self.C is None else self.C
        self.weights_, self.intercepts_ = _regressions(vectors, truth[:, self.learned_], self.C_)
        return self

    def predict(self, vectors: NDArray[np.floating]) -> NDArray[np.bool_]:
        """Return which labels each text has; boolean, (texts, labels)."""
        decisions = np.tile(self.always_, (len(vectors), 1))
        decisions[:, self.learned_] = vectors @ self.weights_ + self.intercepts_ > 0
        return decisions

    def _chosen(self, vectors: NDArray[np.floating], truth: NDArray[np.bool_]) -> float:
        order = np.random.default_rng(self.seed).permutation(len(vectors))
        held, rest = order[::HELD_OUT], np.delete(order, np.s_[::HELD_OUT])
        if not truth[held].any() or not truth[rest].any():
            return CS[1]
        scores = {}
        for C in CS:
            model = EncoderLogistic(C).fit(vectors[rest], csr_array(truth[rest]))
            scores[C] = evaluate(truth[held], model.predict(vectors[held])).miF1
        return max(scores, key=scores.__getitem__)


def _kinds(annotations: csr_array) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which labels all texts have, and which only some have; a label that none has is never predicted."""
    texts = annotations.shape[0]
    counts = np.asarray(annotations.sum(axis=0))
    return counts == texts, (counts > 0) & (counts < texts)


def _regressions(
    vectors: NDArray[np.floating], truth: NDArray[np.bool_], C: float
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return weights, (dimensions, labels), and intercepts, (labels,)."""
    inputs, targets = torch.as_tensor(vectors, dtype=torch.float32), torch.from_numpy(truth).float()
    base = targets.mean(dim=0).logit()
    fitted = fit_logistic(PCAInputs.fit(inputs), targets, base, C, steps=MOST_STEPS)
    return fitted.weights.numpy(), (base + fitted.intercepts).numpy()
