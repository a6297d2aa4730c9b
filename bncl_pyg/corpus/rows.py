"""Rows out of JSONL, CSV and Parquet files, each with the place that an error message can name."""

import csv
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TextIO

from bncl_pyg.errors import InputError, missing_extra

LIST_SEPARATOR = ";"
"""What separates the labels of a text in a CSV cell (JSONL and Parquet have real lists)."""


@dataclass(frozen=True)
class Row:
    """One record of a file and where it stands."""

    path: Path
    line: int
    fields: dict[str, Any]
    columns: tuple[str, ...] = ()
    """What a table's header names, for whoever looks for another column."""

    def fail(self, problem: str) -> NoReturn:
        """Raise an error that names this row."""
        raise InputError(f"{self.path}, line {self.line}: {problem}")

    def string(self, field: str) -> str:
        """Return a field that must be a string that is not blank."""
        value = self._required(field)
        if not isinstance(value, str):
            self.fail(f"field '{field}' must be a string, but is {_described(value)}.")
        if not value.strip():
            self.fail(f"field '{field}' is empty.")
        return value

    def identifier(self, field: str) -> str:
        """Return a field that must be a string or a whole number, as a string."""
        value = self._required(field)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if not isinstance(value, str):
            self.fail(f"field '{field}' must be a string or a whole number, but is {_described(value)}.")
        return self.string(field)

    def strings(self, field: str) -> list[str]:
        """Return a field that must be a list of strings; a CSV cell is split at semicolons."""
        value = self._required(field)
        if isinstance(value, str):
            if self.path.suffixes[-1:] == [".csv"]:
                return [part.strip() for part in value.split(LIST_SEPARATOR) if part.strip()]
            self.fail(f"field '{field}' must be a list of strings, but is {_described(value)}.")
        if not isinstance(value, list):
            self.fail(f"field '{field}' must be a list of strings, but is {_described(value)}.")
        for part in value:
            if not isinstance(part, str):
                self.fail(f"field '{field}' must hold strings only, but holds {_described(part)}.")
        return value

    def _required(self, field: str) -> Any:
        if self.columns and field not in self.columns:
            raise InputError(f"{self.path} has no column '{field}'; its columns are: {', '.join(self.columns)}.")
        if self.fields.get(field) is None:
            self.fail(f"field '{field}' is missing.")
        return self.fields[field]


def read_rows(path: Path, others: str = "") -> Iterator[Row]:
    """Yield the rows of a `.jsonl`, `.jsonl.gz`, `.csv` or `.parquet` file; `others` names what else could be read."""
    readers = {".jsonl": _read_jsonl, ".csv": _read_csv, ".parquet": _read_parquet}
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if suffix not in readers or (path.suffix == ".gz" and suffix != ".jsonl"):
        endings = f"{others}.jsonl, .jsonl.gz, .csv or .parquet"
        raise InputError(f"{path}: cannot tell the format; the name must end in {endings}.")
    if not path.is_file():
        raise InputError(f"{path} {'is a folder, not a file' if path.is_dir() else 'does not exist'}.")
    yield from readers[suffix](path)


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of a UTF-8 text file that are not blank, unzipped if the name ends in `.gz`."""
    try:
        with _open_text(path) as file:
            number = 0
            try:
                for number, line in enumerate(file, start=1):
                    if line.strip():
                        yield number, line.rstrip("\r\n")
            except UnicodeDecodeError:
                raise InputError(f"{path}, after line {number}: not UTF-8 text.") from None
    except (gzip.BadGzipFile, EOFError):
        raise InputError(f"{path} is not a whole gzip file.") from None


def _read_jsonl(path: Path) -> Iterator[Row]:
    for number, line in read_lines(path):
        try:
            fields = json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(f"{path}, line {number}: not valid JSON ({error.msg}, column {error.colno}).") from None
        if not isinstance(fields, dict):
            raise InputError(f"{path}, line {number}: must be a JSON object, but is {_described(fields)}.")
        yield Row(path, number, fields)


def _read_csv(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, strict=True)
        line = 1
        try:
            columns = reader.fieldnames
            # A quoted cell may span lines: a row is named by the line on which it starts.
            line = reader.line_num + 1
            for fields in reader:
                if None in fields:
                    raise InputError(f"{path}, line {line}: has more cells than the header has columns.")
                yield Row(path, line, fields, tuple(columns or ()))
                line = reader.line_num + 1
        except UnicodeDecodeError:
            raise InputError(f"{path}, line {line} or after it: not UTF-8 text.") from None
        except csv.Error as error:
            if "unexpected end of data" in str(error):
                raise InputError(f"{path}, line {line}: a quote is opened and never closed.") from None
            raise InputError(f"{path}, line {line}: not valid CSV ({error}).") from None


def _read_parquet(path: Path) -> Iterator[Row]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise missing_extra(f"Reading {path}", "pyarrow", "parquet") from None

    try:
        with pq.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches():
                for fields in batch.to_pylist():
                    number += 1
                    yield Row(path, number, fields)
    except pa.ArrowException as error:
        raise InputError(f"{path} is not a readable Parquet file ({str(error).splitlines()[0]}).") from None


def _open_text(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig")
    return path.open(encoding="utf-8-sig")


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
