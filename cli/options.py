"""Options that several commands have, in one wording."""

from pathlib import Path
from typing import Annotated

import typer

TABLE = "CSV, TSV, JSONL, JSON, Parquet or Excel; also .gz and .zst, and - for standard input"

TextColumns = Annotated[
    str | None,
    typer.Option("--text", metavar="COLUMN,…", help="The columns that make up a text, joined; 'text' if not given."),
]
IdColumn = Annotated[
    str | None,
    typer.Option("--id", metavar="COLUMN", help="What identifies a row; 'id' if there is one, else the row's number."),
]
LabelsColumn = Annotated[
    str | None,
    typer.Option("--labels-column", metavar="COLUMN", help="The labels of annotated rows; 'labels' if not given."),
]
SkipEmpty = Annotated[
    bool, typer.Option("--skip-empty", help="Leave out rows without a text, which are an error otherwise.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is written if it is there.")]
Threshold = Annotated[
    float | None,
    typer.Option(metavar="P", min=0, max=1, help="Give the labels that are at least so probable."),
]
TopK = Annotated[
    int | None,
    typer.Option(
        metavar="K", min=1, help="Give the K most probable labels; beside --threshold or --precision, at most K."
    ),
]
Precision = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE",
        min=0,
        max=1,
        help="Give as many labels as can be while, by their probabilities, this share of them is right.",
    ),
]
Wide = Annotated[
    bool, typer.Option("--wide", help="A column a label, with its probability, instead of a list of probabilities.")
]
Json = Annotated[
    Path | None, typer.Option(metavar="OUT.json", help="Write the figures here, for a script; - is standard output.")
]


def check_choice(threshold: float | None, precision: float | None) -> None:
    """Raise, before anything is loaded, if two ways to choose labels are given."""
    from bncl_pyg.errors import InputError

    if threshold is not None and precision is not None:
        raise InputError("--threshold and --precision exclude each other: give one of them.")
