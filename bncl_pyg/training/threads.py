"""As many threads as make small steps fastest."""

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

FEW_NUMBERS, TRIED_STEPS = 2**15, 8
"""With fewer numbers a batch, more threads than one help on an idle machine only: the first steps of an epoch tell."""


class FastestThreads:
    """As many threads as make steps fastest, which is not known beforehand where they are small.

    More than one are a gain on an idle machine, and a loss on a busy one or where threads sleep while they wait. Every
    epoch tries both in turn. What is computed does not depend on it.

    Args:
        is_small: whether to try; else there are as many threads as usual.
    """

    def __init__(self, *, is_small: bool) -> None:
        self.is_small, self._best = is_small, 1
        self._seconds: dict[int, list[float]] = {}

    def __enter__(self) -> None:
        self._usual = torch.get_num_threads()
        self._seconds = {1: [], self._usual: []}
        if self.is_small:
            torch.set_num_threads(min(self._best, self._usual))

    def __exit__(self, *_: object) -> None:
        torch.set_num_threads(self._usual)

    @contextmanager
    def trying(self, step: int) -> Iterator[None]:
        """Take a step (the first is 1) with the number of threads whose turn it is, or with the best."""
        if not self.is_small or step > TRIED_STEPS or self._usual == 1:
            yield
            return
        threads = (1, self._usual)[step % 2]
        torch.set_num_threads(threads)
        began = time.perf_counter()
        yield
        self._seconds[threads].append(time.perf_counter() - began)
        if step == TRIED_STEPS:
            self._best = min(self._seconds, key=lambda tried: statistics.median(self._seconds[tried]))
            torch.set_num_threads(self._best)
