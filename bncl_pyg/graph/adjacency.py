"""Edges in any of PyG's representations, as one: a plain edge index."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.utils import is_sparse, to_edge_index

from bncl_pyg.errors import InputError


def num_nodes_of(*adjacencies: Any) -> int | None:
    """Return how many nodes the first representation that knows it has; `None` where all are plain edge indices.

    Args:
        adjacencies: edge indices, PyG's `EdgeIndex`, torch's sparse matrices or `torch_sparse.SparseTensor`.
    """
    for adjacency in adjacencies:
        sizes = {size for size in _shape(adjacency) if size is not None}
        if len(sizes) > 1:
            raise InputError(f"A sparse neighbourhood must be square, but has shape {_shape(adjacency)}.")
        if sizes:
            return int(sizes.pop())
    return None


def edge_index_of(adjacency: Any, num_nodes: int) -> Tensor:
    """Return edges as a plain edge index from source to target; int64, (2, edges), in the order they are given.

    Args:
        adjacency: an edge index (2, edges), PyG's `EdgeIndex`, or, as everywhere in PyG, a transposed sparse matrix
            (torch CSR/CSC/COO or `torch_sparse.SparseTensor`) with a row a target.
        num_nodes: how many nodes there are.
    """
    if any(size not in (None, num_nodes) for size in _shape(adjacency)):
        raise InputError(f"A sparse neighbourhood must have shape {(num_nodes, num_nodes)}.")
    edge_index: Tensor
    if isinstance(adjacency, EdgeIndex):
        edge_index = adjacency.as_tensor()
    elif not isinstance(adjacency, Tensor):
        targets, sources, _ = adjacency.coo()
        edge_index = torch.stack([sources, targets])
    elif is_sparse(adjacency):
        edge_index = to_edge_index(adjacency)[0].flip(0)
    else:
        edge_index = adjacency
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise InputError(f"An edge index must have shape (2, edges), but has {tuple(edge_index.shape)}.")
    if edge_index.is_floating_point():
        raise InputError(f"An edge index must hold whole numbers, but holds {edge_index.dtype}.")
    if edge_index.numel() and not 0 <= int(edge_index.min()) <= int(edge_index.max()) < num_nodes:
        raise InputError(f"An edge index over {num_nodes} labels must hold numbers from 0 to {num_nodes - 1}.")
    return edge_index.to(torch.int64)


def _shape(adjacency: Any) -> tuple[int | None, ...]:
    """Return the shape of the matrix; nothing where the representation does not know it."""
    if isinstance(adjacency, EdgeIndex):
        return tuple(adjacency.sparse_size())
    if not isinstance(adjacency, Tensor):
        return tuple(adjacency.sparse_sizes())
    return tuple(adjacency.shape) if is_sparse(adjacency) else ()
