"""The paper's three settings: which signals training may see. What is given decides; a name is checked against it."""

from enum import StrEnum
from typing import Any

import numpy as np

from bncl_pyg.errors import InputError


class Setting(StrEnum):
    """What is known besides the texts and the labels."""

    ANNOTATION_FREE = "annotation-free"
    """Cardinality and prevalence, as far as they are known; no annotated text."""
    SCARCE_ANNOTATION = "scarce-annotation"
    """Some annotated texts, from which cardinality and prevalence are estimated."""
    DOMAIN_SUPERVISOR = "domain-supervisor"
    """Cardinality and prevalence, and some annotated texts."""


def check_seed(seed: Any) -> None:
    """Raise unless a seed is a whole number of at least 0."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"seed must be a whole number of at least 0, but is {seed!r}.")


def setting_of(name: str | None, *, priors: bool, annotated: bool) -> Setting:
    """Return the setting of what is given.

    Args:
        name: what the user calls it, which must then fit; `None` leaves it to what is given.
        priors: whether cardinality or prevalence are given.
        annotated: whether annotated texts are.
    """
    if name is None:
        if not annotated:
            return Setting.ANNOTATION_FREE
        return Setting.DOMAIN_SUPERVISOR if priors else Setting.SCARCE_ANNOTATION
    try:
        setting = Setting(name)
    except ValueError:
        raise InputError(f"There is no setting '{name}'; there are: {', '.join(Setting)}.") from None
    if setting is Setting.SCARCE_ANNOTATION and priors:
        raise InputError(
            f"The setting {setting} estimates cardinality and prevalence from annotated texts: give no priors."
        )
    if setting is Setting.DOMAIN_SUPERVISOR and not priors:
        raise InputError(f"The setting {setting} needs cardinality or prevalence; scarce-annotation estimates both.")
    if setting is Setting.ANNOTATION_FREE and annotated:
        raise InputError(f"The setting {setting} takes no annotated texts; domain-supervisor takes both.")
    if setting is not Setting.ANNOTATION_FREE and not annotated:
        raise InputError(f"The setting {setting} needs annotated texts.")
    return setting
