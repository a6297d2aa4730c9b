"""What the user has: texts, labels, and what is roughly known about them."""

from bncl_pyg.corpus.labels import LabelSet, digest
from bncl_pyg.corpus.public import PublicDataSet
from bncl_pyg.corpus.reuters import read_reuters
from bncl_pyg.corpus.rough import AUTO, WORDS, RoughPriors
from bncl_pyg.corpus.rows import read_lines, read_rows
from bncl_pyg.corpus.stackexchange import read_stackexchange
from bncl_pyg.corpus.supervision import Supervision
from bncl_pyg.corpus.texts import Corpus, annotation_matrix, rows_of, stream_texts

__all__ = [
    "AUTO",
    "WORDS",
    "Corpus",
    "LabelSet",
    "PublicDataSet",
    "RoughPriors",
    "Supervision",
    "annotation_matrix",
    "digest",
    "read_lines",
    "read_reuters",
    "read_rows",
    "read_stackexchange",
    "rows_of",
    "stream_texts",
]
