"""Requests are joined, answered in their places, refused when too many wait, and finished at the end."""

import threading
from collections.abc import Callable

import pytest

from bncl_pyg.serve.batching import Batcher, Busy, Stopping


def held(batches: list[list[int]]) -> tuple[Callable[[list[int]], list[int]], threading.Event, threading.Event]:
    """Return what doubles numbers but waits for an event in its first batch, and an event when it has begun."""
    began, go_on = threading.Event(), threading.Event()

    def answer(items: list[int]) -> list[int]:
        batches.append(items)
        began.set()
        assert go_on.wait(60)
        return [2 * item for item in items]

    return answer, began, go_on


def test_what_comes_meanwhile_is_one_batch() -> None:
    batches: list[list[int]] = []
    answer, began, go_on = held(batches)
    batcher = Batcher(answer, most=5, wait=0.0, waiting=100)
    first = batcher.submit([1])
    assert began.wait(60)
    rest = [batcher.submit([number, number]) for number in (2, 3, 4)]
    go_on.set()
    assert first.result(60) == [2]
    assert [one.result(60) for one in rest] == [[4, 4], [6, 6], [8, 8]]
    assert batches == [[1], [2, 2, 3, 3], [4, 4]]
    assert (batcher.counts.requests, batcher.counts.batches, batcher.counts.items) == (4, 3, 7)
    batcher.stop()


def test_one_by_one() -> None:
    batches: list[list[int]] = []
    answer, began, go_on = held(batches)
    batcher = Batcher(answer, most=1, wait=0.0, waiting=100)
    asked = [batcher.submit([number]) for number in range(4)]
    assert began.wait(60)
    go_on.set()
    assert [one.result(60) for one in asked] == [[0], [2], [4], [6]]
    assert batches == [[0], [1], [2], [3]]
    batcher.stop()


def test_a_full_queue_sends_away() -> None:
    answer, began, go_on = held([])
    batcher = Batcher(answer, most=1, wait=0.0, waiting=3)
    running = batcher.submit([0])
    assert began.wait(60)
    waiting = batcher.submit([1, 2, 3])
    with pytest.raises(Busy, match="Too many requests") as refused:
        batcher.submit([4])
    assert refused.value.retry_after >= 1
    assert batcher.counts.refused == 1
    go_on.set()
    assert running.result(60) == [0]
    assert waiting.result(60) == [2, 4, 6]
    assert batcher.submit([4]).result(60) == [8]
    batcher.stop()


def test_the_end_finishes_what_was_taken() -> None:
    answer, began, go_on = held([])
    batcher = Batcher(answer, most=1, wait=0.0, waiting=100)
    asked = [batcher.submit([number]) for number in range(5)]
    assert began.wait(60)
    stopper = threading.Thread(target=batcher.stop)
    stopper.start()
    go_on.set()
    stopper.join(60)
    assert [one.result(0) for one in asked] == [[0], [2], [4], [6], [8]]
    with pytest.raises(Stopping):
        batcher.submit([1])


def test_one_bad_request_is_no_fault_of_the_others() -> None:
    began, go_on = threading.Event(), threading.Event()

    def answer(items: list[int]) -> list[int]:
        began.set()
        assert go_on.wait(60)
        if 13 in items:
            raise ValueError("thirteen")
        return items

    batcher = Batcher(answer, most=10, wait=0.0, waiting=100)
    first = batcher.submit([1])
    assert began.wait(60)
    good, bad, job = batcher.submit([2]), batcher.submit([13]), batcher.run(lambda: "done")
    gone = batcher.submit([7])
    assert gone.cancel()
    go_on.set()
    assert first.result(60) == [1]
    assert good.result(60) == [2]
    assert job.result(60) == "done"
    with pytest.raises(ValueError, match="thirteen"):
        bad.result(60)
    with pytest.raises(ZeroDivisionError):
        batcher.run(lambda: 1 // 0).result(60)
    batcher.stop()
