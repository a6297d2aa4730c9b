"""Long builds block by block: finished blocks lie on disk, so that a build that was stopped goes on with the next."""

import hashlib
import logging
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load, save
from torch import Tensor

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
Compute = Callable[[int], Arrays]
"""What makes a block from its number."""


class Held(Protocol):
    """Functions that hold parts of something large, such as an index."""

    def ask(self, *arguments: Any) -> list[Arrays]:
        """Call each with the same arguments; return their results in order."""
        ...


class BlockEngine(Protocol):
    """Who computes blocks, if not this process.

    Attributes:
        parts: into how many parts something large is cut, each held elsewhere.
    """

    parts: int

    def run(
        self, stage: str, compute: Callable[[int], Any], numbers: Sequence[int]
    ) -> Generator[tuple[int, Any], None, None]:
        """Have `compute` called with each number; yield numbers and results in the order in which they end.

        Args:
            stage: what to call the work in a message.
            compute: it can be pickled, and its large arrays are NumPy's.
            numbers: of the blocks.
        """
        ...

    def hold(self, makers: Sequence[Callable[[], Callable[..., Arrays]]]) -> Held:
        """Have each function made and held by a worker of its own, for as long as the engine is there."""
        ...


class HeldHere:
    """Holds functions in this process."""

    def __init__(self, makers: Sequence[Callable[[], Callable[..., Arrays]]]) -> None:
        self._functions = [make() for make in makers]

    def ask(self, *arguments: Any) -> list[Arrays]:
        """Call each with the same arguments; return their results in order."""
        return [function(*arguments) for function in self._functions]


@dataclass(frozen=True)
class Work:
    """How a build keeps its finished blocks and reports them, and who computes them.

    Args:
        folder: where they lie; nowhere, if not given. An engine's workers write there themselves.
        progress: called when a stage begins, and with every finished block.
        engine: who computes blocks; this process, if not given. It changes no result.
    """

    folder: Path | None = None
    progress: Progress | None = None
    engine: BlockEngine | None = None

    def blocks(
        self, stage: str, made_from: str, count: int, compute: Compute, *, here: bool = False
    ) -> Iterator[Arrays]:
        """Yield the results of blocks 0, 1, …: read where they are finished, computed and written where not.

        Args:
            stage: its name, letters and digits.
            made_from: a hash of everything that decides the results; blocks made from anything else are deleted.
            count: how many blocks there are.
            compute: what makes one; see `BlockEngine`.
            here: compute them in this process in any case.
        """
        if self.folder is not None:
            _delete_others(self.folder, stage, made_from)
        self._report(BlockLog(stage, 0, count))
        # Workers may be elsewhere, so that the whole path is told.
        kept = _Kept(None if self.folder is None else self.folder.absolute() / _prefix(stage, made_from), compute)
        if self.engine is not None and not here:
            yield from self._by_engine(self.engine, stage, count, kept)
            return
        for number in range(count):
            arrays = kept.read(number)
            if arrays is None:
                arrays = kept.make(number)
            self._report(BlockLog(stage, number + 1, count))
            yield arrays

    def hold(self, makers: Sequence[Callable[[], Callable[..., Arrays]]]) -> Held:
        """Have functions held by the engine's workers, or here."""
        return HeldHere(makers) if self.engine is None else self.engine.hold(makers)

    @property
    def parts(self) -> int:
        """Into how many parts something large is cut."""
        return 1 if self.engine is None else self.engine.parts

    def _by_engine(self, engine: BlockEngine, stage: str, count: int, kept: "_Kept") -> Iterator[Arrays]:
        """Have missing blocks computed in any order, and yield all in theirs."""
        missing = [number for number in range(count) if not kept.is_there(number)]
        for place in range(count - len(missing)):
            self._report(BlockLog(stage, place + 1, count))
        made: dict[int, Arrays | None] = {}
        waiting = set(missing)
        with closing(engine.run(stage, kept, missing)) as results:
            for number in range(count):
                while number in waiting:
                    done, arrays = next(results)
                    made[done] = arrays
                    waiting.remove(done)
                    self._report(BlockLog(stage, count - len(waiting), count))
                arrays = made.pop(number, None) or kept.read(number)
                if arrays is None:
                    raise InputError(f"A finished block of the graph has vanished from {self.folder}; build it again.")
                yield arrays

    def _report(self, entry: BlockLog) -> None:
        if self.progress is not None:
            self.progress(entry)


@dataclass(frozen=True)
class _Kept:
    """Blocks of a stage that are written as soon as they are made, by whoever makes them.

    Args:
        start: how their files' names begin; nowhere, if not given.
        compute: what makes one.
    """

    start: Path | None
    compute: Compute

    def __call__(self, number: int) -> Arrays | None:
        """Make a block; return it only if it is not on disk then."""
        arrays = self.make(number)
        return arrays if self.start is None else None

    def make(self, number: int) -> Arrays:
        """Make a block, and write it."""
        arrays = self.compute(number)
        if self.start is not None:
            _write(self._file(self.start, number), arrays)
        return arrays

    def read(self, number: int) -> Arrays | None:
        """Return a finished block; nothing where it is absent or damaged."""
        return None if self.start is None else _read(self._file(self.start, number))

    def is_there(self, number: int) -> bool:
        """Return whether a block is finished and whole."""
        return self.read(number) is not None

    def _file(self, start: Path, number: int) -> Path:
        return start.with_name(f"{start.name}{number:06d}.block")


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


def tensor_of(array: NDArray[Any]) -> Tensor:
    """Return a tensor that shares an array's memory, which may be read-only and is never written to."""
    with warnings.catch_warnings():
        # What lies in the memory that workers of a machine share cannot be written to; torch warns of that.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable", category=UserWarning)
        return torch.from_numpy(array)


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
