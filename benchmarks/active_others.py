"""Query strategies of small-text and scikit-activeml, as strategies of ours: what they choose, by the same model."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from bncl_pyg.active import ByChance, Pool, Strategy


@dataclass(frozen=True)
class Foreign:
    """A strategy of another library."""

    name: str
    query: Callable[[Pool, int, int], Any]

    def choose(self, pool: Pool, count: int, seed: int) -> NDArray[np.int64]:
        """See `Strategy`."""
        return np.asarray(self.query(pool, count, seed), dtype=np.int64)


class _Probabilities:
    """As much of small-text's classifier as its strategies ask for: what a model said of the texts of a pool."""

    def __init__(self, values: NDArray[np.float32]) -> None:
        self.values = values

    def predict_proba(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        return self.values[rows]


def _inconsistency(pool: Pool, count: int, seed: int) -> Any:
    from small_text import CategoryVectorInconsistencyAndRanking

    if pool.annotated is None:
        # It compares with annotated texts, of which there are none yet.
        return ByChance().choose(pool, count, seed)
    everything = np.arange(len(pool))
    truth = csr_matrix(pool.annotated.labels.astype(int))
    return CategoryVectorInconsistencyAndRanking(pbar=None).query(
        _Probabilities(pool.probabilities(everything)), everything, pool.open, pool.annotated.rows, truth, n=count
    )


def _activeml(name: str) -> Callable[[Pool, int, int], Any]:
    def query(pool: Pool, count: int, seed: int) -> Any:
        from skactiveml import pool as strategies

        assert pool.vectors is not None
        # These look at vectors alone, and at whether a text is annotated.
        labels = np.full(len(pool), np.nan)
        labels[pool.asked] = 0
        return getattr(strategies, name)(random_state=seed).query(X=pool.vectors.numpy(), y=labels, batch_size=count)

    return query


def foreign_strategies() -> dict[str, Strategy]:
    """Return those of the libraries that are installed."""
    made: list[Strategy] = []
    if find_spec("small_text") is not None:
        made.append(Foreign("small-text CVIRS", _inconsistency))
    if find_spec("skactiveml") is not None:
        made += [Foreign(f"scikit-activeml {name}", _activeml(name)) for name in ("TypiClust", "MaxHerding")]
    return {strategy.name: strategy for strategy in made}
