"""The scored texts: what a natural language inference model says of every (text, label)."""

from dataclasses import dataclass, field
from typing import Any

import torch
from scipy.sparse import csr_array
from torch import Tensor

from bncl_pyg.corpus.labels import LabelSet
from bncl_pyg.errors import InputError

ROUNDING = 2e-3
"""How far entailment + contradiction may pass 1: two float16 numbers near 1 round by up to half of this each."""


@dataclass(frozen=True)
class Features:
    """Entailment q and contradiction q̄ of "this text is about this label"; what is left to 1 is neutral.

    Args:
        ids: the texts' ids.
        labels: the labels; their order is the order of the columns.
        entailment: float32, (texts, labels), in [0, 1].
        contradiction: float32, (texts, labels), in [0, 1].
        scorer: what made the scores (model, weights hash, template), carried along to the trained model.
        vectors: what the scorer's sentence encoder makes of each text, if it has one; float32, (texts, dimensions).
        words: how often each text has a word of each bucket, where that was counted; (texts, buckets).
    """

    ids: tuple[str, ...]
    labels: LabelSet
    entailment: Tensor
    contradiction: Tensor
    scorer: dict[str, Any] = field(default_factory=dict)
    vectors: Tensor | None = None
    words: csr_array | None = None

    def __post_init__(self) -> None:
        expected = (len(self.ids), len(self.labels))
        for name, scores in (("entailment", self.entailment), ("contradiction", self.contradiction)):
            if tuple(scores.shape) != expected:
                raise InputError(f"The {name} has shape {tuple(scores.shape)}, but {expected} is needed.")
            outside = ~((scores >= 0) & (scores <= 1))
            if bool(outside.any()):
                text, label = (int(place) for place in outside.nonzero()[0])
                raise InputError(
                    f"The {name} of text '{self.ids[text]}' and label '{self.labels.names[label]}' must be between "
                    f"0 and 1, but is {scores[text, label].item()}."
                )
        above = self.entailment + self.contradiction > 1 + ROUNDING
        if bool(above.any()):
            text, label = (int(place) for place in above.nonzero()[0])
            raise InputError(
                f"Entailment and contradiction of text '{self.ids[text]}' and label '{self.labels.names[label]}' "
                f"add up to more than 1."
            )
        for name, content in (("vectors", self.vectors), ("words", self.words)):
            if content is not None and content.shape[0] != len(self.ids):
                raise InputError(f"There are {name} of {content.shape[0]} texts, but there are {len(self.ids)} texts.")

    def __len__(self) -> int:
        return len(self.ids)

    def zero_shot(self) -> Tensor:
        """Return the decisions before any training, q > q̄; boolean, (texts, labels)."""
        return torch.gt(self.entailment, self.contradiction)

    def zero_shot_probabilities(self) -> Tensor:
        """Return q / (q + q̄), which is above a half where `zero_shot` says yes; (texts, labels)."""
        return self.entailment / (self.entailment + self.contradiction).clamp_min(1e-12)
