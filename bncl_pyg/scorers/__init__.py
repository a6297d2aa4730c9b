"""From texts and labels to entailment and contradiction: encoders, classifiers, ensembles and their backends."""

from bncl_pyg.scorers.bi_encoder import BiEncoderScorer
from bncl_pyg.scorers.cross_encoder import CrossEncoderScorer
from bncl_pyg.scorers.encoder import SentenceEncoder, TokenEncoder
from bncl_pyg.scorers.ensemble import EnsembleScorer, join_scores, join_vectors, vector_rankers
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
from bncl_pyg.scorers.kept_graphs import cache_folder
from bncl_pyg.scorers.label_search import NearestLabels
from bncl_pyg.scorers.late_interaction import LateInteractionScorer
from bncl_pyg.scorers.load import (
    FAST,
    HEADS,
    LIGHT,
    MULTILINGUAL,
    RERANKER,
    STRONG,
    STRONG_PARTS,
    WEIGHTS,
    embedded_scorer,
    is_here,
    load_scorer,
    ranker_for,
    reads_english_only,
    reload_options,
    scorer_is_quick,
    with_reranker,
)
from bncl_pyg.scorers.onnx import run_with_onnx
from bncl_pyg.scorers.pretrained import BGE, COLBERT, EMBEDDED_SHA256, MARCO, MINILM, POTION, Pretrained
from bncl_pyg.scorers.rerank import RelevanceScorer
from bncl_pyg.scorers.scorer import (
    MAX_TOKENS,
    TEMPLATE,
    WINDOWS,
    Hypothesis,
    LabelTensors,
    Progress,
    Scorer,
    best_candidates,
    hypotheses_of,
    scorer_parts,
    wordings_of,
)
from bncl_pyg.scorers.static import StaticEncoder
from bncl_pyg.scorers.tokens import Reading

__all__ = [
    "BGE",
    "COLBERT",
    "COSINE_MIDDLE",
    "COSINE_SCALE",
    "EMBEDDED_FILE",
    "EMBEDDED_SHA256",
    "FAST",
    "HEADS",
    "LIGHT",
    "MARCO",
    "MAX_TOKENS",
    "MINILM",
    "MULTILINGUAL",
    "POTION",
    "RERANKER",
    "STRONG",
    "STRONG_PARTS",
    "TEMPLATE",
    "WEIGHTS",
    "WINDOWS",
    "BiEncoderScorer",
    "CorrectedHead",
    "CosineHead",
    "CrossEncoderScorer",
    "EnsembleScorer",
    "Head",
    "Hypothesis",
    "LabelTensors",
    "LateInteractionScorer",
    "NearestLabels",
    "NetworkHead",
    "Pretrained",
    "Progress",
    "Reading",
    "RelevanceScorer",
    "Scorer",
    "SentenceEncoder",
    "StaticEncoder",
    "TokenEncoder",
    "best_candidates",
    "cache_folder",
    "embedded_head",
    "embedded_scorer",
    "hypotheses_of",
    "is_here",
    "join_scores",
    "join_vectors",
    "load_head",
    "load_scorer",
    "ranker_for",
    "reads_english_only",
    "reload_options",
    "run_with_onnx",
    "save_head",
    "scorer_is_quick",
    "scorer_parts",
    "vector_rankers",
    "with_reranker",
    "wordings_of",
]
