"""The scored texts: scores, vectors and words, the pairs that they are of, and their store on disk."""

from bncl_pyg.features.choice import Choice, ExpectedPrecision
from bncl_pyg.features.columns import add_columns, add_stored_columns, missing_labels, select_labels, stored_labels
from bncl_pyg.features.features import Features
from bncl_pyg.features.featurize import Featurized, featurize, store_config
from bncl_pyg.features.index import RepeatedIdError, Span, text_hash
from bncl_pyg.features.lsa import LSA, TextInputs
from bncl_pyg.features.pairs import AllPairs, Candidates, PairBlock, Pairs, all_pairs, pairs_of, reachable, row_blocks
from bncl_pyg.features.predictions import Predictions, sparse_matrix
from bncl_pyg.features.reading import StoredFeatures, StoredIds, read_features
from bncl_pyg.features.score import score_texts
from bncl_pyg.features.shard_work import ShardWork, finish_shard
from bncl_pyg.features.store import (
    Dtype,
    FeatureStore,
    StaleFeaturesError,
    open_store,
    shard_key,
    write_features,
    writing,
)
from bncl_pyg.features.words import word_counts, word_spans

__all__ = [
    "LSA",
    "AllPairs",
    "Candidates",
    "Choice",
    "Dtype",
    "ExpectedPrecision",
    "FeatureStore",
    "Features",
    "Featurized",
    "PairBlock",
    "Pairs",
    "Predictions",
    "RepeatedIdError",
    "ShardWork",
    "Span",
    "StaleFeaturesError",
    "StoredFeatures",
    "StoredIds",
    "TextInputs",
    "add_columns",
    "add_stored_columns",
    "all_pairs",
    "featurize",
    "finish_shard",
    "missing_labels",
    "open_store",
    "pairs_of",
    "reachable",
    "read_features",
    "row_blocks",
    "score_texts",
    "select_labels",
    "shard_key",
    "sparse_matrix",
    "store_config",
    "stored_labels",
    "text_hash",
    "word_counts",
    "word_spans",
    "write_features",
    "writing",
]
