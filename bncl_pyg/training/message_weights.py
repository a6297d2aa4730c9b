"""The edge weights of `SignedMessages`: a logistic regression on the neighbours' scores beside a label's own."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from bncl_pyg.features import Pairs
from bncl_pyg.training.regression import mean_by_label

if TYPE_CHECKING:
    from bncl_pyg.nn import SignedMessages

LEAST_CURVATURE, CHANGE_TOLERANCE = 1e-6, 1e-7
"""Tolerances of L-BFGS."""


def fit_messages(
    edges: Tensor, scores: Tensor, targets: Tensor, pairs: Pairs, C: float, weight: float, steps: int
) -> "SignedMessages":
    """Learn a weight an edge: who helps and who rivals whom; friends may turn out to be rivals.

    Args:
        edges: of the label graph, from u to v, (2, edges).
        scores: z, of the pairs.
        targets: in [0, 1], of the pairs.
        pairs: which pairs there are.
        C: the penalty on weights is ‖w‖² N / 2C, with N texts.
        weight: what the learned weights are multiplied with.
        steps: of L-BFGS, at most.
    """
    # PyG takes seconds to import.
    from bncl_pyg.nn import SignedMessages

    messages = SignedMessages(edges, pairs.labels)
    share = mean_by_label(targets, pairs)
    curvature = pairs.counts.clamp_min(1) * (share * (1 - share)).clamp_min(LEAST_CURVATURE)
    penalty = len(targets) / C
    reach = (curvature[edges[1]] + penalty).rsqrt()
    own = torch.zeros(2, len(share), requires_grad=True)
    moves = torch.zeros(len(reach), requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [moves, own], max_iter=steps, tolerance_change=CHANGE_TOLERANCE, line_search_fn="strong_wolfe"
    )
    base = torch.logit(share)

    def loss() -> Tensor:
        optimizer.zero_grad()
        weights = moves * reach
        intercepts, slopes = base + own[0] * curvature.rsqrt(), 1 + own[1] * curvature.rsqrt()
        logits = pairs.broadcast_to_pairs(intercepts) + pairs.broadcast_to_pairs(slopes) * scores
        logits = logits + messages(scores, weights, pairs)
        cross_entropy = binary_cross_entropy_with_logits(logits, targets, reduction="sum")
        total = cross_entropy + penalty * weights.square().sum() / 2
        total.backward()
        return total

    optimizer.step(loss)
    messages.weight.data = weight * moves.detach() * reach
    messages.requires_grad_(False)
    return messages
