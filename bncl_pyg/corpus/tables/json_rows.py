"""JSON lines, an object a line, and JSON arrays of objects; both are read and written object by object."""

import json
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any, TextIO

from bncl_pyg.corpus.tables.rows import Row, as_text
from bncl_pyg.corpus.tables.streams import Source
from bncl_pyg.errors import InputError
from bncl_pyg.persistence import parse_json, parse_json_at

PIECE = 1 << 20
"""How many letters of an array are read at once."""
_BLANK = " \t\r\n"


def read_lines_of(source: Source) -> Iterator[Row]:
    """Yield the rows of JSON lines."""
    number = 0
    with source.text() as file:
        try:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield _row(source, number, _parsed(source, number, line))
        except UnicodeDecodeError:
            raise InputError(f"{source.name}, after line {number}: not UTF-8 text.") from None


def _parsed(source: Source, number: int, line: str) -> Any:
    try:
        return parse_json(line)
    except json.JSONDecodeError as error:
        raise InputError(f"{source.name}, line {number}: not valid JSON ({error.msg}, column {error.colno}).") from None


def read_array(source: Source) -> Iterator[Row]:
    """Yield the rows of a JSON array; JSON lines under that name are read, too."""
    with source.text() as file:
        try:
            start = file.read(PIECE)
        except UnicodeDecodeError:
            raise InputError(f"{source.name}: not UTF-8 text.") from None
        first = start.lstrip(_BLANK + "\ufeff")[:1]
        if first == "[":
            yield from _elements(source, start, file)
            return
    if first != "{":
        raise InputError(f"{source.name} must hold a JSON array of objects.")
    yield from read_lines_of(source)


def _elements(source: Source, text: str, file: TextIO) -> Iterator[Row]:
    place, line, piece = text.index("[") + 1, 1 + text[: text.index("[")].count("\n"), PIECE
    expected = "an object"  # or a comma, which comes before every object but the first
    while True:
        start = place
        while place < len(text) and text[place] in _BLANK:
            place += 1
        line += text.count("\n", start, place)
        if place == len(text):
            text, place = _more(source, file, piece, line), 0
            if not text:
                raise InputError(f"{source.name}, line {line}: the array is not closed.")
            continue
        if text[place] == "]":
            _check_end(source, text[place + 1 :], file, line)
            return
        if expected == "a comma":
            if text[place] != ",":
                raise InputError(f"{source.name}, line {line}: not valid JSON (a comma is missing).")
            place, expected = place + 1, "an object"
            continue
        try:
            value, end = parse_json_at(text, place)
        except json.JSONDecodeError as error:
            # It may go on in the next piece. Pieces grow, so that a mistake in a large file is found in linear time.
            more = _more(source, file, piece, line)
            if not more:
                line += text.count("\n", place, error.pos)
                raise InputError(f"{source.name}, line {line}: not valid JSON ({error.msg}).") from None
            text, place, piece = text[place:] + more, 0, piece * 2
            continue
        yield _row(source, line, value)
        line += text.count("\n", place, end)
        place, expected, piece = end, "a comma", PIECE


def _more(source: Source, file: TextIO, size: int, line: int) -> str:
    try:
        return file.read(size)
    except UnicodeDecodeError:
        raise InputError(f"{source.name}, after line {line}: not UTF-8 text.") from None


def _check_end(source: Source, rest: str, file: TextIO, line: int) -> None:
    while rest:
        if rest.strip():
            raise InputError(f"{source.name}, line {line}: there is more after the end of the array.")
        rest = file.read(PIECE)


def _row(source: Source, line: int, fields: Any) -> Row:
    row = Row(source.name, line, fields if isinstance(fields, dict) else {})
    if not isinstance(fields, dict):
        kinds = {list: "a list", str: "a string", type(None): "null", bool: "a boolean"}
        row.fail(f"must be a JSON object, but is {kinds.get(type(fields), 'a number')}.")
    return row


class LinesWriter:
    """Writes an object a line."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, fields: Mapping[str, Any]) -> None:
        """Write a row."""
        self._file.write(dumped(fields) + "\n")

    def close(self) -> None:
        """Do nothing: a line is whole when it is written."""

    def abort(self) -> None:
        """Do nothing: nothing is held."""


class ArrayWriter:
    """Writes an array with an object a line."""

    def __init__(self, file: TextIO) -> None:
        self._file, self._before = file, "[\n"

    def write(self, fields: Mapping[str, Any]) -> None:
        """Write a row."""
        self._file.write(self._before + dumped(fields))
        self._before = ",\n"

    def close(self) -> None:
        """End the array."""
        self._file.write("\n]\n" if self._before == ",\n" else "[]\n")

    def abort(self) -> None:
        """Do nothing: nothing is held."""


def dumped(fields: Mapping[str, Any]) -> str:
    """Return a row as JSON; a date becomes a string, a number that is none becomes null."""
    plain = {key: _finite(value) for key, value in fields.items()}
    return json.dumps(plain, ensure_ascii=False, default=as_text, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return {key: _finite(part) for key, part in value.items()} if isinstance(value, dict) else value
