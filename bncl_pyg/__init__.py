"""Multi-label text classification from label names: BNCL as a signed graph neural network on PyTorch Geometric."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bncl_pyg.corpus import Corpus, LabelSet, Supervision
    from bncl_pyg.estimator import BNCLClassifier
    from bncl_pyg.features import Features, read_features, write_features
    from bncl_pyg.graph import SignedLabelGraph, balanced_neighbourhoods, build_graph, embed_labels

_HOMES = {
    "BNCLClassifier": "estimator",
    "Corpus": "corpus",
    "Features": "features",
    "LabelSet": "corpus",
    "SignedLabelGraph": "graph",
    "Supervision": "corpus",
    "balanced_neighbourhoods": "graph",
    "build_graph": "graph",
    "embed_labels": "graph",
    "read_features": "features",
    "write_features": "features",
}

__all__ = [
    "BNCLClassifier",
    "Corpus",
    "Features",
    "LabelSet",
    "SignedLabelGraph",
    "Supervision",
    "balanced_neighbourhoods",
    "build_graph",
    "embed_labels",
    "read_features",
    "write_features",
]


def __getattr__(name: str) -> Any:
    # PyG takes seconds to import: a name is imported when it is first used, so that `bncl --help` answers at once.
    if name in _HOMES:
        return getattr(import_module(f"bncl_pyg.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'bncl_pyg' has no attribute '{name}'")
