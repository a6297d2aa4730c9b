"""Logistic regressions of all labels at once, on targets that may be soft and around a start that may be informed."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from bncl_pyg.nn.pairs import AllPairs, PairBlock, Pairs

LEAST_CURVATURE = 1e-6


@dataclass(frozen=True)
class Inputs:
    """Inputs in coordinates in which the loss is about equally curved everywhere: their principal axes.

    Args:
        rotated: centred and turned, (texts, dimensions).
        centre: of the inputs, (dimensions,).
        axes: (dimensions, dimensions), orthogonal.
        spread: Σ of squares along each axis, (dimensions,).
    """

    rotated: Tensor
    centre: Tensor
    axes: Tensor
    spread: Tensor

    @classmethod
    def of(cls, inputs: Tensor) -> "Inputs":
        """Turn inputs, (texts, dimensions)."""
        centre = inputs.mean(dim=0)
        centred = inputs - centre
        spread, axes = torch.linalg.eigh(centred.T @ centred)
        return cls(centred @ axes, centre, axes, spread.clamp_min(0))

    def rows(self, rows: Tensor) -> "Inputs":
        """Return some of the texts, in the same coordinates."""
        return Inputs(self.rotated[rows], self.centre, self.axes, self.spread * len(rows) / len(self.rotated))


class Regression(NamedTuple):
    """What was learned: logits are base + inputs @ weights + intercepts + slopes * scores."""

    weights: Tensor
    intercepts: Tensor
    slopes: Tensor

    def added(self, inputs: Tensor, pairs: Pairs | PairBlock, scores: Tensor | None = None) -> Tensor:
        """Return what is added to the base, of the pairs."""
        found = pairs.linear(inputs, self.weights) + pairs.spread(self.intercepts)
        return found if scores is None else found + pairs.spread(self.slopes) * scores


def regress(
    inputs: Inputs,
    targets: Tensor,
    base: Tensor,
    strength: float,
    *,
    steps: int,
    intercept_spread: float = math.inf,
    scores: Tensor | None = None,
    slope_spread: float = 1.0,
    pairs: Pairs | None = None,
) -> Regression:
    r"""Fit :math:`σ(base + x w_l + b_l + g_l s_l)` to targets by L-BFGS, for all labels together.

    Where texts have candidates, labels are fitted some at a time, which bounds the memory.

    Args:
        inputs: x.
        targets: in [0, 1], (texts, labels), or of the pairs.
        base: logits to start from, of the same shape or (labels,).
        strength: C; the penalty on weights is ‖w‖² / 2C.
        steps: of L-BFGS, at most.
        intercept_spread: how far intercepts are expected to be from 0; infinite for no penalty.
        scores: s, of the same shape as the targets; none, if not given.
        slope_spread: how far slopes are expected to be from 0.
        pairs: which pairs the targets are of; all, if not given.
    """
    pairs = AllPairs(*targets.shape) if pairs is None else pairs
    dimensions = inputs.rotated.shape[1]
    found = Regression(torch.zeros(dimensions, pairs.labels), torch.zeros(pairs.labels), torch.zeros(pairs.labels))
    for block in pairs.blocks() if pairs.labels else ():
        mine = block.spread(base[block.labels]) if base.dim() == 1 else block.take(base)
        values = None if scores is None else block.take(scores)
        penalties = strength, intercept_spread, slope_spread
        fitted = _fit(block, inputs, block.take(targets), mine, values, penalties, steps)
        for whole, part in zip(found, fitted, strict=True):
            whole[..., block.labels] = part
    return found


def _fit(
    block: PairBlock,
    inputs: Inputs,
    targets: Tensor,
    base: Tensor,
    scores: Tensor | None,
    penalties: tuple[float, float, float],
    steps: int,
) -> Regression:
    """Fit the labels of a block; its arguments are those of `regress`."""
    strength, intercept_spread, slope_spread = penalties
    counts, texts = block.counts.clamp_min(1), len(inputs.rotated)
    share = block.sums(targets) / counts
    curvature = counts * (share * (1 - share)).clamp_min(LEAST_CURVATURE)
    step = (inputs.spread[:, None] * (curvature / texts) + 1 / strength).rsqrt()
    intercept_penalty, slope_penalty = intercept_spread**-2, slope_spread**-2
    intercept_step = (curvature + intercept_penalty).rsqrt()
    slope_step = torch.zeros(len(counts))
    if scores is not None:
        slope_step = (curvature * block.sums(scores.square()) / counts + slope_penalty).rsqrt()
    moves = torch.zeros(len(step) + 2, len(counts), requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [moves], max_iter=steps, tolerance_grad=1e-3, tolerance_change=1e-7, line_search_fn="strong_wolfe"
    )

    def solution() -> Regression:
        return Regression(moves[:-2] * step, moves[-2] * intercept_step, moves[-1] * slope_step)

    def loss() -> Tensor:
        optimizer.zero_grad()
        found = solution()
        logits = base + found.added(inputs.rotated, block, scores)
        penalty = found.weights.square().sum() / strength
        penalty = penalty + intercept_penalty * found.intercepts.square().sum()
        penalty = penalty + slope_penalty * found.slopes.square().sum()
        total = binary_cross_entropy_with_logits(logits, targets, reduction="sum") + penalty / 2
        total.backward()
        return total

    optimizer.step(loss)
    with torch.no_grad():
        found = solution()
        weights = inputs.axes @ found.weights
        return Regression(weights, found.intercepts - inputs.centre @ weights, found.slopes)
