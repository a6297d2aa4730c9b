"""What the user has: texts and labels."""

from bncl_pyg.corpus.annotation import NOT_YET, Annotation, label_places
from bncl_pyg.corpus.cleaner import Html, TextCleaner
from bncl_pyg.corpus.columns import Columns, TextTable
from bncl_pyg.corpus.labels import LabelSet, digest
from bncl_pyg.corpus.language import looks_english
from bncl_pyg.corpus.markup import is_mostly_markup, strip_markup
from bncl_pyg.corpus.public import PublicDataSet
from bncl_pyg.corpus.reuters import read_reuters
from bncl_pyg.corpus.stackexchange import read_stackexchange
from bncl_pyg.corpus.tables import (
    LIST_SEPARATOR,
    STANDARD_STREAM,
    Format,
    Row,
    Table,
    check_new_table,
    format_of,
    read_lines,
    read_rows,
    write_table,
)
from bncl_pyg.corpus.texts import Corpus, annotation_matrix, known_matrix, rows_of, stream_texts

__all__ = [
    "LIST_SEPARATOR",
    "NOT_YET",
    "STANDARD_STREAM",
    "Annotation",
    "Columns",
    "Corpus",
    "Format",
    "Html",
    "LabelSet",
    "PublicDataSet",
    "Row",
    "Table",
    "TextCleaner",
    "TextTable",
    "annotation_matrix",
    "check_new_table",
    "digest",
    "format_of",
    "is_mostly_markup",
    "known_matrix",
    "label_places",
    "looks_english",
    "read_lines",
    "read_reuters",
    "read_rows",
    "read_stackexchange",
    "rows_of",
    "stream_texts",
    "strip_markup",
    "write_table",
]
