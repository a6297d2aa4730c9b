"""The scored texts: scores, vectors and words, the pairs that they are of, and their store on disk."""

from bncl_pyg.features.features import Features
from bncl_pyg.features.featurize import featurize
from bncl_pyg.features.pairs import AllPairs, Candidates, PairBlock, Pairs, pairs_of, reachable, row_blocks
from bncl_pyg.features.score import score_texts
from bncl_pyg.features.store import read_features, write_features
from bncl_pyg.features.text_inputs import WordAxes, text_inputs
from bncl_pyg.features.words import word_counts

__all__ = [
    "AllPairs",
    "Candidates",
    "Features",
    "PairBlock",
    "Pairs",
    "WordAxes",
    "featurize",
    "pairs_of",
    "reachable",
    "read_features",
    "row_blocks",
    "score_texts",
    "text_inputs",
    "word_counts",
    "write_features",
]
