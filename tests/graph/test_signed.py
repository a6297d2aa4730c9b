import json
from pathlib import Path

import networkx as nx
import pytest
import torch
from torch_geometric import EdgeIndex
from torch_geometric.nn import SignedConv

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


def test_a_damaged_file_is_named(graph: SignedLabelGraph, tmp_path: Path) -> None:
    graph.save(tmp_path / "g")
    content = (tmp_path / "g" / "graph.safetensors").read_bytes()
    (tmp_path / "g" / "graph.safetensors").write_bytes(content[:-1] + b"x")
    with pytest.raises(InputError, match=r"graph\.safetensors"):
        SignedLabelGraph.load(tmp_path / "g")


def test_labels_that_were_swapped_are_found_out(graph: SignedLabelGraph, tmp_path: Path) -> None:
    graph.save(tmp_path / "g")
    file = tmp_path / "g" / "manifest.json"
    manifest = json.loads(file.read_text())
    first, second, *others = manifest["labels"]
    file.write_text(json.dumps(manifest | {"labels": [second, first, *others]}, indent=2, ensure_ascii=False) + "\n")
    with pytest.raises(InputError, match=r"manifest\.json"):
        SignedLabelGraph.load(tmp_path / "g")


def test_edges_as_pygs_signed_layers_take_them(graph: SignedLabelGraph) -> None:
    for edges, sign in ((graph.pos_edge_index, 1), (graph.neg_edge_index, -1)):
        assert edges.shape == (2, 2 * graph.count(sign))
        assert torch.equal(edges, graph.edge_index[:, graph.edge_sign == sign])
    x = torch.randn(6, 4)
    out = SignedConv(4, 3, first_aggr=True)(x, graph.pos_edge_index, graph.neg_edge_index)
    assert out.shape == (6, 6)


def test_your_own_edges(graph: SignedLabelGraph) -> None:
    shuffled = graph.pos_edge_index[:, torch.randperm(graph.pos_edge_index.size(1))]
    for friends in (shuffled, EdgeIndex(shuffled, sparse_size=(6, 6))):
        mine = SignedLabelGraph.from_edge_index(friends, graph.neg_edge_index, label_names=graph.label_names)
        assert mine.label_names == graph.label_names
        assert torch.equal(mine.edge_index, graph.edge_index)
        assert torch.equal(mine.edge_sign, graph.edge_sign)
        assert torch.equal(mine.edge_weight, graph.edge_sign.float())
    without = SignedLabelGraph.from_edge_index(graph.pos_edge_index, torch.empty(2, 0, dtype=torch.int64), num_nodes=8)
    assert without.label_names == list("01234567")
    assert without.neg_edge_index.shape == (2, 0)
    with pytest.raises(InputError, match="There are 6 nodes but 2 label names"):
        SignedLabelGraph.from_edge_index(graph.pos_edge_index, graph.neg_edge_index, 6, ["a", "b"])
    with pytest.raises(InputError, match="must hold whole numbers"):
        SignedLabelGraph.from_edge_index(graph.pos_edge_index.float(), graph.neg_edge_index)


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
    reference = graph.to_networkx()
    assert nx.utils.graphs_equal(part.to_networkx(), nx.Graph(reference.subgraph(part.label_names)))
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
