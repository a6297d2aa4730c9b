"""From label names to a signed graph and its balanced neighbourhoods."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bncl_pyg.graph.blocks import BlockEngine, BlockLog, Held, work_folder
from bncl_pyg.graph.embeddings import EMBEDDED, LabelVectors, embed_labels, load_word_vectors, mean_of_words
from bncl_pyg.graph.layout import layout_labels, shortened
from bncl_pyg.graph.lazy import LazyGraph
from bncl_pyg.graph.walks import Neighbourhood

if TYPE_CHECKING:
    from bncl_pyg.graph.adjacency import edge_index_of, num_nodes_of
    from bncl_pyg.graph.build import (
        abbreviate,
        build_graph,
        check_options,
        default_graph,
        graph_of,
        has_open_percentiles,
        with_percentiles,
    )
    from bncl_pyg.graph.extend import extend_graph
    from bncl_pyg.graph.nearest import NearestSearch
    from bncl_pyg.graph.neighbourhoods import balanced_neighbourhoods
    from bncl_pyg.graph.plot import plot_graph
    from bncl_pyg.graph.signed import SignedLabelGraph
    from bncl_pyg.graph.statistics import GraphStatistics, graph_statistics
    from bncl_pyg.graph.transforms import BalancedNeighbourhoods, SignedNearest, SignedPercentiles

_NEED_PYG = {
    "BalancedNeighbourhoods": "transforms",
    "GraphStatistics": "statistics",
    "NearestSearch": "nearest",
    "SignedLabelGraph": "signed",
    "SignedNearest": "transforms",
    "SignedPercentiles": "transforms",
    "abbreviate": "build",
    "balanced_neighbourhoods": "neighbourhoods",
    "build_graph": "build",
    "check_options": "build",
    "default_graph": "build",
    "edge_index_of": "adjacency",
    "extend_graph": "extend",
    "graph_of": "build",
    "graph_statistics": "statistics",
    "has_open_percentiles": "build",
    "num_nodes_of": "adjacency",
    "plot_graph": "plot",
    "with_percentiles": "build",
}
"""The module of each name that needs PyG."""

__all__ = [
    "EMBEDDED",
    "BalancedNeighbourhoods",
    "BlockEngine",
    "BlockLog",
    "GraphStatistics",
    "Held",
    "LabelVectors",
    "LazyGraph",
    "NearestSearch",
    "Neighbourhood",
    "SignedLabelGraph",
    "SignedNearest",
    "SignedPercentiles",
    "abbreviate",
    "balanced_neighbourhoods",
    "build_graph",
    "check_options",
    "default_graph",
    "edge_index_of",
    "embed_labels",
    "extend_graph",
    "graph_of",
    "graph_statistics",
    "has_open_percentiles",
    "layout_labels",
    "load_word_vectors",
    "mean_of_words",
    "num_nodes_of",
    "plot_graph",
    "shortened",
    "with_percentiles",
    "work_folder",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # PyG takes seconds to import: who only predicts never waits for it.
        if name in _NEED_PYG:
            return getattr(import_module(f"bncl_pyg.graph.{_NEED_PYG[name]}"), name)
        raise AttributeError(f"module 'bncl_pyg.graph' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
