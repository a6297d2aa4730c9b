"""Bytes and text out of files: unpacked as they are read, in the encoding that they have."""

import codecs
import gzip
import io
import logging
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from bncl_pyg.corpus.tables.formats import (
    COMPRESSIONS,
    STANDARD_STREAM,
    Format,
    compression_by_content,
    format_by_content,
    format_of,
)
from bncl_pyg.errors import InputError, missing_extra
from bncl_pyg.persistence import check_has_end

log = logging.getLogger(__name__)

CHUNK = 1 << 20
DAMAGED = 10
"""From how many whole UTF-8 letters for each broken one on a file is damaged UTF-8, not another encoding."""
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_NOT_IN_1252 = tuple(bytes([code]) for code in (0x81, 0x8D, 0x8F, 0x90, 0x9D))


@dataclass(frozen=True)
class Source:
    """A file to read.

    Args:
        name: what messages call it.
        path: where it lies; what came from a pipe is kept in a temporary file.
        format: how the table in it is written down.
        compression: ".gz", ".zst" or nothing.
        kept: what keeps the temporary file there.
    """

    name: str
    path: Path
    format: Format
    compression: str = ""
    kept: Any = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, path: Path, others: str = "") -> "Source":
        """Return the file at a path; "-" is standard input, and like any pipe it is read to its end first."""
        if path == STANDARD_STREAM:
            return cls._spooled(sys.stdin.buffer, "standard input")
        check_has_end(path)
        if path.exists() and not path.is_file() and not path.is_dir():
            with path.open("rb") as pipe:
                return cls._spooled(pipe, str(path))
        known, compression = format_of(path, others)
        check_is_file(path)
        return cls(str(path), path, known, compression)

    @classmethod
    def _spooled(cls, stream: BinaryIO, name: str) -> "Source":
        # It is gone through more than once, and Parquet and Excel are read from their end.
        kept = tempfile.NamedTemporaryFile(prefix="bncl-")  # noqa: SIM115 (it lives as long as the source)
        shutil.copyfileobj(stream, kept, CHUNK)
        kept.flush()
        path = Path(kept.name)
        with path.open("rb") as file:
            compression = compression_by_content(file.read(4))
        with readable(name, compression), open_bytes(path, compression) as content:
            known = format_by_content(content.read(CHUNK))
        return cls(name, path, known, compression, kept)

    @cached_property
    def encoding(self) -> str:
        """The encoding of a text file; JSON is UTF-8 unless it begins with a byte order mark."""
        with readable(self.name, self.compression), open_bytes(self.path, self.compression) as file:
            if self.format in (Format.JSON, Format.JSONL):
                return _by_mark(file.read(4)) or "utf-8"
            return _detected(file, self.name)

    @contextmanager
    def text(self, newline: str | None = None) -> Iterator[TextIO]:
        """Open it as text."""
        with readable(self.name, self.compression), open_bytes(self.path, self.compression) as file:
            try:
                yield io.TextIOWrapper(file, encoding=self.encoding, newline=newline)
            except UnicodeDecodeError:
                # Whoever knows the line has said so before; this is before the first.
                raise InputError(f"{self.name}: not text in the encoding {self.encoding}.") from None


def check_is_file(path: Path) -> None:
    """Raise unless there is a file."""
    if not path.is_file():
        raise InputError(f"{path} {'is a folder, not a file' if path.is_dir() else 'does not exist'}.")


