"""What the user has: texts, labels, and what is roughly known about them."""

from bncl_pyg.corpus.labels import LabelSet
from bncl_pyg.corpus.rough import RoughPriors
from bncl_pyg.corpus.supervision import Supervision
from bncl_pyg.corpus.texts import Corpus, rows_of

__all__ = ["Corpus", "LabelSet", "RoughPriors", "Supervision", "rows_of"]
