from pathlib import Path

import networkx as nx
import pytest
import torch

from bncl_pyg.errors import InputError
from bncl_pyg.graph import SignedLabelGraph


def same(first: SignedLabelGraph, second: SignedLabelGraph) -> bool:
    return (
        first.label_names == second.label_names
        and first.hops == second.hops
        and torch.equal(first.edge_index, second.edge_index)
        and torch.equal(first.edge_sign, second.edge_sign)
        and torch.equal(first.edge_weight, second.edge_weight)
    )


def test_it_is_pyg_data(graph: SignedLabelGraph) -> None:
    assert graph.num_nodes == 6
    assert graph.edge_index.shape == (2, graph.num_edges)
    assert graph.edge_sign.dtype == torch.int8
    assert graph.validate()
    assert graph.is_undirected()
    assert graph.count(1) * 2 + graph.count(-1) * 2 == graph.num_edges
    assert set(graph.edge_sign.tolist()) == {1, -1}


def test_folder_round_trip(graph: SignedLabelGraph, tmp_path: Path) -> None:
    graph.save(tmp_path / "g")
    again = SignedLabelGraph.load(tmp_path / "g")
    assert same(graph, again)
    assert again.provenance == graph.provenance
    with pytest.raises(InputError, match="already exists"):
        graph.save(tmp_path / "g")
    content = (tmp_path / "g" / "graph.safetensors").read_bytes()
    (tmp_path / "g" / "graph.safetensors").write_bytes(content[:-1] + b"x")
    with pytest.raises(InputError, match=r"graph\.safetensors is missing or damaged"):
        SignedLabelGraph.load(tmp_path / "g")


def test_networkx_and_graphml_round_trip(graph: SignedLabelGraph, tmp_path: Path) -> None:
    assert same(graph, SignedLabelGraph.from_networkx(graph.to_networkx()))
    graph.write_graphml(tmp_path / "g.graphml")
    read = nx.read_graphml(tmp_path / "g.graphml")
    assert list(read.nodes) == graph.label_names
    again = SignedLabelGraph.from_networkx(read)
    assert torch.equal(graph.edge_index, again.edge_index)
    assert torch.equal(graph.edge_sign, again.edge_sign)
    assert torch.allclose(graph.edge_weight, again.edge_weight)


def test_names_with_signs_of_xml_survive_graphml(tmp_path: Path) -> None:
    names = ("A & B", "<c>", 'say "x"', "it's", "a\tb", "ä … 日")
    pairs = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
    graph = SignedLabelGraph.from_pairs(names, pairs, torch.tensor([1, -1, 1, -1, 1]), torch.rand(5), hops=3)
    graph.write_graphml(tmp_path / "g.graphml")
    again = SignedLabelGraph.from_networkx(nx.read_graphml(tmp_path / "g.graphml"))
    assert same(graph, again)


def test_a_part_keeps_the_edges_within(graph: SignedLabelGraph) -> None:
    part = graph.part([4, 0, 1])
    assert part.label_names == ["money", "gold", "silver"]
    whole = graph.to_networkx()
    assert nx.utils.graphs_equal(part.to_networkx(), nx.Graph(whole.subgraph(part.label_names)))
    assert 0 < part.num_edges < graph.num_edges


def test_graphs_that_are_no_signed_label_graphs_are_refused() -> None:
    with pytest.raises(InputError, match="undirected"):
        SignedLabelGraph.from_networkx(nx.DiGraph([("a", "b")]))
    with pytest.raises(InputError, match="between labels 'a' and 'b' has no 'sign'"):
        SignedLabelGraph.from_networkx(nx.Graph([("a", "b")]))
    with pytest.raises(InputError, match="from label 'a' to itself"):
        SignedLabelGraph.from_networkx(nx.Graph([("a", "a", {"sign": 1})]))
    with pytest.raises(InputError, match="must be 1"):
        SignedLabelGraph.from_networkx(nx.Graph([("a", "b", {"sign": 0})]))
    pairs = torch.tensor([[0, 1], [1, 0]])
    with pytest.raises(InputError, match="two edges between labels 'b' and 'a'"):
        SignedLabelGraph.from_pairs(("a", "b"), pairs, torch.tensor([1, -1]), torch.zeros(2))
