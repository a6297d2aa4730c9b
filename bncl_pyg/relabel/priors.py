"""κ and λ after labels have changed: what was known stays known, merged labels' add up, new ones are given or not."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bncl_pyg.errors import InputError
from bncl_pyg.features import Features
from bncl_pyg.priors import WORDS, Prevalence, Priors
from bncl_pyg.relabel.change import LabelChange
from bncl_pyg.training import MAX_PREVALENCE, DefaultRecipe, TrainedModel

if TYPE_CHECKING:
    pass

Shares = NDArray[np.float64]


def merged_share(shares: Shares, decisions: NDArray[np.bool_]) -> float:
    """Return the share of texts that have any of several labels.

    They overlap as the model says that they do; the share is at least that of the most common and at most their sum.

    Args:
        shares: λ of each, (labels,).
        decisions: which of them the model gives to texts, (texts, labels).
    """
    total, given = float(shares.sum()), int(decisions.sum())
    independent = float(1 - np.prod(1 - shares))
    union = total * int(decisions.any(axis=1).sum()) / given if given else independent
    return float(np.clip(union, shares.max(), min(1.0, total)))


def guessed_shares(change: LabelChange, trained: TrainedModel, features: Features) -> Shares:
    """Return λ of labels that are new, from the scores, on the scale of the labels that are known; NaN elsewhere.

    The estimate is the default recipe's, whatever the model's recipe is.
    """
    recipe, known = DefaultRecipe(), trained.model.priors
    shares = kept_shares(change, known)
    kept = ~np.isnan(shares)
    assert known.cardinality is not None
    cardinality = min(known.cardinality * len(shares) / max(int(kept.sum()), 1), float(len(shares)))
    estimate = recipe.estimation.unknown_prevalence(features, cardinality)
    scale = shares[kept].sum() / max(float(estimate[kept].sum()), 1e-12)
    guessed = np.clip(estimate * scale, 1 / max(len(features), 1), MAX_PREVALENCE)
    return np.where(kept, np.nan, guessed)


def kept_shares(change: LabelChange, priors: Priors) -> Shares:
    """Return λ of labels that come from one earlier label; NaN elsewhere; (labels,)."""
    places = [change.before.place(origin[0]) if len(origin) == 1 else -1 for origin in change.origins]
    return np.array([priors.shares[place] if place >= 0 else np.nan for place in places])


def changed_priors(
    change: LabelChange,
    base: Priors,
    resolved: Priors,
    decisions: NDArray[np.bool_] | None,
    given: Mapping[str, Any],
    guessed: Shares | None,
) -> Priors:
    """Return what is known of the labels afterwards.

    Args:
        change: the change.
        base: what was known before: numbers, intervals, words or nothing.
        resolved: the numbers that the model was trained with.
        decisions: which labels the model gives to the training texts, (texts, earlier labels); for merged labels.
        given: what is known of new labels, by name.
        guessed: λ of new labels where nothing is given, (labels,).
    """
    values: list[Prevalence] = []
    cardinality = base.cardinality
    gone = set(change.before.names) - {origin[0] for origin in change.origins if len(origin) == 1}
    left = 0.0 if cardinality is None else cardinality - sum(resolved.shares[change.before.place(n)] for n in gone)
    for place, (name, origin) in enumerate(zip(change.labels.names, change.origins, strict=True)):
        sources = [change.before.place(earlier) for earlier in origin]
        if len(sources) == 1:
            values.append(base.prevalence[sources[0]])
        elif sources:
            assert decisions is not None
            ours = decisions[:, sources]
            left += merged_share(resolved.shares[sources], ours)
            values.append(_merged([base.prevalence[source] for source in sources], ours))
        else:
            value, number = _added(name, given.get(name), base, None if guessed is None else float(guessed[place]))
            left += number
            values.append(value)
    if cardinality is None:
        return Priors(None, tuple(values))
    known = Priors(None, tuple(values))
    # What removed labels had may be all that was known: κ is above 0, and not below what is still known.
    least = float(np.nansum(known.shares)) if known.has_share.any() else 0.0
    return replace(known, cardinality=float(np.clip(left, max(least, 1e-3), len(values))))


def _merged(values: list[Prevalence], decisions: NDArray[np.bool_]) -> Prevalence:
    """Return what is known of a label that several become."""
    if any(value is None for value in values):
        return None
    words = [value for value in values if isinstance(value, str)]
    if words:
        return max(words, key=WORDS.index)
    if any(isinstance(value, tuple) for value in values):
        ends = [value if isinstance(value, tuple) else (_number(value), _number(value)) for value in values]
        return max(low for low, _ in ends), min(1.0, sum(high for _, high in ends))
    return merged_share(np.array(values, dtype=np.float64), decisions)


def _number(value: Prevalence) -> float:
    assert isinstance(value, float)
    return value


def _added(name: str, value: Any, base: Priors, guess: float | None) -> tuple[Prevalence, float]:
    """Return what is known of a new label, and its share in a number."""
    checked = Priors(None, (value,)).prevalence[0] if value is not None else None
    if isinstance(checked, str) and base.is_exact:
        raise InputError(
            f"The prevalence of '{name}' is given in a word, but those of the other labels in numbers: give a number "
            f"or an interval, or leave it out."
        )
    if checked is None or isinstance(checked, str):
        number = guess or 0.0
        # Beside labels of which every share is known, what is left for one that is not known would be too much.
        return (number if checked is None and base.is_exact else checked), number
    return checked, float(Priors(None, (checked,)).shares[0])
