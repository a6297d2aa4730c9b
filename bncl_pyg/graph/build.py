"""From labels to a signed graph: the most and the least similar pairs of labels, of all or of each label."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bncl_pyg.corpus import LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.graph.blocks import BlockEngine, Progress, Work
from bncl_pyg.graph.embeddings import EMBEDDED, Labels, LabelVectors, embed_labels
from bncl_pyg.graph.nearest import DEFAULT_SEARCH, NearestSearch, check_neighbours, neighbour_edges
from bncl_pyg.graph.percentiles import check_percentiles, percentile_edges
from bncl_pyg.graph.prune import pruned_neighbourhoods
from bncl_pyg.graph.signed import SignedLabelGraph
from bncl_pyg.graph.walks import MAX_HOPS

log = logging.getLogger(__name__)

PERCENTILES = (5.0, 95.0)
FEWEST_LABELS = 3
"""With fewer labels there is at most one pair, and nothing to compare it with."""
FEW_LABELS, NEIGHBOURS = 2_000, 5
"""Without further options: up to so many labels the graph keeps their vectors, beyond as many neighbours at every hop;
and with how many nearest and farthest labels each is joined (benchmarks/results/recipe-graph.md)."""
MEMORY = 8.0
"""The memory budget in GB where none is given; it changes no result."""
_NAMES_SHOWN = 20


def build_graph(
    labels: Labels,
    embeddings: LabelVectors | str | None = None,
    percentiles: tuple[float, float] | None = None,
    hops: int = 2,
    *,
    neighbours: int | None = None,
    max_neighbours: int | None = None,
    search: NearestSearch = DEFAULT_SEARCH,
    memory: float = MEMORY,
    work: Path | None = None,
    progress: Progress | None = None,
    engine: BlockEngine | None = None,
) -> SignedLabelGraph:
    """Connect labels that mean alike (friends) and labels that are far apart (enemies).

    By percentiles, as the paper does it, a pair counts whose cosine is in a tail of the distribution over all pairs:

    .. math:: E^+ = \\{(u, v): d_{uv} ≥ δ^+\\}, \\quad E^- = \\{(u, v): d_{uv} ≤ δ^-\\}

    where :math:`d_{uv}` is the cosine of the labels' vectors. By neighbours, a pair counts of which at least one label
    is one of the other's nearest or farthest. The number of such pairs grows with that of the labels, not with its
    square.

    .. code-block:: python

        graph = build_graph(["gold", "silver", "wheat", "corn"], percentiles=(30, 70))
        graph = build_graph(labels, "glove.6B.300d.txt", hops=3)
        graph = build_graph(labels, neighbours=10, max_neighbours=10)

    Args:
        labels: the nodes: a list of names, {name: description}, or a `LabelSet`.
        embeddings: their vectors, or the source that `embed_labels` takes them from; the embedded encoder's, if not
            given. A label without a vector gets no edges and does not count in the percentiles.
        percentiles: δ⁻ and δ⁺ as percentiles of all pairs' cosines; the paper tries (5, 95), (10, 90), (30, 70). If
            neither these nor `neighbours` are given: (5, 95).
        hops: over how many hops neighbourhoods are meant to be built.
        neighbours: how many nearest labels are each label's friends, and how many farthest its enemies, instead of
            percentiles.
        max_neighbours: how many friends and enemies each label keeps at each hop, the strongest; all, if not given.
        search: how neighbours are searched for: exactly or, where there are very many labels, by faiss; then the recall
            is in `provenance`.
        memory: the budget in GB. Percentiles that need more are refused; otherwise it decides how large blocks are.
        work: a folder for finished blocks (see `work_folder`): a build that was stopped goes on from there.
        progress: called when a stage begins and with every finished block.
        engine: who computes the blocks; this process, if not given. It changes no result.
    """
    labels = LabelSet.of(labels)
    if not isinstance(embeddings, LabelVectors):
        embeddings = embed_labels(labels, embeddings or EMBEDDED, work=work, progress=progress, engine=engine)
    known, units = _units(labels, embeddings)
    check_options(len(known), percentiles, hops, neighbours, max_neighbours, memory, search)
    compared = units if len(known) == len(units) else units[known]
    blocks = Work(work, progress, engine)
    provenance: dict[str, Any] = {"embeddings": embeddings.source}
    if neighbours is None:
        percentiles = percentiles or PERCENTILES
        edges, thresholds = percentile_edges(compared, percentiles, memory, blocks)
        provenance |= {"percentiles": list(percentiles), "thresholds": list(thresholds)}
    else:
        edges, searched = neighbour_edges(compared, neighbours, search, memory, blocks)
        provenance |= {"neighbours": neighbours, **searched}
    if max_neighbours is not None:
        provenance["max_neighbours"] = max_neighbours
    provenance["labels_without_vector"] = [labels.names[place] for place in np.flatnonzero(~embeddings.known)]
    graph = SignedLabelGraph.from_pairs(
        labels.names,
        torch.from_numpy(known.astype(np.int32)[edges.pairs]),
        torch.from_numpy(edges.signs),
        torch.from_numpy(edges.weights),
        hops,
        provenance,
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
    search: NearestSearch = DEFAULT_SEARCH,
) -> None:
    """Raise unless `build_graph` can build a graph of so many labels with a vector; nothing is computed for it."""
    if percentiles is not None and neighbours is not None:
        raise InputError("A graph is built by percentiles or by neighbours, but both are given.")
    if hops < 1:
        raise InputError(f"A graph needs at least 1 hop, but {hops} were asked for.")
    if hops > MAX_HOPS:
        raise InputError(f"A graph has at most {MAX_HOPS} hops, but {hops} were asked for.")
    if max_neighbours is not None and max_neighbours < 1:
        raise InputError(f"Each label must keep at least 1 neighbour, but {max_neighbours} were asked for.")
    if not memory > 0:
        raise InputError(f"The memory budget must be above 0 GB, but is {memory:g}.")
    if neighbours is None:
        check_percentiles(labels, percentiles or PERCENTILES, memory)
    else:
        check_neighbours(labels, neighbours, search)


def default_graph(
    labels: Labels,
    embeddings: LabelVectors | str | None = None,
    *,
    few_labels: int = FEW_LABELS,
    neighbours: int = NEIGHBOURS,
) -> SignedLabelGraph:
    """Build the graph that is used where none is given, from the embedded encoder's vectors or others.

    Nobody asked for its percentiles: it carries the label vectors, so that a recipe may take others (see
    `with_percentiles`). A graph that `build_graph` made, or that was read from a folder, is always used as it is.

    .. code-block:: python

        graph = default_graph(["gold", "silver", "wheat", "corn"])

    Args:
        labels: the nodes: a list of names, {name: description}, or a `LabelSet`; with fewer than 3 there are no edges.
        embeddings: as for `build_graph`.
        few_labels: up to so many labels it keeps the label vectors, so that percentiles can still be chosen; beyond,
            each label keeps at every hop as many neighbours as it is joined with.
        neighbours: each label is joined with so many nearest and farthest, or fewer where labels are few.
    """
    labels = LabelSet.of(labels)
    if len(labels) < FEWEST_LABELS:
        # Of one pair of labels, no percentile can say whether it is near or far.
        nothing = torch.zeros(2, 0, dtype=torch.int64)
        provenance = {"embeddings": EMBEDDED}
        return SignedLabelGraph.from_pairs(labels.names, nothing, nothing[0], nothing[0].float(), provenance=provenance)
    if len(labels) > few_labels:
        return build_graph(labels, embeddings, neighbours=neighbours, max_neighbours=neighbours)
    if not isinstance(embeddings, LabelVectors):
        embeddings = embed_labels(labels, embeddings or EMBEDDED)
    # A label's nearest are never its farthest.
    most = (int(np.count_nonzero(embeddings.known)) - 1) // 2
    graph = build_graph(labels, embeddings, neighbours=max(min(neighbours, most), 1))
    graph.label_vectors = embeddings
    return graph


def has_open_percentiles(graph: SignedLabelGraph) -> bool:
    """Return whether nobody asked for the graph's percentiles, so that a recipe may choose them."""
    return "label_vectors" in graph


