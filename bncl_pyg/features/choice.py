"""Which labels to give, by a rule of one's own on calibrated probabilities instead of the model's decisions."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bncl_pyg.errors import InputError

GRID = 10_000
"""In how many steps a threshold is looked for: probabilities are written with four digits."""
UNREACHABLE = 1 + 1 / GRID
"""The threshold where no label is probable enough."""
ROUNDING = 1e-6
"""Of probabilities in 32 bits: 0.9 is a little less there."""
_THRESHOLDS = (np.arange(GRID + 1) / GRID).astype(np.float32)


@dataclass(frozen=True)
class Choice:
    """How labels are chosen; without any argument, as the model decides.

    With `precision` π, the labels of all given texts together are to be right with at least that share, as far as the
    probabilities p are calibrated: a label is given where p ≥ t, with the lowest threshold

    .. math:: t = \\min \\{ t: \\frac{\\sum_{p_{ij} ≥ t} p_{ij}}{|\\{(i, j): p_{ij} ≥ t\\}|} ≥ π \\}

    The fraction is the expected precision; it grows with t. Thresholds are multiples of 0.0001. If even the most
    probable label is less probable than π, no text gets any.

    Args:
        threshold: give the labels that are at least so probable.
        top_k: give the k most probable labels; beside `threshold` or `precision`, at most k.
        precision: give as many labels as this expected precision allows.
    """

    threshold: float | None = None
    top_k: int | None = None
    precision: float | None = None

    def __post_init__(self) -> None:
        if self.threshold is not None and self.precision is not None:
            raise InputError("threshold and precision exclude each other: give one of them.")
        for name, value in (("threshold", self.threshold), ("precision", self.precision)):
            if value is not None and not (0 <= value <= 1 or (name, value) == ("threshold", UNREACHABLE)):
                raise InputError(f"{name} must be between 0 and 1, but is {value:g}.")
        if self.top_k is not None and (isinstance(self.top_k, bool) or self.top_k != int(self.top_k) or self.top_k < 1):
            raise InputError(f"top_k must be a whole number of at least 1, but is {self.top_k}.")

    @property
    def is_models_own(self) -> bool:
        """Whether the model's own decisions stand."""
        return self == Choice()

    def decisions(self, probabilities: Tensor) -> Tensor:
        """Return which labels are given; boolean, as the probabilities are."""
        if self.precision is not None:
            counts = ExpectedPrecision()
            counts.add(probabilities, self.top_k)
            return self.with_threshold(counts.threshold(self.precision)).decisions(probabilities)
        chosen = torch.ones_like(probabilities, dtype=torch.bool)
        if self.threshold is not None:
            chosen = probabilities >= self.threshold
        return chosen if self.top_k is None else chosen & top_places(probabilities, self.top_k)

    def with_threshold(self, threshold: float) -> "Choice":
        """Return the rule with the threshold that a precision asks for."""
        return replace(self, threshold=threshold, precision=None)


def top_places(probabilities: Tensor, count: int) -> Tensor:
    """Return which labels are a text's most probable, the first of equal ones; boolean."""
    count = min(count, probabilities.shape[1])
    # The places are sorted stably: of equally probable labels, the first ones are taken.
    places = torch.argsort(-probabilities, dim=1, stable=True)[:, :count]
    return torch.zeros_like(probabilities, dtype=torch.bool).scatter_(1, places, True)


class ExpectedPrecision:
    """Counts probabilities group by group, in constant memory, to find the threshold of a precision."""

    def __init__(self) -> None:
        self.counts: NDArray[np.int64] = np.zeros(GRID + 1, dtype=np.int64)
        self.sums: NDArray[np.float64] = np.zeros(GRID + 1, dtype=np.float64)

    def add(self, probabilities: Tensor, top_k: int | None = None) -> None:
        """Count the probabilities of more texts; with `top_k`, only those of each text's k best labels."""
        if top_k is not None:
            probabilities = probabilities[top_places(probabilities, top_k)]
        values = probabilities.flatten().numpy()
        # By comparison with the very thresholds, in their precision: what is counted is what is given later.
        steps = np.searchsorted(_THRESHOLDS, values, side="right") - 1
        self.counts += np.bincount(steps, minlength=GRID + 1)
        self.sums += np.bincount(steps, weights=values.astype(np.float64), minlength=GRID + 1)

    def threshold(self, precision: float) -> float:
        """Return the lowest threshold with at least this expected precision; `UNREACHABLE`, if there is none."""
        counts, sums = (np.cumsum(values[::-1])[::-1] for values in (self.counts, self.sums))
        enough = np.flatnonzero((counts > 0) & (sums >= (precision - ROUNDING) * counts))
        return float(enough[0] / GRID) if len(enough) else UNREACHABLE
