"""The signed label graph as PyG `Data`: labels are nodes, friends and enemies are edges with a sign."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import quoteattr

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from scipy.sparse import csr_array
from torch import Tensor
from torch_geometric.data import Data

from bncl_pyg.errors import InputError
from bncl_pyg.graph.adjacency import edge_index_of, num_nodes_of
from bncl_pyg.graph.parts import (
    EDGES,
    NEIGHBOURHOODS,
    edge_index_of_keys,
    message_edges_of,
    neighbours_of,
    read_parts,
    sorted_keys,
)
from bncl_pyg.graph.walks import ENEMY, FRIEND, MAX_HOPS, Neighbourhood, to_tensors
from bncl_pyg.persistence import new_folder, write_file, write_manifest

if TYPE_CHECKING:
    import networkx as nx


class SignedLabelGraph(Data):
    """An undirected signed graph over labels, every edge stored in both directions as PyG does.

    .. code-block:: python

        graph = build_graph(["gold", "silver", "wheat", "corn"])    # from names, by their vectors' cosines
        graph = SignedLabelGraph.from_edge_index(pos_edge_index, neg_edge_index)    # from your own edges
        SignedConv(16, 32, first_aggr=True)(x, graph.pos_edge_index, graph.neg_edge_index)

    Attributes:
        edge_index: (2, edges), sorted by target, then source.
        edge_sign: int8, (edges,), `FRIEND` or `ENEMY`.
        edge_weight: float32, (edges,), the cosine between the two labels.
        label_names: one a node.
        hops: over how many hops neighbourhoods are meant to be built.
        provenance: where it comes from: embedding source, how pairs were chosen, thresholds or recall.
        pruned: the neighbourhoods at hops 1, 2, …, where each label keeps only its strongest; empty where nothing is
            pruned and neighbourhoods follow from the edges.
        label_vectors: what `default_graph` built it from; only there while its percentiles are open, and not saved.
    """

    @classmethod
    def from_pairs(
        cls,
        label_names: tuple[str, ...],
        pairs: Tensor,
        sign: Tensor,
        weight: Tensor,
        hops: int = 2,
        provenance: dict[str, Any] | None = None,
        pruned: list[Neighbourhood] | None = None,
    ) -> "SignedLabelGraph":
        """Make the graph from each pair once; `pairs` is (2, pairs), `sign` and `weight` are (pairs,)."""
        if isinstance(hops, bool) or not isinstance(hops, int | np.integer) or not 1 <= hops <= MAX_HOPS:
            raise InputError(f"A graph has 1 to {MAX_HOPS} hops, but {hops!r} were given.")
        _check_pairs(label_names, pairs, sign)
        keys, order = sorted_keys(pairs, len(label_names))
        _check_once(label_names, keys)
        place = torch.from_numpy(order % max(len(sign), 1))
        del order
        edge_sign, edge_weight = sign.cpu().to(torch.int8)[place], weight.cpu().to(torch.float32)[place]
        del place
        return cls(
            edge_index=edge_index_of_keys(keys, len(label_names)),
            edge_sign=edge_sign,
            edge_weight=edge_weight,
            num_nodes=len(label_names),
            label_names=list(label_names),
            hops=hops,
            provenance=provenance or {},
            pruned=[] if pruned is None else pruned,
        )

    @classmethod
    def from_edge_index(
        cls,
        pos_edge_index: Any,
        neg_edge_index: Any,
        num_nodes: int | None = None,
        label_names: Sequence[str] | None = None,
        hops: int = 2,
    ) -> "SignedLabelGraph":
        """Make the graph from friends' and enemies' edges, each in both directions; weights are the signs.

        .. code-block:: python

            pos_edge_index = torch.tensor([[0, 1], [1, 0]])
            neg_edge_index = torch.tensor([[1, 2], [2, 1]])
            graph = SignedLabelGraph.from_edge_index(pos_edge_index, neg_edge_index)

        Args:
            pos_edge_index: an edge index (2, edges), PyG's `EdgeIndex`, or a sparse matrix.
            neg_edge_index: the same.
            num_nodes: how many labels there are; if not given, as many as there are names, as a sparse size has, or as
                occur.
            label_names: one a node; their numbers, if not given.
            hops: over how many hops neighbourhoods are meant to be built.
        """
        if num_nodes is None:
            given = len(label_names) if label_names is not None else num_nodes_of(pos_edge_index, neg_edge_index)
            num_nodes = _highest(pos_edge_index, neg_edge_index) + 1 if given is None else given
        names = tuple(map(str, range(num_nodes))) if label_names is None else tuple(label_names)
        if len(names) != num_nodes:
            raise InputError(f"There are {num_nodes} nodes but {len(names)} label names.")
        friends, enemies = (edge_index_of(edges, num_nodes).cpu() for edges in (pos_edge_index, neg_edge_index))
        for edges in (friends, enemies):
            _check_both_directions(names, edges)
        both = torch.cat([friends, enemies], dim=1)
        sign = torch.tensor([FRIEND, ENEMY]).repeat_interleave(torch.tensor([friends.size(1), enemies.size(1)]))
        once = both[0] <= both[1]
        return cls.from_pairs(names, both[:, once], sign[once], sign[once].float(), hops)

    @property
    def pos_edge_index(self) -> Tensor:
        """The friends' edges, as PyG's `SignedConv` takes them; (2, edges), sorted by target, then source."""
        return self._edges(FRIEND)

    @property
    def neg_edge_index(self) -> Tensor:
        """The enemies' edges; (2, edges), sorted by target, then source."""
        return self._edges(ENEMY)

    def _edges(self, sign: int) -> Tensor:
        edge_index: Tensor = self.edge_index[:, self.edge_sign == sign]
        return edge_index

    def adjacency(self, sign: int) -> csr_array:
        """Return A⁺ or A⁻ as counts; int64, (labels, labels)."""
        sources, targets = self._edges(sign).cpu().numpy()
        ones = np.ones(len(sources), dtype=np.int64)
        return csr_array((ones, (sources, targets)), shape=(self.num_nodes, self.num_nodes))

    def message_edges(self) -> tuple[Tensor, Tensor]:
        """Return along which edges messages go from label to label at one hop, and whether they join friends.

        All edges; where neighbourhoods are pruned, those that are kept: a label that is far from all others would
        otherwise have nearly as many enemies as there are labels.

        Returns:
            (2, edges), sorted by target, then source, and boolean, (edges,).
        """
        if not self.pruned:
            return self.edge_index, self.edge_sign == FRIEND
        edges, are_friends = message_edges_of(self.pruned[0])
        return edges.to(self.edge_index.device), are_friends.to(self.edge_index.device)

    def neighbours(self, place: int) -> dict[int, int]:
        """Return a label's friends (1) and enemies (-1)."""
        return neighbours_of(self.edge_index.cpu(), self.edge_sign.cpu(), place)

    def count(self, sign: int) -> int:
        """Return how many pairs are friends or enemies."""
        return int((self.edge_sign == sign).sum()) // 2

    def save(self, path: Path, *, overwrite: bool = False) -> None:
        """Write the graph as a folder that is whole or absent."""
        with new_folder(path, "graph", overwrite=overwrite) as folder:
            self.write_into(folder)

    def write_into(self, folder: Path) -> None:
        """Write the graph's files into an existing folder; the manifest, which has the checksum of each, comes last."""
        upper = self.edge_index[0] < self.edge_index[1]
        tensors = {
            "pairs": self.edge_index[:, upper].contiguous(),
            "sign": self.edge_sign[upper].contiguous(),
            "weight": self.edge_weight[upper].contiguous(),
        }
        save_file(tensors, folder / EDGES)
        if self.pruned:
            save_file(to_tensors(self.pruned), folder / NEIGHBOURHOODS)
        content = {
            "labels": self.label_names,
            "friends": self.count(FRIEND),
            "enemies": self.count(ENEMY),
            "hops": self.hops,
            "provenance": self.provenance,
        }
        write_manifest(folder, "graph", content)

    @classmethod
    def load(cls, path: Path) -> "SignedLabelGraph":
        """Read a folder that `save` wrote; a file that is not as it was written is named."""
        return cls.from_pairs(*read_parts(path))

    def part(self, places: Sequence[int]) -> "SignedLabelGraph":
        """Return the graph of only the labels at some places, in that order, and of the edges between them."""
        new = torch.full((self.num_nodes,), -1, device=self.edge_index.device)
        new[list(places)] = torch.arange(len(places), device=new.device)
        ends = new[self.edge_index]
        kept = (ends >= 0).all(dim=0) & (self.edge_index[0] < self.edge_index[1])
        names = tuple(self.label_names[place] for place in places)
        return SignedLabelGraph.from_pairs(
            names, ends[:, kept], self.edge_sign[kept], self.edge_weight[kept], self.hops, self.provenance
        )

    def to_networkx(self) -> "nx.Graph[str]":
        """Return an undirected networkx graph; nodes are label names, edges have `sign` and `weight`."""
        import networkx as nx

        graph: nx.Graph[str] = nx.Graph(hops=self.hops)
        graph.add_nodes_from(self.label_names)
        upper = self.edge_index[0] < self.edge_index[1]
        columns = (self.edge_index[0], self.edge_index[1], self.edge_sign, self.edge_weight)
        for source, target, sign, weight in zip(*(column[upper].tolist() for column in columns), strict=True):
            graph.add_edge(self.label_names[source], self.label_names[target], sign=sign, weight=weight)
        return graph

    @classmethod
    def from_networkx(cls, graph: "nx.Graph[Any]") -> "SignedLabelGraph":
        """Make the graph from an undirected networkx graph whose edges have a `sign` and perhaps a `weight`."""
        if graph.is_directed() or graph.is_multigraph():
            raise InputError("A signed label graph is made from an undirected networkx graph without parallel edges.")
        places = {node: place for place, node in enumerate(graph.nodes)}
        pairs, signs, weights = [], [], []
        for source, target, attributes in graph.edges(data=True):
            if "sign" not in attributes:
                raise InputError(f"The edge between labels '{source}' and '{target}' has no 'sign'.")
            pairs.append((places[source], places[target]))
            signs.append(attributes["sign"])
            weights.append(float(attributes.get("weight", attributes["sign"])))
        names = tuple(str(node) for node in graph.nodes)
        edges = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).t()
        return cls.from_pairs(names, edges, torch.tensor(signs), torch.tensor(weights), graph.graph.get("hops", 2))

    def write_graphml(self, path: Path) -> None:
        """Write GraphML, which Gephi, Cytoscape and networkx read."""
        write_file(path, self._write_graphml)

    def _write_graphml(self, path: Path) -> None:
        # Nodes of a graph of one's own may have any names; what XML cannot hold becomes the replacement character.
        names = [quoteattr(_NOT_XML.sub("\ufffd", name)) for name in self.label_names]
        upper = self.edge_index[0] < self.edge_index[1]
        columns = (self.edge_index[0], self.edge_index[1], self.edge_sign, self.edge_weight)
        edges = zip(*(column[upper].tolist() for column in columns), strict=True)
        with path.open("w", encoding="utf-8") as file:
            file.write(_GRAPHML_HEAD)
            file.write(f'<graph edgedefault="undirected"><data key="hops">{self.hops}</data>\n')
            file.writelines(f"<node id={name}/>\n" for name in names)
            file.writelines(
                f"<edge source={names[source]} target={names[target]}>"
                f'<data key="sign">{sign}</data><data key="weight">{weight!r}</data></edge>\n'
                for source, target, sign, weight in edges
            )
            file.write("</graph></graphml>\n")


