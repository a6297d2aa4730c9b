"""Where texts lie: their probabilities and vectors as one space, in which near texts are alike to the model."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from bncl_pyg.active.pool import LEAST_SHARE, Pool
from bncl_pyg.features import sparse_matrix


def drawn_open(pool: Pool, most: int, count: int, seed: int) -> NDArray[np.int64]:
    """Return the texts that can be chosen, or, where there are more than so many, some of them by chance; ascending."""
    rows = pool.open
    if len(rows) <= max(most, count):
        return rows
    drawn = np.random.default_rng([seed, len(pool.asked)]).choice(rows, max(most, count), replace=False)
    return np.sort(drawn)


def text_inputs(pool: Pool, rows: NDArray[np.int64], probability_share: float) -> Any:
    """Return some texts as points, (texts, dimensions), sparse where texts have candidates.

    Probabilities and vectors have the same mean squared distance from their mean, before they are weighted.

    Args:
        pool: the texts.
        rows: which.
        probability_share: how much probabilities count beside vectors, from 0 to 1.
    """
    predictions = pool.predictions
    shares: Any = pool.probabilities(rows)
    if predictions.candidates is not None:
        shares = sparse_matrix(predictions.probabilities[rows], predictions.candidates[rows], predictions.labels)
    if pool.vectors is None:
        return _with_short_indices(_scaled(shares, 1.0))
    vectors = _scaled(pool.vectors[rows].numpy(), 1 - probability_share)
    weighted = _scaled(shares, probability_share)
    if predictions.candidates is None:
        return np.hstack([weighted, vectors])
    return _with_short_indices(csr_array(hstack([weighted, csr_array(vectors)])))


def squared_lengths(points: Any) -> NDArray[np.float64]:
    """Return the squared length of each point, (texts,)."""
    squares = points.multiply(points) if hasattr(points, "multiply") else points * points
    return np.asarray(squares.sum(axis=1), dtype=np.float64).ravel()


def _with_short_indices(points: Any) -> Any:
    """Return sparse points with indices of 32 bits, since scikit-learn's k-means takes no others; dense ones as is."""
    if hasattr(points, "indices"):
        points.indices, points.indptr = points.indices.astype(np.int32), points.indptr.astype(np.int32)
    return points


def _scaled(points: Any, weight: float) -> Any:
    """Return points whose mean squared distance from their mean is `weight`."""
    mean = np.asarray(points.mean(axis=0), dtype=np.float64).ravel()
    variance = float(squared_lengths(points).mean() - mean @ mean)
    return points * np.float32((weight / max(variance, LEAST_SHARE)) ** 0.5)
