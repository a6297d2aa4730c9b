"""`Priors`: what is known of how many labels a text has and of how common each label is; one type for every setting."""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bncl_pyg.corpus import LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.persistence import read_json, write_json

if TYPE_CHECKING:
    from scipy.sparse import csr_array

log = logging.getLogger(__name__)

WORDS = ("almost unseen", "uncommon", "standard", "common")
"""How common a label is, in words, the rarest first; which shares they stand for, training/estimation.py resolves."""
KEYS = ("cardinality", "prevalence", "at_least_one", "precision")
"""What a file of priors may say."""
DISAGREEMENT = 0.2
"""The relative difference between Σλ and κ from which a warning is logged: both count the labels of a text."""

Prevalence = float | tuple[float, float] | str | None
"""What is known of one label: a share, an interval of shares, one of `WORDS`, or nothing."""


@dataclass(frozen=True)
class Priors:
    """Cardinality κ and prevalence λ, as far as they are known.

    What is not known, and which shares words stand for, training/estimation.py resolves from the scored texts.

    Args:
        cardinality: κ, how many labels a text has on average, in (0, labels]; `None` where it is not known.
        prevalence: λ of each label, the share of texts that have it: a number in [0, 1], an interval (low, high), one
            of `WORDS`, or `None`.
        at_least_one: whether every text has a label; `None` where nobody says so.

    Example::

        Priors(1.2, (0.5, (0.1, 0.3), "common", None))
    """

    cardinality: float | None
    prevalence: tuple[Prevalence, ...]
    at_least_one: bool | None = None

    def __post_init__(self) -> None:
        values = (
            _checked_prevalence(value, f"The prevalence of label number {place + 1}")
            for place, value in enumerate(self.prevalence)
        )
        # One form of each, whatever it was given as: Python's own numbers, which JSON can hold, and tuples.
        object.__setattr__(self, "prevalence", tuple(values))
        if self.cardinality is not None:
            cardinality = _checked_cardinality(self.cardinality, "The cardinality", len(self.prevalence))
            object.__setattr__(self, "cardinality", cardinality)

    def __len__(self) -> int:
        return len(self.prevalence)

    @classmethod
    def nothing(cls, labels: int) -> "Priors":
        """Return the priors of somebody who knows nothing of so many labels."""
        return cls(None, (None,) * labels)

    @classmethod
    def exact(
        cls, cardinality: float, prevalence: NDArray[np.float64], *, at_least_one: bool | None = None
    ) -> "Priors":
        """Return known numbers."""
        return cls(float(cardinality), tuple(np.asarray(prevalence, dtype=np.float64).tolist()), at_least_one)

    @classmethod
    def from_annotations(cls, annotations: "csr_array") -> "Priors":
        """Estimate κ and λ as the means over annotated texts; `annotations` is boolean, (texts, labels)."""
        if not annotations.nnz:
            raise InputError("None of the annotated texts has a label, so that no cardinality can be estimated.")
        texts = annotations.shape[0]
        shares = np.asarray(annotations.sum(axis=0), dtype=np.float64) / texts
        at_least_one = bool((np.diff(annotations.indptr) > 0).all())
        return cls.exact(annotations.nnz / texts, shares, at_least_one=at_least_one)

    @classmethod
    def of(
        cls,
        labels: LabelSet,
        prevalence: "Mapping[str, Any] | Sequence[Any] | NDArray[Any] | Priors | None" = None,
        cardinality: float | None = None,
        *,
        at_least_one: bool | None = None,
    ) -> "Priors":
        """Make priors from what somebody writes in Python.

        Args:
            labels: the labels.
            prevalence: a mapping from label name to what is known of it, the same in the order of the labels, priors
                as they are, or `None` where nothing is known of any label.
            cardinality: κ, if known; if all prevalences are numbers, their sum.
            at_least_one: whether every text has a label, if known.
        """
        if isinstance(prevalence, Priors):
            if len(prevalence) != len(labels):
                raise InputError(f"There are priors of {len(prevalence)} labels, but there are {len(labels)} labels.")
            if cardinality is not None:
                raise InputError("The cardinality is given twice: as an argument and in the priors.")
            return prevalence if at_least_one is None else replace(prevalence, at_least_one=at_least_one)
        if cardinality is not None:
            cardinality = _checked_cardinality(cardinality, "The cardinality", len(labels))
        if prevalence is None:
            return cls(cardinality, (None,) * len(labels), at_least_one)
        if not isinstance(prevalence, Mapping) and callable(getattr(prevalence, "items", None)):
            # A pandas Series whose index names the labels; another index numbers them.
            named = dict(prevalence.items())  # type: ignore[union-attr]
            prevalence = named if all(isinstance(name, str) for name in named) else list(named.values())
        if isinstance(prevalence, Mapping):
            return _completed(cardinality, _by_name(prevalence, labels, "prevalence"), "prevalence", at_least_one)
        if isinstance(prevalence, str) or not (isinstance(prevalence, Sequence) or hasattr(prevalence, "__array__")):
            raise TypeError(f"prevalence must be a mapping or a sequence, but is {type(prevalence).__name__}.")
        if len(prevalence) != len(labels):
            raise InputError(f"There are {len(prevalence)} prevalences, but there are {len(labels)} labels.")
        named = dict(zip(labels.names, prevalence, strict=True))
        return _completed(cardinality, _by_name(named, labels, "prevalence"), "prevalence", at_least_one)

    @classmethod
    def read(cls, path: Path, labels: LabelSet) -> "Priors":
        """Read `{"cardinality": κ, "prevalence": {label: λ, [low, high], a word or null, …}}`; either may be missing.

        A label that is not named is one of which nothing is known. Where all are numbers and only the cardinality is
        missing, it is their sum. `"at_least_one": true` says that every text has a label, `false` that many may have
        none. `"precision": "factor 2"` says that every number may be off by a factor of 2: it stands for an interval.
        """
        content = read_json(path)
        for key in content:
            if key not in KEYS:
                raise InputError(f"{path}: there is no '{key}' in priors; there are: {', '.join(KEYS)}.")
        if not {"cardinality", "prevalence"} & set(content):
            raise InputError(f"{path} says neither 'cardinality' nor 'prevalence'.")
        at_least_one = content.get("at_least_one")
        if at_least_one is not None and not isinstance(at_least_one, bool):
            raise InputError(f"{path}: 'at_least_one' must be true, false or null, but is {at_least_one!r}.")
        cardinality: float | None = None
        prevalence: tuple[Prevalence, ...] = (None,) * len(labels)
        if "prevalence" in content:
            if not isinstance(content["prevalence"], dict):
                raise InputError(f"{path}: 'prevalence' must be an object from label to number, interval or word.")
            prevalence = _by_name(content["prevalence"], labels, f"{path}, 'prevalence'", f"{path}: the prevalence of")
        if "precision" in content:
            prevalence = _as_intervals(prevalence, _factor(content["precision"], path))
        if "cardinality" in content:
            cardinality = _checked_cardinality(content["cardinality"], f"{path}: 'cardinality'", len(labels))
        return _completed(cardinality, prevalence, str(path), at_least_one)

    def write(self, path: Path, labels: LabelSet) -> None:
        """Write what `read` reads."""
        write_json(path, self.as_dict(labels))

    def as_dict(self, labels: LabelSet) -> dict[str, Any]:
        """Return what `read` reads, as JSON can hold it."""
        content: dict[str, Any] = {} if self.cardinality is None else {"cardinality": self.cardinality}
        if self.knows_labels or not content:
            values = (list(value) if isinstance(value, tuple) else value for value in self.prevalence)
            content["prevalence"] = dict(zip(labels.names, values, strict=True))
        if self.at_least_one is not None:
            content["at_least_one"] = self.at_least_one
        return content

    @cached_property
    def shares(self) -> NDArray[np.float64]:
        """λ where it is a number or an interval, whose geometric middle it is; NaN elsewhere; (labels,)."""
        return np.array([_share(value) for value in self.prevalence], dtype=np.float64)

    @cached_property
    def words(self) -> NDArray[np.int64]:
        """The place in `WORDS` where a word is known, -1 elsewhere; (labels,)."""
        places = [WORDS.index(value) if isinstance(value, str) else -1 for value in self.prevalence]
        return np.array(places, dtype=np.int64)

    @property
    def has_share(self) -> NDArray[np.bool_]:
        """Of which labels a number or an interval is known; boolean, (labels,)."""
        return ~np.isnan(self.shares)

    @cached_property
    def stds(self) -> NDArray[np.float64]:
        """How far λ may be off, in logarithms: a number not, an interval half its width; NaN elsewhere; (labels,)."""
        return np.array([_std(value) for value in self.prevalence], dtype=np.float64)

    @property
    def is_exact(self) -> bool:
        """Whether κ is known and, of every label, a number: there is nothing to estimate."""
        return self.cardinality is not None and bool((self.stds == 0).all())

    @property
    def knows_labels(self) -> bool:
        """Whether anything is known of any label."""
        return any(value is not None for value in self.prevalence)

    def disagreement(self) -> str | None:
        """Return a sentence where Σλ and κ are known and more than 20% apart, else `None`."""
        if self.cardinality is None or not self.has_share.all():
            return None
        total = float(self.shares.sum())
        if math.isclose(total, self.cardinality, rel_tol=0, abs_tol=DISAGREEMENT * self.cardinality):
            return None
        return (
            f"The prevalences add up to {total:.3g} labels a text, but the cardinality says {self.cardinality:.3g}: "
            f"they are more than {DISAGREEMENT:.0%} apart. A recipe either scales the prevalences to the cardinality "
            f"(default) or lets the two pull against each other."
        )

    def warn_if_they_disagree(self) -> None:
        """Log the sentence of `disagreement`, if there is one."""
        sentence = self.disagreement()
        if sentence:
            log.warning(sentence)