_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_GRAPHML_HEAD = """<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="hops" for="graph" attr.name="hops" attr.type="int"/>
<key id="sign" for="edge" attr.name="sign" attr.type="int"/>
<key id="weight" for="edge" attr.name="weight" attr.type="double"/>
"""


def as_signed_graph(graph: Data | tuple[Any, Any], num_nodes: int | None = None) -> SignedLabelGraph:
    """Return any signed graph as a `SignedLabelGraph`; see `balanced_neighbourhoods` for what is taken.

    Args:
        graph: a `SignedLabelGraph` or another `Data`, or the pair (positive edges, negative edges).
        num_nodes: how many nodes a pair is over.
    """
    if isinstance(graph, SignedLabelGraph):
        return graph
    if not isinstance(graph, Data):
        pos_edge_index, neg_edge_index = graph
        return SignedLabelGraph.from_edge_index(pos_edge_index, neg_edge_index, num_nodes)
    if "edge_sign" in graph:
        pos_edge_index, neg_edge_index = (graph.edge_index[:, graph.edge_sign == sign] for sign in (FRIEND, ENEMY))
        if pos_edge_index.size(1) + neg_edge_index.size(1) < graph.edge_index.size(1):
            raise InputError("Every edge's sign must be 1 (friend) or -1 (enemy).")
    elif "pos_edge_index" in graph and "neg_edge_index" in graph:
        pos_edge_index, neg_edge_index = graph.pos_edge_index, graph.neg_edge_index
    else:
        raise InputError("A signed graph has pos_edge_index and neg_edge_index, or edge_index and edge_sign.")
    return SignedLabelGraph.from_edge_index(
        pos_edge_index, neg_edge_index, graph.num_nodes, graph.get("label_names"), graph.get("hops", 2)
    )


