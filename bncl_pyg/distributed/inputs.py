"""Tables wherever they lie: a file or a folder of files, here or on a filesystem that fsspec or pyarrow knows."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from bncl_pyg.corpus import Table, format_of
from bncl_pyg.errors import InputError, missing_extra

ARROW = ("s3", "gs", "gcs", "hdfs")
"""What pyarrow reads by itself; anything else is fsspec's."""
CHUNK = 2**20


def is_remote(source: str) -> bool:
    """Return whether a name says on which filesystem it lies, as `s3://bucket/texts` does."""
    return "://" in source


def table_names(source: str) -> list[str]:
    """Return the tables of a source, sorted by name: itself, or all that a folder holds, in folders below too."""
    if not is_remote(source):
        path = Path(source)
        if not path.is_dir():
            return [source]
        names = [str(file) for file in path.rglob("*") if file.is_file() and _is_table(file.relative_to(path))]
    else:
        with _reasons(source):
            system, path_there = _filesystem(source)
            info = system.info(path_there)
            if info["type"] != "directory":
                return [source]
            files = [PurePosixPath(file) for file in system.find(path_there)]
            inside = PurePosixPath(path_there)
            start = source.split("://")[0]
            names = [
                f"{start}://{str(file).lstrip('/')}"
                for file in files
                if _is_table(file.relative_to(inside) if file.is_relative_to(inside) else PurePosixPath(file.name))
            ]
    if not names:
        raise InputError(f"{source} holds no table: no file that ends in .csv, .tsv, .jsonl, .json, .parquet or .xlsx.")
    return sorted(names)


def fingerprint(source: str) -> dict[str, Any]:
    """Return what changes when a table does, without reading it: its size, and its time or its tag."""
    if not is_remote(source):
        stat = Path(source).stat()
        return {"name": source, "size": stat.st_size, "changed": str(stat.st_mtime_ns)}
    with _reasons(source):
        system, path = _filesystem(source)
        info = system.info(path)
    known = ("ETag", "etag", "md5Hash", "mtime", "LastModified", "last_modified", "created")
    changed = next((str(info[key]) for key in known if info.get(key) is not None), "")
    return {"name": source, "size": info.get("size"), "changed": changed}


@contextmanager
def open_table(source: str) -> Iterator[Table]:
    """Give a table, which messages call by its name; one that lies elsewhere is copied to this machine meanwhile."""
    if not is_remote(source):
        yield Table(Path(source))
        return
    format_of(Path(PurePosixPath(source).name))  # what cannot be read is not copied
    with tempfile.TemporaryDirectory(prefix="bncl-") as folder:
        copy = Path(folder) / PurePosixPath(source).name
        with _reasons(source):
            system, path = _filesystem(source)
            with system.open(path, "rb") as there, copy.open("wb") as here:
                shutil.copyfileobj(there, here, CHUNK)
        yield Table(copy, name=source)


def _is_table(path: Path | PurePosixPath) -> bool:
    # What other programs leave beside tables begins so: _SUCCESS, .part-0.crc.
    if any(part.startswith((".", "_")) for part in path.parts):
        return False
    try:
        format_of(Path(path))
    except InputError:
        return False
    return True


def _filesystem(source: str) -> tuple[Any, str]:
    """Return a filesystem, as fsspec has them, and the path on it."""
    try:
        import fsspec
        from fsspec.implementations.arrow import ArrowFSWrapper
    except ImportError:
        raise missing_extra(f"Reading {source}", "fsspec", "distributed") from None
    if source.split("://")[0] in ARROW:
        from pyarrow.fs import FileSystem

        system, path = FileSystem.from_uri(source)
        return ArrowFSWrapper(system), path
    system, path = fsspec.core.url_to_fs(source)
    return system, str(path)


@contextmanager
def _reasons(source: str) -> Iterator[None]:
    """Say in one sentence why a source cannot be read."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{source} does not exist.") from None
    except InputError:
        raise
    except (OSError, ValueError, ImportError) as error:
        raise InputError(f"{source} cannot be read ({str(error).splitlines()[0].rstrip('.')}).") from None
