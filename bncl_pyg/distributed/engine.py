"""Ray as the engine: connects to a cluster, gives it pieces of work, and tells what came of each.

Ray Data schedules: each piece of work is a row of a data set, and what does it is an actor that holds a model. What the
pieces make lies in files that are whole or absent, so that a piece that is done twice does no harm.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bncl_pyg.errors import InputError, missing_extra

log = logging.getLogger(__name__)

ATTEMPTS = 3
"""How often a piece of work is begun before its end is given up: workers may be lost, but not always by the same."""
RESERVED = 0.5
"""How much of a core a worker has for itself: as many workers as cores find place when half of the nodes are lost."""
MOST_BLOCKS = 10_000
"""Into how many tasks the work is cut at most; with more pieces, a task does several."""


@dataclass(frozen=True)
class RayOptions:
    """Where and with how many workers.

    Args:
        address: of a running cluster, or "auto" for the one on this machine; if not given, one is started on this
            machine for as long as the work takes.
        workers: how many actors; as many as the cluster has GPUs or, without any, CPUs, if not given.
        gpus: how many GPUs an actor holds; one where the cluster has any, if not given.
    """

    address: str | None = None
    workers: int | None = None
    gpus: float | None = None

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise InputError(f"workers must be at least 1, but is {self.workers}.")


@contextmanager
def connected(options: RayOptions) -> Iterator[None]:
    """Connect to the cluster; who is connected already stays so."""
    try:
        import ray
    except ImportError:
        raise missing_extra("Working on a cluster", "ray", "distributed") from None
    if ray.is_initialized():
        yield
        return
    try:
        ray.init(address=options.address, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=None)
    except (ConnectionError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise InputError(f"There is no Ray cluster at {options.address} ({reason}).") from None
    try:
        yield
    finally:
        ray.shutdown()


def resources(options: RayOptions) -> tuple[int, float]:
    """Return how many workers there are to be, and how many GPUs each holds."""
    import ray

    there: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    gpus = (1.0 if there.get("GPU", 0) >= 1 else 0.0) if options.gpus is None else options.gpus
    if gpus > there.get("GPU", 0):
        raise InputError(f"A worker is to have {gpus:g} GPUs, but the cluster has {there.get('GPU', 0):g}.")
    most = int(there["GPU"] / gpus) if gpus else int(there.get("CPU", 1))
    return options.workers or max(most, 1), gpus


def run_actors(
    actor: type, arguments: tuple[Any, ...], pieces: Sequence[int], options: RayOptions
) -> Iterator[dict[str, Any]]:
    """Have actors do pieces of work; yield what each returns, in the order in which they end.

    An actor that is lost with its node is started again elsewhere, and what it was doing is done again.

    Args:
        actor: a class whose instances are called with the number of a piece and return what JSON can hold.
        arguments: of its constructor.
        pieces: the numbers.
        options: where.
    """
    from ray.data import ActorPoolStrategy

    workers, gpus = resources(options)
    workers = max(min(workers, len(pieces)), 1)
    yield from _results(
        pieces,
        _Called,
        fn_constructor_args=(actor, arguments),
        compute=ActorPoolStrategy(size=workers, max_tasks_in_flight_per_actor=2),
        num_cpus=RESERVED,
        num_gpus=gpus or None,
    )


def run_tasks(function: Callable[[int], dict[str, Any]], pieces: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Have tasks, which hold nothing, do pieces of work; yield what each returns, in the order in which they end."""
    yield from _results(pieces, _called(function), num_cpus=1)


def _results(pieces: Sequence[int], function: Any, **options: Any) -> Iterator[dict[str, Any]]:
    import json

    import ray
    from ray.data import DataContext

    if not pieces:
        return
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    DataContext.get_current().enable_progress_bars = False
    items = [{"piece": piece} for piece in pieces]
    data = ray.data.from_items(items, override_num_blocks=min(len(items), MOST_BLOCKS))
    for row in data.map_batches(function, batch_size=1, **options).iter_rows():
        yield json.loads(row["result"])


class _Called:
    """What Ray Data makes an actor of: passes the numbers of the pieces on."""

    def __init__(self, actor: type, arguments: tuple[Any, ...]) -> None:
        self._actor = actor(*arguments)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        return _call(self._actor, batch)


def _called(function: Callable[[int], dict[str, Any]]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda batch: _call(function, batch)


def _call(function: Callable[[int], dict[str, Any]], batch: dict[str, Any]) -> dict[str, Any]:
    import json

    import numpy as np

    results = [json.dumps({"piece": int(piece), **function(int(piece))}) for piece in batch["piece"]]
    return {"result": np.array(results, dtype=object)}


class Attempts:
    """Counts how often a piece of work was begun and not ended: the worker was lost, by itself or by the work.

    Args:
        folder: where the counts lie, which all workers reach.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def clear(self) -> None:
        """Forget all counts."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for file in self.folder.iterdir():
            file.unlink()

    def begin(self, piece: int) -> bool:
        """Count another attempt; return whether it may be made."""
        file = self.folder / f"{piece:08d}"
        if file.exists() and file.stat().st_size >= ATTEMPTS:
            return False
        with file.open("ab") as count:
            count.write(b".")
        return True

    def end(self, piece: int) -> None:
        """Forget a piece of work that came to an end."""
        (self.folder / f"{piece:08d}").unlink(missing_ok=True)


def read_tables(names: Sequence[str], read: Callable[[int], dict[str, Any]]) -> None:
    """Read tables, each by a task; the first that cannot be used is told.

    Args:
        names: of the tables.
        read: reads the table with a number; a table that cannot be used is an `InputError`.
    """
    errors = {result["piece"]: result["error"] for result in run_tasks(_told(read), range(len(names)))}
    wrong = min((piece for piece, error in errors.items() if error), default=None)
    if wrong is not None:
        raise InputError(errors[wrong])


def _told(read: Callable[[int], dict[str, Any]]) -> Callable[[int], dict[str, Any]]:
    def told(piece: int) -> dict[str, Any]:
        try:
            read(piece)
        except InputError as error:
            return {"error": str(error)}
        return {"error": ""}

    return told