def _factor(value: Any, path: Path) -> float:
    """Return the factor of "factor 2"."""
    words = value.split() if isinstance(value, str) else []
    try:
        factor = float(words[1]) if len(words) == 2 and words[0] == "factor" else math.nan
    except ValueError:
        factor = math.nan
    if not (math.isfinite(factor) and factor >= 1):
        raise InputError(f"{path}: 'precision' must be \"factor\" and a number of at least 1, but is {value!r}.")
    return factor


def _as_intervals(prevalence: tuple[Prevalence, ...], factor: float) -> tuple[Prevalence, ...]:
    """Return intervals in the place of numbers, from a share over the factor to the share times it."""
    return tuple(
        (value / factor, min(value * factor, 1.0)) if isinstance(value, float) and factor > 1 else value
        for value in prevalence
    )


def _share(value: Prevalence) -> float:
    if isinstance(value, tuple):
        low, high = value
        # An interval from 0 has no geometric middle but 0, which would say "never".
        return math.sqrt(low * high) if low > 0 else high / 2
    return math.nan if value is None or isinstance(value, str) else value


def _std(value: Prevalence) -> float:
    if isinstance(value, tuple):
        low, high = value
        return math.log(high / low) / 2 if low > 0 else math.log(2) if high > 0 else 0.0
    return math.nan if value is None or isinstance(value, str) else 0.0


