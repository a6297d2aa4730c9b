"""The columns that are added to a table: labels and probabilities, or a column a label."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bncl_pyg.corpus import LIST_SEPARATOR, Format, LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.features import Predictions

LABELS, PROBABILITIES = "labels", "probabilities"
DIGITS = 4
"""How many digits of a probability are written."""


@dataclass(frozen=True)
class Answer:
    """What a model says of a text.

    Args:
        labels: the places of its labels, the most probable first.
        probabilities: how probable each of them is.
        all: how probable every label is that is known, by its place; empty unless it is wanted.
    """

    labels: Sequence[int] = ()
    probabilities: Sequence[float] = ()
    all: dict[int, float] | None = None

    @classmethod
    def each(cls, predicted: Predictions, *, wide: bool) -> "Iterator[Answer]":
        """Yield the answer for each text."""
        for row, (places, probabilities) in enumerate(predicted.each()):
            known = None
            if wide:
                every = predicted.probabilities[row].tolist()
                columns = range(len(every)) if predicted.candidates is None else predicted.candidates[row].tolist()
                known = dict(zip(columns, every, strict=True))
            yield cls(places, probabilities, known)


class AddedColumns:
    """What is added to the columns of a table.

    Where the table has a column `labels` or `probabilities` already, the new ones are `predicted_labels` and
    `predicted_probabilities`: nothing of the table is lost.

    Args:
        columns: those of the table.
        labels: the labels.
        wide: whether there is a column a label, with its probability, instead of a list of probabilities.
        known: the format that is written.
    """

    def __init__(self, columns: Sequence[str], labels: LabelSet, known: Format, *, wide: bool = False) -> None:
        self.labels, self.wide = labels, wide
        taken = LABELS in columns or (PROBABILITIES in columns and not wide)
        self.names_column = f"predicted_{LABELS}" if taken else LABELS
        self.shares_column = f"predicted_{PROBABILITIES}" if taken else PROBABILITIES
        self.names = (self.names_column, *(labels.names if wide else (self.shares_column,)))
        for name in self.names:
            if name in columns or self.names.count(name) > 1:
                if name in labels and wide:
                    raise InputError(
                        f"The table has a column '{name}' already, which is a label's name, too; rename it, or leave "
                        f"wide=True out."
                    )
                raise InputError(f"The table has a column '{name}' already; rename it.")
        bad = next((name for name in labels.names if LIST_SEPARATOR in name), None)
        if bad is not None and not known.has_lists:
            raise InputError(
                f"Label '{bad}' has a semicolon, which separates labels in a cell; write .jsonl, .json or .parquet."
            )

    @property
    def list_types(self) -> dict[str, type]:
        """What the lists hold, for formats that must know it."""
        return {self.names_column: str} if self.wide else {self.names_column: str, self.shares_column: float}

    def fields(self, answer: Answer) -> dict[str, Any]:
        """Return what is added to a row."""
        names = [self.labels.names[place] for place in answer.labels]
        if not self.wide:
            shares = [round(share, DIGITS) for share in answer.probabilities]
            return {self.names_column: names, self.shares_column: shares}
        known = answer.all or {}
        every = {
            name: round(known[place], DIGITS) if place in known else None
            for place, name in enumerate(self.labels.names)
        }
        return {self.names_column: names, **every}
