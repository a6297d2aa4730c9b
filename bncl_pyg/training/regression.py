"""Logistic regressions of all labels at once, on targets that may be soft and around a start that may be informed."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

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

    def added(self, inputs: Tensor, scores: Tensor | None = None) -> Tensor:
        """Return what is added to the base; (texts, labels)."""
        found = inputs @ self.weights + self.intercepts
        return found if scores is None else found + self.slopes * scores


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
) -> Regression:
    r"""Fit :math:`σ(base + x w_l + b_l + g_l s_l)` to targets by L-BFGS, for all labels together.

    Args:
        inputs: x.
        targets: in [0, 1], (texts, labels).
        base: logits to start from, (texts, labels) or (labels,).
        strength: C; the penalty on weights is ‖w‖² / 2C.
        steps: of L-BFGS, at most.
        intercept_spread: how far intercepts are expected to be from 0; infinite for no penalty.
        scores: s, (texts, labels); none, if not given.
        slope_spread: how far slopes are expected to be from 0.
    """
    texts, labels = targets.shape
    dimensions = inputs.rotated.shape[1]
    if not labels:
        return Regression(torch.zeros(dimensions, 0), torch.zeros(0), torch.zeros(0))
    share = targets.mean(dim=0)
    curvature = (share * (1 - share)).clamp_min(LEAST_CURVATURE)
    step = (inputs.spread[:, None] * curvature + 1 / strength).rsqrt()
    intercept_penalty, slope_penalty = intercept_spread**-2, slope_spread**-2
    intercept_step = (texts * curvature + intercept_penalty).rsqrt()
    slope_step = torch.zeros(labels)
    if scores is not None:
        slope_step = (texts * curvature * scores.square().mean(dim=0) + slope_penalty).rsqrt()
    moves = torch.zeros(dimensions + 2, labels, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [moves], max_iter=steps, tolerance_grad=1e-3, tolerance_change=1e-7, line_search_fn="strong_wolfe"
    )

    def solution() -> Regression:
        return Regression(moves[:-2] * step, moves[-2] * intercept_step, moves[-1] * slope_step)

    def loss() -> Tensor:
        optimizer.zero_grad()
        found = solution()
        logits = base + found.added(inputs.rotated, scores)
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
