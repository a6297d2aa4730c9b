"""A table of texts in, the same table with labels out: with a trained model, or from label names in one go."""

from bncl_pyg.classify.added import AddedColumns, Answer
from bncl_pyg.classify.one_go import Classified, classify_table
from bncl_pyg.classify.streaming import AnswerGroups, Predicted, check_unfinished, predict_table
from bncl_pyg.classify.summary import Summary

__all__ = [
    "AddedColumns",
    "Answer",
    "AnswerGroups",
    "Classified",
    "Predicted",
    "Summary",
    "check_unfinished",
    "classify_table",
    "predict_table",
]
