"""Where the labels of a graph stand in a picture."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import networkx as nx


def layout_labels(graph: "nx.Graph[str]") -> dict[str, tuple[float, float]]:
    """Place friends near each other, labels without friends on a ring around them, and no name upon another.

    Args:
        graph: whose edges have a `sign`; the same graph is always placed in the same way.
    """
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
    separated = _remove_overlap(np.array([placed[name] for name in names]), [shortened(name) for name in names])
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


def shortened(name: str, longest: int = 24) -> str:
    """Return a name as a picture has room for it."""
    return name if len(name) <= longest else name[: longest - 1] + "…"
