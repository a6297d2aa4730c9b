"""What the user has: texts and labels."""

from bncl_pyg.corpus.cleaner import TextCleaner
from bncl_pyg.corpus.labels import LabelSet, digest
from bncl_pyg.corpus.language import looks_english
from bncl_pyg.corpus.markup import is_mostly_markup, strip_markup
from bncl_pyg.corpus.public import PublicDataSet
from bncl_pyg.corpus.reuters import read_reuters
from bncl_pyg.corpus.rows import read_lines, read_rows
from bncl_pyg.corpus.stackexchange import read_stackexchange
from bncl_pyg.corpus.texts import Corpus, annotation_matrix, rows_of, stream_texts

__all__ = [
    "Corpus",
    "LabelSet",
    "PublicDataSet",
    "TextCleaner",
    "annotation_matrix",
    "digest",
    "is_mostly_markup",
    "looks_english",
    "read_lines",
    "read_reuters",
    "read_rows",
    "read_stackexchange",
    "rows_of",
    "stream_texts",
    "strip_markup",
]
