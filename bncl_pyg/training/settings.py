"""The three settings: which signals the trainer may see."""

from enum import StrEnum

import numpy as np
from scipy.sparse import csr_array

from bncl_pyg.corpus import Corpus, Supervision, rows_of
from bncl_pyg.errors import InputError
from bncl_pyg.features import Features


class Setting(StrEnum):
    """What is known besides the texts and the labels."""

    ANNOTATION_FREE = "annotation-free"
    """Cardinality and prevalence; no annotated text."""
    SCARCE_ANNOTATION = "scarce-annotation"
    """Some annotated texts, from which cardinality and prevalence are estimated."""
    DOMAIN_SUPERVISOR = "domain-supervisor"
    """Cardinality and prevalence, and some annotated texts."""


def supervise(
    setting: Setting,
    features: Features,
    priors: Supervision | None = None,
    annotated: Corpus | None = None,
    annotations: int | None = None,
    seed: int = 0,
    *,
    replacement: bool = False,
) -> Supervision:
    """Return what the setting lets the trainer see, and refuse what it does not.

    Args:
        setting: one of the three.
        features: the training texts; annotated texts must be among them.
        priors: κ and λ.
        annotated: annotated texts.
        annotations: how many of them to draw; all, if not given.
        seed: of the draw.
        replacement: whether a text may be drawn twice.
    """
    check_given(setting, priors=priors is not None, annotated=annotated is not None)
    if annotated is None:
        if annotations is not None:
            raise InputError(f"The setting {setting} takes no annotated texts, so that none can be drawn.")
        assert priors is not None
        priors.warn_if_apart()
        return priors
    assert annotated.annotations is not None
    rows = rows_of(annotated.ids, features.ids, "The folder of features")
    drawn = _draw(len(rows), annotations, seed, replacement=replacement)
    truth: csr_array = annotated.annotations[drawn]
    known = Supervision.from_annotations(truth) if priors is None else priors
    known.warn_if_apart()
    return known.with_annotated(rows[drawn], truth)


def check_given(setting: Setting, *, priors: bool, annotated: bool) -> None:
    """Refuse what a setting does not take, and miss what it needs."""
    if (setting is Setting.SCARCE_ANNOTATION) == priors:
        verb = "estimates cardinality and prevalence from the annotated texts: leave priors out"
        raise InputError(f"The setting {setting} {verb if priors else 'needs priors (--priors)'}.")
    if (setting is Setting.ANNOTATION_FREE) == annotated:
        verb = "takes no annotated texts; domain-supervisor takes both"
        raise InputError(f"The setting {setting} {verb if annotated else 'needs annotated texts (--annotated)'}.")


def _draw(
    texts: int, wanted: int | None, seed: int, *, replacement: bool
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    if wanted is None:
        return np.arange(texts)
    if wanted < 1 or (wanted > texts and not replacement):
        raise InputError(f"Between 1 and {texts} annotated texts can be drawn, but {wanted} were asked for.")
    return np.random.default_rng(seed).choice(texts, wanted, replace=replacement)
