"""The annotated texts: which of the training texts they are, and which labels they have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse, vstack

from bncl_pyg.corpus import Annotation, Corpus, LabelSet, annotation_matrix, known_matrix, rows_of
from bncl_pyg.errors import InputError
from bncl_pyg.features import Features, StoredIds


@dataclass(frozen=True)
class Annotated:
    """Annotated texts.

    Args:
        rows: which of the training texts are annotated; a row may be repeated, (annotated,).
        labels: which labels they have; boolean, (annotated, labels).
        known: of which labels it is known whether a text has them, boolean, (annotated, labels): a text may be
            annotated in part, "has A, has not B, of the rest nothing is known". `None` where everything is known.
    """

    rows: NDArray[np.int64]
    labels: csr_array
    known: csr_array | None = None

    def __post_init__(self) -> None:
        if self.labels.shape[0] != len(self.rows):
            raise InputError(f"There are labels of {self.labels.shape[0]} texts, but {len(self.rows)} annotated texts.")
        if self.known is None:
            return
        if self.known.shape != self.labels.shape:
            raise InputError(
                f"What is known has shape {self.known.shape}, but the labels have shape {self.labels.shape}."
            )
        if self.labels.multiply(self.known).nnz < self.labels.nnz:
            raise InputError("A text has a label of which it is not known whether it has it.")

    def __len__(self) -> int:
        return len(self.rows)

    def labels_a_text(self) -> NDArray[np.int64]:
        """Return how many labels each text has of which everything is known; (texts,)."""
        return np.asarray(np.diff(self.labels.indptr)[self.is_whole], dtype=np.int64)

    @classmethod
    def among(cls, corpus: Corpus, ids: Sequence[str]) -> "Annotated":
        """Return the annotated texts of a corpus, which are found by id among the training texts.

        Texts of which nothing is known are left out.
        """
        if corpus.annotations is None:
            raise InputError("These texts have no labels, so that they cannot be annotated texts.")
        if corpus.known is not None:
            says_something = np.flatnonzero(np.diff(corpus.known.indptr))
            if not len(says_something):
                raise InputError("None of these texts is annotated yet.")
            corpus = corpus.rows(says_something)
            assert corpus.annotations is not None
        places = (
            ids.places if isinstance(ids, StoredIds) else partial(rows_of, ids=ids, source="The set of training texts")
        )
        return cls(places(corpus.ids), corpus.annotations, corpus.known)

    @classmethod
    def from_target(cls, y: Any, texts: int, labels: LabelSet) -> "Annotated | None":
        """Return what scikit-learn calls y, a row a training text; `None` where nothing is annotated.

        Args:
            y: lists of label names, `None` for a text that nobody annotated; or an indicator matrix (texts, labels),
                dense or sparse, with a row of -1 likewise. For a text that is annotated in part, `{name: True}` for
                labels that it has, and `{name: False}` for those that it has not; in a matrix, -1 where nothing is
                known.
            texts: how many there are.
            labels: the labels.
        """
        if y is None:
            return None
        made = _from_target(y, texts, labels)
        return made if len(made) else None

    @classmethod
    def from_names(
        cls,
        annotated: Mapping[str, Sequence[str]],
        ids: Sequence[str],
        labels: LabelSet,
        absent: Mapping[str, Sequence[str]] | None = None,
    ) -> "Annotated | None":
        """Return annotated texts that are known by id and by the names of their labels; `None` where there are none.

        Args:
            annotated: the labels that texts have, by id.
            ids: of the training texts.
            labels: the labels.
            absent: of texts that are annotated in part, the labels that they are known not to have, by id.
        """
        read = {}
        for name, has in annotated.items():
            lacks = (absent or {}).get(name)
            places = None if lacks is None else sorted(labels.place(label) for label in lacks)
            read[name] = Annotation(sorted(labels.place(label) for label in has), places)
        read = {name: one for name, one in read.items() if one.says_something}
        if not read:
            return None
        matrix = annotation_matrix([one.labels for one in read.values()], len(labels))
        rows = rows_of(list(read), ids, "The set of training texts")
        return cls(rows, matrix, known_matrix(list(read.values()), len(labels)))

    @property
    def is_whole(self) -> NDArray[np.bool_]:
        """Of which texts all labels are known, (annotated,)."""
        if self.known is None:
            return np.ones(len(self), dtype=bool)
        return np.asarray(np.diff(self.known.indptr) == self.known.shape[1])

    @property
    def known_counts(self) -> NDArray[np.int64]:
        """Of how many texts it is known whether they have each label, (labels,)."""
        if self.known is None:
            return np.full(self.labels.shape[1], len(self), dtype=np.int64)
        return np.asarray(self.known.sum(axis=0), dtype=np.int64)

    def known_of(self, row: int) -> NDArray[np.int64]:
        """Return the labels of which something is known of the annotated text at a place, ascending."""
        if self.known is None:
            return np.arange(self.labels.shape[1])
        return np.sort(self.known[[row]].indices).astype(np.int64)

    def held_by(self, features: Features) -> "tuple[NDArray[np.int64], Annotated]":
        """Return which of them this process holds, where several processes do, and these with their rows there."""
        if features.ranks.size == 1:
            return np.arange(len(self)), self
        first, last = features.ranks.span(len(features))
        places = np.flatnonzero((self.rows >= first) & (self.rows < last))
        held = self.drawn(places)
        return places, replace(held, rows=held.rows - first)

    def joined(self, other: "Annotated") -> "Annotated":
        """Return these and others, of the same training texts."""
        known = None
        if self.known is not None or other.known is not None:
            known = csr_array(vstack([one._known_matrix() for one in (self, other)]))
        rows = np.concatenate([self.rows, other.rows])
        return Annotated(rows, csr_array(vstack([self.labels, other.labels])), known)

    def _known_matrix(self) -> csr_array:
        return csr_array(np.ones(self.labels.shape, dtype=bool)) if self.known is None else self.known

    def drawn(self, places: NDArray[np.int64]) -> "Annotated":
        """Return some of them; a place may be repeated."""
        known = None if self.known is None else self.known[places]
        return Annotated(self.rows[places], self.labels[places], known)


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
    """Return which texts are annotated, and their labels; boolean, (annotated, labels).

    A text that is annotated in part raises an error.
    """
    made = _from_target(y, texts, labels)
    if not made.is_whole.all():
        place = made.rows[np.flatnonzero(~made.is_whole)[0]]
        raise InputError(f"y[{place}] is annotated in part, but all its labels are needed.")
    return made.rows, made.labels


def _from_target(y: Any, texts: int, labels: LabelSet) -> Annotated:
    """Return a target; see `Annotated.from_target`."""
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
    read = {place: _annotation(row, place, labels) for place, row in enumerate(values) if row is not None}
    read = {place: one for place, one in read.items() if one.says_something}
    matrix = annotation_matrix([one.labels for one in read.values()], len(labels))
    return Annotated(np.array(list(read), dtype=np.int64), matrix, known_matrix(list(read.values()), len(labels)))


def _is_numbers(row: Any) -> bool:
    if row is None or isinstance(row, str | Mapping) or not hasattr(row, "__len__"):
        return False
    return len(row) > 0 and all(isinstance(value, int | float | np.number | np.bool_) for value in row)


def _same_widths(values: list[Any], labels: LabelSet) -> NDArray[Any]:
    """Return rows of numbers as a matrix."""
    for place, row in enumerate(values):
        if len(row) != len(labels):
            raise InputError(f"y[{place}] has {len(row)} columns, but there are {len(labels)} labels.")
    return np.array(values)


def _from_matrix(matrix: csr_array, labels: LabelSet) -> Annotated:
    if matrix.ndim != 2 or matrix.shape[1] != len(labels):
        raise InputError(f"y has shape {matrix.shape}, but there are {len(labels)} labels: a column each is needed.")
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    row_of_entry = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    is_unknown = matrix.data == -1
    odd = row_of_entry[(matrix.data != 1) & ~is_unknown]
    if len(odd):
        raise InputError(
            f"An indicator matrix y must hold 0 and 1, and -1 where nothing is known, but y[{odd[0]}] does not."
        )
    unknown = np.bincount(row_of_entry[is_unknown], minlength=matrix.shape[0])
    rows = np.flatnonzero(unknown < len(labels))
    kept = csr_array(matrix[rows])
    truth = csr_array((kept.data == 1, kept.indices.copy(), kept.indptr.copy()), shape=kept.shape)
    truth.eliminate_zeros()
    if not unknown[rows].any():
        return Annotated(rows, truth)
    everything = np.arange(len(labels))
    unknown_of = [kept.indices[start:end][kept.data[start:end] == -1] for start, end in pairwise(kept.indptr)]
    known = [np.setdiff1d(everything, columns).tolist() for columns in unknown_of]
    return Annotated(rows, truth, annotation_matrix(known, len(labels)))


def _annotation(row: Any, place: int, labels: LabelSet) -> Annotation:
    """Return what a row of y says: a list of all labels' names, or what is known by name."""
    if not isinstance(row, Mapping):
        return Annotation(_columns(row, place, labels))
    for name, value in row.items():
        if not isinstance(value, bool | np.bool_):
            raise TypeError(f"y[{place}] must say True or False of '{name}', but says {value!r}.")
    has, lacks = ([name for name, value in row.items() if bool(value) is wanted] for wanted in (True, False))
    return Annotation(_columns(has, place, labels), _columns(lacks, place, labels))


def _columns(names: Any, place: int, labels: LabelSet) -> list[int]:
    if isinstance(names, str) or not hasattr(names, "__iter__"):
        raise TypeError(f"y[{place}] must be a list of label names or None, but is {names!r}.")
    columns = set()
    for name in names:
        if name not in labels:
            raise InputError(f"y[{place}]: {labels.unknown(str(name))}")
        columns.add(labels.place(name))
    return sorted(columns)
