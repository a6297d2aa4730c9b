"""ML-kNN: a text has a label if its neighbours speak for it, weighed by what neighbours have been worth so far."""

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator

from bncl_pyg.errors import InputError

ROWS_AT_ONCE = 2048


class MLkNN(BaseEstimator):
    r"""`"ML-kNN: A lazy learning approach to multi-label learning" (Zhang and Zhou, 2007)`.

    With :math:`E_j` "exactly j of the k nearest texts have the label" and :math:`H_1`, :math:`H_0` "this text has it",
    "has it not", all frequencies taken from the training texts and smoothed by s,

    .. math:: \hat{y} = 1 \iff P(H_1) P(E_j | H_1) > P(H_0) P(E_j | H_0)

    Args:
        neighbours: k; fewer where there are not as many other texts.
        smoothing: s.
    """

    def __init__(self, neighbours: int = 10, smoothing: float = 1.0) -> None:
        self.neighbours = neighbours
        self.smoothing = smoothing

    def fit(self, vectors: NDArray[np.floating], annotations: csr_array) -> "MLkNN":
        """Count.

        Args:
            vectors: (texts, dimensions).
            annotations: boolean, (texts, labels).
        """
        texts = len(vectors)
        if texts < 2:
            raise InputError(f"ML-kNN needs at least 2 annotated texts, but has {texts}.")
        self.neighbours_ = min(self.neighbours, texts - 1)
        self.vectors_ = torch.as_tensor(vectors)
        self.annotations_ = csr_array(annotations).astype(np.int64)
        truth = self.annotations_.toarray().astype(bool)
        votes = self._votes(self.vectors_, own=True)
        smoothing, levels = self.smoothing, self.neighbours_ + 1
        of_labelled, of_others = (
            np.stack([((votes == level) & mask).sum(axis=0) for level in range(levels)]) for mask in (truth, ~truth)
        )
        prior = (smoothing + truth.sum(axis=0)) / (2 * smoothing + texts)
        self.for_ = prior * (smoothing + of_labelled) / (smoothing * levels + of_labelled.sum(axis=0))
        self.against_ = (1 - prior) * (smoothing + of_others) / (smoothing * levels + of_others.sum(axis=0))
        return self

    def predict(self, vectors: NDArray[np.floating]) -> NDArray[np.bool_]:
        """Return which labels each text has; boolean, (texts, labels)."""
        votes = self._votes(torch.as_tensor(vectors))
        of_labels = np.arange(votes.shape[1])
        decisions: NDArray[np.bool_] = self.for_[votes, of_labels] > self.against_[votes, of_labels]
        return decisions

    def _votes(self, vectors: torch.Tensor, *, own: bool = False) -> NDArray[np.int64]:
        """Return how many of each text's nearest texts have each label; a text is not its own neighbour."""
        parts = []
        for start in range(0, len(vectors), ROWS_AT_ONCE):
            distances = torch.cdist(vectors[start : start + ROWS_AT_ONCE], self.vectors_)
            if own:
                rows = torch.arange(len(distances))
                distances[rows, start + rows] = torch.inf
            nearest = distances.topk(self.neighbours_, largest=False).indices.numpy()
            edges = np.arange(0, nearest.size + 1, self.neighbours_)
            ones = np.ones(nearest.size, dtype=np.int64)
            chosen = csr_array((ones, nearest.ravel(), edges), shape=tuple(distances.shape))
            parts.append((chosen @ self.annotations_).toarray())
        return np.concatenate(parts)
