import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.transforms import Compose, Constant
from torch_geometric.utils import to_undirected

from bncl_pyg.corpus import LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.graph import (
    BalancedNeighbourhoods,
    LabelVectors,
    SignedLabelGraph,
    SignedNearest,
    SignedPercentiles,
    balanced_neighbourhoods,
    build_graph,
)
from bncl_pyg.nn import BNCL


@pytest.fixture
def data() -> Data:
    x = torch.randn(30, 5, generator=torch.Generator().manual_seed(0))
    return Data(
        x=x, y=torch.arange(30), edge_index=torch.tensor([[0, 1], [1, 2]]), edge_attr=torch.ones(2), name="mine"
    )


def built(data: Data, **options: object) -> SignedLabelGraph:
    names = tuple(map(str, range(30)))
    return build_graph(LabelSet(names, names), LabelVectors(data.x.numpy(), "x"), **options)  # type: ignore[arg-type]


def same_edges(first: SignedLabelGraph, second: SignedLabelGraph) -> bool:
    return all(torch.equal(first[key], second[key]) for key in ("edge_index", "edge_sign", "edge_weight"))


def test_repr_says_what_they_are() -> None:
    assert str(SignedPercentiles((10, 90))) == "SignedPercentiles((10, 90), hops=2)"
    assert str(SignedNearest(4, hops=3)) == "SignedNearest(4, hops=3)"
    assert str(BalancedNeighbourhoods(2)) == "BalancedNeighbourhoods(hops=2)"


def test_features_become_signed_edges(data: Data) -> None:
    graph = SignedPercentiles((10, 90))(data)
    assert isinstance(graph, SignedLabelGraph)
    assert same_edges(graph, built(data, percentiles=(10, 90)))
    assert graph.provenance["embeddings"] == "x"
    nearest = SignedNearest(3, hops=3, max_neighbours=2)(data)
    assert same_edges(nearest, built(data, neighbours=3))
    assert (nearest.hops, len(nearest.pruned)) == (3, 3)


def test_nodes_keep_their_attributes_and_edges_are_replaced(data: Data) -> None:
    before = data.clone()
    graph = SignedPercentiles((10, 90))(data)
    assert torch.equal(graph.x, data.x)
    assert torch.equal(graph.y, data.y)
    assert graph.name == "mine"
    assert "edge_attr" not in graph
    assert graph.label_names[:3] == ["0", "1", "2"]
    assert graph.validate()
    assert data.keys() == before.keys()
    assert torch.equal(data.edge_index, before.edge_index)


def test_names_and_another_attribute(data: Data) -> None:
    data.label_names = [f"node {place}" for place in range(30)]
    data.z = data.x.double()
    graph = SignedNearest(3, attr="z")(data)
    assert graph.label_names == data.label_names
    assert same_edges(graph, built(data, neighbours=3))
    with pytest.raises(InputError, match="no attribute 'w'"):
        SignedNearest(3, attr="w")(data)
    with pytest.raises(InputError, match=r"'y' must be a tensor of shape \(nodes, dimensions\)"):
        SignedNearest(3, attr="y")(data)


def test_they_compose_into_what_a_model_takes(data: Data) -> None:
    transform = Compose([SignedPercentiles((10, 90)), BalancedNeighbourhoods(hops=3), Constant()])
    graph = transform(data)
    assert graph.x.shape == (30, 6)
    expected = balanced_neighbourhoods(built(data, percentiles=(10, 90)), 3)
    for mine, theirs in zip(graph.neighbourhoods, expected, strict=True):
        assert (mine.friends != theirs.friends).nnz == (mine.enemies != theirs.enemies).nnz == 0
    assert len(BNCL(graph.neighbourhoods).layers) == 3


def test_neighbourhoods_of_a_graph_with_its_own_signs(data: Data) -> None:
    pos, neg = (to_undirected(torch.tensor(edges)) for edges in ([[0, 1], [1, 2]], [[2, 4], [3, 5]]))
    signed = Data(x=data.x, pos_edge_index=pos, neg_edge_index=neg)
    added = BalancedNeighbourhoods(hops=2, simple=True)(signed)
    expected = balanced_neighbourhoods((pos, neg), 2, num_labels=30, simple=True)
    for mine, theirs in zip(added.neighbourhoods, expected, strict=True):
        assert mine.num_labels == theirs.num_labels == 30
        assert (mine.friends != theirs.friends).nnz == (mine.enemies != theirs.enemies).nnz == 0
    assert "neighbourhoods" not in signed


def test_functional_names(data: Data) -> None:
    """PyG's data pipes find the transforms by these."""
    from torch_geometric.data.datapipes import DatasetAdapter

    pipe = DatasetAdapter([data])
    (graph,) = pipe.signed_percentiles((10, 90)).balanced_neighbourhoods(hops=2)
    assert same_edges(graph, built(data, percentiles=(10, 90)))
    assert len(graph.neighbourhoods) == 2
    (nearest,) = pipe.signed_nearest(3)
    assert same_edges(nearest, built(data, neighbours=3))
