"""Any PyG graph becomes a signed one: transforms that join nodes by the cosines of their features.

They are `torch_geometric.transforms`, and compose with all others:

.. code-block:: python

    transform = Compose([SignedPercentiles((10, 90)), BalancedNeighbourhoods(hops=2)])
    data = transform(Data(x=torch.randn(100, 16)))
    model = BNCL(data.neighbourhoods)
"""

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from bncl_pyg.corpus import LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.graph.build import MEMORY, PERCENTILES, build_graph
from bncl_pyg.graph.embeddings import LabelVectors
from bncl_pyg.graph.nearest import DEFAULT_SEARCH, NearestSearch
from bncl_pyg.graph.neighbourhoods import balanced_neighbourhoods
from bncl_pyg.graph.signed import SignedLabelGraph


@functional_transform("signed_percentiles")
class SignedPercentiles(BaseTransform):
    """Joins nodes whose cosine is in a tail of the distribution over all pairs (functional name: `signed_percentiles`).

    .. math:: E^+ = \\{(u, v): d_{uv} ≥ δ^+\\}, \\quad E^- = \\{(u, v): d_{uv} ≤ δ^-\\}

    .. code-block:: python

        graph = SignedPercentiles((10, 90))(Data(x=torch.randn(100, 16)))
        graph.pos_edge_index, graph.neg_edge_index

    Returns a `SignedLabelGraph` that keeps the nodes' attributes; edges that were there are replaced.

    Args:
        percentiles: δ⁻ and δ⁺ as percentiles of all pairs' cosines.
        hops: over how many hops neighbourhoods are meant to be built.
        max_neighbours: how many friends and enemies each node keeps at each hop; all, if not given.
        attr: the nodes' attribute that is compared, (nodes, dimensions).
        memory: the budget in GB.
    """

    def __init__(
        self,
        percentiles: tuple[float, float] = PERCENTILES,
        hops: int = 2,
        *,
        max_neighbours: int | None = None,
        attr: str = "x",
        memory: float = MEMORY,
    ) -> None:
        self.percentiles, self.hops, self.max_neighbours = percentiles, hops, max_neighbours
        self.attr, self.memory = attr, memory

    def forward(self, data: Data) -> SignedLabelGraph:
        """Return the signed graph."""
        labels, vectors = _nodes(data, self.attr)
        graph = build_graph(
            labels,
            vectors,
            self.percentiles,
            self.hops,
            max_neighbours=self.max_neighbours,
            memory=self.memory,
        )
        return _with_node_attributes(graph, data, self.attr)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.percentiles}, hops={self.hops})"


@functional_transform("signed_nearest")
class SignedNearest(BaseTransform):
    """Joins each node with its nearest and its farthest others by cosine (functional name: `signed_nearest`).

    .. code-block:: python

        graph = SignedNearest(10)(Data(x=torch.randn(100_000, 16)))

    Returns a `SignedLabelGraph` that keeps the nodes' attributes; edges that were there are replaced.

    Args:
        neighbours: how many nearest nodes are each node's friends, and how many farthest its enemies.
        hops: over how many hops neighbourhoods are meant to be built.
        max_neighbours: how many friends and enemies each node keeps at each hop; all, if not given.
        attr: the nodes' attribute that is compared, (nodes, dimensions).
        search: how neighbours are searched for: exactly or by faiss.
        memory: the budget in GB.
    """

    def __init__(
        self,
        neighbours: int,
        hops: int = 2,
        *,
        max_neighbours: int | None = None,
        attr: str = "x",
        search: NearestSearch = DEFAULT_SEARCH,
        memory: float = MEMORY,
    ) -> None:
        self.neighbours, self.hops, self.max_neighbours = neighbours, hops, max_neighbours
        self.attr, self.search, self.memory = attr, search, memory

    def forward(self, data: Data) -> SignedLabelGraph:
        """Return the signed graph."""
        labels, vectors = _nodes(data, self.attr)
        graph = build_graph(
            labels,
            vectors,
            hops=self.hops,
            neighbours=self.neighbours,
            max_neighbours=self.max_neighbours,
            search=self.search,
            memory=self.memory,
        )
        return _with_node_attributes(graph, data, self.attr)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.neighbours}, hops={self.hops})"


@functional_transform("balanced_neighbourhoods")
class BalancedNeighbourhoods(BaseTransform):
    """Adds the balanced neighbourhoods at hops 1 … K (functional name: `balanced_neighbourhoods`).

    They come as `data.neighbourhoods`, a list of `Neighbourhood`, of which `BNCL` and `BalancedConv` are made; the
    formula is that of `bncl_pyg.graph.balanced_neighbourhoods`.

    Args:
        hops: K; if not given, the graph's own, or 2.
        simple: as the authors' code does it: only whether there is a walk, and no node is its own neighbour.
    """

    def __init__(self, hops: int | None = None, *, simple: bool = False) -> None:
        self.hops, self.simple = hops, simple

    def forward(self, data: Data) -> Data:
        """Return the graph with its neighbourhoods."""
        data.neighbourhoods = balanced_neighbourhoods(data, self.hops, simple=self.simple)
        return data

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(hops={self.hops})"


def _nodes(data: Data, attr: str) -> tuple[LabelSet, LabelVectors]:
    """Return the nodes as labels, named by their numbers if they have no names, and their features as vectors."""
    if attr not in data:
        raise InputError(f"The nodes have no attribute '{attr}' that could be compared.")
    features = data[attr]
    if not isinstance(features, torch.Tensor) or features.dim() != 2:
        raise InputError(f"The nodes' attribute '{attr}' must be a tensor of shape (nodes, dimensions).")
    names = tuple(data.label_names) if "label_names" in data else tuple(map(str, range(len(features))))
    vectors = np.ascontiguousarray(features.detach().cpu().to(torch.float32).numpy())
    return LabelSet(names, names), LabelVectors(vectors, attr)


def _with_node_attributes(graph: SignedLabelGraph, data: Data, attr: str) -> SignedLabelGraph:
    """Give the graph what belongs to the nodes, or to all of them; what belonged to the edges is gone with these."""
    for key in data.keys():  # noqa: SIM118
        is_edges = "edge" in key or key in ("adj", "adj_t", "neighbourhoods")
        if key not in graph and not is_edges and (data.is_node_attr(key) or not data.is_edge_attr(key)):
            graph[key] = data[key]
    moved: SignedLabelGraph = graph.to(data[attr].device)
    return moved
