"""The signed label graph as PyG `Data`: labels are nodes, friends and enemies are edges with a sign."""

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import torch
from safetensors.torch import load_file, save_file
from scipy.sparse import csr_array
from torch import Tensor
from torch_geometric.data import Data

from bncl_pyg.errors import InputError
from bncl_pyg.files import new_folder, read_manifest, sha256_of, write_file, write_manifest

FRIEND, ENEMY = 1, -1


class SignedLabelGraph(Data):
    """An undirected signed graph over labels, every edge stored in both directions as PyG does.

    Attributes:
        edge_index: (2, edges), sorted by target, then source.
        edge_sign: int8, (edges,), `FRIEND` or `ENEMY`.
        edge_weight: float32, (edges,), the cosine between the two labels.
        label_names: one a node.
        hops: over how many hops neighbourhoods are meant to be built.
        provenance: where it comes from: embedding source, percentiles, thresholds.
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
    ) -> "SignedLabelGraph":
        """Make the graph from each pair once; `pairs` is (2, pairs), `sign` and `weight` are (pairs,)."""
        edge_index = torch.cat([pairs, pairs.flip(0)], dim=1)
        order = torch.argsort(edge_index[1] * len(label_names) + edge_index[0])
        graph = cls(
            edge_index=edge_index[:, order],
            edge_sign=torch.cat([sign, sign])[order].to(torch.int8),
            edge_weight=torch.cat([weight, weight])[order].to(torch.float32),
            num_nodes=len(label_names),
            label_names=list(label_names),
            hops=hops,
            provenance=provenance or {},
        )
        graph._check()
        return graph

    def _check(self) -> None:
        sources, targets = self.edge_index
        if bool((sources == targets).any()):
            name = self.label_names[int(sources[sources == targets][0])]
            raise InputError(f"The graph has an edge from label '{name}' to itself.")
        if not bool(((self.edge_sign == FRIEND) | (self.edge_sign == ENEMY)).all()):
            raise InputError("Every edge's sign must be 1 (friend) or -1 (enemy).")
        key = targets * self.num_nodes + sources
        twice = key[1:] == key[:-1]
        if bool(twice.any()):
            edge = int(twice.nonzero()[0])
            first, second = (self.label_names[int(end[edge])] for end in (sources, targets))
            raise InputError(f"The graph has two edges between labels '{first}' and '{second}'.")

    def adjacency(self, sign: int) -> csr_array:
        """Return A⁺ or A⁻ as counts; int64, (labels, labels)."""
        sources, targets = self.edge_index[:, self.edge_sign == sign].numpy()
        ones = np.ones(len(sources), dtype=np.int64)
        return csr_array((ones, (sources, targets)), shape=(self.num_nodes, self.num_nodes))

    def count(self, sign: int) -> int:
        """Return how many pairs are friends or enemies."""
        return int((self.edge_sign == sign).sum()) // 2

    def save(self, path: Path, *, overwrite: bool = False) -> None:
        """Write the graph as a folder that is whole or absent."""
        with new_folder(path, "graph", overwrite=overwrite) as folder:
            self.write_into(folder)

    def write_into(self, folder: Path) -> None:
        """Write the graph's files into an existing folder."""
        upper = self.edge_index[0] < self.edge_index[1]
        tensors = {
            "pairs": self.edge_index[:, upper].contiguous(),
            "sign": self.edge_sign[upper].contiguous(),
            "weight": self.edge_weight[upper].contiguous(),
        }
        file = folder / "graph.safetensors"
        save_file(tensors, file)
        content = {
            "labels": self.label_names,
            "friends": self.count(FRIEND),
            "enemies": self.count(ENEMY),
            "hops": self.hops,
            "provenance": self.provenance,
            "sha256": sha256_of(file),
        }
        write_manifest(folder, "graph", content)

    @classmethod
    def load(cls, path: Path) -> "SignedLabelGraph":
        """Read a folder that `save` wrote."""
        manifest = read_manifest(path, "graph")
        file = path / "graph.safetensors"
        if not file.is_file() or sha256_of(file) != manifest.get("sha256"):
            raise InputError(f"{file} is missing or damaged: it is not the file that its manifest describes.")
        tensors = load_file(file)
        names = tuple(manifest["labels"])
        return cls.from_pairs(
            names,
            tensors["pairs"],
            tensors["sign"],
            tensors["weight"],
            manifest["hops"],
            manifest["provenance"],
        )

    def to_networkx(self) -> "nx.Graph[str]":
        """Return an undirected networkx graph; nodes are label names, edges have `sign` and `weight`."""
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
        write_file(path, lambda temporary: nx.write_graphml(self.to_networkx(), temporary))
