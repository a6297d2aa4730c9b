"""Saved folders that are whole or absent: a manifest says what a folder is and has the digest of every file."""

import fcntl
import hashlib
import json
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import Any

from bncl_pyg.errors import InputError
from bncl_pyg.persistence.exchange import exchange
from bncl_pyg.persistence.files import (
    UNFINISHED,
    clear_leftovers,
    hold,
    parent_of,
    read_json,
    sha256_of,
    sync,
    umask,
    write_json,
)

MANIFEST = "manifest.json"
LOCK = ".lock"
CARD = "README.md"
"""A page for people, which they may edit: no file that a manifest counts."""

VERSIONS = {"dataset": 2, "features": 3, "features-shard": 3, "graph": 2, "model": 4, "onnx": 2}
"""Of each format that has changed; the last change gave digests to all files of a folder and to the manifest."""

_OWN = ("format", "version", "files", "sha256")
"""What `write_manifest` adds to a manifest."""


@contextmanager
def new_folder(path: Path, kind: str, *, overwrite: bool = False) -> Iterator[Path]:
    """Give a temporary folder to fill; it becomes `path` only when the block ends without an error.

    An existing folder is replaced only if asked, and only if its manifest says that it is of the same kind: a slip
    in a path must not delete somebody's data.
    """
    check_free(path, kind, overwrite=overwrite)
    temporary, handle = _temporary_folder(path)
    try:
        temporary.chmod(0o777 & ~umask())
        yield temporary
        for file in sorted(temporary.rglob("*")):
            # safetensors makes files that only their owner can read; here the umask decides.
            file.chmod((0o777 if file.is_dir() else 0o666) & ~umask())
            sync(file)
        sync(temporary)
        if not path.exists():
            temporary.rename(path)
        elif not exchange(temporary, path):
            # A file system that cannot exchange two folders: for a moment there is neither the old nor the new.
            previous = temporary.with_name(temporary.name + ".old")
            path.rename(previous)
            temporary.rename(path)
            shutil.rmtree(previous, ignore_errors=True)
        # Where they were exchanged, the old folder now has the name of the temporary one.
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        os.close(handle)
    sync(path.parent)


