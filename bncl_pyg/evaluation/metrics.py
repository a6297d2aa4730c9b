"""The paper's five metrics, two of ranking, and a table by label; a ratio without a denominator is 0."""

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, triu
from scipy.stats import rankdata

from bncl_pyg.corpus import LabelSet

Decisions: TypeAlias = csr_array | NDArray[np.bool_]
Scores: TypeAlias = csr_array | NDArray[np.floating]


class Metrics(NamedTuple):
    """The paper's five."""

    ACC: float
    """Subset accuracy: the share of texts whose labels are all right."""
    HA: float
    """Hamming accuracy: the share of (text, label) decisions that are right."""
    ebF1: float
    """F1 of each text, averaged over texts."""
    miF1: float
    """F1 of all decisions together."""
    maF1: float
    """F1 of each label, averaged over all labels, also those that never occur."""


class LabelScores(NamedTuple):
    """One label's row in the table."""

    label: str
    precision: float
    recall: float
    F1: float
    support: int
    predicted: int


def evaluate(truth: Decisions, predicted: Decisions) -> Metrics:
    """Compare decisions; both boolean, (texts, labels)."""
    true, given = _sparse(truth), _sparse(predicted)
    texts, labels = _same_shape(true, given)
    hits = true.multiply(given).tocsr()
    of_texts = [_counts(matrix, axis=1) for matrix in (hits, true, given)]
    of_labels = [_counts(matrix, axis=0) for matrix in (hits, true, given)]
    wrong = true.nnz + given.nnz - 2 * hits.nnz
    all_right = (of_texts[0] == of_texts[1]) & (of_texts[0] == of_texts[2])
    return Metrics(
        ACC=float(all_right.mean()),
        HA=1 - wrong / (texts * labels),
        ebF1=float(_f1(*of_texts).mean()),
        miF1=float(_f1(*(counts.sum() for counts in of_labels))),
        maF1=float(_f1(*of_labels).mean()),
    )


def label_table(truth: Decisions, predicted: Decisions, labels: LabelSet) -> list[LabelScores]:
    """Return precision, recall, F1 and counts of each label, in the labels' order."""
    true, given = _sparse(truth), _sparse(predicted)
    _same_shape(true, given)
    hits, support, counts = (_counts(matrix, axis=0) for matrix in (true.multiply(given).tocsr(), true, given))
    precision, recall, f1 = _ratio(hits, counts), _ratio(hits, support), _f1(hits, support, counts)
    columns = (
        labels.names,
        precision.tolist(),
        recall.tolist(),
        f1.tolist(),
        support.tolist(),
        counts.tolist(),
    )
    return [LabelScores(*row) for row in zip(*columns, strict=True)]


def precision_at(truth: Decisions, scores: Scores, k: int) -> float:
    """Return the mean share of a text's k best-scored labels that are true; ties go to the earlier label.

    Where scores are sparse, labels without one are never among the best.
    """
    true = _sparse(truth)
    texts, labels = _same_shape(true, scores)
    if not 1 <= k <= labels:
        raise ValueError(f"k must be between 1 and {labels}, the number of labels, but is {k}.")
    if not isinstance(scores, np.ndarray):
        row, column, rank = _ranked(scores)
        best = csr_array((np.ones(int((rank < k).sum())), (row[rank < k], column[rank < k])), shape=true.shape)
        return float(true.multiply(best).sum() / (texts * k))
    best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    flags = np.zeros((texts, labels), dtype=bool)
    np.put_along_axis(flags, best, True, axis=1)
    return float(true.multiply(flags).sum() / (texts * k))


def coverage(truth: Decisions, scores: Scores) -> float:
    """Return how far down the ranking one must go, on average, to cover all true labels of a text.

    A tie counts against the ranking; a text without labels needs 0. Less is better. Where scores are sparse, a label
    without one stands last.
    """
    true = _sparse(truth)
    texts, labels = _same_shape(true, scores)
    if not isinstance(scores, np.ndarray):
        row, column, rank = _ranked(scores, ties_last=True)
        # What a label gains over standing last; one that is true and has no score gains nothing.
        gained = csr_array((labels - rank - 1, (row, column)), shape=true.shape)
        entries = true.tocoo()
        depths = np.zeros(texts)
        of_true = _values_at(gained, entries.row, entries.col)
        np.maximum.at(depths, entries.row, labels - of_true)
        return float(depths.mean())
    ranks = rankdata(-scores, method="max", axis=1)
    depths = true.multiply(ranks).tocsr().max(axis=1).toarray()
    return float(depths.mean())


