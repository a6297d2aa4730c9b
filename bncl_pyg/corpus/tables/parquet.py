"""Parquet, batch by batch."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bncl_pyg.corpus.tables.rows import Row
from bncl_pyg.corpus.tables.streams import Source
from bncl_pyg.errors import InputError, missing_extra

BATCH = 1024
"""How many rows are held at once."""
GROUP = 64
"""How many batches become a row group."""


def check_package(name: str) -> None:
    """Raise unless Parquet can be read and written."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise missing_extra(f"Reading or writing {name}", "pyarrow", "parquet") from None


def types_of(source: Source) -> dict[str, Any]:
    """Return the type of each column."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(source.path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(source, error) from None
    return dict(zip(schema.names, schema.types, strict=True))


def read(source: Source) -> Iterator[Row]:
    """Yield the rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns, number = tuple(types_of(source)), 0
    try:
        with pq.ParquetFile(source.path) as file:
            for batch in file.iter_batches(BATCH):
                for fields in batch.to_pylist():
                    number += 1
                    yield Row(source.name, number, fields, columns, unit="row")
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        # Of a damaged file, pages that cannot be unpacked, strings that are no text, dates that are none.
        raise _unreadable(source, error) from None


def _unreadable(source: Source, error: Exception) -> InputError:
    reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    return InputError(f"{source.name} is not a readable Parquet file ({reason}).")


class Writer:
    """Writes rows as Parquet.

    Args:
        path: where to.
        columns: the columns.
        types: the types of columns that are known; the others are those of the first rows.
        list_types: what columns of lists hold, `str` or `float`.
    """

    def __init__(
        self, path: Path, columns: Sequence[str], types: Mapping[str, Any], list_types: Mapping[str, type]
    ) -> None:
        import pyarrow as pa

        lists = {str: pa.list_(pa.string()), float: pa.list_(pa.float64())}
        self._path, self._columns = path, columns
        self._types = {**types, **{column: lists[kind] for column, kind in list_types.items()}}
        self._rows: list[dict[str, Any]] = []
        self._file: Any = None

    def write(self, fields: Mapping[str, Any]) -> None:
        """Write a row."""
        self._rows.append({column: fields.get(column) for column in self._columns})
        if len(self._rows) == BATCH * GROUP:
            self._flush()

    def close(self) -> None:
        """Write what is left."""
        if self._rows or self._file is None:
            self._flush()
        self._file.close()

    def abort(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()

    def _flush(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._file is None:
            self._file = pq.ParquetWriter(self._path, self._schema())
        for column, kind in zip(self._columns, self._file.schema.types, strict=True):
            try:
                pa.array([row[column] for row in self._rows], kind)
            except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
                reason = str(error).splitlines()[0].rstrip(".")
                raise InputError(
                    f"Column '{column}' does not fit into Parquet: its values are not all {kind} ({reason})."
                ) from None
        self._file.write_table(pa.Table.from_pylist(self._rows, self._file.schema))
        self._rows = []

    def _schema(self) -> Any:
        import pyarrow as pa

        kinds = []
        for column in self._columns:
            try:
                kind = self._types.get(column) or pa.array([row[column] for row in self._rows]).type
            except (pa.ArrowInvalid, pa.ArrowTypeError):
                raise InputError(
                    f"Column '{column}' does not fit into Parquet: its values are of several types."
                ) from None
            kinds.append((column, pa.string() if pa.types.is_null(kind) else kind))
        return pa.schema(kinds)
