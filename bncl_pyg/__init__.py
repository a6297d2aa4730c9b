"""Multi-label text classification from label names: BNCL as a signed graph neural network on PyTorch Geometric."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bncl_pyg.corpus import Corpus, LabelSet
    from bncl_pyg.estimator import BNCLClassifier
    from bncl_pyg.features import Features, read_features, write_features
    from bncl_pyg.graph import SignedLabelGraph, balanced_neighbourhoods, build_graph, embed_labels
    from bncl_pyg.nn import BalancedConv
    from bncl_pyg.priors import Priors

_ROOMS = {
    "BNCLClassifier": "estimator",
    "BalancedConv": "nn",
    "Corpus": "corpus",
    "Features": "features",
    "LabelSet": "corpus",
    "Priors": "priors",
    "SignedLabelGraph": "graph",
    "balanced_neighbourhoods": "graph",
    "build_graph": "graph",
    "embed_labels": "graph",
    "read_features": "features",
    "write_features": "features",
}

__all__ = [
    "BNCLClassifier",
    "BalancedConv",
    "Corpus",
    "Features",
    "LabelSet",
    "Priors",
    "SignedLabelGraph",
    "__version__",
    "balanced_neighbourhoods",
    "build_graph",
    "embed_labels",
    "read_features",
    "write_features",
]


def __getattr__(name: str) -> Any:
    # PyG takes seconds to import: a name is imported when it is first used, so that `bncl --help` answers at once.
    if name == "__version__":
        from importlib.metadata import version

        return version("bncl-pyg")
    if name in _ROOMS:
        return getattr(import_module(f"bncl_pyg.{_ROOMS[name]}"), name)
    raise AttributeError(f"module 'bncl_pyg' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
