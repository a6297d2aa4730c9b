"""Files and folders that are whole or absent: everything is written beside its place, synced, then renamed."""

import fcntl
import hashlib
import json
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bncl_pyg.errors import InputError

MANIFEST = "manifest.json"
VERSIONS = {"model": 3}
"""Of the formats that have changed: a model's layers have one weight vector each, probabilities a ceiling, and
decisions thresholds."""
LOCK = ".lock"


def sha256_of(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old content or the new, never a part."""

    def write(temporary: Path) -> None:
        temporary.write_bytes(content)

    write_file(path, write)


def write_json(path: Path, content: object) -> None:
    """Write JSON atomically, indented, ending in a newline."""
    write_bytes(path, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())


def write_jsonl(path: Path, rows: Iterator[Mapping[str, Any]]) -> None:
    """Write one JSON object a line, atomically."""
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    write_bytes(path, "".join(lines).encode())


def write_file(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file beside `path`, then put it in its place.

    A link stays a link: what it points to is replaced. A device or a pipe is written to, never replaced.
    """
    path = path.resolve() if path.is_symlink() else path
    if path.exists() and not path.is_file():
        _write_through(path, write)
        return
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=path.suffix, dir=_parent(path))
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        _sync(temporary)
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync(path.parent)


def _write_through(path: Path, write: Callable[[Path], None]) -> None:
    """Write to something that is neither absent nor a file: a device, a pipe."""
    if path.is_dir():
        raise InputError(f"{path} is a folder, but a file is to be written here.")
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / path.name
        write(whole)
        with whole.open("rb") as source, path.open("wb") as target:
            shutil.copyfileobj(source, target)


@contextmanager
def new_folder(path: Path, kind: str, *, overwrite: bool = False) -> Iterator[Path]:
    """Give a temporary folder to fill; it becomes `path` only when the block ends without an error.

    An existing folder is replaced only if asked, and only if its manifest says that it is of the same kind: a slip
    in a path must not delete somebody's data.
    """
    check_free(path, kind, overwrite=overwrite)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=_parent(path)))
    try:
        temporary.chmod(0o777 & ~_umask())
        yield temporary
        for file in sorted(temporary.rglob("*")):
            # safetensors makes files that only their owner can read; here the umask decides.
            file.chmod((0o777 if file.is_dir() else 0o666) & ~_umask())
            _sync(file)
        _sync(temporary)
        if path.exists():
            previous = temporary.with_name(temporary.name + ".old")
            path.rename(previous)
            temporary.rename(path)
            shutil.rmtree(previous)
        else:
            temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    _sync(path.parent)


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


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; errors name the file and the line."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path} does not exist.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text.") from None
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {error.lineno}: not valid JSON ({error.msg}).") from None
    if not isinstance(content, dict):
        raise InputError(f"{path} must hold one JSON object, but holds a {type(content).__name__}.")
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


def _parent(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.parent


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
