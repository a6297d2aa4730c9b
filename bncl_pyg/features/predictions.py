"""What a model says of texts: decisions, probabilities and scores, of all labels or of each text's candidates."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from bncl_pyg.errors import InputError
from bncl_pyg.features.choice import Choice

ROUNDING = 1e-5
"""How far a probability may pass 1 by rounding."""


@dataclass(frozen=True)
class Predictions:
    """Predictions on the CPU, with a row a text and a column a label or, where texts have candidates, a candidate.

    Args:
        decisions: which labels each text has; boolean.
        probabilities: how probable each label is.
        scores: the decision function: above 0 where a label is predicted, and the higher the surer.
        labels: how many there are.
        candidates: which labels the columns are, text by text, where these are not all; (texts, candidates).
    """

    decisions: Tensor
    probabilities: Tensor
    scores: Tensor
    labels: int
    candidates: Tensor | None = None

    def __post_init__(self) -> None:
        # A model that overflows must not be believed, nor its numbers be written down.
        outside = ~((self.probabilities >= 0) & (self.probabilities <= 1 + ROUNDING))
        if bool(outside.any()):
            text, place = (int(number) for number in outside.nonzero()[0])
            raise InputError(
                f"The model says that label number {place + 1} of text number {text + 1} has the probability "
                f"{self.probabilities[text, place].item():g}: its numbers, or those of the text, are too large for it."
            )

    def __len__(self) -> int:
        return len(self.decisions)

    @classmethod
    def none(cls, labels: int, candidates: int | None) -> "Predictions":
        """Return the predictions of no text at all."""
        empty = torch.zeros(0, labels if candidates is None else candidates)
        return cls(empty.bool(), empty, empty, labels, None if candidates is None else empty.long())

    @classmethod
    def joined(cls, parts: "Sequence[Predictions]") -> "Predictions":
        """Return the predictions of several groups of texts, one after the other."""
        if len(parts) == 1:
            return parts[0]
        candidates = None
        if parts[0].candidates is not None:
            candidates = torch.cat([part.candidates for part in parts if part.candidates is not None])
        return cls(
            torch.cat([part.decisions for part in parts]),
            torch.cat([part.probabilities for part in parts]),
            torch.cat([part.scores for part in parts]),
            parts[0].labels,
            candidates,
        )

    def chosen(self, choice: Choice) -> "Predictions":
        """Return the same with decisions by somebody's own rule; by the model's, where there is none."""
        if choice.is_models_own:
            return self
        return replace(self, decisions=choice.decisions(self.probabilities))

    def names(self, names: Sequence[str]) -> list[list[str]]:
        """Return the names of each text's labels, the most probable first."""
        return [[names[place] for place in places] for places, _ in self.each()]

    def indicator(self) -> Any:
        """Return the decisions as scikit-learn has them: boolean, (texts, labels), sparse with candidates."""
        return self._matrix(self.decisions)

    def probability_matrix(self) -> Any:
        """Return the probabilities, (texts, labels), sparse where texts have candidates."""
        return self._matrix(self.probabilities)

    def score_matrix(self) -> Any:
        """Return the decision function, (texts, labels), sparse where texts have candidates."""
        return self._matrix(self.scores)

    def best_first(self, text: int) -> tuple[Tensor, Tensor]:
        """Return the predicted labels of a text, the most probable first, and their probabilities."""
        places = self.decisions[text].nonzero()[:, 0]
        places = places[torch.argsort(-self.probabilities[text, places], stable=True)]
        columns = places if self.candidates is None else self.candidates[text, places]
        return columns, self.probabilities[text, places]

    def all_best_first(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the same of all texts, one after the other: where each text's begin, labels and probabilities.

        Shapes:
            starts (texts + 1,), labels and probabilities (predicted labels of all texts,).
        """
        texts, places = self.decisions.nonzero(as_tuple=True)
        order = torch.from_numpy(np.lexsort((-self.probabilities[texts, places].numpy(), texts.numpy())))
        texts, places = texts[order], places[order]
        counts = torch.bincount(texts, minlength=len(self))
        starts = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
        columns = places if self.candidates is None else self.candidates[texts, places]
        return starts, columns, self.probabilities[texts, places]

    def each(self) -> Iterator[tuple[list[int], list[float]]]:
        """Yield the labels of each text, the most probable first, and their probabilities."""
        starts, columns, shares = (values.tolist() for values in self.all_best_first())
        for start, end in pairwise(starts):
            yield columns[start:end], shares[start:end]

    def rows(self, ids: Sequence[str], names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield `{"id", "labels", "probabilities"}` for each text, the most probable label first."""
        for identifier, (places, shares) in zip(ids, self.each(), strict=True):
            yield {
                "id": identifier,
                "labels": [names[place] for place in places],
                "probabilities": [round(share, 4) for share in shares],
            }

    def _matrix(self, values: Tensor) -> Any:
        return values.numpy() if self.candidates is None else sparse_matrix(values, self.candidates, self.labels)


def sparse_matrix(values: Tensor, candidates: Tensor, labels: int) -> csr_array:
    """Return values of candidates as a sparse matrix, (texts, labels)."""
    kept = values != 0
    starts = np.concatenate([[0], kept.sum(dim=1).cumsum(0).numpy()])
    return csr_array((values[kept].numpy(), candidates[kept].numpy(), starts), shape=(len(values), labels))
