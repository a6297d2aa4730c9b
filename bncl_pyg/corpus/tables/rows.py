"""A row of a table with the place that an error message can name."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from bncl_pyg.errors import InputError

LIST_SEPARATOR = ";"
"""What separates the labels of a text in a cell that can hold no list (JSON and Parquet have real ones)."""


@dataclass(frozen=True, slots=True)
class Row:
    """One record of a table and where it stands.

    Args:
        source: the table's name.
        line: on which line, or in which row of a sheet, it begins.
        fields: its values by column.
        columns: the columns that the table has, if its format says so before the first row.
        has_lists: whether its format tells lists and numbers from strings.
        unit: what `line` counts.
    """

    source: str
    line: int
    fields: Mapping[str, Any]
    columns: tuple[str, ...] = ()
    has_lists: bool = True
    unit: str = "line"

    def fail(self, problem: str) -> NoReturn:
        """Raise an error that names this row."""
        raise InputError(f"{self.source}, {self.unit} {self.line}: {problem}")

    def string(self, field: str, remedy: str = "") -> str:
        """Return a field that must be a string that is not blank.

        Args:
            field: the column.
            remedy: what an error says, after a semicolon, of what can be done about a blank one.
        """
        value = self.optional_string(field)
        if value is None:
            self._required(field)
            self.fail(f"field '{field}' is empty{remedy}.")
        return value

    def optional_string(self, field: str) -> str | None:
        """Return a field that must be a string where there is one; nothing where it is missing or blank."""
        value = self._known(field)
        if value is None:
            return None
        if not isinstance(value, str):
            if self.has_lists or isinstance(value, bool):
                self.fail(f"field '{field}' must be a string, but is {_described(value)}.")
            # A sheet makes a number or a date of what looks like one.
            value = as_text(value)
        return value if value.strip() else None

    def identifier(self, field: str) -> str:
        """Return a field that must be a string or a whole number, as a string."""
        value = self._required(field)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if not isinstance(value, str) and self.has_lists:
            self.fail(f"field '{field}' must be a string or a whole number, but is {_described(value)}.")
        return self.string(field)

    def strings(self, field: str) -> list[str]:
        """Return a field that must be a list of strings; where cells hold no lists, it is split at semicolons."""
        value = self._required(field)
        if not self.has_lists:
            return [part.strip() for part in as_text(value).split(LIST_SEPARATOR) if part.strip()]
        if not isinstance(value, list):
            self.fail(f"field '{field}' must be a list of strings, but is {_described(value)}.")
        for part in value:
            if not isinstance(part, str):
                self.fail(f"field '{field}' must hold strings only, but holds {_described(part)}.")
        return value

    def is_missing(self, field: str) -> bool:
        """Return whether a row has nothing in a field: no value, or an empty cell."""
        value = self._known(field)
        return value is None or (not self.has_lists and not as_text(value).strip())

    def _known(self, field: str) -> Any:
        if self.columns and field not in self.columns:
            raise no_column(self.source, field, self.columns)
        return self.fields.get(field)

    def _required(self, field: str) -> Any:
        value = self._known(field)
        if value is None:
            # An empty cell of a sheet is no value, but the same to whoever looks at it.
            if not self.has_lists:
                return ""
            self.fail(f"field '{field}' is missing.")
        return value


def no_column(source: str, column: str, columns: tuple[str, ...]) -> InputError:
    """Return the error that says which columns there are."""
    return InputError(f"{source} has no column '{column}'; its columns are: {', '.join(columns)}.")


def as_text(value: Any) -> str:
    """Return the value of a cell as a person would write it."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _described(value: object) -> str:
    names = {
        bool: "a boolean",
        int: "a number",
        float: "a number",
        str: "a string",
        list: "a list",
        dict: "an object",
    }
    return "null" if value is None else names.get(type(value), type(value).__name__)
