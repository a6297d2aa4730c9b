"""Requests joined into batches on one worker thread, with a bounded queue: nobody waits in a line without end."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Busy(Exception):  # noqa: N818 (it is a state, not a fault)
    """Too much is waiting; `retry_after` says in how many seconds it may be otherwise."""

    def __init__(self, retry_after: int) -> None:
        super().__init__("Too many requests are waiting; ask again a little later.")
        self.retry_after = retry_after


class Stopping(Exception):  # noqa: N818
    """The server is about to stop and takes nothing new."""


@dataclass
class BatchCounts:
    """What a batcher did so far."""

    batches: int = 0
    items: int = 0
    requests: int = 0
    refused: int = 0
    seconds: float = 0.0


@dataclass
class _Request(Generic[Item]):
    items: Sequence[Item]
    job: Callable[[], Any] | None
    future: "Future[Any]" = field(default_factory=Future)


class Batcher(Generic[Item, Result]):
    """Answers requests of a few items each by batches.

    A batch begins with the request that waits longest; what comes within `wait` seconds joins it, as long as there are
    at most `most` items. While a batch is being answered, the next one gathers.

    Args:
        answer: from the items of a batch to a result each.
        most: items in a batch; with 1, requests are answered one by one.
        wait: seconds.
        waiting: how many items may wait at most.

    Example::

        batcher = Batcher(lambda texts: predict(texts), most=64, wait=0.003, waiting=2048)
        batcher.submit(["a text"]).result()
    """

    def __init__(
        self, answer: Callable[[list[Item]], Sequence[Result]], *, most: int, wait: float, waiting: int
    ) -> None:
        self._answer, self._most, self._wait, self._limit = answer, most, wait, waiting
        self._requests: deque[_Request[Item]] = deque()
        self._size, self._is_stopping = 0, False
        self._changed = threading.Condition()
        self.counts = BatchCounts()
        self._thread = threading.Thread(target=self._work, name="bncl-model", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many items wait."""
        return self._size

    def submit(self, items: Sequence[Item]) -> "Future[list[Result]]":
        """Ask for the results of some items; raises `Busy` where too many wait, and `Stopping` at the end."""
        return self._add(_Request(items, None))

    def run(self, job: Callable[[], Any]) -> "Future[Any]":
        """Have something else done on the worker thread, which counts as one item."""
        return self._add(_Request((), job))

    def stop(self) -> None:
        """Take nothing new, finish what was taken, and end the thread."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        self._thread.join()

    def _add(self, request: _Request[Item]) -> "Future[Any]":
        with self._changed:
            if self._is_stopping:
                raise Stopping("The server is stopping.")
            size = _size(request)
            # One that is larger than the whole queue is taken when nothing else waits.
            if self._size and self._size + size > self._limit:
                self.counts.refused += 1
                raise Busy(max(1, round(self._size * self._seconds_an_item())))
            self._requests.append(request)
            self._size += size
            self.counts.requests += 1
            self._changed.notify()
        return request.future

    def _seconds_an_item(self) -> float:
        return self.counts.seconds / self.counts.items if self.counts.items else 0.01

    def _work(self) -> None:
        while batch := self._next_batch():
            taken = [request for request in batch if request.future.set_running_or_notify_cancel()]
            if not taken:
                continue
            began = time.perf_counter()
            if taken[0].job is not None:
                _do_job(taken[0])
            else:
                self._answer_batch(taken)
            self.counts.seconds += time.perf_counter() - began

    def _next_batch(self) -> list[_Request[Item]]:
        """Return requests that are answered at once; none at the end. A job comes alone."""
        with self._changed:
            while not self._requests and not self._is_stopping:
                self._changed.wait()
            until = time.perf_counter() + self._wait
            while self._size < self._most and not self._is_stopping and not any(one.job for one in self._requests):
                left = until - time.perf_counter()
                if left <= 0:
                    break
                self._changed.wait(left)
            batch: list[_Request[Item]] = []
            count = 0
            while self._requests:
                size = _size(self._requests[0])
                if batch and (count + size > self._most or self._requests[0].job is not None):
                    break
                batch.append(self._requests.popleft())
                count += size
                if batch[0].job is not None:
                    break
            self._size -= count
            return batch

    def _answer_batch(self, batch: list[_Request[Item]]) -> None:
        items = [item for request in batch for item in request.items]
        self.counts.batches += 1
        self.counts.items += len(items)
        try:
            results = list(self._answer(items))
        except Exception as error:
            if len(batch) == 1:
                batch[0].future.set_exception(error)
            else:
                # One bad request is no fault of those that happened to come at the same time.
                for request in batch:
                    self._answer_batch([request])
            return
        at = 0
        for request in batch:
            request.future.set_result(results[at : at + len(request.items)])
            at += len(request.items)


def _size(request: _Request[Any]) -> int:
    return max(len(request.items), 1)


def _do_job(request: _Request[Any]) -> None:
    assert request.job is not None
    try:
        result = request.job()
    except Exception as error:
        request.future.set_exception(error)
    else:
        request.future.set_result(result)
