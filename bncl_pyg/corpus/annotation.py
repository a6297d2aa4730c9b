"""What somebody said of the labels of one text: all of them, some of them, or nothing yet."""

from dataclasses import dataclass

from bncl_pyg.corpus.columns import Columns
from bncl_pyg.corpus.labels import LabelSet
from bncl_pyg.corpus.tables import Row

NOT_YET = "?"
"""What stands in the place of labels where nobody has said yet which these are."""


@dataclass(frozen=True)
class Annotation:
    """The labels of one text, as their places among all labels.

    A row of a table that has nothing in the column `not_labels` has its `labels` and no others. One that has something
    there, if only a list without a label (in CSV and Excel a semicolon alone), is annotated in part: it has `labels`,
    it has not `not_labels`, and of the rest nothing is known. One whose labels are `?` is not annotated yet.

    Args:
        labels: that the text has, ascending.
        not_labels: that it is known not to have, ascending; `None` for all others.

    Example::

        {"id": "7", "text": "Gold rose.", "labels": ["gold"], "not_labels": ["silver", "wheat"]}
    """

    labels: list[int]
    not_labels: list[int] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether everything is known."""
        return self.not_labels is None

    @property
    def known(self) -> list[int]:
        """The labels of which something is known, ascending, where that is not all of them."""
        return sorted([*self.labels, *(self.not_labels or ())])

    @property
    def says_something(self) -> bool:
        """Whether anything is known."""
        return self.is_whole or bool(self.known)

    @classmethod
    def of(cls, row: Row, labels: LabelSet, columns: Columns, *, partial: bool = True) -> "Annotation":
        """Read a row; an error names a label that there is not, or one that the text both has and has not.

        Args:
            row: of a table.
            labels: which there are.
            columns: which columns hold what.
            partial: whether a text may be annotated in part, or not yet.
        """
        if NOT_YET not in labels and row.strings(columns.labels) == [NOT_YET]:
            if not partial:
                row.fail(f"field '{columns.labels}': this text is not annotated yet.")
            return cls([], [])
        has = label_places(row, labels, columns.labels)
        # Few tables have the column, and those with a header must be asked first.
        if (row.columns and columns.not_labels not in row.columns) or row.is_missing(columns.not_labels):
            return cls(has)
        if not partial:
            row.fail(f"field '{columns.not_labels}': this text is annotated in part, but all its labels are needed.")
        lacks = label_places(row, labels, columns.not_labels)
        for place in lacks:
            if place in has:
                row.fail(f"label '{labels.names[place]}' is in '{columns.labels}' and in '{columns.not_labels}'.")
        return cls(has, lacks)


def label_places(row: Row, labels: LabelSet, column: str) -> list[int]:
    """Return which labels a row has, ascending; raise an error that names one that there is not."""
    places = set()
    for name in row.strings(column):
        try:
            places.add(labels.place(name))
        except KeyError:
            row.fail(f"field '{column}': {labels.unknown(name)}")
    return sorted(places)
