"""Many trials, several at once."""

import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path

import torch

from benchmarks.quality.datasets import DataSet
from benchmarks.quality.plan import Trial
from benchmarks.quality.trials import Outcome, perform
from bncl_pyg.errors import InputError

_data: dict[Path, DataSet] = {}
"""The data set that a worker has loaded."""


def measured(
    dataset: DataSet, todo: list[tuple[Trial, int]], workers: int, epochs: int | None, last: float | None
) -> Iterator[tuple[Trial, int, Outcome | InputError]]:
    """Yield outcomes as they come; each worker has one thread, which for small matrices is the best use of a core.

    A trial that the data do not allow, such as a draw of annotated texts without any label, yields its error.

    Args:
        dataset: prepared.
        todo: trials and seeds.
        workers: how many at once; 1 works in this process.
        epochs: see `perform`.
        last: the time of `time.perf_counter` from which no further trial is begun.
    """
    if workers == 1:
        _one_thread()
        _data[dataset.folder] = dataset
        for trial, seed in todo:
            if last is None or time.perf_counter() < last:
                yield trial, seed, _work(trial, dataset.folder, dataset.cache, dataset.features, seed, epochs)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_one_thread) as pool:
        jobs: dict[Future[Outcome | InputError], tuple[Trial, int]] = {
            pool.submit(_work, trial, dataset.folder, dataset.cache, dataset.features, seed, epochs): (trial, seed)
            for trial, seed in todo
        }
        try:
            for job in as_completed(jobs):
                if not job.cancelled():
                    yield *jobs[job], job.result()
                if last is not None and time.perf_counter() > last:
                    for waiting in jobs:
                        waiting.cancel()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _one_thread() -> None:
    torch.set_num_threads(1)


def _work(
    trial: Trial, folder: Path, cache: Path, features: Path | None, seed: int, epochs: int | None
) -> Outcome | InputError:
    if folder not in _data:
        _data.clear()
        _data[folder] = DataSet(folder, cache, features=features)
    try:
        return perform(trial, _data[folder], seed, epochs)
    except InputError as error:
        return error
