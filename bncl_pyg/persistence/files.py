"""Files and folders that are whole or absent: everything is written beside its place, synced, then renamed."""

import fcntl
import hashlib
import json
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bncl_pyg.errors import InputError
from bncl_pyg.persistence.json_text import parse_json

MAX_LINKS = 40
"""As many links as the system follows."""
UNFINISHED = ".bncl-"
"""What stands in the names of files and folders that are being written; nobody else has such names."""
MEMORY_DEVICES, NULL_DEVICE = 1, 3
"""Linux' numbers of /dev/mem, /dev/zero, /dev/random and the like, and among them of /dev/null."""


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

    A link stays a link: what it points to is replaced. A device, a pipe or an open stream such as /dev/stdout is
    written to, never replaced.
    """
    if is_stream(path):
        _append(path, write)
        return
    path = path.resolve() if path.is_symlink() else path
    if path.is_dir():
        raise InputError(f"{path} is a folder, but a file is to be written here.")
    temporary, handle = _temporary_file(path)
    try:
        write(temporary)
        sync(temporary)
        temporary.chmod(0o666 & ~umask())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
        os.close(handle)
    sync(path.parent)


def _temporary_file(path: Path) -> tuple[Path, int]:
    """Make a file beside another, held by a lock: who finds it without one knows that its process was killed."""
    while True:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}{UNFINISHED}", suffix=path.suffix, dir=parent_of(path))
        if hold(Path(name), handle):
            return Path(name), handle
        os.close(handle)


def hold(path: Path, handle: int) -> bool:
    """Lock what was just made; return whether it is still there: somebody may have taken it for a leftover."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # Where a file system has no locks, nothing can be told to be a leftover either.
        return True
    return path.exists() and os.fstat(handle).st_ino == path.stat().st_ino


def clear_leftovers(path: Path) -> None:
    """Remove what writes of this file or folder left beside it when they were killed; what is being written stays."""
    if not path.parent.is_dir() or is_stream(path):
        return
    # What `tempfile` adds to a name; a folder that was replaced got ".old" where two could not change places.
    pattern = re.compile(rf"\.{re.escape(path.name + UNFINISHED)}[a-z0-9_]{{8}}({re.escape(path.suffix)}|\.old)?")
    with os.scandir(path.parent) as entries:
        names = [entry.name for entry in entries if pattern.fullmatch(entry.name)]
    for name in names:
        _remove_if_left(path.with_name(name))


def clear_own_folder(folder: Path) -> None:
    """Remove all that killed writes left in a folder that is ours alone; what is being written stays."""
    pattern = re.compile(rf"\..+{re.escape(UNFINISHED)}[a-z0-9_]{{8}}(\.[^.]+)?")
    for file in folder.iterdir():
        if pattern.fullmatch(file.name):
            _remove_if_left(file)


def _remove_if_left(path: Path) -> None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return  # gone, a link, or not ours to read
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    except OSError:
        return  # somebody writes it now, or may write here and we may not
    finally:
        os.close(handle)


def check_new_file(path: Path, *, overwrite: bool) -> None:
    """Raise unless a file can be written: none is there, it may be replaced, or it is a device or a pipe."""
    if is_stream(path):
        return
    if path.is_dir():
        raise InputError(f"{path} is a folder, but a file is to be written here.")
    if path.exists() and not overwrite:
        raise InputError(f"{path} already exists; choose another name, or replace it with overwrite=True.")
    clear_leftovers(path)


def is_stream(path: Path) -> bool:
    """Return whether a path is a device, a pipe, or leads to a stream of a process."""
    steps = path.absolute()
    for _ in range(MAX_LINKS):
        # Not resolved, which would follow /proc/self/fd/1 to its end; but "/dev/../proc/…" is in /proc.
        steps = Path(os.path.normpath(steps))
        # /dev/stdout leads to /proc/self/fd/1, and that to whatever the shell has opened, which may be a plain file.
        if steps.is_relative_to("/proc") or steps.is_relative_to("/dev/fd"):
            return True
        if not steps.is_symlink():
            break
        steps = steps.parent / steps.readlink()
    return steps.exists() and not steps.is_file() and not steps.is_dir()


def _append(path: Path, write: Callable[[Path], None]) -> None:
    """Write to a stream, after what it may hold already."""
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "output"
        write(whole)
        sys.stdout.flush()
        with whole.open("rb") as source, open(os.open(path, os.O_WRONLY | os.O_APPEND), "wb") as target:  # noqa: PTH123
            shutil.copyfileobj(source, target)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; errors name the file and the line."""
    check_has_end(path)
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path} does not exist.") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder, not a file.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text.") from None
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {error.lineno}: not valid JSON ({error.msg}).") from None
    if not isinstance(content, dict):
        raise InputError(f"{path} must hold one JSON object, but holds a {type(content).__name__}.")
    return content


def check_has_end(path: Path) -> None:
    """Raise where something is a device that can be read for ever, or a disk; pipes and terminals are fine."""
    try:
        status = path.stat()
    except OSError:
        return  # whoever opens it says why
    memory = stat.S_ISCHR(status.st_mode) and os.major(status.st_rdev) == MEMORY_DEVICES
    if (memory and os.minor(status.st_rdev) != NULL_DEVICE) or stat.S_ISBLK(status.st_mode):
        raise InputError(f"{path} is a device, not a file.")


def parent_of(path: Path) -> Path:
    """Return the folder of a path, which is made if it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.parent


def umask() -> int:
    """Return the permissions that new files do not get."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def sync(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
