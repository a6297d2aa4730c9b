"""Tables in and out: CSV, TSV, JSON lines, JSON arrays, Parquet and Excel, compressed or not, one module a format."""

from bncl_pyg.corpus.tables.formats import STANDARD_STREAM, Format, format_of
from bncl_pyg.corpus.tables.rows import LIST_SEPARATOR, Row
from bncl_pyg.corpus.tables.streams import read_lines
from bncl_pyg.corpus.tables.table import Table, read_rows
from bncl_pyg.corpus.tables.writing import check_new_table, write_table

__all__ = [
    "LIST_SEPARATOR",
    "STANDARD_STREAM",
    "Format",
    "Row",
    "Table",
    "check_new_table",
    "format_of",
    "read_lines",
    "read_rows",
    "write_table",
]
