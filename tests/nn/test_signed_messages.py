from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from bncl_pyg.graph import SignedLabelGraph
from bncl_pyg.nn import SignedMessages, WeightedMessages


@pytest.fixture
def messages(graph: SignedLabelGraph) -> SignedMessages:
    layer = SignedMessages(graph.edge_index, graph.num_nodes)
    with torch.no_grad():
        layer.weight.copy_(torch.randn(len(layer.weight), generator=torch.Generator().manual_seed(0)))
    return layer


def test_repr_and_shape(messages: SignedMessages) -> None:
    assert repr(messages) == "SignedMessages(labels=6, edges=16)"
    assert messages(torch.ones(3, 6)).shape == (3, 6)


def test_at_first_all_messages_are_zero(graph: SignedLabelGraph) -> None:
    assert not SignedMessages(graph.edge_index, 6)(torch.ones(3, 6)).any()


def test_the_product_is_its_definition(messages: SignedMessages) -> None:
    states = torch.randn(7, 6, generator=torch.Generator().manual_seed(1))
    assert torch.allclose(messages(states), messages.definition(states), atol=1e-6)
    by_hand = torch.zeros(7, 6)
    for (source, target), weight in zip(messages.edge_index.t().tolist(), messages.weight.tolist(), strict=True):
        by_hand[:, target] += weight * states[:, source]
    assert torch.allclose(messages(states), by_hand, atol=1e-6)


def test_without_pyg_they_are_the_same(messages: SignedMessages) -> None:
    states = torch.randn(7, 6, generator=torch.Generator().manual_seed(1))
    plain = WeightedMessages(messages.edge_index, 6)
    plain.load_state_dict(messages.state_dict())
    assert torch.equal(plain(states), messages(states))


def test_gradients_are_those_of_the_definition(messages: SignedMessages) -> None:
    gradients = []
    for way in (messages.forward, messages.definition):
        states = torch.randn(7, 6, generator=torch.Generator().manual_seed(1)).requires_grad_()
        messages.weight.grad = None
        way(states).square().sum().backward()  # type: ignore[operator]
        assert messages.weight.grad is not None
        assert states.grad is not None
        gradients.append((messages.weight.grad.clone(), states.grad))
    assert torch.allclose(gradients[0][0], gradients[1][0], atol=1e-5)
    assert torch.allclose(gradients[0][1], gradients[1][1], atol=1e-5)


def test_only_the_weights_are_its_state_and_everything_moves(
    messages: SignedMessages, tensors_in: Callable[[object], list[Tensor]]
) -> None:
    assert list(messages.state_dict()) == ["weight"]
    messages.to("meta")
    assert {tensor.device.type for tensor in tensors_in(messages)} == {"meta"}
    assert messages(torch.ones(3, 6, device="meta")).device.type == "meta"


def test_new_tensors_are_made_where_the_states_are(messages: SignedMessages) -> None:
    states = torch.randn(7, 6, generator=torch.Generator().manual_seed(1))
    expected = messages(states)
    with torch.device("meta"):
        again = messages(states)
        again.sum().backward()
    assert torch.equal(again, expected)
    assert messages.weight.grad is not None
    assert messages.weight.grad.device.type == "cpu"
