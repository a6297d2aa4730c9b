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

FLOOR = 1e-7
"""A tolerance: the smallest score whose logarithm is taken; a stored score can be exactly 0."""
MARGIN = 1.0
"""How far beyond the last pair the cut lies where all pairs, or none, are wanted; any number above 0 does."""


def recalibrate(entailment: Tensor, contradiction: Tensor, cardinality: float) -> float:
    """Return the offset on log(q / q̄) with which the zero-shot start predicts κ labels a text.

    The cut lies in the middle between the last pair that is predicted and the first that is not. Pairs with the same
    log-odds are predicted together: then the offset is the one that comes nearest to κ.

    Args:
        entailment: q of the training texts, (texts, labels), or of their candidates: then only these count.
        contradiction: q̄, likewise.
        cardinality: κ.
    """
    values = log_odds(entailment, contradiction).flatten()
    wanted = min(round(cardinality * len(entailment)), len(values))
    if not wanted:
        return -(float(values.max()) + MARGIN) if len(values) else 0.0
    last = values.kthvalue(len(values) - wanted + 1).values
    above, below = values[values > last], values[values < last]
    with_last = len(values) - len(below)
    if with_last - wanted <= wanted - len(above):
        beyond = below.max() if len(below) else last - MARGIN
    else:
        beyond = above.min() if len(above) else last + MARGIN
    return -(float(last) + float(beyond)) / 2


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
