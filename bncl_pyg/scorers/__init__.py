"""From texts and labels to entailment and contradiction: encoders, classifiers and their backends."""

from bncl_pyg.scorers.bi_encoder import BiEncoderScorer
from bncl_pyg.scorers.cross_encoder import CrossEncoderScorer
from bncl_pyg.scorers.embedded import EMBEDDED_SHA256, embedded_folder
from bncl_pyg.scorers.encoder import SentenceEncoder
from bncl_pyg.scorers.head import (
    COSINE_MIDDLE,
    COSINE_SCALE,
    EMBEDDED_FILE,
    CorrectedHead,
    CosineHead,
    Head,
    NetworkHead,
    embedded_head,
    load_head,
    save_head,
)
from bncl_pyg.scorers.load import EMBEDDED, embedded_scorer, load_scorer, ranker_for, reload_options
from bncl_pyg.scorers.onnx import run_with_onnx
from bncl_pyg.scorers.scorer import MAX_TOKENS, TEMPLATE, Progress, Scorer, best_candidates, hypotheses_of

__all__ = [
    "COSINE_MIDDLE",
    "COSINE_SCALE",
    "EMBEDDED",
    "EMBEDDED_FILE",
    "EMBEDDED_SHA256",
    "MAX_TOKENS",
    "TEMPLATE",
    "BiEncoderScorer",
    "CorrectedHead",
    "CosineHead",
    "CrossEncoderScorer",
    "Head",
    "NetworkHead",
    "Progress",
    "Scorer",
    "SentenceEncoder",
    "best_candidates",
    "embedded_folder",
    "embedded_head",
    "embedded_scorer",
    "hypotheses_of",
    "load_head",
    "load_scorer",
    "ranker_for",
    "reload_options",
    "run_with_onnx",
    "save_head",
]
