"""The graph of changed labels: edges between labels that were there stay, new labels get theirs by the same rule."""

import logging
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from bncl_pyg.corpus import LabelSet
from bncl_pyg.graph.blocks import Work
from bncl_pyg.graph.build import MEMORY, default_graph
from bncl_pyg.graph.embeddings import EMBEDDED, embed_labels
from bncl_pyg.graph.prune import pruned_neighbourhoods
from bncl_pyg.graph.signed import SignedLabelGraph
from bncl_pyg.graph.walks import ENEMY, FRIEND, Neighbourhood

log = logging.getLogger(__name__)


def extend_graph(graph: SignedLabelGraph, labels: LabelSet, origins: Sequence[str | None]) -> SignedLabelGraph:
    """Return the graph of labels some of which were there.

    A new label is joined with those whose cosine is beyond the thresholds that the graph was built by, or with as many
    nearest and farthest as its labels have. Of a graph that was made from somebody's own edges or vectors, new labels
    have none.

    Args:
        graph: of the labels that were there.
        labels: those of the new graph.
        origins: each one's name in `graph`; `None` for a new one.
    """
    provenance = dict(graph.provenance)
    rule = [key for key in ("thresholds", "neighbours") if key in provenance]
    own_vectors = provenance.get("embeddings") == EMBEDDED
    if own_vectors and not rule:
        # There were too few labels for a rule.
        return default_graph(labels)
    old_places = {name: place for place, name in enumerate(graph.label_names)}
    sources = np.array([-1 if name is None else old_places[name] for name in origins], dtype=np.int64)
    pairs, signs, weights = _kept_edges(graph, sources)
    new = np.flatnonzero(sources < 0)
    units = None
    if own_vectors and (len(new) or graph.pruned):
        vectors = embed_labels(labels).vectors
        units = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    if len(new) and units is None:
        log.warning(
            "The graph was made from %s, which is not here: the new labels, such as '%s', get no edges; give a graph "
            "of all labels to have some.",
            provenance.get("embeddings", "somebody's own edges"),
            labels.names[new[0]],
        )
    elif len(new):
        assert units is not None
        more = _new_edges(units, new, provenance.get("thresholds"), provenance.get("neighbours"))
        pairs, signs, weights = (
            torch.cat([first, second], dim=-1) for first, second in zip((pairs, signs, weights), more, strict=True)
        )
    provenance["labels_without_vector"] = [
        name
        for name, origin in zip(labels.names, origins, strict=True)
        if origin is not None and origin in provenance.get("labels_without_vector", ())
    ]
    provenance["changed"] = True
    made = SignedLabelGraph.from_pairs(labels.names, pairs, signs, weights, graph.hops, provenance)
    if graph.pruned and units is not None:
        made.pruned = pruned_neighbourhoods(made, units, provenance["max_neighbours"], MEMORY, Work(None, None))
    elif graph.pruned:
        made.pruned = [
            Neighbourhood(_moved(hop.friends, sources), _moved(hop.enemies, sources)) for hop in graph.pruned
        ]
    return made


def _kept_edges(graph: SignedLabelGraph, sources: NDArray[np.int64]) -> tuple[Tensor, Tensor, Tensor]:
    """Return the edges between labels that are still there, each once, by their new numbers."""
    place = np.full(len(graph.label_names), -1, dtype=np.int64)
    there = np.flatnonzero(sources >= 0)
    place[sources[there]] = there
    ends = torch.from_numpy(place)[graph.edge_index]
    kept = (ends >= 0).all(dim=0) & (graph.edge_index[0] < graph.edge_index[1])
    return ends[:, kept], graph.edge_sign[kept], graph.edge_weight[kept]


def _new_edges(
    units: NDArray[np.float32],
    new: NDArray[np.int64],
    thresholds: Sequence[float] | None,
    neighbours: int | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the edges of new labels, each once."""
    edges: dict[tuple[int, int], tuple[int, float]] = {}
    for label in new.tolist():
        cosines = units @ units[label]
        others = np.delete(np.arange(len(units)), label)
        if thresholds is not None:
            low, high = thresholds
            enemies, friends = others[cosines[others] <= low], others[cosines[others] >= high]
        else:
            assert neighbours is not None
            order = others[np.argsort(cosines[others], kind="stable")]
            enemies, friends = order[:neighbours], order[::-1][:neighbours]
        for sign, chosen in ((ENEMY, enemies), (FRIEND, friends)):
            for other in chosen.tolist():
                edges[min(label, other), max(label, other)] = sign, float(cosines[other])
    pairs = torch.tensor(sorted(edges), dtype=torch.int64).reshape(-1, 2).T
    values = [edges[pair] for pair in sorted(edges)]
    return (
        pairs,
        torch.tensor([sign for sign, _ in values], dtype=torch.int8),
        torch.tensor([cosine for _, cosine in values], dtype=torch.float32),
    )


def _moved(counts: csr_array, sources: NDArray[np.int64]) -> csr_array:
    """Return walks between labels by their new numbers; new labels have none."""
    there = np.flatnonzero(sources >= 0)
    shape = len(sources), counts.shape[0]
    choice = csr_array((np.ones(len(there), dtype=np.int64), (there, sources[there])), shape=shape)
    return csr_array(choice @ counts @ choice.T)
