"""The annotated texts: which of the training texts they are, and which labels they have."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from bncl_pyg.corpus import Corpus, LabelSet, annotation_matrix, rows_of
from bncl_pyg.errors import InputError


@dataclass(frozen=True)
class Annotated:
    """Annotated texts.

    Args:
        rows: which of the training texts are annotated; a row may be repeated, (annotated,).
        labels: which labels they have; boolean, (annotated, labels).
    """

    rows: NDArray[np.int64]
    labels: csr_array

    def __post_init__(self) -> None:
        if self.labels.shape[0] != len(self.rows):
            raise InputError(f"There are labels of {self.labels.shape[0]} texts, but {len(self.rows)} annotated texts.")

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def among(cls, corpus: Corpus, ids: Sequence[str]) -> "Annotated":
        """Return the annotated texts of a corpus, which are found by id among the training texts."""
        if corpus.annotations is None:
            raise InputError("These texts have no labels, so that they cannot be annotated texts.")
        return cls(rows_of(corpus.ids, ids, "The set of training texts"), corpus.annotations)

    @classmethod
    def from_target(cls, y: Any, texts: int, labels: LabelSet) -> "Annotated | None":
        """Return what scikit-learn calls y, a row a training text; `None` where nothing is annotated.

        Args:
            y: lists of label names, `None` for a text that nobody annotated; or an indicator matrix (texts, labels),
                dense or sparse, with a row of -1 likewise.
            texts: how many there are.
            labels: the labels.
        """
        if y is None:
            return None
        rows, truth = indicator_of(y, texts, labels)
        return cls(rows, truth) if len(rows) else None

    def drawn(self, places: NDArray[np.int64]) -> "Annotated":
        """Return some of them; a place may be repeated."""
        return Annotated(self.rows[places], self.labels[places])


def draw(texts: int, count: int, seed: int, *, replacement: bool = False) -> NDArray[np.int64]:
    """Return which of so many annotated texts to take; (count,).

    Args:
        texts: how many there are.
        count: how many to draw.
        seed: of the draw.
        replacement: whether a text may be drawn twice.
    """
    if count < 1 or (count > texts and not replacement):
        raise InputError(f"Between 1 and {texts} annotated texts can be drawn, but {count} were asked for.")
    return np.random.default_rng(seed).choice(texts, count, replace=replacement)


def indicator_of(y: Any, texts: int, labels: LabelSet) -> tuple[NDArray[np.int64], csr_array]:
    """Return which texts are annotated, and their labels; boolean, (annotated, labels)."""
    if isinstance(y, str | bytes) or not (hasattr(y, "__len__") or issparse(y)):
        raise TypeError(f"y must be lists of label names or an indicator matrix, but is {type(y).__name__}.")
    count = y.shape[0] if hasattr(y, "shape") and len(y.shape) else len(y)
    if count != texts:
        raise InputError(f"y has {count} rows, but there are {texts} texts.")
    if issparse(y):
        return _from_matrix(csr_array(y, copy=True), labels)
    if getattr(y, "ndim", 1) == 2:
        y = np.asarray(y)
        if y.dtype.kind in "biuf":
            return _from_matrix(csr_array(y), labels)
    values = list(y)
    if values and all(_is_numbers(row) for row in values):
        return _from_matrix(csr_array(_same_widths(values, labels)), labels)
    kept = [place for place, row in enumerate(values) if row is not None]
    columns = [_columns(values[place], place, labels) for place in kept]
    return np.array(kept, dtype=np.int64), annotation_matrix(columns, len(labels))


def _is_numbers(row: Any) -> bool:
    if row is None or isinstance(row, str) or not hasattr(row, "__len__"):
        return False
    return len(row) > 0 and all(isinstance(value, int | float | np.number | np.bool_) for value in row)


def _same_widths(values: list[Any], labels: LabelSet) -> NDArray[Any]:
    """Return rows of numbers as a matrix."""
    for place, row in enumerate(values):
        if len(row) != len(labels):
            raise InputError(f"y[{place}] has {len(row)} columns, but there are {len(labels)} labels.")
    return np.array(values)


def _from_matrix(matrix: csr_array, labels: LabelSet) -> tuple[NDArray[np.int64], csr_array]:
    if matrix.ndim != 2 or matrix.shape[1] != len(labels):
        raise InputError(f"y has shape {matrix.shape}, but there are {len(labels)} labels: a column each is needed.")
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    row_of_entry = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    unknown = np.bincount(row_of_entry[matrix.data == -1], minlength=matrix.shape[0]) == len(labels)
    odd = row_of_entry[(matrix.data != 1) & ~unknown[row_of_entry]]
    if len(odd):
        raise InputError(
            f"An indicator matrix y must hold 0 and 1, and -1 in all of a row that nobody annotated, "
            f"but y[{odd[0]}] does not."
        )
    rows = np.flatnonzero(~unknown)
    return rows, csr_array(matrix[rows], dtype=bool)


def _columns(names: Any, place: int, labels: LabelSet) -> list[int]:
    if isinstance(names, str) or not hasattr(names, "__iter__"):
        raise TypeError(f"y[{place}] must be a list of label names or None, but is {names!r}.")
    columns = set()
    for name in names:
        if name not in labels:
            raise InputError(f"y[{place}]: {labels.unknown(str(name))}")
        columns.add(labels.place(name))
    return sorted(columns)
