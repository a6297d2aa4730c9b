"""Chosen pairs of labels, and the memory that a graph of them takes."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BYTES_A_PAIR = 85
"""What building a graph takes for each pair at its peak: 83 were measured on 20 million pairs."""
BLOCK_SHARE = 1 / 16
"""The share of the memory budget that one block of cosines may take; its temporary copies need a few times that."""
MOST_ROWS = 1024


class Edges(NamedTuple):
    """Each chosen pair once.

    Args:
        pairs: int32, (2, pairs).
        signs: int8, (pairs,).
        weights: the cosines; float32, (pairs,).
    """

    pairs: NDArray[np.int32]
    signs: NDArray[np.int8]
    weights: NDArray[np.float32]


def rows_at_once(columns: int, memory: float) -> int:
    """Return how many rows of cosines a block has under a budget of `memory` GB."""
    return max(1, min(MOST_ROWS, int(memory * 1e9 * BLOCK_SHARE) // (4 * columns)))
