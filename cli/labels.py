"""`bncl labels`: what is wrong with labels before anything is scored, and labels that change after training."""

from pathlib import Path
from typing import Annotated, Any

import typer

from . import relabel
from .completion import complete_scorer
from .options import Json, Overwrite, SkipEmpty, TextColumns

app = typer.Typer(no_args_is_help=True, help="Check labels before anything is scored; change those of a model.")
app.command("add")(relabel.add)
app.command("remove")(relabel.remove)
app.command("rename")(relabel.rename)
app.command("merge")(relabel.merge)

_SEVERITIES = {3: "severe", 2: "moderate", 1: "hint"}


@app.command()
def check(
    labels: Annotated[
        Path,
        typer.Argument(metavar="LABELS", help="Labels: rows with label, description and synonyms, or a .txt of names."),
    ],
    texts: Annotated[
        Path | None,
        typer.Option(metavar="TEXTS", help="Texts that the labels are for: also say which labels no text comes near."),
    ] = None,
    text: TextColumns = None,
    skip_empty: SkipEmpty = False,
    template: Annotated[str, typer.Option(help="How a label becomes a hypothesis.")] = "This is about {}.",
    scorer: Annotated[
        str,
        typer.Option(
            metavar="NAME|FOLDER",
            help="The language model that reads labels and texts.",
            autocompletion=complete_scorer,
        ),
    ] = "light",
    json: Json = None,
    overwrite: Overwrite = False,
) -> None:
    """Say which labels a language model will not understand or not tell apart, and what would help."""
    from bncl_pyg.corpus import Columns, LabelSet, TextTable

    from .outputs import check_file, write_figures
    from .show import say

    # All that can be wrong with files is told before torch is imported, which takes seconds.
    check_file(json, labels, texts, overwrite=overwrite)
    label_set = LabelSet.read(labels)
    table = None if texts is None else TextTable(texts, Columns.of(text), skip_empty=skip_empty)
    for _ in table or ():
        pass  # a row that cannot be used is told now

    from bncl_pyg.label_check import check_labels
    from bncl_pyg.scorers import load_scorer

    reader: Any = load_scorer(scorer)
    read = None if table is None else (content for _, content in table if content is not None)
    findings = check_labels(label_set, reader, read, template=template)
    write_figures(json, {"labels": len(label_set), "findings": [finding.as_dict() for finding in findings]})
    _show(findings)
    counts = {name: sum(f.severity == level for f in findings) for level, name in _SEVERITIES.items()}
    listed = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    say(f"{labels}: {len(label_set)} labels, " + (f"findings: {listed}." if findings else "nothing to mend."))


def _show(findings: list[Any]) -> None:
    from rich.markup import escape
    from rich.table import Table

    from .show import console
    from .terminal import plain

    if not findings:
        return
    shown = Table("", "what is wrong", "what would help")
    for finding in findings:
        shown.add_row(_SEVERITIES[finding.severity], *(escape(plain(one)) for one in (finding.problem, finding.advice)))
    console().print(shown)
