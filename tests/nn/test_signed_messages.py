import pytest
import torch

from bncl_pyg.graph import SignedLabelGraph
from bncl_pyg.nn import SignedMessages


@pytest.fixture
def messages(graph: SignedLabelGraph) -> SignedMessages:
    found = SignedMessages(graph.edge_index, graph.num_nodes)
    with torch.no_grad():
        found.weight.copy_(torch.randn(len(found.weight), generator=torch.Generator().manual_seed(0)))
    return found


def test_at_first_nothing_is_said(graph: SignedLabelGraph) -> None:
    assert not SignedMessages(graph.edge_index, 6)(torch.ones(3, 6)).any()


def test_the_product_is_its_definition(messages: SignedMessages) -> None:
    states = torch.randn(7, 6, generator=torch.Generator().manual_seed(1))
    assert torch.allclose(messages(states), messages.definition(states), atol=1e-6)
    by_hand = torch.zeros(7, 6)
    for (source, target), weight in zip(messages.edge_index.t().tolist(), messages.weight.tolist(), strict=True):
        by_hand[:, target] += weight * states[:, source]
    assert torch.allclose(messages(states), by_hand, atol=1e-6)


def test_gradients_are_those_of_the_definition(messages: SignedMessages) -> None:
    found = []
    for way in (messages.forward, messages.definition):
        states = torch.randn(7, 6, generator=torch.Generator().manual_seed(1)).requires_grad_()
        messages.weight.grad = None
        way(states).square().sum().backward()  # type: ignore[operator]
        assert messages.weight.grad is not None
        assert states.grad is not None
        found.append((messages.weight.grad.clone(), states.grad))
    assert torch.allclose(found[0][0], found[1][0], atol=1e-5)
    assert torch.allclose(found[0][1], found[1][1], atol=1e-5)