def with_percentiles(graph: SignedLabelGraph, percentiles: tuple[float, float]) -> SignedLabelGraph:
    """Return the graph from the same label vectors with these percentiles; they are not open any more.

    Args:
        graph: that `default_graph` made.
        percentiles: as for `build_graph`.
    """
    if not has_open_percentiles(graph):
        raise InputError("Only a graph that default_graph made can be built again with other percentiles.")
    names = tuple(graph.label_names)
    return build_graph(LabelSet(names, names), graph.label_vectors, percentiles, graph.hops)


def graph_of(labels: LabelSet, graph: SignedLabelGraph | None) -> SignedLabelGraph:
    """Return the graph that is given, after checking that it is of these labels, or else the default one."""
    if graph is None:
        return default_graph(labels)
    if not isinstance(graph, SignedLabelGraph):
        raise TypeError(f"graph must be a SignedLabelGraph (SignedLabelGraph.load reads one), but is {graph!r}.")
    labels.check_same(LabelSet.of(graph.label_names), "the features", "the graph")
    return graph


def _units(labels: LabelSet, embeddings: LabelVectors) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return which labels have a vector, and all vectors at length 1; those without stay 0."""
    known = np.flatnonzero(embeddings.known)
    if len(known) < len(labels):
        without = [labels.names[place] for place in np.flatnonzero(~embeddings.known)]
        log.warning(
            "%d of %d labels have no vector and get no edges: %s.", len(without), len(labels), abbreviate(without)
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


def abbreviate(names: list[str]) -> str:
    """Return names with commas; of very many, the first, and how many more there are."""
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" … and {more:,} more" if more > 0 else "")