def _temporary_folder(path: Path) -> tuple[Path, int]:
    """Make a folder beside another, held by a lock: who finds it without one knows that its process was killed."""
    while True:
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}{UNFINISHED}", dir=parent_of(path)))
        try:
            handle = os.open(temporary, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue  # somebody has taken it for a leftover
        if hold(temporary, handle):
            return temporary, handle
        os.close(handle)


def check_free(path: Path, kind: str, *, overwrite: bool) -> None:
    """Raise unless `path` is absent, or is a folder of this kind that may be replaced.

    Whoever replaces a folder does not read it: it may be of any version, and damaged. What killed runs left beside it
    is removed.
    """
    clear_leftovers(path)
    if not path.exists():
        return
    if not path.is_dir():
        raise InputError(f"{path} is there and is no folder, but a {kind} is one; choose another name.")
    if not overwrite:
        raise InputError(f"{path} already exists; choose another name, or replace it with overwrite=True.")
    _manifest_of_kind(path, kind)


def check_own_folder(path: Path, kind: str) -> None:
    """Raise unless `path` is absent, an empty folder, or a folder of this kind, which may then be gone on with."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is there and is no folder, but a {kind} folder is one; choose another name.")
    if (path / MANIFEST).exists():
        read_manifest(path, kind, check_files=False)
    elif path.exists() and any(not file.name.startswith(".") for file in path.iterdir()):
        raise InputError(f"{path} is not empty and is no bncl {kind} folder; choose another name.")


def write_manifest(
    folder: Path,
    kind: str,
    content: Mapping[str, Any],
    files: Mapping[str, str] | None = None,
    *,
    name: str = MANIFEST,
) -> None:
    """Write the manifest that says what a folder is; call it when every other file is there.

    Args:
        folder: the folder.
        kind: what it is, such as "model".
        content: what is to be known about it, as JSON can hold it.
        files: the SHA-256 of each file by its path below the folder, where that is known already; by default all files
            are read, those in folders below too.
        name: of the manifest's file, where a part of a folder has its own.
    """
    taken = [key for key in _OWN if key in content]
    if taken:
        raise ValueError(f"'{taken[0]}' is a manifest's own field, and cannot be part of its content.")
    whole = {
        "format": f"bncl-{kind}",
        "version": VERSIONS.get(kind, 1),
        **content,
        "files": _digests(folder) if files is None else dict(sorted(files.items())),
    }
    write_json(folder / name, {**whole, "sha256": _digest(whole)})


def read_manifest(folder: Path, kind: str, *, check_files: bool = True, name: str = MANIFEST) -> dict[str, Any]:
    """Return a folder's manifest after checking that it is of the kind and version that we read, and unchanged.

    Args:
        folder: the folder.
        kind: what it must be.
        check_files: whether to compare every file with its digest, too; who does not must do so when reading a file.
        name: of the manifest's file.
    """
    content, ours = _manifest_of_kind(folder, kind, name), VERSIONS.get(kind, 1)
    if content.get("version") != ours:
        raise InputError(
            f"{folder} has {kind} format version {content.get('version')}, but this release reads {ours}; make it anew."
        )
    digest, files = content.pop("sha256", None), content.get("files")
    if digest is None or not isinstance(files, dict):
        raise InputError(f"{folder / name} has no digests of the files and of itself; make {folder} anew.")
    if digest != _digest(content):
        raise InputError(f"{folder / name} is damaged or was edited: its content is not what its digest describes.")
    for file, expected in files.items():
        if not isinstance(expected, str) or not _is_inside(file):
            raise InputError(f"{folder / name} lists a file '{file}' that cannot lie in {folder}.")
        if check_files:
            check_file(folder / file, expected)
    return content


def check_fields(content: Mapping[str, Any], kinds: Mapping[str, type | tuple[type, ...]], where: Path) -> None:
    """Raise unless every field of a manifest is there and of its kind; a boolean is no number.

    Args:
        content: the manifest.
        kinds: by field; `float` stands for whole numbers, too.
        where: what messages call it.
    """
    for field, kind in kinds.items():
        if field not in content:
            raise InputError(f"{where} has no '{field}', which it must have.")
        wanted = kind if isinstance(kind, tuple) else (kind,)
        wanted = (*wanted, int) if float in wanted else wanted
        value = content[field]
        if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
            raise InputError(f"{where}: '{field}' cannot be {_brief(value)}.")
        if isinstance(value, float) and not isfinite(value):
            raise InputError(f"{where}: '{field}' cannot be {value}.")


def _brief(value: Any) -> str:
    shown = json.dumps(value)
    return shown if len(shown) < 40 else f"{shown[:40]}…"


def _is_inside(name: str) -> bool:
    """Return whether a name is that of a file below a folder, wherever that lies."""
    parts = name.split("/")
    return "\0" not in name and "" not in parts and not {".", ".."} & set(parts)


def check_file(file: Path, sha256: str) -> None:
    """Raise unless a file is there and has the digest that its folder's manifest gives."""
    if not file.is_file() or sha256_of(file) != sha256:
        raise InputError(f"{file} is missing or damaged: it is not the file that its manifest describes.")


def _digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file below a folder, by its path there; manifests of folders inside count as files."""
    names = {file.relative_to(folder).as_posix(): file for file in folder.rglob("*") if file.is_file()}
    # What a write that was killed left of an earlier manifest is no file of the folder.
    own = {name for name in names if name in (MANIFEST, LOCK, CARD) or name.startswith(f".{MANIFEST}.")}
    return {name: sha256_of(names[name]) for name in sorted(names.keys() - own)}


def _digest(content: Mapping[str, Any]) -> str:
    # Without blanks, and in the order of the file: where two entries change places, the meaning may change.
    return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()


def _manifest_of_kind(folder: Path, kind: str, name: str = MANIFEST) -> dict[str, Any]:
    path = folder / name
    if not folder.exists():
        raise InputError(f"{folder} does not exist.")
    if not path.is_file():
        raise InputError(f"{folder} is not a bncl {kind} folder: it has no {name}.")
    content = read_json(path)
    if content.get("format") != f"bncl-{kind}":
        other = str(content.get("format", "unknown")).removeprefix("bncl-")
        raise InputError(f"{folder} is a bncl {other} folder, but a {kind} folder is needed here.")
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
