"""Logistic regressions of all labels at once, on targets that may be soft and around a start that may be informed."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from bncl_pyg.features import AllPairs, PairBlock, Pairs

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

    def added(self, inputs: Tensor, pairs: Pairs, scores: Tensor | None = None) -> Tensor:
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
        start, rest = (base[block.labels], None) if base.dim() == 1 else (torch.zeros(len(block.counts)), base)
        parts = [None if values is None else block.take(values) for values in (rest, scores)]
        problem = _Problem(block, inputs, block.take(targets), start, *parts)
        fitted = _fit(problem, strength, intercept_spread, slope_spread, steps)
        for whole, part in zip(found, fitted, strict=True):
            whole[..., block.labels] = part
    return found


@dataclass(frozen=True)
class _Problem:
    """The labels of a block; what is given is as `regress` has it.

    Args:
        block: which pairs.
        inputs: x.
        targets: of the pairs.
        start: the part of the base that all texts share, (labels,).
        base: the rest of it, of the pairs.
        scores: s, of the pairs.
    """

    block: PairBlock
    inputs: Inputs
    targets: Tensor
    start: Tensor
    base: Tensor | None
    scores: Tensor | None

    def loss(self, found: Regression) -> tuple[Tensor, Regression]:
        """Return the cross-entropy, summed, and its gradient; some texts at a time, while they are in the cache."""
        gradient = Regression(*(torch.zeros_like(part) for part in found))
        total = torch.zeros((), dtype=torch.float64)
        for rows, values in self.block.parts(self.inputs.rotated):
            inputs, targets = self.inputs.rotated[rows], self.targets[values]
            logits = self.block.linear(inputs, found.weights).add_(self.block.spread(self.start + found.intercepts))
            if self.base is not None:
                logits += self.base[values]
            if self.scores is not None:
                logits += self.block.spread(found.slopes) * self.scores[values]
            total += (softplus(logits) - logits * targets).sum(dtype=total.dtype)
            wrong = logits.sigmoid_().sub_(targets)
            self.block.gather(inputs, wrong, gradient.weights)
            gradient.intercepts.add_(self.block.sums(wrong))
            if self.scores is not None:
                gradient.slopes.add_(self.block.sums(wrong * self.scores[values]))
        return total, gradient


def _fit(problem: _Problem, strength: float, intercept_spread: float, slope_spread: float, steps: int) -> Regression:
    """Fit the labels of a block; the arguments are those of `regress`."""
    block, inputs = problem.block, problem.inputs
    counts, texts = block.counts.clamp_min(1), len(inputs.rotated)
    share = block.sums(problem.targets) / counts
    curvature = counts * (share * (1 - share)).clamp_min(LEAST_CURVATURE)
    penalties = 1 / strength, intercept_spread**-2, slope_spread**-2
    of_slopes = torch.zeros(len(counts))
    if problem.scores is not None:
        of_slopes = (curvature * block.sums(problem.scores.square()) / counts + penalties[2]).rsqrt()
    # How far a step goes in each direction: the less, the more the loss is curved there.
    reach = Regression(
        (inputs.spread[:, None] * (curvature / texts) + penalties[0]).rsqrt(),
        (curvature + penalties[1]).rsqrt(),
        of_slopes,
    )
    moves = torch.zeros(len(reach.weights) + 2, len(counts))
    optimizer = torch.optim.LBFGS(
        [moves], max_iter=steps, tolerance_grad=1e-3, tolerance_change=1e-7, line_search_fn="strong_wolfe"
    )

    def solution() -> Regression:
        return Regression(moves[:-2] * reach.weights, moves[-2] * reach.intercepts, moves[-1] * reach.slopes)

    @torch.no_grad()
    def loss() -> Tensor:
        found = solution()
        total, gradient = problem.loss(found)
        for penalty, part, of_part in zip(penalties, found, gradient, strict=True):
            total += penalty * part.square().sum() / 2
            of_part.add_(part, alpha=penalty)
        weights, intercepts, slopes = (of_part.mul_(far) for of_part, far in zip(gradient, reach, strict=True))
        moves.grad = torch.cat([weights, intercepts[None], slopes[None]])
        return total

    optimizer.step(loss)
    found = solution()
    weights = inputs.axes @ found.weights
    return Regression(weights, found.intercepts - inputs.centre @ weights, found.slopes)
