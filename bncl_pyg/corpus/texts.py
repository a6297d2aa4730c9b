"""The texts, and the labels of those that somebody annotated."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bncl_pyg.corpus.annotation import NOT_YET, Annotation
from bncl_pyg.corpus.columns import Columns, TextTable
from bncl_pyg.corpus.labels import LabelSet, is_unicode
from bncl_pyg.corpus.tables import LIST_SEPARATOR
from bncl_pyg.errors import InputError

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True)
class Corpus:
    """Texts with ids and, where they are annotated, their labels.

    Args:
        ids: unique.
        texts: one an id.
        annotations: boolean, (texts, labels); `None` where nobody annotated.
        known: of which labels it is known whether a text has them, boolean, (texts, labels); `None` for all of them.
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    annotations: "csr_array | None" = None
    known: "csr_array | None" = None

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, places: NDArray[np.int64]) -> "Corpus":
        """Return the texts at these places, in their order."""
        annotations, known = (None if one is None else one[places] for one in (self.annotations, self.known))
        ids, texts = (tuple(values[row] for row in places) for values in (self.ids, self.texts))
        return Corpus(ids, texts, annotations, known)

    @classmethod
    def of(cls, texts: "Corpus | Iterable[str]", ids: Iterable[str | int] | None = None) -> "Corpus":
        """Make a corpus from what somebody has in Python.

            Corpus.of(["Profits rose.", "A takeover bid."])
            Corpus.of(table["text"], ids=table["id"])

        Args:
            texts: strings in a list, a tuple, a pandas Series or a NumPy array; perhaps none. A `Corpus` is returned as
                it is.
            ids: unique strings or whole numbers, one a text; "0", "1", … if not given.
        """
        if isinstance(texts, Corpus):
            if ids is not None:
                raise InputError("A corpus has ids already; give ids with plain texts only.")
            return texts
        content = tuple(_text(value, place) for place, value in enumerate(_one_dimension("texts", texts)))
        if ids is None:
            return cls(tuple(map(str, range(len(content)))), content)
        places: dict[str, int] = {}
        count = 0
        for count, value in enumerate(_one_dimension("ids", ids), start=1):
            identifier = _identifier(value, count - 1)
            if identifier in places:
                raise InputError(f"ids[{count - 1}]: '{identifier}' is given twice (first at {places[identifier]}).")
            places[identifier] = count - 1
        if count != len(content):
            raise InputError(f"There are {len(content)} texts but {count} ids.")
        return cls(tuple(places), content)

    @classmethod
    def read(
        cls,
        path: Path,
        labels: LabelSet | None = None,
        columns: Columns | None = None,
        *,
        skip_empty: bool = False,
        partial: bool = False,
        needs_text: bool = True,
    ) -> "Corpus":
        """Read a table (CSV, TSV, JSON lines, a JSON array, Parquet, Excel).

        Args:
            path: the file, or "-" for standard input.
            labels: with these, every row must say which of them it has (perhaps none); without, that is not looked at.
            columns: which columns hold what; `id`, `text` and `labels`, if not given.
            skip_empty: leave out rows without a text, which are an error otherwise.
            partial: whether texts may be annotated in part, or not yet (see `Annotation`); an error otherwise.
            needs_text: whether rows must have a text, or an id is enough.
        """
        table = TextTable(path, columns, labels=labels is not None, skip_empty=skip_empty, needs_text=needs_text)
        ids: list[str] = []
        texts: list[str] = []
        read: list[Annotation] = []
        for identifier, text, row in table.unique():
            ids.append(identifier)
            texts.append(text)
            if labels is not None:
                read.append(Annotation.of(row, labels, table.columns, partial=partial))
        if labels is None:
            return cls(tuple(ids), tuple(texts))
        annotations = annotation_matrix([one.labels for one in read], len(labels))
        return cls(tuple(ids), tuple(texts), annotations, known_matrix(read, len(labels)))

    def records(self, labels: LabelSet, *, lists: bool = True) -> Iterator[dict[str, Any]]:
        """Yield `{"id", "text", "labels", "not_labels"}` of annotated texts, which `read` reads again.

        Args:
            labels: the names of the columns.
            lists: whether the format has lists (JSON, Parquet). Where it has not, a cell that is blank stands for a
                text that is annotated wholly, and one with a semicolon alone for a list without anything in it.
        """
        if self.annotations is None:
            raise InputError("These texts have no labels to be written.")
        for row, (identifier, text) in enumerate(zip(self.ids, self.texts, strict=True)):
            columns = sorted(self.annotations[[row]].indices.tolist())
            fields: dict[str, Any] = {"id": identifier, "text": text, "labels": [labels.names[at] for at in columns]}
            known = None if self.known is None else self.known[[row]].indices
            if known is not None and len(known) < len(labels):
                absent = [labels.names[at] for at in sorted(set(known.tolist()) - set(columns))]
                fields["labels"] = fields["labels"] if len(known) else [NOT_YET]
                fields["not_labels"] = absent or ([] if lists else LIST_SEPARATOR)
            yield fields


