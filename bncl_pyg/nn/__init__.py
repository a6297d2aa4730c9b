"""The model: balanced message passing over two channels, and the collective loss."""

from bncl_pyg.nn.balanced_conv import BalancedConv
from bncl_pyg.nn.bncl import BNCL
from bncl_pyg.nn.collective_loss import CollectiveLoss, LossParts, choose_sharpness

__all__ = ["BNCL", "BalancedConv", "CollectiveLoss", "LossParts", "choose_sharpness"]
