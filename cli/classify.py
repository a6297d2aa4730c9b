"""`bncl classify`: a table of texts and label names in, the table with labels out."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import (
    TABLE,
    EmptyRows,
    Html,
    IdColumn,
    Json,
    LabelledTable,
    Overwrite,
    Precision,
    TextColumns,
    Threshold,
    TopK,
    Wide,
    check_choice,
)
from .priors import AUTO, AtLeastOne, LabelsPerText, priors_file, read_priors
from .terminal import echo

if TYPE_CHECKING:
    from bncl_pyg.classify import Classified, Summary
    from bncl_pyg.corpus import LabelSet, TextTable

SHOWN = 60
"""How many letters of a text are shown."""


def classify(
    texts: Annotated[Path, typer.Argument(metavar="TEXTS", help=f"A table of texts ({TABLE}).")],
    labels: Annotated[
        Path, typer.Option(help="Labels: a .txt with a name a line, or a table with label, description and synonyms.")
    ],
    out: LabelledTable,
    text: TextColumns = None,
    identifier: IdColumn = None,
    priors: Annotated[
        str,
        typer.Option(
            metavar="FILE|auto", help="How common labels are (JSON), as for 'bncl train'; 'auto' estimates it."
        ),
    ] = AUTO,
    labels_per_text: LabelsPerText = None,
    at_least_one: AtLeastOne = None,
    annotated: Annotated[
        Path | None,
        typer.Option(metavar="TEXTS", help="A table of annotated texts, with the same columns and that of the labels."),
    ] = None,
    labels_column: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="The column with the labels of annotated rows: of --annotated ('labels' if not given), or else of the "
            "table itself, where a row without a value is not annotated.",
        ),
    ] = None,
    scorer: Annotated[
        str,
        typer.Option(metavar="strong|light|fast|…", help="The language model, as for 'bncl featurize'."),
    ] = "strong",
    work: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Where features, graph and model are kept, so that the next run does only what changed; if not given, "
            "a folder beside the output, named after the table.",
        ),
    ] = None,
    threshold: Threshold = None,
    top_k: TopK = None,
    precision: Precision = None,
    wide: Wide = False,
    skip_empty: EmptyRows = False,
    html: Html = "auto",
    overwrite: Overwrite = False,
    json: Json = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same labels.")] = 0,
    device: Annotated[
        str | None,
        typer.Option(help="Where torch runs the language model, such as cuda; an accelerator, if there is one."),
    ] = None,
) -> None:
    """Label a table of texts in one go: score, build the label graph, train, predict.

    All that is needed is a table and label names. Given again, the command does only what changed.
    """
    from bncl_pyg.corpus import Columns, LabelSet, Table, TextCleaner, TextTable, check_new_table
    from bncl_pyg.persistence import check_own_folder

    from .outputs import check_file, check_output, write_figures
    from .show import stages_bar, to_stderr

    # All that can be wrong with files is told before torch is imported, which takes seconds.
    check_choice(threshold, precision)
    inputs = (texts, labels, annotated, priors_file(priors))
    check_output(out, *inputs)
    check_file(json, *inputs, out, overwrite=overwrite)
    label_set = LabelSet.read(labels)
    own_column = None if annotated is not None else labels_column
    columns = Columns.of(text, identifier, labels_column)
    table = TextTable(texts, columns, labels=own_column is not None, skip_empty=skip_empty)
    check_new_table(out, table.table, overwrite=overwrite)
    known = read_priors(priors, labels_per_text, at_least_one, label_set)
    others = None
    if annotated is not None:
        given = Table(annotated)
        others = TextTable(given, columns.or_usual(given), labels=True)
    _check_rows(table, label_set, own_column)
    if others is not None:
        _check_rows(others, label_set, others.columns.labels)
    folder = work or _work_folder(texts, out)
    check_own_folder(folder, "work")
    if str(out) == "-":
        to_stderr()

    from bncl_pyg.classify import classify_table
    from bncl_pyg.features import Choice

    try:
        with stages_bar() as progress:
            done = classify_table(
                table,
                label_set,
                folder,
                priors=known,
                annotated=others,
                labels_column=own_column,
                scorer=scorer,
                choice=Choice(threshold, top_k, precision),
                cleaner=TextCleaner(html),
                seed=seed,
                device=device,
                progress=progress,
            )
    except KeyboardInterrupt:
        echo("Stopped; the same command goes on with what is scored already.", err=True)
        raise typer.Exit(130) from None
    done.write(out, wide=wide, overwrite=overwrite)
    summary = done.summary()
    write_figures(
        json,
        {
            **summary.as_dict(),
            "skipped": done.skipped,
            "annotated": done.annotated,
            "scored_now": done.scored,
            "trained_now": done.trained_now,
            "cardinality": done.trained.model.priors.cardinality,
            "out": str(out),
            "model": str(done.model),
        },
    )
    _show(done, summary, out, scorer)
    _show_next(done, text, identifier, skip_empty=skip_empty)


def _check_rows(table: "TextTable", labels: "LabelSet", labels_column: str | None) -> None:
    """Raise, before anything is loaded, if a row cannot be used."""
    from dataclasses import replace

    from bncl_pyg.corpus import Annotation

    columns = None if labels_column is None else replace(table.columns, labels=labels_column)
    for _, _, row in table.unique():
        if columns is not None and not row.is_missing(columns.labels):
            Annotation.of(row, labels, columns)


def _work_folder(texts: Path, out: Path) -> Path:
    """Return a folder beside the output, named after the table."""
    name = "bncl-work" if str(texts) == "-" or not texts.is_file() else f"{texts.name.split('.')[0]}.bncl"
    return Path(name) if str(out) == "-" or not out.parent.is_dir() else out.parent / name


def _show(done: "Classified", summary: "Summary", out: Path, scorer: str) -> None:
    from .outputs import shown
    from .show import examples, say

    skipped = f", {done.skipped} more have no text" if done.skipped else ""
    say(f"{shown(out)}: {summary.texts} texts{skipped}; {summary.labels} labels.")
    none = f"; {summary.without_label} texts have none" if summary.without_label else ""
    say(f"Labels a text: {summary.labels_per_text:.2f}{none}.")
    say("Most given: " + ", ".join(f"{name} ({count})" for name, count in summary.most_given) + ".")
    never = f"; {summary.never_given} never" if summary.never_given else ""
    say("Least given: " + ", ".join(f"{name} ({count})" for name, count in summary.least_given) + f"{never}.")
    if summary.expected_precision is not None:
        say(
            f"How sure: by its own probabilities, {summary.expected_precision:.0%} of the labels are right; "
            f"{summary.unsure} texts have no label that is more probable than not."
        )
    if done.foreign and scorer != "multilingual":
        say(f"{done.foreign} texts do not look like English; --scorer multilingual reads sixteen languages.")
    examples([(one.text, one.labels, one.probabilities) for one in summary.examples])
    parts = [
        f"{done.scored} texts scored" if done.scored else "nothing to score",
        "model trained" if done.trained_now else "model as it was",
    ]
    say(f"{done.work} keeps features, graph and model ({', '.join(parts)}); the next run does only what changed.")


def _show_next(done: "Classified", text: str | None, identifier: str | None, *, skip_empty: bool) -> None:
    """Say what is worth typing next: a model that knows no annotated text is helped most by some."""
    from .show import say

    columns = [*(["--text", text] if text else []), *(["--id", identifier] if identifier else [])]
    columns += ["--skip-empty"] if skip_empty else []
    words = ["bncl", "predict", str(done.model), "NEW-TEXTS.csv", *columns, "--out", "NEW-LABELS.csv"]
    say(f"Next, label other texts with this model:\n  {shlex.join(words)}")
    if not done.annotated:
        say(
            "To make it better, write the labels of some twenty rows into a column of the table, semicolons between, "
            "and add --labels-column COLUMN --overwrite."
        )
