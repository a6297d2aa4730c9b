"""The operators: balanced message passing over two channels, the collective loss, the collective projection."""

from bncl_pyg.nn.balanced_conv import Backend, BalancedConv
from bncl_pyg.nn.bncl import BNCL
from bncl_pyg.nn.collective import CollectiveModel, decide, unsupervised_logits
from bncl_pyg.nn.collective_loss import CollectiveLoss, choose_sharpness
from bncl_pyg.nn.projection import CollectiveProjection, ProjectionSteps, solve_text_offsets
from bncl_pyg.nn.signed_messages import SignedMessages
from bncl_pyg.nn.standardize import ScoreStandardizer, log_odds

__all__ = [
    "BNCL",
    "Backend",
    "BalancedConv",
    "CollectiveLoss",
    "CollectiveModel",
    "CollectiveProjection",
    "ProjectionSteps",
    "ScoreStandardizer",
    "SignedMessages",
    "choose_sharpness",
    "decide",
    "log_odds",
    "solve_text_offsets",
    "unsupervised_logits",
]
