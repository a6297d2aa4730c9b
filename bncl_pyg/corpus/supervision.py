"""What is known without annotating everything: cardinality κ, prevalence λ, and perhaps some annotated texts."""

import logging
import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from bncl_pyg.corpus.labels import LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.persistence import write_json

log = logging.getLogger(__name__)

DISAGREEMENT = 0.2
"""The relative difference between Σλ and κ from which we say something: both count the labels of a text."""


@dataclass(frozen=True)
class Supervision:
    """The paper's supervision signals.

    Args:
        cardinality: κ, how many labels a text has on average; in (0, labels].
        prevalence: λ, for each label the share of texts that have it; (labels,), each in [0, 1].
        annotated: rows of the training texts that are annotated; a row may be repeated.
        annotations: boolean, (annotated texts, labels).
    """

    cardinality: float
    prevalence: NDArray[np.float64]
    annotated: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    annotations: csr_array | None = None

    def __post_init__(self) -> None:
        labels = len(self.prevalence)
        outside = np.flatnonzero(~((self.prevalence >= 0) & (self.prevalence <= 1)))
        if len(outside):
            place = int(outside[0])
            raise InputError(
                f"The prevalence of label number {place + 1} must be between 0 and 1, but is {self.prevalence[place]}."
            )
        if not 0 < self.cardinality <= labels:
            raise InputError(
                f"The cardinality must be above 0 and at most {labels}, the number of labels, "
                f"but is {self.cardinality}."
            )
        if self.annotations is not None and self.annotations.shape != (len(self.annotated), labels):
            raise InputError(
                f"The annotations have shape {self.annotations.shape}, but {len(self.annotated)} annotated texts "
                f"and {labels} labels need {(len(self.annotated), labels)}."
            )

    @classmethod
    def from_annotations(cls, annotations: csr_array) -> "Supervision":
        """Estimate κ and λ as the means over annotated texts."""
        if not annotations.nnz:
            raise InputError("None of the annotated texts has a label, so that no cardinality can be estimated.")
        texts = annotations.shape[0]
        return cls(annotations.nnz / texts, np.asarray(annotations.sum(axis=0), dtype=np.float64) / texts)

    def write_priors(self, path: Path, labels: LabelSet) -> None:
        """Write κ and λ in the form that `RoughPriors.read` takes."""
        prevalence = dict(zip(labels.names, self.prevalence.tolist(), strict=True))
        write_json(path, {"cardinality": self.cardinality, "prevalence": prevalence})

    def with_annotated(self, annotated: ArrayLike, annotations: csr_array) -> "Supervision":
        """Return the same κ and λ with annotated texts."""
        return Supervision(self.cardinality, self.prevalence, np.asarray(annotated, dtype=np.int64), annotations)

    def disagreement(self) -> str | None:
        """Say in a sentence that Σλ and κ are more than 20% apart; `None` when they are not."""
        total = float(self.prevalence.sum())
        if math.isclose(total, self.cardinality, rel_tol=0, abs_tol=DISAGREEMENT * self.cardinality):
            return None
        return (
            f"The prevalences add up to {total:.3g} labels a text, but the cardinality says {self.cardinality:.3g}: "
            f"they are more than {DISAGREEMENT:.0%} apart. The recipe default scales the prevalences to the "
            f"cardinality; with the others, the two pull against each other."
        )

    def warn_if_apart(self) -> None:
        """Log the sentence of `disagreement`, if there is one."""
        sentence = self.disagreement()
        if sentence:
            log.warning(sentence)


def checked_cardinality(value: object, path: Path, labels: int) -> float:
    """Return κ as a file gives it, or raise an error that says what is wrong with it."""
    cardinality = _number(value, f"{path}: 'cardinality'")
    if not 0 < cardinality <= labels:
        raise InputError(
            f"{path}: 'cardinality' must be above 0 and at most {labels}, the number of labels, but is {cardinality:g}."
        )
    return cardinality


def checked_share(value: object, path: Path, name: str) -> float:
    """Return a label's λ as a file gives it, or raise an error that says what is wrong with it."""
    share = _number(value, f"{path}: the prevalence of '{name}'")
    if not 0 <= share <= 1:
        raise InputError(f"{path}: the prevalence of '{name}' must be between 0 and 1, but is {share:g}.")
    return share


def _number(value: object, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError(f"{what} must be a number, but is {value!r}.")
    return float(value)
