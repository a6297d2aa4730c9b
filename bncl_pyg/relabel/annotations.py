"""Annotated texts after labels have changed: they follow; where nobody said whether a text has a new label, and it may
well have it, it is left out."""

from collections.abc import Mapping, Sequence

import numpy as np

from bncl_pyg.corpus import rows_of
from bncl_pyg.errors import InputError
from bncl_pyg.features import Features
from bncl_pyg.relabel.change import LabelChange

Names = Mapping[str, Sequence[str]]
"""The labels of annotated texts by id."""


def followed(before: Names, change: LabelChange, more: Names | None) -> dict[str, tuple[str, ...]]:
    """Return the annotated texts with the changed labels.

    Args:
        before: with the labels that there were.
        change: the change.
        more: annotated texts with the labels that there are now, which are joined with these.
    """
    renamed = change.renamed()
    rows = {name: {renamed[label] for label in labels if label in renamed} for name, labels in before.items()}
    for identifier, labels in (more or {}).items():
        for label in labels:
            if label not in change.labels:
                raise InputError(f"The annotated text '{identifier}': {change.labels.unknown(str(label))}")
        rows.setdefault(str(identifier), set()).update(labels)
    return {name: tuple(sorted(labels, key=change.labels.place)) for name, labels in rows.items()}


def followed_absent(before: Names, change: LabelChange, more: Names | None) -> dict[str, tuple[str, ...]]:
    """Return, of texts that are annotated in part, the changed labels that they are known not to have.

    Args:
        before: the labels that there were, by id.
        change: the change. Of several labels that became one, a text must be known to have none.
        more: texts that are now annotated wholly.
    """
    origins: dict[str, set[str]] = {}
    for old, new in change.renamed().items():
        origins.setdefault(new, set()).add(old)
    return {
        name: tuple(label for label in change.labels.names if label in origins and origins[label] <= set(absent))
        for name, absent in before.items()
        if name not in (more or {})
    }


def doubtful(
    annotated: Names, change: LabelChange, more: Names | None, features: Features, shares: Mapping[str, float]
) -> set[str]:
    """Return the annotated texts that may well have a new label, though nobody said whether they do.

    They are as many of all texts as the label's share says, by the score that is highest.

    Args:
        annotated: with the labels that there are now.
        change: the change.
        more: those that somebody looked at with the new labels in mind, or of which only some labels are known.
        features: of all training texts, with the new labels.
        shares: λ of the new labels, by name.
    """
    unsure = [name for name in annotated if name not in (more or {})]
    if not unsure:
        return set()
    rows = rows_of(unsure, features.ids, "The set of training texts")
    doubt = np.zeros(len(unsure), dtype=bool)
    margins = (features.entailment - features.contradiction).numpy()
    for label in change.added:
        column = margins[:, features.labels.place(label)]
        doubt |= column[rows] >= np.quantile(column, 1 - min(max(shares[label], 0.0), 1.0))
    return {name for name, is_doubtful in zip(unsure, doubt, strict=True) if is_doubtful}
