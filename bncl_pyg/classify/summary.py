"""What came of labelling a table, in a few figures."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from bncl_pyg.corpus import LabelSet
from bncl_pyg.features import Predictions

SHOWN = 5
"""How many labels and texts are shown."""


@dataclass(frozen=True)
class Example:
    """One text and its labels."""

    id: str
    text: str
    labels: tuple[str, ...]
    probabilities: tuple[float, ...]


@dataclass(frozen=True)
class Summary:
    """How texts were labelled.

    Args:
        texts: how many there are.
        labels: how many labels there are.
        labels_per_text: how many a text got on average.
        without_label: how many texts got none.
        most_given: the labels that most texts got, and how many did.
        least_given: the labels that fewest texts got.
        never_given: how many labels no text got.
        expected_precision: which share of the labels that were given is right, by the calibrated probabilities: their
            mean; `None` where none was given.
        unsure: how many texts have no label that is more probable than not.
        examples: some texts from all over the table.
    """

    texts: int
    labels: int
    labels_per_text: float
    without_label: int
    most_given: tuple[tuple[str, int], ...]
    least_given: tuple[tuple[str, int], ...]
    never_given: int
    expected_precision: float | None
    unsure: int
    examples: tuple[Example, ...]

    @classmethod
    def of(cls, predicted: Predictions, labels: LabelSet, ids: Sequence[str], texts: Sequence[str]) -> "Summary":
        """Return what is to be known of predictions for these texts."""
        decisions = predicted.decisions
        columns = predicted.candidates
        places = decisions.nonzero()[:, 1] if columns is None else columns[decisions]
        given = torch.bincount(places, minlength=len(labels))
        order = torch.argsort(-given, stable=True).tolist()
        ranked = [(labels.names[place], int(given[place])) for place in order]
        probabilities = predicted.probabilities
        total = int(decisions.sum())
        # As many as are wanted, evenly from the first row to the last.
        shown = sorted({round(number * (len(texts) - 1) / max(SHOWN - 1, 1)) for number in range(SHOWN)})
        return cls(
            texts=len(texts),
            labels=len(labels),
            labels_per_text=total / max(len(texts), 1),
            without_label=int((~decisions.any(dim=1)).sum()),
            most_given=tuple(ranked[:SHOWN]),
            least_given=tuple(ranked[: -SHOWN - 1 : -1]),
            never_given=int((given == 0).sum()),
            expected_precision=float(probabilities[decisions].double().mean()) if total else None,
            unsure=int((probabilities.amax(dim=1) <= 0.5).sum()) if probabilities.numel() else 0,
            examples=tuple(_example(predicted, labels, ids, texts, row) for row in shown if row < len(texts)),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return asdict(self)


def _example(predicted: Predictions, labels: LabelSet, ids: Sequence[str], texts: Sequence[str], row: int) -> Example:
    places, shares = predicted.best_first(row)
    names = tuple(labels.names[place] for place in places.tolist())
    return Example(ids[row], texts[row], names, tuple(round(share, 4) for share in shares.tolist()))
