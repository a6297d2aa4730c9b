"""Your own signed graph with BalancedConv: from edges that you have, or from the features of any PyG graph.

python examples/own_signed_graph.py
"""

import torch
from torch_geometric.data import Data
from torch_geometric.transforms import Compose
from torch_geometric.utils import to_undirected

from bncl_pyg.graph import (
    BalancedNeighbourhoods,
    SignedLabelGraph,
    SignedPercentiles,
    balanced_neighbourhoods,
    graph_statistics,
)
from bncl_pyg.nn import BNCL, BalancedConv

NAMES = ["joy", "love", "pride", "anger", "sadness"]
FRIENDS = torch.tensor([[0, 0, 3], [1, 2, 4]])  # joy-love, joy-pride, anger-sadness
ENEMIES = torch.tensor([[0, 1], [3, 4]])  # joy-anger, love-sadness


def main() -> None:
    """Build two signed graphs, and update random scores along their edges."""
    torch.manual_seed(0)

    # 1. Edges that you have, both ways as everywhere in PyG.
    graph = SignedLabelGraph.from_edge_index(to_undirected(FRIENDS), to_undirected(ENEMIES), label_names=NAMES)
    print(f"{graph.num_nodes} labels, {graph.count(1)} pairs of friends, {graph.count(-1)} pairs of enemies")
    first, second = balanced_neighbourhoods(graph, hops=2)
    allies = [NAMES[place] for place in second.friends[[2]].indices if place != 2]
    print(f"two hops away, pride's friends are {', '.join(allies)}")

    # 2. One layer a hop: entailment and contradiction of every (text, label), both non-negative, are updated.
    entailment, contradiction = torch.rand(3, graph.num_nodes), torch.rand(3, graph.num_nodes)
    layer = BalancedConv(first)
    updated, against = layer(entailment, contradiction)
    print(f"{layer}: {tuple(entailment.shape)} -> {tuple(updated.shape)}, {tuple(against.shape)}")

    # 3. Any PyG graph whose nodes have features: the most and the least similar pairs become friends and enemies.
    transform = Compose([SignedPercentiles((10, 90)), BalancedNeighbourhoods(hops=2)])
    data = transform(Data(x=torch.randn(200, 16)))
    model = BNCL(data.neighbourhoods)  # one BalancedConv a hop; model.to("cuda") moves all of it
    updated, against = model(torch.rand(3, 200), torch.rand(3, 200))
    density = graph_statistics(data).hops[-1].friend_density
    print(f"200 nodes: {data.count(1)} pairs of friends; at hop 2, {density:.0%} of all pairs are friends")
    print(f"labels with more entailment than contradiction: {int((updated > against).sum())} of {updated.numel()}")


if __name__ == "__main__":
    main()
