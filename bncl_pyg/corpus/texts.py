"""The texts, and the labels of those that somebody annotated."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from bncl_pyg.corpus.labels import LabelSet
from bncl_pyg.corpus.rows import Row, read_rows
from bncl_pyg.errors import InputError


@dataclass(frozen=True)
class Corpus:
    """Texts with ids and, where they are annotated, their labels.

    Args:
        ids: unique.
        texts: one an id, not blank.
        annotations: boolean, (texts, labels); `None` where nobody annotated.
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    annotations: csr_array | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, places: NDArray[np.int64]) -> "Corpus":
        """Return the texts at these places, in their order."""
        annotations = None if self.annotations is None else self.annotations[places]
        return Corpus(tuple(self.ids[row] for row in places), tuple(self.texts[row] for row in places), annotations)

    @classmethod
    def read(cls, path: Path, labels: LabelSet | None = None) -> "Corpus":
        """Read `{"id", "text", "labels"}` rows (JSONL, CSV, Parquet).

        With `labels`, every row must say which of them it has (perhaps none); without, that field is not looked at.
        """
        ids: dict[str, int] = {}
        texts: list[str] = []
        columns: list[list[int]] = []
        for row in read_rows(path):
            identifier = row.identifier("id")
            if identifier in ids:
                row.fail(f"id '{identifier}' is given twice (first on line {ids[identifier]}).")
            ids[identifier] = row.line
            texts.append(row.string("text"))
            if labels is not None:
                columns.append(_columns(row, labels))
        if not ids:
            raise InputError(f"{path} holds no text.")
        annotations = None if labels is None else annotation_matrix(columns, len(labels))
        return cls(tuple(ids), tuple(texts), annotations)


def stream_texts(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (id, text) row by row, so that texts need not fit in memory; ids are checked to be unique."""
    lines: dict[str, int] = {}
    for row in read_rows(path):
        identifier = row.identifier("id")
        if identifier in lines:
            row.fail(f"id '{identifier}' is given twice (first on line {lines[identifier]}).")
        lines[identifier] = row.line
        yield identifier, row.string("text")
    if not lines:
        raise InputError(f"{path} holds no text.")


def rows_of(wanted: Sequence[str], ids: Sequence[str], source: str) -> NDArray[np.int64]:
    """Return each wanted id's place among `ids`; raise an error that names the first that `source` lacks."""
    places = {identifier: row for row, identifier in enumerate(ids)}
    for identifier in wanted:
        if identifier not in places:
            raise InputError(f"{source} has no text with id '{identifier}'.")
    return np.array([places[identifier] for identifier in wanted], dtype=np.int64)


def annotation_matrix(columns: Sequence[Sequence[int]], labels: int) -> csr_array:
    """Return a boolean matrix, (texts, labels), from each text's label columns."""
    starts = np.cumsum([0, *(len(row) for row in columns)])
    flat = np.array([column for row in columns for column in row], dtype=np.int64)
    return csr_array((np.ones(len(flat), dtype=bool), flat, starts), shape=(len(columns), labels))


def _columns(row: Row, labels: LabelSet) -> list[int]:
    found = set()
    for name in row.strings("labels"):
        try:
            found.add(labels.place(name))
        except KeyError:
            row.fail(f"field 'labels': {labels.unknown(name)}")
    return sorted(found)
