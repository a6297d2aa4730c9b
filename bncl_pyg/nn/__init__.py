"""The models: balanced message passing over two channels with the collective loss, and the collective projection."""

from bncl_pyg.nn.balanced_conv import BalancedConv
from bncl_pyg.nn.bncl import BNCL
from bncl_pyg.nn.collective import CollectiveModel, ScoreScale
from bncl_pyg.nn.collective_loss import CollectiveLoss, choose_sharpness
from bncl_pyg.nn.projection import CollectiveProjection
from bncl_pyg.nn.signed_messages import SignedMessages

__all__ = [
    "BNCL",
    "BalancedConv",
    "CollectiveLoss",
    "CollectiveModel",
    "CollectiveProjection",
    "ScoreScale",
    "SignedMessages",
    "choose_sharpness",
]
