"""A sample of the texts to train on, where more of them would teach nothing."""

from dataclasses import replace

import numpy as np

from bncl_pyg.features import Features
from bncl_pyg.training.annotated import Annotated

MOST_TEXTS, MOST_TEXTS_A_LABEL = 30_000, 50
"""A tolerance: so many texts are trained on at most, or so many times as many as there are labels. Figures do not
change beyond (benchmarks/results/recipe-size.md)."""


def sampled(features: Features, annotated: Annotated | None, seed: int) -> tuple[Features, Annotated | None]:
    """Return texts drawn by chance, where there are more than are needed; annotated ones all stay.

    In several processes the same texts are drawn as in one, and each keeps those that it holds.

    Args:
        features: the training texts.
        annotated: those that are annotated, counted over all processes.
        seed: of the draw.
    """
    texts = int(features.ranks.total(len(features))[0])
    most = max(MOST_TEXTS, MOST_TEXTS_A_LABEL * len(features.labels))
    if texts <= most:
        return features, annotated
    kept = np.zeros(texts, dtype=bool)
    if annotated is not None:
        kept[annotated.rows] = True
    others = np.flatnonzero(~kept)
    more = max(most - int(kept.sum()), 0)
    kept[np.random.default_rng(seed).choice(others, min(more, len(others)), replace=False)] = True
    rows = np.flatnonzero(kept)
    some = features.rows(features.held_rows(rows))
    return some, None if annotated is None else replace(annotated, rows=np.searchsorted(rows, annotated.rows))
