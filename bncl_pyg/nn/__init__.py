"""The operators: balanced message passing over two channels, the collective loss, the collective projection."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bncl_pyg.nn.collective import CollectiveModel, decide, unsupervised_logits
from bncl_pyg.nn.collective_loss import CollectiveLoss, choose_sharpness
from bncl_pyg.nn.label_smoothing import LabelSmoothing
from bncl_pyg.nn.projection import CollectiveProjection, ProjectionSteps, solve_text_offsets
from bncl_pyg.nn.standardize import ScoreStandardizer, log_odds

if TYPE_CHECKING:
    from bncl_pyg.nn.balanced_conv import Backend, BalancedConv
    from bncl_pyg.nn.bncl import BNCL

_NEED_PYG = {
    "BNCL": "bncl",
    "Backend": "balanced_conv",
    "BalancedConv": "balanced_conv",
}
"""The module of each name that needs PyG."""

__all__ = [
    "BNCL",
    "Backend",
    "BalancedConv",
    "CollectiveLoss",
    "CollectiveModel",
    "CollectiveProjection",
    "LabelSmoothing",
    "ProjectionSteps",
    "ScoreStandardizer",
    "choose_sharpness",
    "decide",
    "log_odds",
    "solve_text_offsets",
    "unsupervised_logits",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # PyG takes seconds to import: who only predicts never waits for it.
        if name in _NEED_PYG:
            return getattr(import_module(f"bncl_pyg.nn.{_NEED_PYG[name]}"), name)
        raise AttributeError(f"module 'bncl_pyg.nn' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
