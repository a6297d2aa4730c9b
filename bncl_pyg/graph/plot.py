"""A picture of the signed label graph that a person can read."""

from heapq import nsmallest
from pathlib import Path

import numpy as np

from bncl_pyg.errors import missing_extra
from bncl_pyg.graph.layout import layout_labels, shortened
from bncl_pyg.graph.signed import SignedLabelGraph
from bncl_pyg.graph.walks import FRIEND
from bncl_pyg.persistence import write_file

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
    positions = layout_labels(shown)

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
            shortened(str(node)),
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
