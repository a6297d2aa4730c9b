"""Texts that a model is not sure of: by entropy, or by how much F1 may change once their labels are known."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bncl_pyg.active.pool import LEAST_SHARE, Pool


def entropy(pool: Pool) -> Tensor:
    """Return the sum over labels of the entropy of each text's probabilities, (texts,)."""
    shares = pool.predictions.probabilities.double().clamp(LEAST_SHARE, 1 - LEAST_SHARE)
    return -(shares * shares.log() + (1 - shares) * (1 - shares).log()).sum(dim=1)


def expected_change(pool: Pool) -> Tensor:
    r"""Return how much ebF1 + maF1 is expected to change by each text once its labels are known, times N; (texts,).

    By the probabilities :math:`p` and decisions :math:`d`, text :math:`i` has an F1 of about
    :math:`2 \sum_l d_{il} p_{il} / \sum_l (d_{il} + p_{il})`, which is 1 once its labels are known. And a decision that
    is wrong with probability :math:`e_{il}` takes :math:`2 e_{il} / N(π_l + λ_l)` from the F1 of label :math:`l`, which
    is predicted for a share :math:`π_l` of the texts and true for a share :math:`λ_l`: rare labels count more.
    """
    predictions, pairs = pool.predictions, pool.pairs
    shares, decisions = predictions.probabilities.double(), predictions.decisions
    right = (shares * decisions).sum(dim=1)
    f1 = 2 * right / (decisions.sum(dim=1) + shares.sum(dim=1)).clamp_min(LEAST_SHARE)
    # A text without any label that is given none is right, too.
    f1 = torch.where(decisions.any(dim=1), f1, (1 - shares).clamp_min(LEAST_SHARE).log().sum(dim=1).exp())
    texts = max(len(pool), 1)
    predicted = pairs.sums(decisions.double()) / texts
    common = (predicted + torch.from_numpy(pool.priors.shares)).clamp_min(1 / texts)
    wrong = torch.where(decisions, 1 - shares, shares)
    return 1 - f1 + (2 * wrong / pairs.broadcast_to_pairs(common)).sum(dim=1) / predictions.labels


@dataclass(frozen=True)
class LeastSure:
    """The texts of whose labels the model is least sure: those with the highest entropy."""

    name: str = "least-sure"

    def choose(self, pool: Pool, count: int, seed: int) -> NDArray[np.int64]:  # noqa: ARG002
        """See `Strategy`."""
        return highest(entropy(pool), pool, count)


@dataclass(frozen=True)
class ExpectedChange:
    """The texts whose labels are expected to change F1 most, under the priors (see `expected_change`)."""

    name: str = "expected-change"

    def choose(self, pool: Pool, count: int, seed: int) -> NDArray[np.int64]:  # noqa: ARG002
        """See `Strategy`."""
        return highest(expected_change(pool), pool, count)


def highest(values: Tensor, pool: Pool, count: int) -> NDArray[np.int64]:
    """Return the texts with the highest values that nobody annotated, the highest first."""
    rows = pool.open
    order = torch.argsort(values[rows], descending=True, stable=True)[:count]
    best: NDArray[np.int64] = rows[order.numpy()]
    return best
