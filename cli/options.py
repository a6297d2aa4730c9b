"""Options that several commands have, in one wording."""

from pathlib import Path
from typing import Annotated, Literal

import typer

TABLE = "CSV, TSV, JSONL, JSON, Parquet or Excel; also .gz and .zst, and - for standard input"

TrainedModel = Annotated[str, typer.Argument(metavar="MODEL", help="The folder of a trained model, or its hub name.")]
LabelledTable = Annotated[
    Path,
    typer.Option(
        help="Where to write the table with the columns that it has, and labels and probabilities; the ending says in "
        "which format, and - is standard output."
    ),
]
EmptyRows = Annotated[
    bool, typer.Option("--skip-empty", help="Give rows without a text no label; they are an error otherwise.")
]
Html = Annotated[Literal["auto", "strip", "keep"], typer.Option(help="What happens to HTML, as for 'bncl featurize'.")]
ScorerFolder = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER|NAME",
        help="Where the scorer of the texts lies, if it was a local folder; or its name, to let it be downloaded.",
    ),
]
Device = Annotated[
    str | None, typer.Option(help="Where scorer and model run, such as cuda; an accelerator, if there is one.")
]
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
Engine = Annotated[
    Literal["local", "ray"],
    typer.Option(help="What does the work: this process, or the workers of a Ray cluster, with the same result."),
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="auto|ADDRESS", help="For --engine ray: the cluster; if not given, one is started on this machine."
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="For --engine ray: how many workers; all GPUs or CPUs, if not given."),
]
Json = Annotated[
    Path | None, typer.Option(metavar="OUT.json", help="Write the figures here, for a script; - is standard output.")
]


def check_engine(engine: str, address: str | None, workers: int | None, *sources: str) -> None:
    """Raise, before anything is loaded, if options of the engine or its inputs do not fit."""
    import importlib.util

    from bncl_pyg.errors import InputError, missing_extra

    if engine == "ray":
        if importlib.util.find_spec("ray") is None:
            raise missing_extra("--engine ray", "ray", "distributed")
        return
    if address is not None or workers is not None:
        raise InputError("--address and --workers are for --engine ray.")
    remote = next((source for source in sources if "://" in source), None)
    if remote is not None:
        raise InputError(f"{remote} lies elsewhere: only --engine ray reads from there; or copy it here first.")


def check_choice(threshold: float | None, precision: float | None) -> None:
    """Raise, before anything is loaded, if two ways to choose labels are given."""
    from bncl_pyg.errors import InputError

    if threshold is not None and precision is not None:
        raise InputError("--threshold and --precision exclude each other: give one of them.")
