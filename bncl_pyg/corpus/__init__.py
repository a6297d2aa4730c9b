"""What the user has: texts and labels."""

from bncl_pyg.corpus.labels import LabelSet, digest
from bncl_pyg.corpus.reuters import COUNTS as REUTERS_COUNTS
from bncl_pyg.corpus.reuters import FILES as REUTERS_FILES
from bncl_pyg.corpus.reuters import RULE as REUTERS_RULE
from bncl_pyg.corpus.reuters import read_reuters
from bncl_pyg.corpus.rows import read_lines, read_rows
from bncl_pyg.corpus.stackexchange import read_stackexchange
from bncl_pyg.corpus.texts import Corpus, annotation_matrix, rows_of, stream_texts

__all__ = [
    "REUTERS_COUNTS",
    "REUTERS_FILES",
    "REUTERS_RULE",
    "Corpus",
    "LabelSet",
    "annotation_matrix",
    "digest",
    "read_lines",
    "read_reuters",
    "read_rows",
    "read_stackexchange",
    "rows_of",
    "stream_texts",
]
