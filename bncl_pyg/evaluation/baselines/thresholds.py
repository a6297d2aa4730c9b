"""Decisions from scores alone: no annotated text, nothing learned."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def top_cardinality(scores: Tensor, cardinality: float) -> NDArray[np.bool_]:
    """Give every text its κ best labels, κ rounded, but at least one; boolean, (texts, labels)."""
    count = min(max(1, round(cardinality)), scores.shape[1])
    best = torch.topk(scores, count, dim=1).indices
    return torch.zeros(scores.shape, dtype=torch.bool).scatter_(1, best, True).numpy()


def prevalence_quantile(scores: Tensor, training: Tensor, prevalence: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Give a label to the texts that score at least what the best λ of the training texts score.

    Args:
        scores: of the texts to decide on, (texts, labels).
        training: of the training texts, (training texts, labels).
        prevalence: λ, (labels,); a label whose λ means less than half a training text is given to none.
    """
    counts = np.rint(prevalence * len(training)).astype(np.int64)
    ranked = training.sort(dim=0, descending=True).values
    bounds = ranked[torch.from_numpy(np.maximum(counts - 1, 0)), torch.arange(len(counts))]
    decisions = (scores >= bounds) & torch.from_numpy(counts > 0)
    return decisions.numpy()
