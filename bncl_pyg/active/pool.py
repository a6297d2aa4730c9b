"""The texts to choose among, and what a model says of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bncl_pyg.corpus import Corpus
from bncl_pyg.errors import InputError
from bncl_pyg.features import Features, Pairs, Predictions, pairs_of
from bncl_pyg.priors import Priors
from bncl_pyg.training import Annotated

LEAST_SHARE = 1e-9
"""A tolerance: the smallest number that is divided by."""


@dataclass(frozen=True)
class Pool:
    """What a strategy chooses among.

    Args:
        predictions: what the model says of each text.
        priors: κ and λ that it was trained with, in numbers.
        vectors: of the texts, (texts, dimensions), where their scorer has some.
        annotated: those of the texts that are annotated already, wholly or in part; they are not chosen again.
    """

    predictions: Predictions
    priors: Priors
    vectors: Tensor | None = None
    annotated: Annotated | None = None

    def __post_init__(self) -> None:
        texts, labels = len(self.predictions), self.predictions.labels
        if len(self.priors) != labels:
            raise InputError(f"There are predictions of {labels} labels, but priors of {len(self.priors)}.")
        if self.vectors is not None and len(self.vectors) != texts:
            raise InputError(f"There are predictions of {texts} texts, but vectors of {len(self.vectors)}.")
        if self.annotated is not None and len(self.annotated) and self.annotated.rows.max() >= texts:
            raise InputError(f"There are {texts} texts, but the one at {self.annotated.rows.max()} is annotated.")

    def __len__(self) -> int:
        return len(self.predictions)

    @classmethod
    def of(
        cls,
        features: Features,
        predictions: Predictions,
        priors: Priors,
        annotated: Mapping[str, Sequence[str]] | None = None,
        absent: Mapping[str, Sequence[str]] | None = None,
    ) -> "Pool":
        """Return scored texts as a pool.

        Args:
            features: the texts.
            predictions: of them.
            priors: κ and λ in numbers.
            annotated: the labels of annotated texts by id; those that are not among these texts do not matter.
            absent: of texts that are annotated in part, the labels that they are known not to have, likewise.
        """
        there = set(features.ids)
        known = {name: labels for name, labels in (annotated or {}).items() if name in there}
        rows = Annotated.from_names(known, features.ids, features.labels, absent)
        return cls(predictions, priors, features.vectors, rows)

    def with_annotated(self, corpus: Corpus, ids: Sequence[str]) -> "Pool":
        """Return the same with more annotated texts; what is not among these texts, or not annotated yet, is left out.

        Args:
            corpus: the annotated texts; where one is annotated in both, this is what counts.
            ids: of the texts of the pool.
        """
        there = {name: row for row, name in enumerate(ids)}
        places = [place for place, name in enumerate(corpus.ids) if name in there]
        more = corpus.rows(np.array(places, dtype=np.int64))
        if more.annotations is None or (more.known is not None and not more.known.nnz) or not places:
            return self
        made = Annotated.among(more, ids)
        if self.annotated is not None:
            made = made.joined(self.annotated.drawn(np.flatnonzero(~np.isin(self.annotated.rows, made.rows))))
        return replace(self, annotated=made)

    @property
    def asked(self) -> NDArray[np.int64]:
        """Which texts are annotated, ascending."""
        return np.zeros(0, dtype=np.int64) if self.annotated is None else np.unique(self.annotated.rows)

    @property
    def open(self) -> NDArray[np.int64]:
        """Which texts can be chosen, ascending."""
        return np.setdiff1d(np.arange(len(self)), self.asked)

    @property
    def pairs(self) -> Pairs:
        """Which pairs the predictions are of."""
        return pairs_of(self.predictions.candidates, self.predictions.probabilities, self.predictions.labels)

    @property
    def examples(self) -> NDArray[np.int64]:
        """How many annotated texts have each label, (labels,)."""
        if self.annotated is None:
            return np.zeros(self.predictions.labels, dtype=np.int64)
        return np.asarray(self.annotated.labels.sum(axis=0), dtype=np.int64)

    def probabilities(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return how probable each label of some texts is, as the predictions have it."""
        values: NDArray[np.float32] = self.predictions.probabilities[rows].numpy().astype(np.float32)
        return values
