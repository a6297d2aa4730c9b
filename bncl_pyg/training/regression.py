"""Penalised logistic regression of all labels at once, on targets that may be soft and around an informed start.

C is given: correction.py chooses it by annotated texts held out, self_training.py by the number of texts.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from bncl_pyg.features import PairBlock, Pairs, all_pairs, row_blocks
from bncl_pyg.ranks import ALONE, GRADIENTS, LABEL_SUMS, Ranks

LEAST_CURVATURE, GRADIENT_TOLERANCE, CHANGE_TOLERANCE = 1e-6, 3e-4, 1e-7
"""Tolerances of L-BFGS."""
MAX_NEWTON_STEPS, LEAST_NEWTON_STEP = 30, 1e-6
"""Tolerances of `platt_scaling`."""
LEAST_SHARE = 1e-6
"""A tolerance: what keeps the log-odds of a share finite."""
FEW_PRODUCTS = 2**27
"""A problem with fewer products (texts, inputs and labels multiplied) is solved in double precision, where it takes no
time to speak of: near the optimum, a line search in single precision follows its rounding errors."""
SUM_BITS = 36
"""A tolerance: to how many binary digits a loss is known, whatever the order in which texts are summed."""
AXES, TEXTS_AT_ONCE = "principal axes", 4096


@dataclass(frozen=True)
class PCAInputs:
    """Inputs along their principal axes, where the loss is about equally curved everywhere.

    Args:
        rotated: centred and rotated, (texts, dimensions).
        centre: of the inputs, (dimensions,).
        axes: (dimensions, dimensions), orthogonal.
        squares: Σ of squares along each axis, (dimensions,).
        texts: how many there are, also those that other processes hold.
        ranks: who holds these.
    """

    rotated: Tensor
    centre: Tensor
    axes: Tensor
    squares: Tensor
    texts: int
    ranks: Ranks = ALONE

    @classmethod
    def fit(cls, inputs: Tensor, ranks: Ranks = ALONE) -> "PCAInputs":
        """Rotate inputs, (texts, dimensions)."""
        dimensions = inputs.shape[1]
        # In double precision: axes of little variance would else depend on the order in which texts are summed.
        own = torch.zeros(dimensions + 1, dimensions, dtype=torch.float64, device=inputs.device)
        for part in inputs.split(TEXTS_AT_ONCE):
            wide = part.double()
            own[:-1].addmm_(wide.T, wide)
            own[-1] += wide.sum(dim=0)
        sums, (texts,) = ranks.sum(own, AXES), ranks.total(len(inputs))
        centre = sums[-1] / max(texts, 1)
        squares, axes = torch.linalg.eigh((sums[:-1] - texts * torch.outer(centre, centre)).to(inputs.dtype))
        axes, centre = ranks.of_first(axes, AXES), centre.to(inputs.dtype)
        return cls((inputs - centre) @ axes, centre, axes, squares.clamp_min(0), int(texts), ranks)

    def to(self, kind: torch.dtype) -> "PCAInputs":
        """Return the same in another precision."""
        rotated, centre, axes, squares = (
            part.to(kind) for part in (self.rotated, self.centre, self.axes, self.squares)
        )
        return PCAInputs(rotated, centre, axes, squares, self.texts, self.ranks)

    def rows(self, rows: Tensor) -> "PCAInputs":
        """Return some of the texts, in the same coordinates."""
        texts = int(self.ranks.total(len(rows))[0])
        squares = self.squares * texts / max(self.texts, 1)
        return PCAInputs(self.rotated[rows], self.centre, self.axes, squares, texts, self.ranks)


class Regression(NamedTuple):
    """What was learned: logits are base + inputs @ weights + intercepts + slopes * scores."""

    weights: Tensor
    intercepts: Tensor
    slopes: Tensor

    def added_logits(self, inputs: Tensor, pairs: Pairs, scores: Tensor | None = None) -> Tensor:
        """Return what is added to the base, of the pairs."""
        logits = pairs.linear(inputs, self.weights) + pairs.broadcast_to_pairs(self.intercepts)
        return logits if scores is None else logits + pairs.broadcast_to_pairs(self.slopes) * scores


def fit_logistic(
    inputs: PCAInputs,
    targets: Tensor,
    base: Tensor,
    C: float,
    *,
    steps: int,
    intercept_std: float = math.inf,
    scores: Tensor | None = None,
    slope_std: float = 1.0,
    pairs: Pairs | None = None,
    known: Tensor | None = None,
) -> Regression:
    r"""Fit :math:`σ(base + x w_l + b_l + g_l s_l)` to targets by L-BFGS, for all labels together.

    Where texts have candidates, labels are fitted some at a time, which bounds the memory.

    Args:
        inputs: x.
        targets: in [0, 1], (texts, labels), or of the pairs.
        base: logits to start from, of the same shape or (labels,).
        C: the inverse of the regularization, as in scikit-learn: the penalty on weights is ‖w‖² / 2C.
        steps: of L-BFGS, at most.
        intercept_std: the standard deviation of intercepts around 0 that is expected; infinite for no penalty.
        scores: s, of the same shape as the targets; none, if not given.
        slope_std: the same of slopes.
        pairs: which pairs the targets are of; all, if not given.
        known: 1 where a target counts and 0 where nothing is known of it, of the same shape; all count, if not given.
    """
    pairs = all_pairs(targets) if pairs is None else pairs
    dimensions = inputs.rotated.shape[1]
    whole = Regression(torch.zeros(dimensions, pairs.labels), torch.zeros(pairs.labels), torch.zeros(pairs.labels))
    for block in pairs.blocks() if pairs.labels else ():
        size = inputs.texts * max(dimensions, 1) * len(block.counts)
        kind = torch.float64 if size <= FEW_PRODUCTS else torch.float32
        start, rest = (base[block.labels], None) if base.dim() == 1 else (torch.zeros(len(block.counts)), base)
        parts = [None if values is None else block.take(values).to(kind) for values in (rest, scores, known)]
        problem = _Problem(block, inputs.to(kind), block.take(targets).to(kind), start.to(kind), *parts)
        fitted = _minimise(problem, (1 / C, intercept_std**-2, slope_std**-2), steps)
        for target, part in zip(whole, fitted, strict=True):
            target[..., block.labels] = part.to(target)
    return whole


@dataclass(frozen=True)
class _Problem:
    """The labels of a block; what is given is as `fit_logistic` has it.

    Args:
        block: which pairs.
        inputs: x.
        targets: of the pairs.
        start: the part of the base that all texts share, (labels,).
        base: the rest of it, of the pairs.
        scores: s, of the pairs.
        known: whether a target counts, of the pairs.
    """

    block: PairBlock
    inputs: PCAInputs
    targets: Tensor
    start: Tensor
    base: Tensor | None
    scores: Tensor | None
    known: Tensor | None

    def loss(self, at: Regression) -> tuple[Tensor, Regression]:
        """Return the cross-entropy, summed, and its gradient; some texts at a time, while they are in the cache."""
        both = torch.zeros(len(at.weights) + 2, len(at.intercepts), dtype=torch.float64)
        gradient = Regression(both[:-2], both[-2], both[-1])
        total = torch.zeros((), dtype=torch.float64)
        for rows, values in self.block.parts(self.inputs.rotated):
            inputs, targets = self.inputs.rotated[rows], self.targets[values]
            logits = self.block.linear(inputs, at.weights)
            logits.add_(self.block.broadcast_to_pairs(self.start + at.intercepts))
            if self.base is not None:
                logits += self.base[values]
            if self.scores is not None:
                logits += self.block.broadcast_to_pairs(at.slopes) * self.scores[values]
            losses = softplus(logits) - logits * targets
            errors = logits.sigmoid_().sub_(targets)
            if self.known is not None:
                losses, errors = losses * self.known[values], errors * self.known[values]
            total += losses.sum(dtype=total.dtype)
            self.block.add_products(inputs, errors, gradient.weights)
            gradient.intercepts.add_(self.block.own_sums(errors))
            if self.scores is not None:
                gradient.slopes.add_(self.block.own_sums(errors * self.scores[values]))
        both = self.block.ranks.sum(both, GRADIENTS).to(at.weights)
        return _rounded(self.block.ranks.sum(total)), Regression(both[:-2], both[-2], both[-1])


def _minimise(problem: _Problem, penalties: tuple[float, float, float], steps: int) -> Regression:
    """Fit the labels of a block; the penalties are on weights, intercepts and slopes."""
    block, inputs = problem.block, problem.inputs
    kind, texts = problem.targets.dtype, inputs.texts
    counts = block.counts.clamp_min(1).to(kind)
    share = block.ranks.sum(block.own_sums(problem.targets), LABEL_SUMS).to(kind) / counts
    curvature = counts * (share * (1 - share)).clamp_min(LEAST_CURVATURE)
    of_slopes = torch.zeros(len(counts), dtype=kind)
    if problem.scores is not None:
        squares = block.ranks.sum(block.own_sums(problem.scores.square()), LABEL_SUMS).to(kind)
        of_slopes = (curvature * squares / counts + penalties[2]).rsqrt()
    # How far a step goes in each direction: the less, the more the loss is curved there.
    reach = Regression(
        (inputs.squares[:, None] * (curvature / texts) + penalties[0]).rsqrt(),
        (curvature + penalties[1]).rsqrt(),
        of_slopes,
    )
    moves = torch.zeros(len(reach.weights) + 2, len(counts), dtype=kind)
    optimizer = torch.optim.LBFGS(
        [moves],
        max_iter=steps,
        tolerance_grad=GRADIENT_TOLERANCE,
        tolerance_change=CHANGE_TOLERANCE,
        line_search_fn="strong_wolfe",
    )

    def current() -> Regression:
        return Regression(moves[:-2] * reach.weights, moves[-2] * reach.intercepts, moves[-1] * reach.slopes)

    @torch.no_grad()
    def loss() -> Tensor:
        at = current()
        total, gradient = problem.loss(at)
        for penalty, part, of_part in zip(penalties, at, gradient, strict=True):
            total += penalty * part.square().sum() / 2
            of_part.add_(part, alpha=penalty)
        weights, intercepts, slopes = (of_part.mul_(far) for of_part, far in zip(gradient, reach, strict=True))
        moves.grad = torch.cat([weights, intercepts[None], slopes[None]])
        return total

    optimizer.step(loss)
    fitted = current()
    weights = inputs.axes @ fitted.weights
    return Regression(weights, fitted.intercepts - inputs.centre @ weights, fitted.slopes)


def _rounded(total: Tensor) -> Tensor:
    """Return a sum in double precision without its last digits, which depend on the order in which it was taken.

    A line search compares sums that hardly differ, and goes other ways where their last digits do.
    """
    mantissa, exponent = torch.frexp(total)
    return torch.ldexp((mantissa * 2**SUM_BITS).round() / 2**SUM_BITS, exponent)


def fit_ridge(inputs: PCAInputs, targets: Tensor, C: float, pairs: Pairs) -> Tensor:
    r"""Return weights of a linear function of the text that explains targets; (dimensions, labels).

    One step of Newton's method for the penalised logistic regression, from where each label is as likely for every
    text as its mean :math:`\bar t_l`. Along the principal axes the curvature is diagonal, so that it is one product:

    .. math:: w_{dl} = \frac{\sum_i x_{id} (t_{il} - \bar t_l)}{\bar t_l (1 - \bar t_l) \sum_i x_{id}^2 + 1/C}

    Args:
        inputs: x.
        targets: in [0, 1], of the pairs.
        C: the inverse of the regularization, as in `fit_logistic`.
        pairs: which pairs the targets are of.
    """
    share = mean_by_label(targets, pairs)
    residuals = targets - pairs.broadcast_to_pairs(share)
    gradient = torch.zeros(inputs.rotated.shape[1], pairs.labels, dtype=torch.float64)
    for block in pairs.blocks() if pairs.labels else ():
        values = block.take(residuals)
        for rows, places in block.parts(inputs.rotated):
            # A block of all labels is a view; one of candidates is added to as a whole.
            block.add_products(inputs.rotated[rows], values[places], gradient[:, block.labels], exact=True)
    gradient = pairs.ranks.sum(gradient, GRADIENTS).float()
    curvature = share * (1 - share) * pairs.counts / max(pairs.texts, 1)
    return inputs.axes @ (gradient / (inputs.squares[:, None] * curvature + 1 / C))


def mean_by_label(probabilities: Tensor, pairs: Pairs) -> Tensor:
    """Return how likely each label is among the texts whose candidate it is, kept from 0 and 1; (labels,)."""
    return (pairs.sums(probabilities) / pairs.counts.clamp_min(1)).clamp(LEAST_SHARE, 1 - LEAST_SHARE)


def platt_scaling(logits: Tensor, truth: Tensor, slope_prior: float, ranks: Ranks = ALONE) -> tuple[Tensor, Tensor]:
    """Return the slope and the intercept that all labels share, fitted to all (text, label) pairs together.

    Newton's method, with steps that are halved until the loss falls. A standard normal prior around where both are
    usually found counts where there is next to nothing to learn from.

    Args:
        logits: (texts, labels), or of some pairs.
        truth: 0 or 1, of the same shape.
        slope_prior: where the slope is pulled to; the intercept is pulled to 0.
        ranks: who holds the other texts.
    """
    start = torch.tensor([slope_prior, 0.0], dtype=torch.float64)

    def objective(line: Tensor) -> tuple[float, Tensor, Tensor]:
        """Return the loss, its gradient and its curvature."""
        # The loss, the gradient in slope and intercept, and the curvature in both, across and in the intercept.
        own = torch.zeros(6, dtype=torch.float64)
        for rows in row_blocks(logits):
            block, true = logits[rows].double(), truth[rows].double()
            scaled = (line[0] * block).add_(line[1])
            own[0] += (softplus(scaled) - scaled * true).sum()
            probabilities = scaled.sigmoid_()
            errors, weight = probabilities - true, probabilities * (1 - probabilities)
            weighed = weight * block
            terms = errors * block, errors, weighed * block, weighed, weight
            own[1:] += torch.stack([term.sum() for term in terms])
        loss, of_slope, of_intercept, slope, across, intercept = ranks.sum(own)
        away = line - start
        curvature = torch.stack([slope, across, across, intercept]).view(2, 2)
        return (
            float(_rounded(loss) + away.square().sum() / 2),
            torch.stack([of_slope, of_intercept]) + away,
            curvature + torch.eye(2, dtype=torch.float64),
        )

    line = start.clone()
    loss, gradient, curvature = objective(line)
    for _ in range(MAX_NEWTON_STEPS):
        step = torch.linalg.solve(curvature, gradient)
        while float(step.abs().max()) > LEAST_NEWTON_STEP:
            looked = objective(line - step)
            if looked[0] <= loss:
                break
            step /= 2
        else:
            break
        line, (loss, gradient, curvature) = line - step, looked
    return line[0].float().clamp_min(0), line[1].float()
