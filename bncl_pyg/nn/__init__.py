"""The models: balanced message passing over two channels with the collective loss, and the collective projection."""

from bncl_pyg.nn.balanced_conv import Backend, BalancedConv
from bncl_pyg.nn.bncl import BNCL
from bncl_pyg.nn.collective import (
    FARTHEST,
    CollectiveModel,
    ScoreScale,
    as_state,
    decided,
    free_logits,
    from_state,
    log_odds,
)
from bncl_pyg.nn.collective_loss import CollectiveLoss, choose_sharpness
from bncl_pyg.nn.projection import CollectiveProjection, solve_text_offsets
from bncl_pyg.nn.signed_messages import SignedMessages

__all__ = [
    "BNCL",
    "FARTHEST",
    "Backend",
    "BalancedConv",
    "CollectiveLoss",
    "CollectiveModel",
    "CollectiveProjection",
    "ScoreScale",
    "SignedMessages",
    "as_state",
    "choose_sharpness",
    "decided",
    "free_logits",
    "from_state",
    "log_odds",
    "solve_text_offsets",
]
