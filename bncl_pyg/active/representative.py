"""Texts that together look like all texts."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bncl_pyg.active.inputs import drawn_open, squared_lengths, text_inputs
from bncl_pyg.active.pool import Pool
from bncl_pyg.errors import InputError


@dataclass(frozen=True)
class Representative:
    """Herding: each text is chosen so that the mean of all that are annotated comes nearest to the mean of all texts.

    Means are of the probabilities and of the vectors. So the annotated texts have as many labels as texts have, and
    each label as often, as far as the model can tell: what is counted among them (κ, λ, how sure to be) is right with
    fewer texts than by chance. Texts that are hard, and so unlike others, would teach more of themselves, but make
    labels look more common than they are.

    Args:
        name: what it is called.
        probability_share: how much probabilities count beside vectors, from 0 to 1.
        most_texts: of how many texts the mean is; of more, so many are drawn.
    """

    name: str = "representative"
    probability_share: float = 0.5
    most_texts: int = 20_000

    def __post_init__(self) -> None:
        if not 0 <= self.probability_share <= 1:
            raise InputError(f"The probability share must lie between 0 and 1, but is {self.probability_share:g}.")

    def choose(self, pool: Pool, count: int, seed: int) -> NDArray[np.int64]:
        """See `Strategy`."""
        free, asked = drawn_open(pool, self.most_texts, count, seed), pool.asked
        points = text_inputs(pool, np.concatenate([free, asked]), self.probability_share)
        mean = np.asarray(points.mean(axis=0), dtype=np.float64).ravel()
        total = np.asarray(points[len(free) :].sum(axis=0), dtype=np.float64).ravel()
        points = points[: len(free)]
        lengths, is_free = squared_lengths(points), np.ones(len(free), dtype=bool)
        chosen: list[int] = []
        for number in range(len(asked) + 1, len(asked) + count + 1):
            # How far the sum, with this text, is from so many times the mean, squared; less what all have in common.
            distances = lengths - 2 * np.asarray(points @ (number * mean - total)).ravel()
            best = int(np.argmin(np.where(is_free, distances, np.inf)))
            chosen.append(best)
            is_free[best] = False
            own = points[[best]]
            total += np.asarray(own.toarray() if hasattr(own, "toarray") else own, dtype=np.float64).ravel()
        rows: NDArray[np.int64] = free[chosen]
        return rows
