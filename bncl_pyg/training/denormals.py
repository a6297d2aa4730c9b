"""Arithmetic that takes numbers too small to matter as 0, as long as a training runs.

Messages into a sum that is negative for every text get no gradient. Adam's averages of these weights, half of a graph's
and more, shrink step by step below 1e-38, where a processor takes many times as long for each, and change no weight.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

DENORMAL = 1e-310


@contextmanager
def without_denormals() -> Iterator[None]:
    """Take numbers below 1e-38 as 0 in this thread, where the processor can, and leave it as it was."""
    was_set = takes_denormals_as_zero()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(was_set)


def takes_denormals_as_zero() -> bool:
    """Return whether this thread does so now; torch can only be told, not asked."""
    return float(torch.full((), DENORMAL, dtype=torch.float64).mul_(1)) == 0.0
