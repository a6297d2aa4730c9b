"""Signed edges from label vectors: the most and the least similar pairs of labels, of all or of each label."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bncl_pyg.corpus import LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.graph.blocks import Progress, Work
from bncl_pyg.graph.embeddings import LabelVectors, embed_labels
from bncl_pyg.graph.nearest import check_neighbours, neighbour_edges
from bncl_pyg.graph.percentiles import check_percentiles, percentile_edges
from bncl_pyg.graph.prune import pruned_neighbourhoods
from bncl_pyg.graph.signed import SignedLabelGraph

log = logging.getLogger(__name__)

PERCENTILES = (5.0, 95.0)
FEW_LABELS, NEIGHBOURS = 2_000, 10
"""Without further options: up to so many labels the paper's percentiles, beyond so many neighbours at every hop."""
MEMORY = 8.0
_NAMES_SHOWN = 20


def build_graph(
    labels: LabelSet,
    embeddings: LabelVectors,
    percentiles: tuple[float, float] | None = None,
    hops: int = 2,
    *,
    neighbours: int | None = None,
    max_neighbours: int | None = None,
    memory: float = MEMORY,
    work: Path | None = None,
    progress: Progress | None = None,
) -> SignedLabelGraph:
    """Connect labels that mean alike (friends) and labels that are far apart (enemies).

    By percentiles, as the paper does it, a pair counts whose cosine is in a tail of the distribution over all pairs:

    .. math:: E^+ = \\{(u, v): d_{uv} ≥ δ^+\\}, \\quad E^- = \\{(u, v): d_{uv} ≤ δ^-\\}

    By neighbours, a pair counts of which at least one label is among the other's nearest or farthest. The number of
    such pairs grows with that of the labels, not with its square.

    Args:
        labels: the nodes.
        embeddings: their vectors; a label without one gets no edges and does not count in the percentiles.
        percentiles: δ⁻ and δ⁺ as percentiles of all pairs' cosines; the paper tries (5, 95), (10, 90), (30, 70). If
            neither these nor `neighbours` are given: (5, 95).
        hops: over how many hops neighbourhoods are meant to be built.
        neighbours: how many nearest labels are each label's friends, and how many farthest its enemies, instead of
            percentiles. Exact up to `nearest.EXACT_LABELS`; beyond, by faiss, and the recall is in `provenance`.
        max_neighbours: how many friends and enemies each label keeps at each hop, the strongest; all, if not given.
        memory: the budget in GB. Percentiles that need more are refused; otherwise it decides how large blocks are.
        work: a folder for finished blocks (see `work_folder`): a build that was stopped goes on from there.
        progress: told of every stage that begins and of every finished block.
    """
    known, units = _units(labels, embeddings)
    check_options(len(known), percentiles, hops, neighbours, max_neighbours, memory)
    compared = units if len(known) == len(units) else units[known]
    blocks = Work(work, progress)
    about: dict[str, Any]
    if neighbours is None:
        percentiles = percentiles or PERCENTILES
        edges, thresholds = percentile_edges(compared, percentiles, memory, blocks)
        about = {"percentiles": list(percentiles), "thresholds": list(thresholds)}
    else:
        edges, found = neighbour_edges(compared, neighbours, memory, blocks)
        about = {"neighbours": neighbours, **found}
    if max_neighbours is not None:
        about["max_neighbours"] = max_neighbours
    graph = SignedLabelGraph.from_pairs(
        labels.names,
        torch.from_numpy(known.astype(np.int32)[edges.pairs]),
        torch.from_numpy(edges.signs),
        torch.from_numpy(edges.weights),
        hops,
        {
            "embeddings": embeddings.source,
            **about,
            "labels_without_vector": [labels.names[place] for place in np.flatnonzero(~embeddings.known)],
        },
    )
    del edges
    if max_neighbours is not None:
        graph.pruned = pruned_neighbourhoods(graph, units, max_neighbours, memory, blocks)
    return graph


def check_options(
    labels: int,
    percentiles: tuple[float, float] | None,
    hops: int,
    neighbours: int | None,
    max_neighbours: int | None,
    memory: float,
) -> None:
    """Raise unless `build_graph` can build a graph of so many labels with a vector; nothing is computed for it."""
    if percentiles is not None and neighbours is not None:
        raise InputError("A graph is built by percentiles or by neighbours, but both are given.")
    if hops < 1:
        raise InputError(f"A graph needs at least 1 hop, but {hops} were asked for.")
    if max_neighbours is not None and max_neighbours < 1:
        raise InputError(f"Each label must keep at least 1 neighbour, but {max_neighbours} were asked for.")
    if not memory > 0:
        raise InputError(f"The memory budget must be above 0 GB, but is {memory:g}.")
    if neighbours is None:
        check_percentiles(labels, percentiles or PERCENTILES, memory)
    else:
        check_neighbours(labels, neighbours)


def default_graph(labels: LabelSet) -> SignedLabelGraph:
    """Build the graph that is used where none is given, from the embedded encoder's vectors.

    Up to `FEW_LABELS` labels it is the paper's, by percentiles; beyond, it joins each label with its `NEIGHBOURS`
    nearest and farthest, and keeps as many at every hop.
    """
    vectors = embed_labels(labels)
    if len(labels) <= FEW_LABELS:
        return build_graph(labels, vectors)
    return build_graph(labels, vectors, neighbours=NEIGHBOURS, max_neighbours=NEIGHBOURS)


def _units(labels: LabelSet, embeddings: LabelVectors) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return which labels have a vector, and all vectors at length 1; those without stay 0."""
    known = np.flatnonzero(embeddings.known)
    if len(known) < len(labels):
        without = [labels.names[place] for place in np.flatnonzero(~embeddings.known)]
        log.warning(
            "%d of %d labels have no vector and get no edges: %s.", len(without), len(labels), shortened(without)
        )
    if len(known) < 2:
        raise InputError(
            f"Only {len(known)} of {len(labels)} labels have a vector in {embeddings.source}; a graph needs 2."
        )
    lengths = np.linalg.norm(embeddings.vectors, axis=1, keepdims=True)
    if not np.isfinite(lengths).all():
        name = labels.names[int(np.flatnonzero(~np.isfinite(lengths[:, 0]))[0])]
        raise InputError(f"The vector of label '{name}' from {embeddings.source} holds a number that is not finite.")
    lengths[lengths == 0] = 1
    return known, embeddings.vectors / lengths


def shortened(names: list[str]) -> str:
    """Return names with commas; of very many, the first, and how many more there are."""
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" … and {more:,} more" if more > 0 else "")
