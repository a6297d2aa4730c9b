"""The worked example of docs/worked-example.md: six labels, two hops, every number by hand."""

import networkx as nx
import pytest
import torch
from torch import Tensor

from bncl_pyg.graph import SignedLabelGraph, balanced_neighbourhoods
from bncl_pyg.nn import BNCL, Backend

ENTAILMENT = [[0.3, 0.8, 0.3, 0.1, 0.3, 0.1]]
CONTRADICTION = [[0.3, 0.1, 0.3, 0.8, 0.3, 0.7]]
AFTER_ONE = ([0.36, 0.92, 0.46, 0.18, 0.40, 0.12], [0.39, 0.25, 0.32, 1.00, 0.79, 0.86])
AFTER_TWO = ([0.588, 1.148, 0.585, 0.262, 0.484, 0.172], [0.472, 0.332, 0.392, 1.228, 1.001, 1.025])


@pytest.fixture
def toy() -> SignedLabelGraph:
    graph = nx.Graph()
    graph.add_nodes_from("ABCDEF")
    graph.add_edges_from([("B", "C"), ("D", "E"), ("D", "F")], sign=1)
    graph.add_edges_from([("A", "E"), ("B", "E")], sign=-1)
    return SignedLabelGraph.from_networkx(graph)


def predicted(states: tuple[Tensor, Tensor]) -> str:
    return "".join(
        name for name, p, against in zip("ABCDEF", *(part[0] for part in states), strict=True) if p > against
    )


def test_neighbourhoods_at_two_hops(toy: SignedLabelGraph) -> None:
    _, second = balanced_neighbourhoods(toy)
    friends = {("A", "A"): 1, ("A", "B"): 1, ("B", "B"): 2, ("C", "C"): 1, ("D", "D"): 2}
    friends |= {("E", "E"): 3, ("E", "F"): 1, ("F", "F"): 1}
    enemies = {("C", "E"): 1, ("A", "D"): 1, ("B", "D"): 1}
    for counts, expected in ((second.friends.toarray(), friends), (second.enemies.toarray(), enemies)):
        for u in range(6):
            for v in range(u, 6):
                assert counts[u, v] == counts[v, u] == expected.get(("ABCDEF"[u], "ABCDEF"[v]), 0)


@pytest.mark.parametrize("backend", ["message", "sparse", "dense"])
def test_states_hop_by_hop(toy: SignedLabelGraph, backend: Backend) -> None:
    model = BNCL(balanced_neighbourhoods(toy), backend)
    first, second = model.layers
    with torch.no_grad():
        for weight in second.parameters():
            weight.fill_(0.1)
        for weight in first.parameters():
            weight.fill_(0.2)
        first.weights()[2].fill_(0.3)  # type: ignore[operator] # W⁻, of the enemies' entailment
    states = torch.tensor(ENTAILMENT), torch.tensor(CONTRADICTION)
    assert predicted(states) == "B"
    one = first(*states)
    assert torch.allclose(torch.cat(one), torch.tensor(AFTER_ONE))
    assert predicted(one) == "BC"
    two = model(*states)
    assert torch.allclose(torch.cat(two), torch.tensor(AFTER_TWO))
    assert predicted(two) == "ABC"
