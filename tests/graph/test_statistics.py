from itertools import combinations

import networkx as nx
import numpy as np
import pytest

from bncl_pyg.graph import SignedLabelGraph, balanced_neighbourhoods, graph_statistics


def test_a_graph_by_hand() -> None:
    edges = [("A", "B", 1), ("B", "C", 1), ("A", "C", 1), ("C", "D", -1), ("D", "E", -1), ("C", "E", -1)]
    graph = nx.Graph()
    graph.add_nodes_from("ABCDEF")
    graph.add_edges_from((u, v, {"sign": sign}) for u, v, sign in edges)
    described = graph_statistics(SignedLabelGraph.from_networkx(graph), hops=2)
    assert (described.labels, described.friends, described.enemies) == (6, 3, 3)
    assert described.triangles == 2
    assert described.balanced_triangles == 0.5  # A-B-C has no enemy, C-D-E has three
    first, second = described.hops
    assert first.labels_without_friends == ["D", "E", "F"]
    assert first.labels_without_enemies == ["A", "B", "F"]
    assert first.friend_density == first.enemy_density == 6 / 36
    assert first.ambivalent_pairs == 0
    assert second.labels_without_friends == ["F"]
    assert described.as_dict()["hops"][0]["hop"] == 1


def test_triangles_equal_counting_them() -> None:
    generator = np.random.default_rng(0)
    graph = nx.Graph()
    graph.add_nodes_from(range(15))
    graph.add_edges_from(
        (u, v, {"sign": int(generator.choice([-1, 1]))})
        for u, v in combinations(range(15), 2)
        if generator.random() < 0.4
    )
    products = [
        graph[a][b]["sign"] * graph[b][c]["sign"] * graph[a][c]["sign"]
        for a, b, c in combinations(range(15), 3)
        if graph.has_edge(a, b) and graph.has_edge(b, c) and graph.has_edge(a, c)
    ]
    described = graph_statistics(SignedLabelGraph.from_networkx(graph), hops=1)
    assert described.triangles == len(products)
    assert described.balanced_triangles == sum(sign > 0 for sign in products) / len(products)


def test_lost_sparsity_is_said() -> None:
    full = nx.complete_graph(5)
    nx.set_edge_attributes(full, 1, "sign")
    dense = graph_statistics(SignedLabelGraph.from_networkx(full), hops=2)
    assert [sentence[:31] for sentence in dense.warnings()] == [
        "At hop 1, 80% of all pairs of l",
        "At hop 2, 100% of all pairs of ",
    ]
    pair = nx.Graph([("a", "b", {"sign": 1})])
    pair.add_nodes_from("cde")
    assert graph_statistics(SignedLabelGraph.from_networkx(pair), hops=2).warnings() == []
    assert graph_statistics(SignedLabelGraph.from_networkx(pair)).balanced_triangles is None


def test_what_is_too_large_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    star = nx.star_graph(30)
    nx.set_edge_attributes(star, 1, "sign")
    graph = SignedLabelGraph.from_networkx(star)
    assert graph_statistics(graph, hops=2).left_out == []
    monkeypatch.setattr("bncl_pyg.graph.statistics.MOST_STEPS", 900)  # the centre alone has 30 × 30
    described = graph_statistics(graph, hops=3)
    assert described.triangles is None
    assert described.balanced_triangles is None
    assert len(described.hops) == 1
    assert [sentence[:30] for sentence in described.warnings()] == [
        "Hop 2 is not counted, because ",
        "Triangles are not counted, bec",
    ]
    assert "build the graph with max_neighbours=10" in described.warnings()[0]
    monkeypatch.setattr("bncl_pyg.graph.statistics.MOST_STEPS", 1000)
    monkeypatch.setattr("bncl_pyg.graph.statistics.MOST_ENTRIES", 900)
    assert graph_statistics(graph, hops=3, triangles=False).left_out[0].startswith("Hop 2")


def test_a_pruned_graph_is_described_by_what_it_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bncl_pyg.graph.statistics.MOST_STEPS", 0)
    star = nx.star_graph(30)
    nx.set_edge_attributes(star, 1, "sign")
    graph = SignedLabelGraph.from_networkx(star)
    graph.pruned = balanced_neighbourhoods(graph, 2)
    assert len(graph_statistics(graph).hops) == 2
