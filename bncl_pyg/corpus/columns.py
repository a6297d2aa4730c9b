"""Which columns of a table hold texts, ids and labels, and the texts out of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bncl_pyg.corpus.tables import Row, Table
from bncl_pyg.errors import InputError

BETWEEN = "\n"
"""What stands between the columns that make up a text."""
ID = "id"


@dataclass(frozen=True)
class Columns:
    """Which columns hold what.

    Args:
        text: the columns that make up a text, joined by line breaks; those that are empty are left out.
        id: what identifies a row; if not given, the column `id` or, where there is none, the number of the row.
        labels: the labels of annotated texts.
        not_labels: the labels that a text is known not to have, where it is annotated in part (see `Annotation`); no
            table needs to have it.

    Example::

        Columns(("subject", "body"), id="ticket_id")
    """

    text: tuple[str, ...] = ("text",)
    id: str | None = None
    labels: str = "labels"
    not_labels: str = "not_labels"

    @classmethod
    def of(cls, text: str | Sequence[str] | None = None, id: str | None = None, labels: str | None = None) -> "Columns":
        """Return columns from what somebody writes: `text` may be several names with commas between."""
        names = text.split(",") if isinstance(text, str) else list(text or cls.text)
        return cls(tuple(name.strip() for name in names if name.strip()) or cls.text, id, labels or cls.labels)

    def or_usual(self, table: Table) -> "Columns":
        """Return these columns or, where a table has none of them but `text`, the usual ones.

        What is written to be annotated has the columns `id` and `text`, whatever they were called before.
        """
        named = (*self.text, *(() if self.id is None else (self.id,)))
        if any(name in table.columns for name in named) or not set(Columns.text) <= set(table.columns):
            return self
        return Columns(labels=self.labels, not_labels=self.not_labels)


class TextTable:
    """The texts of a table.

    Args:
        table: a table, or the file that holds one; "-" is standard input.
        columns: which columns hold what.
        labels: whether the column of labels is wanted, too.
        skip_empty: whether rows without a text are left out; they are an error otherwise.
        needs_text: whether rows must have a text; where an id is enough, they need not, and it is then blank.

    Attributes:
        table: the table.
        columns: the columns.
        skipped: how many rows were without a text when the table was last gone through.
    """

    def __init__(
        self,
        table: Path | Table,
        columns: Columns | None = None,
        *,
        labels: bool = False,
        skip_empty: bool = False,
        needs_text: bool = True,
    ) -> None:
        self.table = table if isinstance(table, Table) else Table(table)
        self.columns = columns or Columns()
        self.skip_empty, self.needs_text, self.skipped = skip_empty, needs_text, 0
        if not self.table.columns:
            raise InputError(f"{self.table.name} holds no text.")
        for wanted, name in (
            ("text", self.columns.text),
            ("id", (self.columns.id,)),
            ("labels", (self.columns.labels,)),
        ):
            if (wanted == "labels" and not labels) or (wanted == "text" and not needs_text):
                continue
            for column in name:
                if column is not None:
                    self._check(wanted, column)
        own = ID if ID in self.table.columns else None
        self._id = self.columns.id or own

    def _check(self, wanted: str, column: str) -> None:
        try:
            self.table.check_column(column)
        except InputError as error:
            # Who has named a column sees which there are; who has named none is told how to.
            if column not in (*Columns.text, Columns.labels):
                raise
            option = {"text": "text", "labels": "labels_column"}[wanted]
            raise InputError(f'{error} Say which to take with {option}="NAME".') from None

    @property
    def has_ids(self) -> bool:
        """Whether rows have an id of their own, not only a number."""
        return self._id is not None

    def __iter__(self) -> Iterator[tuple[Row, str | None]]:
        """Yield every row with its text, which is `None` where the row is to be left out."""
        self.skipped = 0
        for row in self.table:
            text = self._text(row)
            self.skipped += text is None
            yield row, text

    def unique(self) -> Iterator[tuple[str, str, Row]]:
        """Yield id, text and row of the rows that have a text; no two rows may have the same id."""
        lines: dict[str, int] = {}
        count = 0
        for count, (row, text) in enumerate(self, start=1):
            if text is None:
                continue
            identifier = self.identifier(row, count)
            if identifier in lines:
                row.fail(f"id '{identifier}' is given twice (first on {row.unit} {lines[identifier]}).")
            lines[identifier] = row.line
            yield identifier, text, row
        if not lines:
            empty = f" in column {', '.join(self.columns.text)}" if count else ""
            raise InputError(f"{self.table.name} holds no text{empty}.")

    def identifier(self, row: Row, number: int) -> str:
        """Return what identifies a row: its id, or its number, from 1, where there is no such column."""
        return str(number) if self._id is None else row.identifier(self._id)

    def _text(self, row: Row) -> str | None:
        there = self.columns.text
        if not self.needs_text:
            there = tuple(column for column in there if column in self.table.columns)
        parts = [part for column in there if (part := row.optional_string(column)) is not None]
        if parts or not self.needs_text:
            return BETWEEN.join(parts)
        if self.skip_empty:
            return None
        remedy = "; skip_empty=True leaves such rows out"
        if len(self.columns.text) == 1:
            row.string(self.columns.text[0], remedy)
        row.fail(f"there is no text in {', '.join(self.columns.text)}{remedy}.")
