"""Which text comes next: an order of rows, by what the model says of them and what is answered already."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class TextOrder(Protocol):
    """A strategy."""

    def __call__(self, probabilities: NDArray[np.float32], answered: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows that are still open, the one to be asked first first.

        Args:
            probabilities: of each text's labels, or of its candidates; (texts, labels).
            answered: the rows that are answered already.
        """
        ...


def least_sure(probabilities: NDArray[np.float32], answered: NDArray[np.int64]) -> NDArray[np.int64]:
    """Put the texts first of which a label is nearest to a half; of equal ones the first (`TextOrder`)."""
    distance = np.abs(probabilities - 0.5).min(axis=1, initial=0.5)
    order = np.argsort(distance, kind="stable")
    return order[~np.isin(order, answered)]
