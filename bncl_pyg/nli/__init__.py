"""From texts and labels to entailment and contradiction: the features, their store, and the text encoder."""

from bncl_pyg.nli.features import Features
from bncl_pyg.nli.load import load_scorer, score_texts
from bncl_pyg.nli.store import read_features, write_features

__all__ = ["Features", "load_scorer", "read_features", "score_texts", "write_features"]
