"""From label names to a signed graph and its balanced neighbourhoods."""

from bncl_pyg.graph.blocks import BlockLog, work_folder
from bncl_pyg.graph.build import build_graph, default_graph
from bncl_pyg.graph.embeddings import LabelVectors, embed_labels, load_word_vectors
from bncl_pyg.graph.neighbourhoods import balanced_neighbourhoods
from bncl_pyg.graph.signed import SignedLabelGraph
from bncl_pyg.graph.statistics import GraphStatistics, graph_statistics
from bncl_pyg.graph.walks import Neighbourhood

__all__ = [
    "BlockLog",
    "GraphStatistics",
    "LabelVectors",
    "Neighbourhood",
    "SignedLabelGraph",
    "balanced_neighbourhoods",
    "build_graph",
    "default_graph",
    "embed_labels",
    "graph_statistics",
    "load_word_vectors",
    "work_folder",
]
