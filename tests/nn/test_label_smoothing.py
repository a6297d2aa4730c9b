import pytest
import torch

from bncl_pyg.graph import SignedLabelGraph
from bncl_pyg.nn import LabelSmoothing


@pytest.fixture
def smoothing(graph: SignedLabelGraph) -> LabelSmoothing:
    edges, are_friends = graph.message_edges()
    return LabelSmoothing(edges, are_friends, graph.num_nodes)


def dense_kernel(graph: SignedLabelGraph) -> torch.Tensor:
    """K, written down as the formula has it."""
    edges, are_friends = graph.message_edges()
    signed = torch.zeros(graph.num_nodes, graph.num_nodes)
    signed[edges[0], edges[1]] = are_friends.float() * 2 - 1
    degree = signed.abs().sum(dim=0).clamp_min(1)
    normalised = signed / (degree[:, None] * degree).sqrt()
    walks = torch.eye(graph.num_nodes) + normalised + normalised @ normalised
    scale = walks.diagonal().rsqrt()
    return scale[:, None] * walks * scale


def test_repr(smoothing: LabelSmoothing, graph: SignedLabelGraph) -> None:
    assert repr(smoothing) == f"LabelSmoothing(labels=6, edges={graph.edge_index.shape[1]})"


def test_the_sparse_products_are_the_formula(smoothing: LabelSmoothing, graph: SignedLabelGraph) -> None:
    weights = torch.randn(3, 6, generator=torch.Generator().manual_seed(0))
    kernel = dense_kernel(graph)
    assert torch.allclose(kernel.diagonal(), torch.ones(6), atol=1e-6)
    assert torch.allclose(smoothing.kernel(weights), weights @ kernel, atol=1e-5)


def test_common_labels_keep_their_weights_and_rare_ones_listen(
    smoothing: LabelSmoothing, graph: SignedLabelGraph
) -> None:
    weights = torch.randn(3, 6, generator=torch.Generator().manual_seed(0))
    texts = torch.tensor([0.0, 10.0, 1e9, 1e9, 1e9, 1e9])
    smoothed, whole = smoothing(weights, texts, 10.0), weights @ dense_kernel(graph)
    assert torch.allclose(smoothed[:, 0], whole[:, 0], atol=1e-5)
    assert torch.allclose(smoothed[:, 1], (weights[:, 1] + whole[:, 1]) / 2, atol=1e-5)
    assert torch.allclose(smoothed[:, 2:], weights[:, 2:], atol=1e-5)


def test_a_friend_adds_and_an_enemy_takes_off() -> None:
    edges = torch.tensor([[1, 2, 0, 0], [0, 0, 1, 2]])
    smoothing = LabelSmoothing(edges, torch.tensor([True, False, True, False]), 3)
    kernel = smoothing.kernel(torch.eye(3))
    assert kernel[1, 0] > 0 > kernel[2, 0]
    # The enemy of a friend is an enemy.
    assert kernel[2, 1] < 0
