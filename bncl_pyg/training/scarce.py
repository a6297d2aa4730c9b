"""Prevalence from few annotated texts: shrunk counts, Good-Turing, and what the model says of all texts."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bncl_pyg.training.annotated import Annotated
from bncl_pyg.training.correction import Correction
from bncl_pyg.training.estimation import PriorEstimation
from bncl_pyg.training.prevalence import Shares, rescale_to_sum, shrunk_prevalence
from bncl_pyg.training.self_training import Prepared

LEAST_SHARE = 1e-7
"""A tolerance: what keeps logarithms finite."""


@dataclass(frozen=True)
class ScarcePrevalence:
    """Every number by which few annotated texts tell how common labels are.

    Args:
        shrinkage_texts: how many annotated texts is worth what is known without them of λ and of how sure to be.
        guess_share: how much a guess at λ without annotated texts says, beside what was learned with them, of a label
            that none of them has.
        guess_decay: by how much that share falls with every example.
        rounds: how often λ is estimated and the model trained with it.
        least_cardinality: κ at least, where it is counted among annotated texts of which some may have no label.
    """

    shrinkage_texts: float = 50.0
    guess_share: float = 0.5
    guess_decay: float = 0.7
    rounds: int = 2
    least_cardinality: float = 0.1

    def start(
        self,
        data: Prepared,
        annotated: Annotated,
        cardinality: float,
        given: Shares | None,
        estimation: PriorEstimation,
    ) -> tuple[Tensor, Tensor]:
        """Return a guess at λ without annotated texts, and λ from their counts, before anything was learned.

        Args:
            data: the training texts.
            annotated: the annotated texts.
            cardinality: κ.
            given: λ from what is roughly known, if anything is.
            estimation: by which it is guessed if nothing is.
        """
        if given is None:
            given = estimation.unknown_prevalence(data.features, cardinality)
        shares = shrunk_prevalence(_counts(annotated), annotated.known_counts, given, self.shrinkage_texts)
        first = rescale_to_sum(shares, cardinality, estimation.max_prevalence)
        return torch.from_numpy(given).float(), torch.from_numpy(first).float()

    def update(self, data: Prepared, correction: Correction, annotated: Annotated, guess: Tensor) -> Tensor:
        """Return λ as the corrected logits have it, and the annotated texts their labels; (labels,).

        Labels that no annotated text has would be too rare: nothing but their absence was learned of them. Together
        they are as common as those that a single annotated text has (Good and Turing's estimate), shrunk towards what
        the logits have as if `shrinkage_texts` more texts had shown it. Which of the labels with the same few examples
        is more common, few examples cannot tell: there the guess without annotated texts has a say.
        """
        weight = self.shrinkage_texts
        probabilities = torch.sigmoid(correction.logits)
        # Of candidates alone, annotated texts have labels that are no pairs: they are counted beside the others.
        of_rows = probabilities[correction.rows] if correction.known is not None else torch.zeros(0)
        probabilities[correction.rows] = 0
        if correction.known is not None:
            probabilities[correction.rows] = of_rows * (1 - correction.known)
        counts = torch.from_numpy(_counts(annotated).astype(np.float32))
        shares = (data.pairs.sums(probabilities) + counts) / len(probabilities)
        learned = shares[counts == 0].sum().clamp_min(1e-6)
        good_turing = ((counts == 1).sum() + weight * learned) / (len(annotated) + weight)
        shares = torch.where(counts == 0, shares * good_turing / learned, shares)
        of_guess = self.guess_share * self.guess_decay**counts
        logs = (1 - of_guess) * shares.clamp_min(LEAST_SHARE).log() + of_guess * guess.clamp_min(LEAST_SHARE).log()
        # As common as before are all labels together that have as many examples.
        alike = torch.unique(counts, return_inverse=True)[1]
        before, after = (torch.zeros(len(counts)).index_add(0, alike, values)[alike] for values in (shares, logs.exp()))
        return (logs.exp() * before / after).clamp(max=1.0)


def _counts(annotated: Annotated) -> NDArray[np.int64]:
    """Return how many annotated texts have each label; (labels,)."""
    return np.asarray(annotated.labels.sum(axis=0), dtype=np.int64)
