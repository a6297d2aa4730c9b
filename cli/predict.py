"""`bncl predict`."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from .options import (
    TABLE,
    Address,
    Device,
    EmptyRows,
    Engine,
    Html,
    IdColumn,
    Json,
    LabelledTable,
    Overwrite,
    Precision,
    ScorerFolder,
    TextColumns,
    Threshold,
    TopK,
    TrainedModel,
    Wide,
    Workers,
    check_choice,
    check_engine,
)
from .ray_engine import FromRay, check_ray_output, ray_predict
from .terminal import echo

if TYPE_CHECKING:
    from bncl_pyg.classify import Predicted
    from bncl_pyg.corpus import TextTable
    from bncl_pyg.features import Choice
    from bncl_pyg.predictor import Predictor


def predict(
    model: TrainedModel,
    texts: Annotated[
        str,
        typer.Argument(
            metavar="FEATURES|TEXTS",
            help=f"The folder of scored texts, or a table ({TABLE}); with --engine ray, also s3://… and the like.",
        ),
    ],
    out: LabelledTable,
    text: TextColumns = None,
    identifier: IdColumn = None,
    threshold: Threshold = None,
    top_k: TopK = None,
    precision: Precision = None,
    wide: Wide = False,
    skip_empty: EmptyRows = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was stopped.")] = False,
    overwrite: Overwrite = False,
    json: Json = None,
    scorer: ScorerFolder = None,
    html: Html = "auto",
    device: Device = None,
    engine: Engine = "local",
    address: Address = None,
    workers: Workers = None,
) -> None:
    """Write the labels of texts, the most probable first.

    Texts are read by the scorer that the model was trained with, some at a time: a table may be of any length. All rows
    are written, in their order.
    """
    from bncl_pyg.corpus import Columns, TextTable, check_new_table
    from bncl_pyg.errors import InputError
    from bncl_pyg.persistence import local_folder, read_manifest

    from .outputs import check_file, check_output, shown, write_figures
    from .show import say, to_stderr

    # All that can be wrong with files is told before torch is imported, which takes seconds.
    check_choice(threshold, precision)
    check_engine(engine, address, workers, texts)
    check_output(out, model, texts)
    check_file(json, model, texts, out, overwrite=overwrite)
    read_manifest(local_folder(model, "a model"), "model", check_files=False)
    table, rows, source = None, 0, Path(texts)
    if engine == "ray":
        check_ray_output(source, out)
    elif source.is_dir():
        if text or identifier or skip_empty or resume or wide:
            raise InputError(f"{texts} holds features: --text, --id, --wide, --skip-empty and --resume are for tables.")
        read_manifest(source, "features", check_files=False)
        check_new_table(out, overwrite=overwrite)
    else:
        table = TextTable(source, Columns.of(text, identifier), skip_empty=skip_empty)
        check_new_table(out, table.table, overwrite=overwrite or resume)
        rows = sum(1 for _ in table)
        if not rows:
            raise InputError(f"{table.table.name} holds no text.")
    if str(out) == "-":
        to_stderr()

    from bncl_pyg.classify import check_unfinished
    from bncl_pyg.features import Choice
    from bncl_pyg.predictor import Predictor

    check_unfinished(out, resume=resume, overwrite=overwrite)
    choice = Choice(threshold, top_k, precision)
    if engine == "ray":
        given = FromRay(texts, text, identifier, skip_empty, html, address, workers)
        load = partial(Predictor.load, model, scorer=scorer, device=device)
        done = ray_predict(given, load, out, choice, wide=wide, resume=resume, overwrite=overwrite)
    elif table is None:
        predictor = Predictor.load(model, scorer=scorer, device=device)
        done = _predict_features(predictor, source, out, choice, overwrite=overwrite)
    else:
        predictor = Predictor.load(model, scorer=scorer, device=device)
        done = _predict_table(predictor, table, rows, out, choice, html, wide=wide, resume=resume, overwrite=overwrite)
    write_figures(
        json,
        {
            "rows": done.rows,
            "skipped": done.skipped,
            "without_label": done.without_label,
            "labels": done.labels,
            "expected_precision": done.expected_precision,
            "threshold": done.threshold if threshold is None else threshold,
        },
    )
    skipped = f", {done.skipped} without text were skipped" if done.skipped else ""
    went_on = f" ({done.resumed} of them from an earlier run)" if done.resumed else ""
    say(f"{shown(out)}: {done.rows} texts{went_on}, {done.without_label} of them without any label{skipped}.")
    if done.threshold is not None:
        reached = f"{done.threshold:.4f}" if done.threshold <= 1 else "more than any label has"
        say(f"An expected precision of {precision:g} needs a threshold of {reached}.")


def _predict_features(
    predictor: "Predictor", features: Path, out: Path, choice: "Choice", *, overwrite: bool
) -> "Predicted":
    from bncl_pyg.classify import Predicted
    from bncl_pyg.corpus import write_table
    from bncl_pyg.features import read_features

    loaded = read_features(features)
    rows = list(predictor.rows(loaded, choice))
    columns = ("id", "labels", "probabilities")
    write_table(out, columns, rows, list_types={"labels": str, "probabilities": float}, overwrite=overwrite)
    given = [share for row in rows for share in row["probabilities"]]
    mean = sum(given) / len(given) if given else None
    return Predicted(len(rows), 0, sum(not row["labels"] for row in rows), 0, len(given), mean)


def _predict_table(
    predictor: "Predictor",
    table: "TextTable",
    rows: int,
    out: Path,
    choice: "Choice",
    html: Literal["auto", "strip", "keep"],
    *,
    wide: bool,
    resume: bool,
    overwrite: bool,
) -> "Predicted":
    from bncl_pyg.classify import predict_table
    from bncl_pyg.corpus import TextCleaner

    from .show import texts_bar

    try:
        with texts_bar("predicting") as (start, progress, _):
            start(rows, 0)
            return predict_table(
                predictor,
                table,
                out,
                choice=choice,
                wide=wide,
                cleaner=TextCleaner(html),
                resume=resume,
                overwrite=overwrite,
                progress=progress,
            )
    except KeyboardInterrupt:
        if str(out) != "-":
            echo("Stopped; the same command with --resume goes on.", err=True)
        raise typer.Exit(130) from None
