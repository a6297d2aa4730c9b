from pathlib import Path

import networkx as nx
import numpy as np
from matplotlib.image import imread

from bncl_pyg.graph import SignedLabelGraph, plot_graph
from bncl_pyg.graph.plot import _short, _without_overlap


def test_a_picture_with_both_colours(graph: SignedLabelGraph, tmp_path: Path) -> None:
    assert plot_graph(graph, tmp_path / "g.png") == 6
    red, green, blue = np.moveaxis(imread(tmp_path / "g.png")[..., :3], -1, 0)
    assert ((green > red + 0.1) & (green > blue + 0.1)).sum() > 100
    assert ((red > green + 0.05) & (red > blue + 0.05)).sum() > 100


def test_only_the_best_connected_of_many(tmp_path: Path) -> None:
    star = nx.star_graph(30)
    nx.set_edge_attributes(star, 1, "sign")
    assert plot_graph(SignedLabelGraph.from_networkx(star), tmp_path / "s.svg", most=10) == 10
    assert (tmp_path / "s.svg").read_text().startswith("<?xml")


def test_names_do_not_lie_upon_each_other() -> None:
    names = [f"label number {place}" for place in range(20)]
    places = _without_overlap(np.random.default_rng(0).normal(size=(20, 2)) * 0.05, names)
    height = 0.6 / np.sqrt(20)
    apart = np.abs(places[:, None] - places[None])
    close = (apart[..., 0] < height) & (apart[..., 1] < 0.5 * height)
    assert close.sum() == 20  # each with itself only
    assert _short("x" * 30) == "x" * 23 + "…"
