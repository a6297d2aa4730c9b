"""Signed edges from label vectors: the most and the least similar pairs of labels."""

import logging
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from bncl_pyg.corpus.labels import LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.graph.embeddings import LabelVectors
from bncl_pyg.graph.signed import ENEMY, FRIEND, SignedLabelGraph

log = logging.getLogger(__name__)

BLOCK_ROWS = 1024


def build_graph(
    labels: LabelSet, embeddings: LabelVectors, percentiles: tuple[float, float] = (5, 95), hops: int = 2
) -> SignedLabelGraph:
    """Connect label pairs whose cosine is in a tail of the distribution over all distinct pairs.

    .. math:: E^+ = \\{(u, v): d_{uv} ≥ δ^+\\}, \\quad E^- = \\{(u, v): d_{uv} ≤ δ^-\\}

    Args:
        labels: the nodes.
        embeddings: their vectors; a label without one gets no edges and does not count in the percentiles.
        percentiles: δ⁻ and δ⁺ as percentiles of all pairs' cosines; the paper tries (5, 95), (10, 90), (30, 70).
        hops: noted on the graph; over how many hops neighbourhoods are meant to be built.
    """
    low, high = percentiles
    if not 0 <= low < high <= 100:
        raise InputError(f"Percentiles must be two numbers with 0 ≤ LOW < HIGH ≤ 100, but are {low:g} and {high:g}.")
    if hops < 1:
        raise InputError(f"A graph needs at least 1 hop, but {hops} were asked for.")
    known = np.flatnonzero(embeddings.known)
    without = [labels.names[place] for place in np.flatnonzero(~embeddings.known)]
    if without:
        log.warning(
            "%d of %d labels have no vector and get no edges: %s.",
            len(without),
            len(labels),
            ", ".join(without),
        )
    if len(known) < 2:
        raise InputError(
            f"Only {len(known)} of {len(labels)} labels have a vector in {embeddings.source}; a graph needs 2."
        )
    units = embeddings.vectors[known] / np.linalg.norm(embeddings.vectors[known], axis=1, keepdims=True)
    cosines = np.concatenate([block for _, block in _upper_cosines(units)])
    lower, upper = (float(bound) for bound in np.percentile(cosines, [low, high]))
    if lower >= upper:
        raise InputError(
            f"The percentiles {low:g} and {high:g} of the label cosines are the same number, {lower:g}: "
            f"friends and enemies cannot be told apart."
        )
    pairs, signs, weights = _edges(units, lower, upper)
    provenance = {
        "embeddings": embeddings.source,
        "percentiles": [low, high],
        "thresholds": [lower, upper],
        "labels_without_vector": without,
    }
    return SignedLabelGraph.from_pairs(
        labels.names,
        torch.from_numpy(known[pairs]),
        torch.from_numpy(signs),
        torch.from_numpy(weights),
        hops,
        provenance,
    )


def _upper_cosines(units: NDArray[np.float32]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Yield the pairs above the diagonal, (2, pairs), and their cosines, a block of rows at a time."""
    for start in range(0, len(units), BLOCK_ROWS):
        block = units[start : start + BLOCK_ROWS] @ units[start:].T
        rows, columns = np.triu_indices(len(block), k=1, m=block.shape[1])
        yield np.stack([rows, columns]) + start, np.clip(block[rows, columns], -1, 1)


def _edges(
    units: NDArray[np.float32], lower: float, upper: float
) -> tuple[NDArray[np.int64], NDArray[np.int8], NDArray[np.float32]]:
    pairs, signs, weights = [], [], []
    for places, cosines in _upper_cosines(units):
        sign = np.where(cosines >= upper, FRIEND, np.where(cosines <= lower, ENEMY, 0)).astype(np.int8)
        kept = sign != 0
        pairs.append(places[:, kept])
        signs.append(sign[kept])
        weights.append(cosines[kept])
    return np.concatenate(pairs, axis=1), np.concatenate(signs), np.concatenate(weights)
