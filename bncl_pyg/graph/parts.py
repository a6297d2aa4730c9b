"""What a signed label graph is made from, and how its folder is read: without PyG, which takes seconds to import."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor

from bncl_pyg.graph.walks import Neighbourhood, from_tensors
from bncl_pyg.persistence import read_manifest

EDGES, NEIGHBOURHOODS = "graph.safetensors", "neighbourhoods.safetensors"


class GraphParts(NamedTuple):
    """What `SignedLabelGraph.from_pairs` takes, which says what each is."""

    label_names: tuple[str, ...]
    pairs: Tensor
    sign: Tensor
    weight: Tensor
    hops: int
    provenance: dict[str, Any]
    pruned: list[Neighbourhood]


def read_parts(path: Path) -> GraphParts:
    """Read a folder that `SignedLabelGraph.save` wrote; a file that is not as it was written is named."""
    manifest = read_manifest(path, "graph")
    tensors = load_file(path / EDGES)
    names = tuple(manifest["labels"])
    pruned = []
    if (path / NEIGHBOURHOODS).exists():
        pruned = from_tensors(load_file(path / NEIGHBOURHOODS), len(names))
    return GraphParts(
        names,
        tensors["pairs"],
        tensors["sign"],
        tensors["weight"],
        manifest["hops"],
        manifest["provenance"],
        pruned,
    )


def sorted_keys(pairs: Tensor, labels: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return both directions of each pair as one number an edge, sorted by target, then source, and their order.

    Both ends are read from the number again, so that no edge index is sorted.

    Args:
        pairs: each pair once, (2, pairs).
        labels: how many there are.

    Returns:
        (edges,) each, where the order counts all pairs from first to second label, then all from second to first.
    """
    ends = pairs.cpu().numpy().astype(np.int64, copy=False)
    keys = np.concatenate([ends[1] * labels + ends[0], ends[0] * labels + ends[1]])
    del ends
    order = np.argsort(keys)
    return keys[order], order


def edge_index_of_keys(keys: NDArray[np.int64], labels: int) -> Tensor:
    """Return the edge index that `sorted_keys` has as numbers; (2, edges)."""
    edge_index = torch.empty((2, len(keys)), dtype=torch.int64)
    np.divmod(keys, labels, out=(edge_index[1].numpy(), edge_index[0].numpy()))
    return edge_index


def message_edges_of(neighbourhood: Neighbourhood) -> tuple[Tensor, Tensor]:
    """Return the edges of a neighbourhood, (2, edges), sorted by target, then source, and whether they join friends."""
    friends, enemies = neighbourhood.edge_indices()
    both = torch.cat([friends, enemies], dim=1)
    order = torch.argsort(both[1] * neighbourhood.num_labels + both[0])
    return both[:, order], order < friends.shape[1]


def neighbours_of(pairs: Tensor, sign: Tensor, place: int) -> dict[int, int]:
    """Return a label's neighbours, each with the sign of what joins them.

    Args:
        pairs: (2, pairs).
        sign: (pairs,).
        place: the label.
    """
    joined = (pairs == place).any(dim=0)
    others = pairs[:, joined].sum(dim=0) - place
    return dict(zip(others.tolist(), sign[joined].tolist(), strict=True))
