"""What the options of a command say of cardinality and prevalence."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from bncl_pyg.corpus import LabelSet
    from bncl_pyg.priors import Priors

AUTO = "auto"

LabelsPerText = Annotated[
    float | None, typer.Option(metavar="K", help="How many labels a text has on average, if that is known.")
]
AtLeastOne = Annotated[
    bool | None,
    typer.Option(
        "--at-least-one/--or-none",
        help="Whether every text has a label, or may have none. If left out, the priors say so, or the annotated "
        "texts, else a cardinality of at least 1.",
    ),
]


def priors_file(priors: str | None) -> Path | None:
    """Return the file of priors, if one is given."""
    return None if priors is None or priors == AUTO else Path(priors)


def read_priors(
    priors: str | None, labels_per_text: float | None, at_least_one: bool | None, labels: "LabelSet"
) -> "Priors | None":
    """Return what is known; `None` where nothing is."""
    from bncl_pyg.errors import InputError
    from bncl_pyg.priors import Priors

    file = priors_file(priors)
    if file is None and labels_per_text is None and at_least_one is None:
        return None
    known = Priors.nothing(len(labels)) if file is None else Priors.read(file, labels)
    if labels_per_text is not None:
        if known.cardinality is not None:
            raise InputError(f"{file} says already how many labels a text has; leave --labels-per-text out.")
        if not 0 < labels_per_text <= len(labels):
            raise InputError(
                f"--labels-per-text must be above 0 and at most {len(labels)}, the number of labels, "
                f"but is {labels_per_text:g}."
            )
        known = replace(known, cardinality=labels_per_text)
    return known if at_least_one is None else replace(known, at_least_one=at_least_one)
