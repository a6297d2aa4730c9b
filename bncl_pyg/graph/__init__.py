"""From label names to a signed graph and its balanced neighbourhoods."""

from bncl_pyg.graph.blocks import BlockLog, work_folder
from bncl_pyg.graph.build import build_graph, check_options, default_graph, shortened
from bncl_pyg.graph.embeddings import EMBEDDED, LabelVectors, embed_labels, load_word_vectors, mean_of_words
from bncl_pyg.graph.neighbourhoods import balanced_neighbourhoods
from bncl_pyg.graph.plot import plot_graph
from bncl_pyg.graph.signed import SignedLabelGraph
from bncl_pyg.graph.statistics import GraphStatistics, graph_statistics
from bncl_pyg.graph.walks import Neighbourhood

__all__ = [
    "EMBEDDED",
    "BlockLog",
    "GraphStatistics",
    "LabelVectors",
    "Neighbourhood",
    "SignedLabelGraph",
    "balanced_neighbourhoods",
    "build_graph",
    "check_options",
    "default_graph",
    "embed_labels",
    "graph_statistics",
    "load_word_vectors",
    "mean_of_words",
    "plot_graph",
    "shortened",
    "work_folder",
]
