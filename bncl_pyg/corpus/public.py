"""What a reader of a public data set gives."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bncl_pyg.corpus.labels import LabelSet


@dataclass(frozen=True)
class PublicDataSet:
    """A public data set that was read from its publisher's files.

    Args:
        splits: the rows `{"id", "text", "labels"}` of "train" and "test".
        labels: the labels.
        provenance: source, terms of use and how the texts were chosen, as JSON can hold it.
        expected_counts: how many texts each split has if the publisher's files are unchanged, where that is known.
    """

    splits: Mapping[str, list[dict[str, Any]]]
    labels: LabelSet
    provenance: Mapping[str, Any]
    expected_counts: Mapping[str, int] | None = None

    def counts(self) -> dict[str, int]:
        """Return how many texts each split has."""
        return {name: len(rows) for name, rows in self.splits.items()}
