"""Which format a file has: its ending says it, or where it has none, how it begins."""

from enum import StrEnum
from pathlib import Path

from bncl_pyg.errors import InputError

STANDARD_STREAM = Path("-")
"""Stands for standard input where something is read, and for standard output where something is written."""


class Format(StrEnum):
    """How a table is written down."""

    CSV = "csv"
    TSV = "tsv"
    JSONL = "jsonl"
    JSON = "json"
    PARQUET = "parquet"
    EXCEL = "xlsx"

    @property
    def is_text(self) -> bool:
        """Whether a file of this format is text, and can be compressed."""
        return self not in (Format.PARQUET, Format.EXCEL)

    @property
    def has_lists(self) -> bool:
        """Whether a cell can hold a list, and a number is told from a string; elsewhere semicolons separate."""
        return self in (Format.JSONL, Format.JSON, Format.PARQUET)

    @property
    def has_header(self) -> bool:
        """Whether all columns are named before the first row."""
        return self not in (Format.JSONL, Format.JSON)


ENDINGS = {
    ".csv": Format.CSV,
    ".tsv": Format.TSV,
    ".tab": Format.TSV,
    ".jsonl": Format.JSONL,
    ".ndjson": Format.JSONL,
    ".json": Format.JSON,
    ".parquet": Format.PARQUET,
    ".xlsx": Format.EXCEL,
}
COMPRESSIONS = (".gz", ".zst")
_MAGIC = {b"PAR1": Format.PARQUET, b"PK\x03\x04": Format.EXCEL}
_COMPRESSED = {b"\x1f\x8b": ".gz", b"\x28\xb5\x2f\xfd": ".zst"}


def format_of(path: Path, others: str = "") -> tuple[Format, str]:
    """Return the format that a file's name tells, and how it is compressed (".gz", ".zst" or nothing).

    Args:
        path: the file; it need not be there.
        others: which other endings can be used, for the error message.
    """
    compression = path.suffix.lower() if path.suffix.lower() in COMPRESSIONS else ""
    ending = Path(path.name[: len(path.name) - len(compression)]).suffix.lower()
    if ending == ".xls":
        raise InputError(f"{path} is a workbook of an old Excel; save it as .xlsx or .csv.")
    if ending not in ENDINGS:
        names = f"{others}.csv, .tsv, .jsonl, .json (each also with .gz or .zst), .parquet or .xlsx"
        raise InputError(f"{path}: cannot tell the format; the name must end in {names}.")
    if compression and not ENDINGS[ending].is_text:
        raise InputError(f"{path}: a {ending} file is compressed already; unpack it first.")
    return ENDINGS[ending], compression


def compression_by_content(start: bytes) -> str:
    """Return how a file that begins so is compressed."""
    return next((ending for magic, ending in _COMPRESSED.items() if start.startswith(magic)), "")


def format_by_content(start: bytes) -> Format:
    """Return the format of a file without a name, such as standard input, that begins so when it is unpacked."""
    for magic, known in _MAGIC.items():
        if start.startswith(magic):
            return known
    first = start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    return {b"{": Format.JSONL, b"[": Format.JSON}.get(first, Format.CSV)
