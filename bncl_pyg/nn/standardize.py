"""From entailment and contradiction to one standardised score z a (text, label)."""

import torch
from torch import Tensor

from bncl_pyg.features import Pairs, all_pairs

TINY = 1e-6
"""A tolerance: what keeps the logarithm of a score finite."""
LEAST_STD = 1e-3
"""A tolerance: beside the usual standard deviation, less is rounding."""


def log_odds(entailment: Tensor, contradiction: Tensor) -> Tensor:
    """Return log(q / q̄)."""
    return ((entailment + TINY) / (contradiction + TINY)).log()


class ScoreStandardizer(torch.nn.Module):
    """Standardises scores label by label over the training texts.

    z is the mean of the entailment and of log(entailment / contradiction), each with mean 0 and standard deviation 1:
    the first tells the very best texts apart, the second all the others. A pair without any score (neither entailed nor
    contradicted) gets the label's lowest z.

    Args:
        means: of the entailment, of the log-odds, and of their sum; (3, labels).
        stds: the standard deviations of the same; (3, labels).
        lowest: the lowest z of each label, (labels,).

    Shapes:
        - **input:** entailment q (texts, labels), contradiction q̄ (texts, labels), or of some pairs
        - **output:** z of the same shape
    """

    def __init__(self, means: Tensor, stds: Tensor, lowest: Tensor) -> None:
        super().__init__()
        self.register_buffer("means", means)
        self.register_buffer("stds", stds)
        self.register_buffer("lowest", lowest)
        self.means: Tensor
        self.stds: Tensor
        self.lowest: Tensor

    @classmethod
    def fit(cls, entailment: Tensor, contradiction: Tensor, pairs: Pairs | None = None) -> "ScoreStandardizer":
        """Find means and standard deviations on the training texts."""
        pairs = all_pairs(entailment) if pairs is None else pairs
        scored = entailment + contradiction > 0
        moments = [_moments(values, scored, pairs) for values in (entailment, log_odds(entailment, contradiction))]
        means, stds = (torch.stack(parts) for parts in zip(*moments, strict=True))
        first = cls(means, stds, torch.zeros(0))
        summed = first._sum(entailment, contradiction, pairs)
        moments.append(_moments(summed, scored, pairs))
        means, stds = (torch.stack(parts) for parts in zip(*moments, strict=True))
        z = (summed - pairs.broadcast_to_pairs(means[2])) / pairs.broadcast_to_pairs(stds[2])
        return cls(means, stds, pairs.lowest(z.masked_fill(~scored, torch.inf)).clamp(max=0))

    def forward(self, entailment: Tensor, contradiction: Tensor, pairs: Pairs | None = None) -> Tensor:
        """Return z."""
        pairs = all_pairs(entailment) if pairs is None else pairs
        z = self._standard(self._sum(entailment, contradiction, pairs), 2, pairs)
        return torch.where(entailment + contradiction > 0, z, pairs.broadcast_to_pairs(self.lowest))

    def _sum(self, entailment: Tensor, contradiction: Tensor, pairs: Pairs) -> Tensor:
        first = self._standard(entailment, 0, pairs)
        return first + self._standard(log_odds(entailment, contradiction), 1, pairs)

    def _standard(self, values: Tensor, row: int, pairs: Pairs) -> Tensor:
        return (values - pairs.broadcast_to_pairs(self.means[row])) / pairs.broadcast_to_pairs(self.stds[row])


def _moments(values: Tensor, scored: Tensor, pairs: Pairs) -> tuple[Tensor, Tensor]:
    """Return each label's mean and standard deviation over the pairs that were scored; (labels,) each."""
    count = pairs.sums(scored.to(values)).clamp_min(1)
    mean = pairs.sums(torch.where(scored, values, 0)) / count
    squares = torch.where(scored, values - pairs.broadcast_to_pairs(mean), 0).square()
    std = (pairs.sums(squares) / count).sqrt()
    # A label that was never scored, or always the same, has no deviation of its own: it takes the usual one.
    usual = std[std > 0].median() if bool((std > 0).any()) else std.new_tensor(1.0)
    return mean, torch.where(std > LEAST_STD * usual, std, usual)
