import re
from itertools import combinations
from pathlib import Path

import networkx as nx
import numpy as np
from matplotlib.image import imread

from bncl_pyg.graph import SignedLabelGraph, plot_graph


def test_a_picture_with_both_colours(graph: SignedLabelGraph, tmp_path: Path) -> None:
    assert plot_graph(graph, tmp_path / "g.png") == 6
    red, green, blue = np.moveaxis(imread(tmp_path / "g.png")[..., :3], -1, 0)
    assert ((green > red + 0.1) & (green > blue + 0.1)).sum() > 100
    assert ((red > green + 0.05) & (red > blue + 0.05)).sum() > 100


def test_only_the_best_connected_of_many(tmp_path: Path) -> None:
    star = nx.star_graph(30)
    nx.set_edge_attributes(star, 1, "sign")
    assert plot_graph(SignedLabelGraph.from_networkx(star), tmp_path / "s.svg", most=10) == 10
    assert set(names_in(tmp_path / "s.svg")) == {"0", "1", "10", "11", "12", "13", "14", "15", "16", "17"}


def names_in(picture: Path) -> dict[str, tuple[float, float]]:
    """Where an SVG has each name, in points."""
    texts = re.findall(r"<!-- (.+?) -->\s*<g [^>]*transform=\"translate\(([-\d.]+) ([-\d.]+)\)", picture.read_text())
    known = {"Signed label graph", "friends", "enemies"}
    return {name: (float(x), float(y)) for name, x, y in texts if name.split(":")[0] not in known}


def test_names_do_not_lie_upon_each_other(tmp_path: Path) -> None:
    """Four groups of ten friends, which pull each other into one place."""
    names = [f"label number {place:02}" for place in range(40)]
    graph = nx.Graph([(u, v) for place in range(0, 40, 10) for u, v in combinations(names[place : place + 10], 2)])
    nx.set_edge_attributes(graph, 1, "sign")
    plot_graph(SignedLabelGraph.from_networkx(graph), tmp_path / "s.svg")
    places = np.array(list(names_in(tmp_path / "s.svg").values()))
    assert len(places) == 40
    across, down = np.abs(places[:, None] - places[None]).transpose(2, 0, 1)
    overlapping = (across < 70) & (down < 8)  # a name is 75 points wide and 8 high
    assert overlapping.sum() == 40  # each with itself only


def test_long_names_are_shortened(tmp_path: Path) -> None:
    graph = nx.Graph([("x" * 30, "y" * 24, {"sign": 1})])
    plot_graph(SignedLabelGraph.from_networkx(graph), tmp_path / "s.svg")
    assert set(names_in(tmp_path / "s.svg")) == {"x" * 23 + "…", "y" * 24}