def _highest(*adjacencies: Tensor) -> int:
    """Return the highest number of a node that occurs in edge indices; -1 where there is no edge."""
    return max((int(edges.max()) for edges in adjacencies if edges.numel()), default=-1)


def _check_both_directions(label_names: Sequence[str], edges: Tensor) -> None:
    key, opposite = (ends[0] * len(label_names) + ends[1] for ends in (edges, edges.flip(0)))
    alone = ~torch.isin(opposite, key)
    if bool(alone.any()):
        source, target = (label_names[int(end)] for end in edges[:, alone][:, 0])
        raise InputError(
            f"The edge from label '{source}' to '{target}' has no opposite: a signed label graph is undirected, and "
            f"torch_geometric.utils.to_undirected adds what is missing."
        )


def _check_pairs(label_names: Sequence[str], pairs: Tensor, sign: Tensor) -> None:
    same = pairs[0] == pairs[1]
    if bool(same.any()):
        name = label_names[int(pairs[0][same][0])]
        raise InputError(f"The graph has an edge from label '{name}' to itself.")
    if not bool(((sign == FRIEND) | (sign == ENEMY)).all()):
        raise InputError("Every edge's sign must be 1 (friend) or -1 (enemy).")


def _check_once(label_names: Sequence[str], keys: NDArray[np.int64]) -> None:
    twice = np.flatnonzero(keys[1:] == keys[:-1])
    if len(twice):
        target, source = divmod(int(keys[twice[0]]), len(label_names))
        raise InputError(f"The graph has two edges between labels '{label_names[source]}' and '{label_names[target]}'.")
