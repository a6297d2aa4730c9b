"""Saved folders that are whole or absent, with a manifest that says what they are."""

import fcntl
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bncl_pyg.errors import InputError
from bncl_pyg.persistence.files import parent_of, read_json, sync, umask, write_json

MANIFEST = "manifest.json"


VERSIONS = {"model": 3}
"""Of the formats that have changed: a model's layers have one weight vector each, probabilities a ceiling, and
decisions thresholds."""


LOCK = ".lock"


@contextmanager
def new_folder(path: Path, kind: str, *, overwrite: bool = False) -> Iterator[Path]:
    """Give a temporary folder to fill; it becomes `path` only when the block ends without an error.

    An existing folder is replaced only if asked, and only if its manifest says that it is of the same kind: a slip
    in a path must not delete somebody's data.
    """
    check_free(path, kind, overwrite=overwrite)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=parent_of(path)))
    try:
        temporary.chmod(0o777 & ~umask())
        yield temporary
        for file in sorted(temporary.rglob("*")):
            # safetensors makes files that only their owner can read; here the umask decides.
            file.chmod((0o777 if file.is_dir() else 0o666) & ~umask())
            sync(file)
        sync(temporary)
        if path.exists():
            previous = temporary.with_name(temporary.name + ".old")
            path.rename(previous)
            temporary.rename(path)
            shutil.rmtree(previous)
        else:
            temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    sync(path.parent)


def check_free(path: Path, kind: str, *, overwrite: bool) -> None:
    """Raise unless `path` is absent, or is a folder of this kind that may be replaced."""
    if not path.exists():
        return
    if not overwrite:
        raise InputError(f"{path} already exists; choose another name or pass --overwrite to replace it.")
    _manifest_of_kind(path, kind)  # of any version: who replaces a folder does not read it


def write_manifest(folder: Path, kind: str, content: Mapping[str, Any]) -> None:
    """Write the manifest that says what a folder is."""
    write_json(folder / MANIFEST, {"format": f"bncl-{kind}", "version": VERSIONS.get(kind, 1), **content})


def read_manifest(folder: Path, kind: str) -> dict[str, Any]:
    """Return a folder's manifest after checking that it is of the kind and version that we read."""
    content, ours = _manifest_of_kind(folder, kind), VERSIONS.get(kind, 1)
    if content.get("version") != ours:
        raise InputError(
            f"{folder} has {kind} format version {content.get('version')}, but this release reads {ours}; make it anew."
        )
    return content


def _manifest_of_kind(folder: Path, kind: str) -> dict[str, Any]:
    path = folder / MANIFEST
    if not folder.exists():
        raise InputError(f"{folder} does not exist.")
    if not path.is_file():
        raise InputError(f"{folder} is not a bncl {kind} folder: it has no {MANIFEST}.")
    content = read_json(path)
    if content.get("format") != f"bncl-{kind}":
        found = str(content.get("format", "unknown")).removeprefix("bncl-")
        raise InputError(f"{folder} is a bncl {found} folder, but a {kind} folder is needed here.")
    return content


@contextmanager
def folder_lock(path: Path) -> Iterator[None]:
    """Hold a folder for oneself; whoever comes second is told who holds it."""
    file = path / LOCK
    while True:
        handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(handle, 200).decode(errors="replace").strip() or "another process"
            os.close(handle)
            raise InputError(f"{path} is being written by {holder}; wait for it or stop it.") from None
        # Whoever held it last may have removed the file between our opening and locking it.
        if file.exists() and os.fstat(handle).st_ino == file.stat().st_ino:
            break
        os.close(handle)
    try:
        os.ftruncate(handle, 0)
        os.write(handle, f"process {os.getpid()} on {socket.gethostname()}".encode())
        yield
    finally:
        file.unlink(missing_ok=True)
        os.close(handle)
