"""Many trainings, some at once, each saved when it is done: a run that is stopped goes on."""

import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar

import torch
import typer

from benchmarks.results import about_this_run
from bncl_pyg.persistence import read_json, write_json

Workers = Annotated[int, typer.Option(min=1, help="Trainings at once, a core each.")]
Minutes = Annotated[float | None, typer.Option(help="Begin no training later than this.")]
CORES = os.cpu_count() or 1


class Keyed(Protocol):
    """A training that has a name in the file of results."""

    @property
    def key(self) -> str:
        """The name."""
        ...


Job = TypeVar("Job", bound=Keyed)


def open_results(file: Path) -> dict[str, Any]:
    """Return what was measured before, with a new entry for this session."""
    content: dict[str, Any] = read_json(file) if file.is_file() else {"runs": {}, "sessions": []}
    content["sessions"].append(about_this_run())
    return content


def measure(
    content: dict[str, Any],
    file: Path,
    jobs: Iterable[Job],
    perform: Callable[[Job], dict[str, Any]],
    workers: int = CORES,
    last: float | None = None,
) -> None:
    """Perform the jobs that are not in the results yet, and save each when it is done.

    Args:
        content: as `open_results` returns it.
        file: where it is saved.
        jobs: which trainings.
        perform: returns the figures of one; it is sent to other processes, each of which has one thread.
        workers: how many at once.
        last: the time of `time.perf_counter` from which no further one is begun.
    """
    todo = [job for job in jobs if job.key not in content["runs"]]
    start = partial(torch.set_num_threads, 1)
    with ProcessPoolExecutor(min(workers, max(len(todo), 1)), get_context("spawn"), initializer=start) as pool:
        futures = {pool.submit(perform, job): job for job in todo}
        for future in as_completed(futures):
            if future.cancelled():
                continue
            key = futures[future].key
            content["runs"][key] = {**future.result(), "session": len(content["sessions"]) - 1}
            typer.echo(f"{key}: {content['runs'][key]}")
            write_json(file, content)
            if last is not None and time.perf_counter() > last:
                for waiting in futures:
                    waiting.cancel()
    write_json(file, content)
