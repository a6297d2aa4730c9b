"""The scored texts: what a natural language inference model says of every (text, label)."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack
from torch import Tensor

from bncl_pyg.corpus import LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.features.predictions import sparse_matrix
from bncl_pyg.ranks import ALONE, Ranks

ROUNDING = 2e-3
"""How far entailment + contradiction may pass 1: two float16 numbers near 1 round by up to half of this each."""

MAX_NUMBER = 65504.0
"""How large a number of a text's vector may be: as large as a store can hold."""

MOST_PAIRS = 10**9
"""How many scores, entailment and contradiction each, are held at once at most."""


@dataclass(frozen=True)
class Features:
    """Entailment q and contradiction q̄ of "this text is about this label"; what is left to 1 is neutral.

    Args:
        ids: the texts' ids.
        labels: the labels; their order is the order of the columns.
        entailment: float32, (texts, labels), in [0, 1]; where texts have candidates, (texts, candidates).
        contradiction: likewise.
        scorer: what made the scores (model, weights hash, template), carried along to the trained model.
        vectors: what the scorer's sentence encoder makes of each text, if it has one; float32, (texts, dimensions).
        words: how often each text has a word of each bucket, where that was counted; sparse, (texts, buckets).
        candidates: where only each text's best labels were scored, which these are, ascending; (texts, candidates). Any
            other label is unknown for the text, not false.
        label_tensors: what the scorer computed of the labels' hypotheses alone (`Scorer.encode_labels`), if it was
            kept.
        parts: where the scorer is an ensemble and it was asked for, entailment and contradiction of each of its parts,
            (2, texts, labels): views of the same pairs.
        ranks: where several processes train together and these are the texts that one of them holds, all of them; a
            process alone, if not given.
        all_ids: then, the ids of the texts of all processes, in the order of the ranks.
    """

    ids: tuple[str, ...]
    labels: LabelSet
    entailment: Tensor
    contradiction: Tensor
    scorer: dict[str, Any] = field(default_factory=dict)
    vectors: Tensor | None = None
    words: csr_array | None = None
    candidates: Tensor | None = None
    label_tensors: dict[str, Tensor] = field(default_factory=dict)
    parts: dict[str, Tensor] = field(default_factory=dict)
    ranks: Ranks = ALONE
    all_ids: Sequence[str] | None = None

    def __post_init__(self) -> None:
        expected = len(self.ids), len(self.labels)
        if self.candidates is not None:
            self._check_candidates(self.candidates)
            expected = len(self.ids), self.candidates.shape[1]
        for name, scores in (("entailment", self.entailment), ("contradiction", self.contradiction)):
            if tuple(scores.shape) != expected:
                raise InputError(f"The {name} has shape {tuple(scores.shape)}, but {expected} is needed.")
            outside = ~((scores >= 0) & (scores <= 1))
            if bool(outside.any()):
                text, place = (int(number) for number in outside.nonzero()[0])
                raise InputError(
                    f"The {name} of text '{self.ids[text]}' and label '{self._label(text, place)}' must be between "
                    f"0 and 1, but is {scores[text, place].item()}."
                )
        above = self.entailment + self.contradiction > 1 + ROUNDING
        if bool(above.any()):
            text, place = (int(number) for number in above.nonzero()[0])
            raise InputError(
                f"Entailment and contradiction of text '{self.ids[text]}' and label '{self._label(text, place)}' "
                f"add up to more than 1."
            )
        for name, content in (("vectors", self.vectors), ("words", self.words)):
            if content is not None and content.shape[0] != len(self.ids):
                raise InputError(f"There are {name} of {content.shape[0]} texts, but there are {len(self.ids)} texts.")
        if self.vectors is not None:
            self._check_vectors(self.vectors)
        if self.words is not None and not bool(np.isfinite(self.words.data).all()):
            raise InputError("The counts of words must be finite numbers.")
        for name, scores in self.parts.items():
            if tuple(scores.shape) != (2, *expected):
                raise InputError(f"The scores of part '{name}' have shape {tuple(scores.shape)}, not {(2, *expected)}.")

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def corpus_ids(self) -> Sequence[str]:
        """The ids of all texts, also of those that other processes hold."""
        return self.ids if self.all_ids is None else self.all_ids

    def held_rows(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return those of the rows, counted over all processes, that this process holds, counted over its own."""
        first, last = self.ranks.span(len(self))
        return rows[(rows >= first) & (rows < last)] - first

    def _check_vectors(self, vectors: Tensor) -> None:
        outside = ~(vectors.abs() <= MAX_NUMBER)
        if bool(outside.any()):
            text, place = (int(number) for number in outside.nonzero()[0])
            raise InputError(
                f"The vector of text '{self.ids[text]}' holds {vectors[text, place].item():g}, but numbers must lie "
                f"between -{MAX_NUMBER:g} and {MAX_NUMBER:g}, which half precision can hold."
            )

    def _check_candidates(self, candidates: Tensor) -> None:
        ascending = bool((candidates[:, 1:] > candidates[:, :-1]).all())
        inside = not candidates.numel() or 0 <= int(candidates.min()) <= int(candidates.max()) < len(self.labels)
        if len(candidates) != len(self.ids) or not ascending or not inside:
            raise InputError(
                f"The candidates must be, for each of {len(self.ids)} texts, different numbers of {len(self.labels)} "
                f"labels in ascending order."
            )

    def _label(self, text: int, place: int) -> str:
        column = place if self.candidates is None else int(self.candidates[text, place])
        return self.labels.names[column]

    def filled(self) -> "Features":
        """Return the same with all labels, of which those that are not candidates have neither score."""
        if self.candidates is None:
            return self
        shape, candidates = (len(self.ids), len(self.labels)), self.candidates
        count = shape[0] * shape[1]
        if count > MOST_PAIRS:
            raise InputError(
                f"All scores of {shape[0]} texts and {shape[1]} labels would need {count * 8 / 1e9:.3g} GB; only what "
                f"works on candidates can be used here."
            )
        entailment, contradiction = (
            torch.zeros(shape).scatter_(1, candidates, scores) for scores in (self.entailment, self.contradiction)
        )
        return replace(self, entailment=entailment, contradiction=contradiction, candidates=None, parts={})

    def sparse(self, values: Tensor) -> csr_array:
        """Return values of the candidates, or of all labels, as a sparse matrix, (texts, labels)."""
        if self.candidates is None:
            return csr_array(values.numpy())
        return sparse_matrix(values, self.candidates, len(self.labels))

    @classmethod
    def joined(cls, parts: "Sequence[Features]") -> "Features":
        """Return the features of several groups of texts, one after the other; all were made in the same way."""
        first = parts[0]
        if len(parts) == 1:
            return first
        tensors: dict[str, Any] = {
            name: None if getattr(first, name) is None else torch.cat([getattr(part, name) for part in parts])
            for name in ("entailment", "contradiction", "vectors", "candidates")
        }
        words = None if first.words is None else csr_array(vstack([part.words for part in parts]))
        views = {name: torch.cat([part.parts[name] for part in parts], dim=1) for name in first.parts}
        ids = tuple(identifier for part in parts for identifier in part.ids)
        return replace(first, ids=ids, words=words, parts=views, **tensors)

    def rows(self, rows: slice | NDArray[np.int64]) -> "Features":
        """Return some of the texts: a part, or those at some places."""
        parts: dict[str, Any] = {
            name: None if (values := getattr(self, name)) is None else values[rows]
            for name in ("entailment", "contradiction", "vectors", "words", "candidates")
        }
        views = {name: scores[:, rows] for name, scores in self.parts.items()}
        ids = self.ids[rows] if isinstance(rows, slice) else tuple(self.ids[place] for place in rows)
        return replace(self, ids=ids, parts=views, all_ids=None, **parts)

    def take(self, rows: Sequence[int], ids: Sequence[str], labels: LabelSet) -> "Features":
        """Return some of the texts under other ids, a row perhaps twice, with some of the labels in another order."""
        if self.candidates is not None:
            raise InputError("Of features that hold candidates, no labels can be taken.")
        places, columns = torch.tensor(rows, dtype=torch.int64), [self.labels.place(name) for name in labels.names]
        same = columns == list(range(len(self.labels)))
        return replace(
            self,
            ids=tuple(ids),
            labels=labels,
            entailment=self.entailment[places][:, columns],
            contradiction=self.contradiction[places][:, columns],
            vectors=None if self.vectors is None else self.vectors[places],
            words=None if self.words is None else self.words[places.numpy()],
            label_tensors=self.label_tensors if same else {},
            parts={name: scores[:, places][:, :, columns] for name, scores in self.parts.items()},
        )

    def other_candidates(self, trained: int) -> str:
        """Return a sentence: a model was trained with so many labels a text, and these are more or fewer."""
        counts = (trained, self.entailment.shape[1])
        were, are = (f"{count} candidates" if count < len(self.labels) else "all labels" for count in counts)
        return f"The model was trained with {were} a text, but these features hold {are}."

    def zero_shot(self) -> Tensor:
        """Return the decisions before any training, q > q̄; boolean, as the scores are."""
        return torch.gt(self.entailment, self.contradiction)

    def zero_shot_probabilities(self) -> Tensor:
        """Return q / (q + q̄), which is above a half where `zero_shot` says yes; as the scores are."""
        return self.entailment / (self.entailment + self.contradiction).clamp_min(1e-12)
