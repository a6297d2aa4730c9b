"""What is only roughly known: prevalence in words, or not at all."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bncl_pyg.corpus.labels import LabelSet
from bncl_pyg.corpus.supervision import Supervision, checked_cardinality, checked_share
from bncl_pyg.errors import InputError
from bncl_pyg.persistence import read_json

AUTO = "auto"
WORDS = ("almost unseen", "uncommon", "standard", "common")
"""How common a label is, rarest first."""


@dataclass(frozen=True)
class RoughPriors:
    """Cardinality and prevalence as far as they are known; the rest is estimated from the scored texts.

    Args:
        labels: how many.
        cardinality: κ, if known.
        prevalence: λ where it is known, NaN elsewhere; (labels,).
        words: the place in `WORDS` where only that is known, -1 elsewhere; (labels,).
    """

    labels: int
    cardinality: float | None
    prevalence: NDArray[np.float64]
    words: NDArray[np.int64]

    @property
    def sure(self) -> NDArray[np.bool_]:
        """Of which labels the prevalence is a number."""
        return ~np.isnan(self.prevalence)

    @property
    def silent(self) -> bool:
        """Whether nothing is known of any label."""
        return not self.sure.any() and bool((self.words < 0).all())

    @classmethod
    def nothing(cls, labels: int) -> "RoughPriors":
        """Return what one knows who knows nothing."""
        return cls(labels, None, np.full(labels, np.nan), np.full(labels, -1))

    @classmethod
    def read(cls, path: Path, labels: LabelSet) -> "RoughPriors | Supervision":
        """Read `{"cardinality": κ, "prevalence": {label: λ or a word, ...}}`; either may be missing.

        A prevalence that is there must name every label. Where all numbers are there, or only the cardinality is
        missing, which is then their sum, nothing is left to estimate.
        """
        content = read_json(path)
        for key in content:
            if key not in ("cardinality", "prevalence"):
                raise InputError(f"{path}: there is no '{key}' in priors; there are: cardinality, prevalence.")
        if not content:
            raise InputError(f"{path} says neither 'cardinality' nor 'prevalence'; --priors auto needs no file.")
        rough = cls.nothing(len(labels))
        given = content.get("prevalence")
        if "prevalence" in content:
            if not isinstance(given, dict):
                raise InputError(f"{path}: 'prevalence' must be an object from label to number or word.")
            for name in given:
                if name not in labels:
                    raise InputError(f"{path}, 'prevalence': {labels.unknown(name)}")
            missing = [name for name in labels.names if name not in given]
            for place, name in enumerate(labels.names):
                if isinstance(given.get(name), str):
                    rough.words[place] = _word(given[name], path, name)
                elif name in given:
                    rough.prevalence[place] = checked_share(given[name], path, name)
            # What is there is looked at first: of what is wrong, somebody who tries with a few labels sees that.
            if missing:
                raise InputError(f"{path}, 'prevalence': label '{missing[0]}' is missing.")
        cardinality = None
        if "cardinality" in content:
            cardinality = checked_cardinality(content["cardinality"], path, len(labels))
        if rough.sure.all():
            total = float(rough.prevalence.sum())
            if cardinality is None and not total:
                raise InputError(f"{path}: all prevalences are 0, and there is no 'cardinality'.")
            return Supervision(total if cardinality is None else cardinality, rough.prevalence)
        return cls(len(labels), cardinality, rough.prevalence, rough.words)


def _word(given: str, path: Path, name: str) -> int:
    if given not in WORDS:
        raise InputError(
            f"{path}: the prevalence of '{name}' must be a number or one of {', '.join(repr(w) for w in WORDS)}, "
            f"but is '{given}'."
        )
    return WORDS.index(given)