def _completed(
    cardinality: float | None, prevalence: tuple[Prevalence, ...], where: str, at_least_one: bool | None = None
) -> Priors:
    """Return priors whose cardinality is the sum of the prevalences where only that is missing."""
    priors = Priors(cardinality, prevalence, at_least_one)
    if cardinality is not None or not priors.has_share.all():
        return priors
    total = float(priors.shares.sum())
    if not total:
        raise InputError(f"{where}: all prevalences are 0, and there is no 'cardinality'.")
    return Priors(total, prevalence, at_least_one)


def _by_name(
    given: Mapping[str, Any], labels: LabelSet, where: str, of_label: str = "The prevalence of"
) -> tuple[Prevalence, ...]:
    """Return what is known of each label in order; of one that is not named, nothing is known."""
    for name in given:
        if name not in labels:
            raise InputError(f"{where}: {labels.unknown(name)}")
    values = {name: _checked_prevalence(value, f"{of_label} '{name}'") for name, value in given.items()}
    return tuple(values.get(name) for name in labels.names)


def _checked_prevalence(value: Any, what: str) -> Prevalence:
    """Return a prevalence in one of its four forms, or raise an error that says what is wrong with it."""
    if value is None:
        return None
    if isinstance(value, str):
        if value not in WORDS:
            words = ", ".join(repr(word) for word in WORDS)
            raise InputError(f"{what} must be a number, an interval or one of {words}, but is '{value}'.")
        return value
    if isinstance(value, list | tuple):
        if len(value) != 2:
            raise InputError(f"{what} must be a number or an interval of two numbers, but has {len(value)}.")
        low, high = (_checked_share(end, what) for end in value)
        if low > high:
            raise InputError(f"{what} is an interval from {low:g} to {high:g}, but must begin with the lower number.")
        return low, high
    return _checked_share(value, what)


def _checked_share(value: Any, what: str) -> float:
    share = _number(value, what)
    if not 0 <= share <= 1:
        raise InputError(f"{what} must be between 0 and 1, but is {share:g}.")
    return share


def _checked_cardinality(value: Any, what: str, labels: int) -> float:
    cardinality = _number(value, what)
    if not 0 < cardinality <= labels:
        raise InputError(f"{what} must be above 0 and at most {labels}, the number of labels, but is {cardinality:g}.")
    return cardinality


def _number(value: Any, what: str) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
        raise InputError(f"{what} must be a number, but is {value!r}.")
    try:
        number = float(value)
    except OverflowError:
        raise InputError(f"{what} must be a number, but has too many digits.") from None
    if not math.isfinite(number):
        raise InputError(f"{what} must be a number, but is {value!r}.")
    return number
