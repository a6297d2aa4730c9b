"""From label names to a signed graph and its balanced neighbourhoods."""

from bncl_pyg.graph.adjacency import edge_index_of, num_nodes_of
from bncl_pyg.graph.blocks import BlockLog, work_folder
from bncl_pyg.graph.build import abbreviate, build_graph, check_options, default_graph, graph_of
from bncl_pyg.graph.embeddings import EMBEDDED, LabelVectors, embed_labels, load_word_vectors, mean_of_words
from bncl_pyg.graph.nearest import NearestSearch
from bncl_pyg.graph.neighbourhoods import balanced_neighbourhoods
from bncl_pyg.graph.plot import plot_graph
from bncl_pyg.graph.signed import SignedLabelGraph
from bncl_pyg.graph.statistics import GraphStatistics, graph_statistics
from bncl_pyg.graph.transforms import BalancedNeighbourhoods, SignedNearest, SignedPercentiles
from bncl_pyg.graph.walks import Neighbourhood

__all__ = [
    "EMBEDDED",
    "BalancedNeighbourhoods",
    "BlockLog",
    "GraphStatistics",
    "LabelVectors",
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
    "graph_of",
    "graph_statistics",
    "load_word_vectors",
    "mean_of_words",
    "num_nodes_of",
    "plot_graph",
    "work_folder",
]