def stream_texts(path: Path, columns: Columns | None = None, *, skip_empty: bool = False) -> Iterator[tuple[str, str]]:
    """Yield (id, text) row by row, so that texts need not fit in memory; ids are checked to be unique."""
    for identifier, text, _ in TextTable(path, columns, skip_empty=skip_empty).unique():
        yield identifier, text


def rows_of(wanted: Sequence[str], ids: Sequence[str], source: str) -> NDArray[np.int64]:
    """Return each wanted id's place among `ids`; raise an error that names the first that `source` lacks."""
    places = {identifier: row for row, identifier in enumerate(ids)}
    for identifier in wanted:
        if identifier not in places:
            raise InputError(f"{source} has no text with id '{identifier}'.")
    return np.array([places[identifier] for identifier in wanted], dtype=np.int64)


def annotation_matrix(columns: Sequence[Sequence[int]], labels: int) -> "csr_array":
    """Return a boolean matrix, (texts, labels), from each text's label columns."""
    # It takes longer to import than a wrong file to be told.
    from scipy.sparse import csr_array

    starts = np.cumsum([0, *(len(row) for row in columns)])
    flat = np.array([column for row in columns for column in row], dtype=np.int64)
    return csr_array((np.ones(len(flat), dtype=bool), flat, starts), shape=(len(columns), labels))


def known_matrix(annotations: "Sequence[Annotation]", labels: int) -> "csr_array | None":
    """Return of which pairs something is known, boolean, (texts, labels); `None` where that is all of them."""
    if all(one.is_whole for one in annotations):
        return None
    everything = range(labels)
    return annotation_matrix([everything if one.not_labels is None else one.known for one in annotations], labels)


def _one_dimension(name: str, values: Any) -> Iterable[Any]:
    """Return values that come one after the other; a single string would be taken apart letter by letter."""
    if isinstance(values, str | bytes):
        raise TypeError(f"{name} must be a list of strings, but is a single string; give it in a list.")
    if isinstance(values, Mapping | Set) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be a list of strings, but is a {type(values).__name__}.")
    if getattr(values, "ndim", 1) != 1:
        raise InputError(f"{name} must have one dimension, but has shape {tuple(getattr(values, 'shape', ()))}.")
    return values


def _text(value: object, place: int) -> str:
    if isinstance(value, str):
        if not is_unicode(value):
            raise InputError(f"texts[{place}] has half of a surrogate pair, which is no letter.")
        return str(value)
    if _is_missing(value):
        raise InputError(f"texts[{place}] is missing ({value}); every text must be a string.")
    raise TypeError(f"texts[{place}] must be a string, but is of type {type(value).__name__}.")


def _identifier(value: object, place: int) -> str:
    if isinstance(value, bool | np.bool_) or not isinstance(value, str | int | np.integer):
        problem = f"is missing ({value})" if _is_missing(value) else f"is of type {type(value).__name__}"
        raise TypeError(f"ids[{place}] must be a string or a whole number, but {problem}.")
    if isinstance(value, str) and not is_unicode(value):
        raise InputError(f"ids[{place}] has half of a surrogate pair, which is no letter.")
    return str(value)


def _is_missing(value: object) -> bool:
    """Return whether a value stands for none: None, NaN, and what pandas has (NA, NaT), which is not imported here."""
    return (
        value is None or (isinstance(value, float) and value != value) or type(value).__name__ in ("NAType", "NaTType")
    )
