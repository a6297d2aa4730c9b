"""What a user would pick instead: each baseline gets the texts, labels, κ, λ and annotated texts that the model got."""

from bncl_pyg.evaluation.baselines.evidence import BASELINES, Baseline, Evidence, run_baselines
from bncl_pyg.evaluation.baselines.linear import EncoderLogistic, TfidfSVC
from bncl_pyg.evaluation.baselines.ml_aram import MLARAM
from bncl_pyg.evaluation.baselines.ml_knn import MLkNN
from bncl_pyg.evaluation.baselines.thresholds import prevalence_quantile, top_cardinality

__all__ = [
    "BASELINES",
    "MLARAM",
    "Baseline",
    "EncoderLogistic",
    "Evidence",
    "MLkNN",
    "TfidfSVC",
    "prevalence_quantile",
    "run_baselines",
    "top_cardinality",
]
