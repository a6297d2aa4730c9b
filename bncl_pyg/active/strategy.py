"""What a strategy is: how to choose the texts that somebody is to annotate next."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bncl_pyg.active.pool import Pool


class Strategy(Protocol):
    """How to choose texts. To add one, write a frozen dataclass with these and list it in `strategies.py`.

    Attributes:
        name: what it is called.
    """

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    def choose(self, pool: Pool, count: int, seed: int) -> NDArray[np.int64]:
        """Return the rows of so many different texts that nobody annotated, those that teach most first; (count,).

        Args:
            pool: the texts.
            count: how many; there are as many.
            seed: of all that is drawn.
        """
        ...
