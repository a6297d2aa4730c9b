"""Long builds block by block: finished blocks lie on disk, so that a build that was stopped goes on with the next."""

import hashlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from bncl_pyg.errors import InputError
from bncl_pyg.persistence import LOCK, MANIFEST, folder_lock, read_manifest, write_bytes, write_manifest

log = logging.getLogger(__name__)

Arrays = dict[str, NDArray[Any]]

KIND = "graph-blocks"
_DIGEST_BYTES = hashlib.sha256().digest_size


@dataclass(frozen=True)
class BlockLog:
    """How many of a stage's blocks are finished."""

    stage: str
    finished: int
    of: int


Progress = Callable[[BlockLog], None]


@dataclass(frozen=True)
class Work:
    """How a build keeps its finished blocks and reports them.

    Args:
        folder: where they lie; nowhere, if not given.
        progress: called when a stage begins, and with every finished block.
    """

    folder: Path | None = None
    progress: Progress | None = None

    def blocks(self, stage: str, made_from: str, count: int, compute: Callable[[int], Arrays]) -> Iterator[Arrays]:
        """Yield the results of blocks 0, 1, …: read where they are finished, computed and written where not.

        Args:
            stage: its name, letters and digits.
            made_from: a hash of everything that decides the results; blocks made from anything else are deleted.
            count: how many blocks there are.
            compute: what makes one.
        """
        if self.folder is not None:
            _delete_others(self.folder, stage, made_from)
        self._report(BlockLog(stage, 0, count))
        for number in range(count):
            file = None if self.folder is None else self.folder / f"{_prefix(stage, made_from)}{number:06d}.block"
            arrays = None if file is None else _read(file)
            if arrays is None:
                arrays = compute(number)
                if file is not None:
                    _write(file, arrays)
            self._report(BlockLog(stage, number + 1, count))
            yield arrays

    def _report(self, entry: BlockLog) -> None:
        if self.progress is not None:
            self.progress(entry)


@contextmanager
def work_folder(out: Path) -> Iterator[Path]:
    """Give the hidden folder beside `out` for finished blocks, held for oneself.

    It is removed when the `with` block ends without an error; after an error it stays, if any block is finished.
    """
    folder = out.parent / f".{out.name}.blocks"
    folder.mkdir(parents=True, exist_ok=True)
    with _removed_if_empty(folder), folder_lock(folder):
        if (folder / MANIFEST).exists():
            read_manifest(folder, KIND)
        elif any(not file.name.startswith((LOCK, f".{MANIFEST}")) for file in folder.iterdir()):
            raise InputError(f"{folder} is in the way: finished blocks of the graph would be kept there.")
        else:
            write_manifest(folder, KIND, {})
        completed = False
        try:
            yield folder
            completed = True
        finally:
            if completed or not any(folder.glob("*.block")):
                # The manifest goes last: without it, what a killed run leaves would block the next.
                for file in folder.iterdir():
                    if file.name not in (LOCK, MANIFEST):
                        file.unlink()
                (folder / MANIFEST).unlink(missing_ok=True)


@contextmanager
def _removed_if_empty(folder: Path) -> Iterator[None]:
    try:
        yield
    finally:
        # It is not empty where blocks stay, or where another build has begun.
        with suppress(OSError):
            folder.rmdir()


def hash_of(*parts: object) -> str:
    """Return a hash of arrays (their type, shape and content) and of anything else as it is printed."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            total.update(f"{part.dtype}{part.shape}".encode())
            total.update(np.ascontiguousarray(part).data)
        else:
            content = repr(part).encode()
            total.update(len(content).to_bytes(8, "little"))
            total.update(content)
    return total.hexdigest()


def _prefix(stage: str, made_from: str) -> str:
    return f"{stage}.{made_from[:16]}."


def _delete_others(folder: Path, stage: str, made_from: str) -> None:
    others = [file for file in folder.glob(f"{stage}.*.block") if not file.name.startswith(_prefix(stage, made_from))]
    if others:
        log.info("%s: %d finished blocks are of other labels or options; this stage starts anew.", stage, len(others))
    for file in others:
        file.unlink()


def _write(file: Path, arrays: Arrays) -> None:
    content = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    write_bytes(file, hashlib.sha256(content).digest() + content)


def _read(file: Path) -> Arrays | None:
    """Return a finished block; nothing where it is absent or damaged."""
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return None
    if hashlib.sha256(content[_DIGEST_BYTES:]).digest() != content[:_DIGEST_BYTES]:
        log.warning("%s is damaged and is made again.", file)
        return None
    return load(content[_DIGEST_BYTES:])
