"""Texts that are unlike each other and hard: the hardest of each cluster."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bncl_pyg.active.inputs import drawn_open, text_inputs
from bncl_pyg.active.pool import Pool
from bncl_pyg.active.unsure import expected_change


@dataclass(frozen=True)
class Diverse:
    """Of each cluster of texts, the one whose labels are expected to change F1 most; large clusters first.

    There are as many clusters (k-means) as texts will be annotated, and one that has an annotated text is passed over.

    Args:
        name: what it is called.
        probability_share: how much probabilities count beside vectors, from 0 to 1.
        most_texts: of how many texts there are clusters; of more, so many are drawn.
    """

    name: str = "diverse"
    probability_share: float = 0.5
    most_texts: int = 20_000

    def choose(self, pool: Pool, count: int, seed: int) -> NDArray[np.int64]:
        """See `Strategy`."""
        # It takes longer to import than most commands run.
        from sklearn.cluster import MiniBatchKMeans

        free, asked = drawn_open(pool, self.most_texts, count, seed), pool.asked
        rows = np.concatenate([free, asked])
        points = text_inputs(pool, rows, self.probability_share)
        clusters = MiniBatchKMeans(min(len(rows), len(asked) + count), n_init=1, random_state=seed).fit_predict(points)
        own, change = clusters[: len(free)], expected_change(pool).numpy()[free]
        # The hardest of each cluster, those of large clusters first, the others of each after them.
        order = np.lexsort((-change, own))
        firsts = np.ones(len(order), dtype=bool)
        firsts[1:] = own[order][1:] != own[order][:-1]
        is_covered = np.isin(own, clusters[len(free) :])
        sizes = np.bincount(clusters)[own]
        is_first = np.zeros(len(free), dtype=bool)
        is_first[order[firsts]] = True
        best = np.lexsort((-change, -sizes, ~(is_first & ~is_covered)))[:count]
        chosen: NDArray[np.int64] = free[best]
        return chosen