def read_lines(path: Path, *, detect: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of a text file that are not blank, unpacked if the name ends in `.gz` or `.zst`.

    Args:
        path: the file.
        detect: whether it may have another encoding than UTF-8, as files that people write by hand do.
    """
    compression = path.suffix if path.suffix in COMPRESSIONS else ""
    source = Source(str(path), path, Format.CSV if detect else Format.JSONL, compression)
    number = 0
    with source.text() as file:
        try:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line.rstrip("\r\n")
        except UnicodeDecodeError:
            raise InputError(f"{path}, after line {number}: not UTF-8 text.") from None


@contextmanager
def readable(name: str, compression: str) -> Iterator[None]:
    """Say in one sentence what is wrong with a file that cannot be unpacked."""
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise InputError(f"{name} is not a whole {'gzip' if compression == '.gz' else 'zst'} file.") from None


@contextmanager
def open_bytes(path: Path, compression: str) -> Iterator[BinaryIO]:
    """Open a file for reading, unpacked."""
    with path.open("rb") as file:
        if compression == ".gz":
            yield gzip.GzipFile(fileobj=file)  # type: ignore[misc]
        elif compression == ".zst":
            yield io.BufferedReader(_ZstReader(file), CHUNK)
        else:
            yield file


@contextmanager
def packed(path: Path, compression: str) -> Iterator[BinaryIO]:
    """Open a file for writing, and pack what is written."""
    with path.open("wb") as file:
        if compression == ".gz":
            # Without the time and the name, the same table gives the same bytes.
            with gzip.GzipFile("", "wb", 6, file, 0) as inner:
                yield inner  # type: ignore[misc]
        elif compression == ".zst":
            with zstandard().ZstdCompressor().stream_writer(file, closefd=False) as inner:
                yield inner
        else:
            yield file


def zstandard() -> Any:
    """Return the package that reads and writes `.zst`."""
    try:
        import zstandard as package
    except ImportError:
        raise missing_extra("A .zst file", "zstandard", "zst") from None
    return package


class _ZstReader(io.RawIOBase):
    """Reads a `.zst` file, which may have several frames; one that ends in the middle of a frame is an error."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._package = file, zstandard()
        self._frame: Any = None
        self._rest = self._ready = b""

    def readable(self) -> bool:
        """Return that it is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer."""
        while not self._ready:
            chunk = self._rest or self._file.read(CHUNK)
            self._rest = b""
            if not chunk:
                if self._frame is not None:
                    raise EOFError
                return 0
            self._frame = self._frame or self._package.ZstdDecompressor().decompressobj()
            try:
                self._ready = self._frame.decompress(chunk)
            except self._package.ZstdError:
                raise EOFError from None
            if self._frame.eof:
                self._rest, self._frame = self._frame.unused_data, None
        count = min(len(buffer), len(self._ready))
        buffer[:count], self._ready = self._ready[:count], self._ready[count:]
        return count


def _by_mark(start: bytes) -> str:
    return next((encoding for mark, encoding in _MARKS if start.startswith(mark)), "")


def _detected(file: BinaryIO, name: str) -> str:
    """Return the encoding of a whole file: by its mark, UTF-8 if all of it is, else Windows-1252 or Latin-1."""
    chunk = file.read(CHUNK)
    if by_mark := _by_mark(chunk):
        return by_mark
    if zeros := chunk[:CHUNK].count(0):
        places = [chunk[start::2].count(0) for start in (0, 1)]
        if max(places) == zeros > len(chunk) // 4:
            return "utf-16-be" if places[0] else "utf-16-le"
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    whole = broken = lines = broken_line = 0
    in_1252 = True
    while chunk:
        if not chunk.isascii() or decoder.getstate()[0]:
            text = decoder.decode(chunk)
            bad = text.count("\ufffd") - chunk.count("\ufffd".encode())
            if bad > 0 and not broken:
                broken_line = lines + 1 + text[: text.index("\ufffd")].count("\n")
            broken += bad
            whole += len(text) - len(text.encode("ascii", "ignore")) - bad
            in_1252 = in_1252 and not any(code in chunk for code in _NOT_IN_1252)
        lines += chunk.count(b"\n")
        chunk = file.read(CHUNK)
    if broken <= 0 and not decoder.getstate()[0]:
        return "utf-8"
    if whole > DAMAGED * broken:
        raise InputError(f"{name}, line {broken_line or lines + 1}: not UTF-8 text, though the rest of the file is.")
    log.info("%s is not UTF-8 text; it is read as %s.", name, "Windows-1252" if in_1252 else "Latin-1")
    return "cp1252" if in_1252 else "latin-1"
