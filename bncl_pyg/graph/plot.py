"""A picture of the signed label graph that a person can read."""

from heapq import nsmallest
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bncl_pyg.errors import missing_extra
from bncl_pyg.graph.signed import FRIEND, SignedLabelGraph
from bncl_pyg.persistence import write_file

if TYPE_CHECKING:
    import networkx as nx

FRIEND_COLOUR, ENEMY_COLOUR, NODE_COLOUR = "#2a7f4f", "#c0392b", "#34495e"


def plot_graph(graph: SignedLabelGraph, path: Path, most: int = 60) -> int:
    """Draw the graph to a PNG (or any format that matplotlib writes); return how many labels are drawn.

    Friends pull together and are drawn green, enemies faint red. A larger graph is shown by its `most` best connected
    labels, and the title says so.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise missing_extra("Drawing a graph", "matplotlib", "plot") from None

    shown = graph.part(_best_connected(graph, most)).to_networkx()
    positions = _layout(shown)

    side = 8 + 0.09 * len(shown)
    figure = Figure(figsize=(side, side), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_axis_off()
    axes.margins(0.09)
    for sign, colour, alpha in ((-1, ENEMY_COLOUR, 0.13), (1, FRIEND_COLOUR, 0.55)):
        edges = [(u, v) for u, v, kind in shown.edges(data="sign") if kind == sign]
        for u, v in edges:
            xs, ys = zip(positions[u], positions[v], strict=True)
            axes.plot(
                xs,
                ys,
                color=colour,
                alpha=alpha,
                linewidth=1.4 if sign > 0 else 0.8,
                zorder=1 if sign < 0 else 2,
            )
    for node, (x, y) in positions.items():
        axes.plot(x, y, "o", color=NODE_COLOUR, markersize=4, zorder=3)
        axes.annotate(
            _abbreviate(str(node)),
            (x, y),
            xytext=(0, 5),
            textcoords="offset points",
            ha="center",
            fontsize=8,
            zorder=4,
            bbox={"boxstyle": "round,pad=0.12", "facecolor": "white", "edgecolor": "none", "alpha": 0.75},
        )
    count = (
        f"{len(shown)} labels"
        if len(shown) == graph.num_nodes
        else f"the {len(shown)} best connected of {graph.num_nodes} labels"
    )
    axes.set_title(f"Signed label graph: {count}")
    for label, colour in (("friends", FRIEND_COLOUR), ("enemies", ENEMY_COLOUR)):
        axes.plot([], [], color=colour, label=label)
    axes.legend(loc="lower right", frameon=False)
    write_file(path, lambda temporary: figure.savefig(temporary))
    return len(shown)


def _best_connected(graph: SignedLabelGraph, most: int) -> list[int]:
    """Return the places of the labels with the most friends, then edges, then by name."""
    targets = graph.edge_index[1].cpu()
    edges = np.bincount(targets.numpy(), minlength=graph.num_nodes).tolist()
    friends = np.bincount(targets[graph.edge_sign.cpu() == FRIEND].numpy(), minlength=graph.num_nodes).tolist()
    key = lambda place: (-friends[place], -edges[place], graph.label_names[place])  # noqa: E731
    return nsmallest(most, range(graph.num_nodes), key=key)


def _layout(graph: "nx.Graph[str]") -> dict[str, tuple[float, float]]:
    """Place friends near each other, labels without friends on a ring around them, and no name upon another."""
    import networkx as nx

    friends = nx.Graph()
    friends.add_nodes_from(sorted(graph.nodes))
    friends.add_edges_from((u, v) for u, v, sign in graph.edges(data="sign") if sign > 0)
    alone = sorted(nx.isolates(friends))
    friends.remove_nodes_from(alone)
    placed = nx.spring_layout(friends, k=2 / np.sqrt(max(len(friends), 1)), iterations=300, seed=0, scale=1.0)
    for place, node in enumerate(alone):
        angle = 2 * np.pi * place / len(alone)
        placed[node] = np.array([np.cos(angle), np.sin(angle)]) * (1.5 if len(friends) else 1.0)
    names = list(placed)
    separated = _remove_overlap(np.array([placed[name] for name in names]), [_abbreviate(name) for name in names])
    return {name: (float(x), float(y)) for name, (x, y) in zip(names, separated, strict=True)}


def _remove_overlap(places: NDArray[np.float64], names: list[str]) -> NDArray[np.float64]:
    """Push names apart until their boxes no longer touch, as far as that goes in a bounded number of rounds."""
    height = 0.6 / np.sqrt(len(names))
    width = height * (0.6 + 0.25 * np.array([len(name) for name in names]))
    reach = (width[:, None] + width[None, :]) / 2
    for _ in range(300):
        difference = places[:, None, :] - places[None, :, :]
        over_x, over_y = reach - np.abs(difference[..., 0]), height - np.abs(difference[..., 1])
        touching = (over_x > 0) & (over_y > 0)
        np.fill_diagonal(touching, False)
        if not touching.any():
            break
        # The later of two names at one height goes up, so that they part at all.
        towards = np.where(
            difference[..., 1] == 0,
            np.sign(np.subtract.outer(np.arange(len(names)), np.arange(len(names)))),
            np.sign(difference[..., 1]),
        )
        push = np.where(touching, 0.5 * over_y * towards, 0).sum(axis=1)
        places = places + np.stack([np.zeros(len(names)), push * 0.5], axis=1)
        sideways = np.where(touching, 0.1 * over_x * np.sign(difference[..., 0]), 0).sum(axis=1)
        places[:, 0] += sideways * 0.5
    return places


def _abbreviate(name: str, longest: int = 24) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"
