"""How good predictions are; the only room that sees test labels."""

from bncl_pyg.evaluation.metrics import (
    LabelScores,
    Metrics,
    coverage,
    evaluate,
    label_table,
    precision_at,
)
from bncl_pyg.evaluation.report import BaselineInputs, Evaluation, evaluate_classifier

__all__ = [
    "BaselineInputs",
    "Evaluation",
    "LabelScores",
    "Metrics",
    "coverage",
    "evaluate",
    "evaluate_classifier",
    "label_table",
    "precision_at",
]
