"""Texts by chance: what every other strategy must beat."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bncl_pyg.active.pool import Pool


@dataclass(frozen=True)
class ByChance:
    """Texts drawn by chance."""

    name: str = "random"

    def choose(self, pool: Pool, count: int, seed: int) -> NDArray[np.int64]:
        """See `Strategy`."""
        # Another draw after every annotation, also with the same seed.
        drawn: NDArray[np.int64] = np.random.default_rng([seed, len(pool.asked)]).choice(
            pool.open, count, replace=False
        )
        return drawn
