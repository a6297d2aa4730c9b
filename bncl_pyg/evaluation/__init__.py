"""How good predictions are; the only room that sees test labels."""

from bncl_pyg.evaluation.metrics import (
    LabelPair,
    LabelScores,
    Metrics,
    Reliability,
    confused_pairs,
    cooccurring_pairs,
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
    "LabelPair",
    "LabelScores",
    "Metrics",
    "Reliability",
    "confused_pairs",
    "cooccurring_pairs",
    "coverage",
    "evaluate",
    "evaluate_classifier",
    "label_table",
    "precision_at",
    "reliability",
]
