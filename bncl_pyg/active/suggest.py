"""`suggest`: which texts to annotate next."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bncl_pyg.active.pool import Pool
from bncl_pyg.active.strategies import DEFAULT, find_strategy
from bncl_pyg.active.strategy import Strategy
from bncl_pyg.corpus import NOT_YET
from bncl_pyg.errors import InputError


def suggest(pool: Pool, count: int, strategy: str | Strategy = DEFAULT, seed: int = 0) -> NDArray[np.int64]:
    """Return the rows of the texts to annotate next, those that teach most first.

    Args:
        pool: the texts, and what is said and known of them.
        count: how many; all that nobody annotated, if these are fewer.
        strategy: a name of `STRATEGIES`, or a `Strategy` of your own.
        seed: of all that is drawn.
    """
    if count < 1:
        raise InputError(f"At least 1 text must be asked for, but {count} were.")
    chosen, available = find_strategy(strategy), len(pool.open)
    if not available:
        raise InputError("All of these texts are annotated, so that none is left to suggest.")
    rows = np.asarray(chosen.choose(pool, min(count, available), seed), dtype=np.int64)
    if len(np.unique(rows)) != min(count, available) or np.isin(rows, pool.asked).any():
        raise ValueError(f"The strategy '{chosen.name}' chose a text twice, or one that is annotated, or too few.")
    return rows


def rows_to_annotate(
    pool: Pool,
    rows: NDArray[np.int64],
    ids: Sequence[str],
    names: Sequence[str],
    texts: Sequence[str] | None = None,
    top_k: int = 5,
) -> Iterator[dict[str, Any]]:
    """Yield `{"id", "text", "likely", "probabilities", "labels"}` for each suggested text, for a table to be filled in.

    In the place of labels stands `?`, so that a row that nobody filled in is not taken for a text without any label.

    Args:
        pool: all texts.
        rows: those that are suggested.
        ids: of all texts.
        names: of the labels.
        texts: all of them, if they are known.
        top_k: how many of the most probable labels are named.
    """
    predictions = pool.predictions
    for row in rows.tolist():
        shares, places = predictions.probabilities[row].sort(descending=True, stable=True)
        columns = places if predictions.candidates is None else predictions.candidates[row, places]
        yield {
            "id": ids[row],
            **({} if texts is None else {"text": texts[row]}),
            "likely": [names[column] for column in columns[:top_k].tolist()],
            "probabilities": [round(share, 4) for share in shares[:top_k].tolist()],
            "labels": [NOT_YET],
        }
