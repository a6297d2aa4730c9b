"""The start: scores shifted before the network, so that what is predicted before any training is about right.

The update only adds neighbours' scores to a label's own, and cannot mend a scorer that says "yes" too seldom or too
often. One offset b, the same for all pairs, moves the log-odds of entailment against contradiction,

.. math:: z_{il} = \\log(q_{il} / \\bar{q}_{il}) + b, \\quad q'_{il} = (q_{il} + \\bar{q}_{il})\\, σ(z_{il}), \\quad
          \\bar{q}'_{il} = (q_{il} + \\bar{q}_{il})\\, σ(-z_{il})

so that the zero-shot start, q' > q̄', predicts κ labels a text over the training texts. What is neutral, 1 − q − q̄,
stays as it was scored, and so does the order of all pairs by log-odds. Nothing but κ is needed, which every setting
knows or estimates.
"""

from dataclasses import replace

import torch
from torch import Tensor

from bncl_pyg.features import Features
from bncl_pyg.ranks import ALONE, Ranks

FLOOR = 1e-7
"""A tolerance: the smallest score whose logarithm is taken; a stored score can be exactly 0."""
MARGIN = 1.0
"""How far beyond the last pair the cut lies where all pairs, or none, are wanted; any number above 0 does."""


def recalibrate(entailment: Tensor, contradiction: Tensor, cardinality: float, ranks: Ranks = ALONE) -> float:
    """Return the offset on log(q / q̄) with which the zero-shot start predicts κ labels a text.

    The cut lies in the middle between the last pair that is predicted and the first that is not. Pairs with the same
    log-odds are predicted together: then the offset is the one that comes nearest to κ.

    Args:
        entailment: q of the training texts, (texts, labels), or of their candidates: then only these count.
        contradiction: q̄, likewise.
        cardinality: κ.
        ranks: who holds the other texts.
    """
    values = log_odds(entailment, contradiction).flatten()
    texts, count = (int(number) for number in ranks.total(len(entailment), len(values)))
    wanted = min(round(cardinality * texts), count)
    if not wanted:
        return -(_highest(values, ranks) + MARGIN) if count else 0.0
    last = _kth_highest(values, wanted, ranks)
    above, below = values[values > last], values[values < last]
    with_last, without = (int(number) for number in ranks.total(len(values) - len(below), len(above)))
    if with_last - wanted <= wanted - without:
        beyond = _highest(below, ranks) if with_last < count else last - MARGIN
    else:
        beyond = -_highest(-above, ranks) if without else last + MARGIN
    return -(last + beyond) / 2


def _highest(values: Tensor, ranks: Ranks) -> float:
    """Return the highest of all processes' values."""
    own = values.max() if len(values) else values.new_tensor(-torch.inf)
    return -float(ranks.lowest(-own))


def _kth_highest(values: Tensor, place: int, ranks: Ranks) -> float:
    """Return the value of which so many, itself among them, are at least as high; no process sees another's values.

    Bisection over float32 numbers by their bits, whose order is theirs: exact after as many steps as there are bits.
    """
    bits = values.view(torch.int32)
    # The order of negative numbers is the reverse of that of their bits.
    order = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    low, high = -(2**31), 2**31 - 1
    while low < high:
        middle = (low + high + 1) // 2
        enough = ranks.total(int((order >= middle).sum()))[0] >= place
        low, high = (middle, high) if enough else (low, middle - 1)
    return float(torch.tensor(low if low >= 0 else low ^ 0x7FFFFFFF, dtype=torch.int32).view(torch.float32))


def shifted(features: Features, offset: float) -> Features:
    """Return features whose log-odds are moved by an offset; q + q̄ stays."""
    both = features.entailment + features.contradiction
    moved = log_odds(features.entailment, features.contradiction) + offset
    return replace(
        features,
        entailment=(both * moved.sigmoid()).clamp_(max=1),
        contradiction=(both * (-moved).sigmoid()).clamp_(max=1),
        parts={},
    )


def log_odds(entailment: Tensor, contradiction: Tensor) -> Tensor:
    """Return log(q / q̄), as the scores are."""
    return torch.log(entailment.clamp_min(FLOOR)) - torch.log(contradiction.clamp_min(FLOOR))
