"""Texts for labels that no annotated text has."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bncl_pyg.active.pool import LEAST_SHARE, Pool


@dataclass(frozen=True)
class MissingExamples:
    """Labels with no example first: for each, the most common first, the text that most probably has it.

    A text that was chosen counts as an example of the labels that it is predicted to have. Where every label has an
    example, those follow that have the fewest for how common they are.
    """

    name: str = "missing-examples"

    def choose(self, pool: Pool, count: int, seed: int) -> NDArray[np.int64]:  # noqa: ARG002
        """See `Strategy`."""
        # Columns of labels are needed, many times over.
        shares, decisions = (
            matrix.tocsc() if hasattr(matrix, "tocsc") else matrix
            for matrix in (pool.predictions.probability_matrix(), pool.predictions.indicator())
        )
        rows_of_decisions = decisions.tocsr() if hasattr(decisions, "tocsr") else decisions
        common = np.maximum(pool.priors.shares, LEAST_SHARE)
        examples, free = pool.examples.astype(np.float64), np.zeros(len(pool), dtype=bool)
        free[pool.open] = True
        chosen: list[int] = []
        while len(chosen) < count:
            lacking = examples == 0
            label = int(np.argmax(common * lacking)) if lacking.any() else int(np.argmin(examples / common))
            column = shares[:, [label]]
            column = (column.toarray() if hasattr(column, "toarray") else column).ravel()
            best = int(np.argmax(np.where(free, column, -1.0)))
            chosen.append(best)
            free[best] = False
            given = rows_of_decisions[[best]]
            examples += (given.toarray() if hasattr(given, "toarray") else given).ravel()
            # Whether or not it was predicted, it was asked for.
            examples[label] = max(examples[label], 1.0) if lacking[label] else examples[label] + 1
        return np.array(chosen, dtype=np.int64)
