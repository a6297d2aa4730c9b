"""What a signed label graph is made from, and how its folder is read: without PyG, which takes seconds to import."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from bncl_pyg.errors import InputError
from bncl_pyg.graph.walks import MAX_HOPS, Neighbourhood, from_tensors
from bncl_pyg.persistence import MANIFEST, check_fields, read_manifest

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
    # What follows was written by us, unless somebody wrote the digests, too.
    check_fields(manifest, {"labels": list, "hops": int, "provenance": dict}, path / MANIFEST)
    names, hops = tuple(manifest["labels"]), manifest["hops"]
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise InputError(f"{path / MANIFEST}: 'labels' must be names, each once.")
    if not 1 <= hops <= MAX_HOPS:
        raise InputError(f"{path / MANIFEST}: 'hops' must be between 1 and {MAX_HOPS}, but is {hops}.")
    tensors = _edges(path / EDGES, len(names))
    pruned = []
    if NEIGHBOURHOODS in manifest["files"]:
        try:
            pruned = from_tensors(_tensors(path / NEIGHBOURHOODS), len(names))
        except (ValueError, TypeError, IndexError) as error:
            raise InputError(f"{path / NEIGHBOURHOODS} holds no neighbourhoods of these labels ({error}).") from None
    return GraphParts(names, tensors["pairs"], tensors["sign"], tensors["weight"], hops, manifest["provenance"], pruned)


def _tensors(file: Path) -> dict[str, Tensor]:
    try:
        return load_file(file)
    except (SafetensorError, OSError) as error:
        raise InputError(f"{file} is not a readable safetensors file ({error}).") from None


def _edges(file: Path, labels: int) -> dict[str, Tensor]:
    """Read the edges, after checking that they join labels that there are."""
    tensors = _tensors(file)
    kinds = {"pairs": torch.int64, "sign": torch.int8, "weight": torch.float32}
    if {name: tensor.dtype for name, tensor in tensors.items()} != kinds:
        raise InputError(f"{file} must hold {', '.join(kinds)}, and nothing else.")
    pairs, sign, weight = (tensors[name] for name in kinds)
    if pairs.dim() != 2 or len(pairs) != 2 or not pairs.shape[1:] == sign.shape == weight.shape:
        raise InputError(f"{file} does not hold one sign and one weight an edge.")
    if pairs.numel() and not 0 <= int(pairs.min()) <= int(pairs.max()) < labels:
        raise InputError(f"{file} has an edge of a label that there is not.")
    if not bool(weight.isfinite().all()) or not bool((sign.abs() == 1).all()):
        raise InputError(f"{file} has a sign or a weight that cannot be.")
    return tensors


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