def _ranked(
    scores: csr_array, *, ties_last: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return row, column and rank, from 0 for the row's best, of each stored score; ties in the columns' order.

    With `ties_last`, all of a tie have the rank of its last.
    """
    entries = scores.tocoo()
    order = np.lexsort((entries.col, -entries.data, entries.row))
    row, column, value = entries.row[order], entries.col[order], entries.data[order]
    places = np.arange(len(row))
    if ties_last:
        ends = np.ones(len(row), dtype=bool)
        ends[:-1] = (row[1:] != row[:-1]) | (value[1:] != value[:-1])
        last = np.flatnonzero(ends)
        places = last[np.searchsorted(last, places)]
    starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=scores.shape[0]))])
    return row, column, places - starts[row]


class Reliability(NamedTuple):
    """Probabilities beside what came true, in bins of equal width; (bins,) each."""

    pairs: NDArray[np.int64]
    """How many (text, label) pairs have a probability in the bin."""
    predicted: NDArray[np.float64]
    """Their mean probability."""
    true: NDArray[np.float64]
    """The share of them that is true."""

    def error(self) -> float:
        """Return the expected calibration error: how far the two are apart, averaged over all pairs."""
        return float((np.abs(self.predicted - self.true) * self.pairs).sum() / max(int(self.pairs.sum()), 1))


def reliability(truth: Decisions, probabilities: Scores, bins: int = 15) -> Reliability:
    """Compare probabilities with the truth over all (text, label) pairs; a pair without one has the probability 0."""
    true = _sparse(truth)
    texts, labels = _same_shape(true, probabilities)
    entries = true.tocoo()
    if isinstance(probabilities, np.ndarray):
        values, of_true = probabilities.ravel(), probabilities[entries.row, entries.col]
    else:
        given = csr_array(probabilities)
        values, of_true = given.data, _values_at(given, entries.row, entries.col)
    place = _bin(values, bins)
    pairs = np.bincount(place, minlength=bins)
    pairs[0] += texts * labels - len(values)
    summed = np.bincount(place, weights=values.astype(np.float64), minlength=bins)
    hits = np.bincount(_bin(of_true, bins), minlength=bins)
    return Reliability(pairs, summed / np.maximum(pairs, 1), hits / np.maximum(pairs, 1))


class LabelPair(NamedTuple):
    """Two labels by their columns, and how many texts they are counted in."""

    first: int
    second: int
    texts: int


def confused_pairs(truth: Decisions, predicted: Decisions, most: int) -> list[LabelPair]:
    """Return which labels were given instead of which: the first is true and missing, the second is given and wrong."""
    true, given = _sparse(truth), _sparse(predicted)
    _same_shape(true, given)
    hits = true.multiply(given)
    return _most_frequent((true - hits).T @ (given - hits), most)


def cooccurring_pairs(predicted: Decisions, most: int) -> list[LabelPair]:
    """Return which two labels are given to the same texts."""
    given = _sparse(predicted)
    return _most_frequent(triu(given.T @ given, k=1), most)


def _most_frequent(counts: csr_array, most: int) -> list[LabelPair]:
    """Return the largest counts of a sparse (labels, labels) matrix, in falling order; ties in the labels' order."""
    entries = coo_array(counts)
    kept = np.flatnonzero(entries.data > 0)
    order = np.lexsort((entries.col[kept], entries.row[kept], -entries.data[kept]))[:most]
    columns = (part[kept[order]].tolist() for part in (entries.row, entries.col, entries.data))
    return [LabelPair(*pair) for pair in zip(*columns, strict=True)]


def _values_at(matrix: csr_array, row: NDArray[np.int64], column: NDArray[np.int64]) -> NDArray[np.floating]:
    """Return what a sparse matrix holds at some places, 0 where nothing."""
    entries = matrix.tocoo()
    keys = entries.row.astype(np.int64) * matrix.shape[1] + entries.col
    order = np.argsort(keys)
    wanted = row.astype(np.int64) * matrix.shape[1] + column
    place = np.minimum(np.searchsorted(keys, wanted, sorter=order), max(len(keys) - 1, 0))
    if not len(keys):
        return np.zeros(len(wanted))
    places = order[place]
    return np.where(keys[places] == wanted, entries.data[places], 0)


def _bin(probabilities: NDArray[np.floating], bins: int) -> NDArray[np.int64]:
    return np.minimum((probabilities * bins).astype(np.int64), bins - 1)


def _sparse(decisions: Decisions) -> csr_array:
    matrix = csr_array(decisions).astype(np.int64)
    matrix.sum_duplicates()
    matrix.data = (matrix.data != 0).astype(np.int64)
    matrix.eliminate_zeros()
    return matrix


def _same_shape(truth: csr_array, other: Scores) -> tuple[int, int]:
    if truth.shape != other.shape:
        raise ValueError(f"The truth has shape {truth.shape}, but what is compared with it has {other.shape}.")
    return truth.shape  # type: ignore[no-any-return]


def _counts(matrix: csr_array, axis: int) -> NDArray[np.int64]:
    return np.asarray(matrix.sum(axis=axis), dtype=np.int64)


def _f1(hits: NDArray[np.int64], support: NDArray[np.int64], predicted: NDArray[np.int64]) -> NDArray[np.float64]:
    return _ratio(2 * hits, support + predicted)


def _ratio(above: NDArray[np.int64], below: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.divide(above, below, out=np.zeros(np.shape(below), dtype=np.float64), where=below != 0)
