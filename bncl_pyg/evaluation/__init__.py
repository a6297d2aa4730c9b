"""How good predictions are; the only room that sees test labels."""

from bncl_pyg.evaluation.metrics import (
    LabelScores,
    Metrics,
    Reliability,
    coverage,
    evaluate,
    label_table,
    precision_at,
    reliability,
)
from bncl_pyg.evaluation.report import BaselineInputs, Evaluation, evaluate_classifier

__all__ = [
    "BaselineInputs",
    "Evaluation",
    "LabelScores",
    "Metrics",
    "Reliability",
    "coverage",
    "evaluate",
    "evaluate_classifier",
    "label_table",
    "precision_at",
    "reliability",
]
