"""`bncl labels`: what is wrong with labels before anything is scored, and labels that change after training."""

from pathlib import Path
from typing import Annotated, Any

import typer

from . import relabel
from .completion import complete_scorer
from .outputs import check_output

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
    template: Annotated[str, typer.Option(help="How a label becomes a hypothesis.")] = "This is about {}.",
    scorer: Annotated[
        str,
        typer.Option(
            metavar="NAME|FOLDER",
            help="The language model that reads labels and texts.",
            autocompletion=complete_scorer,
        ),
    ] = "light",
    json: Annotated[Path | None, typer.Option(metavar="OUT.json", help="Write all findings here too.")] = None,
) -> None:
    """Say which labels a language model will not understand or not tell apart, and what would help."""
    from bncl_pyg.corpus import LabelSet, stream_texts
    from bncl_pyg.label_check import check_labels
    from bncl_pyg.persistence import write_json
    from bncl_pyg.scorers import load_scorer

    check_output(json, labels, texts)
    label_set = LabelSet.read(labels)
    reader: Any = load_scorer(scorer)
    read = None if texts is None else (text for _, text in stream_texts(texts))
    findings = check_labels(label_set, reader, read, template=template)
    if json is not None:
        write_json(json, {"labels": len(label_set), "findings": [finding.as_dict() for finding in findings]})
    _show(findings)
    counts = {name: sum(f.severity == level for f in findings) for level, name in _SEVERITIES.items()}
    listed = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    typer.echo(f"{labels}: {len(label_set)} labels, " + (f"findings: {listed}." if findings else "nothing to mend."))


def _show(findings: list[Any]) -> None:
    from rich.markup import escape
    from rich.table import Table

    from .show import out

    if not findings:
        return
    shown = Table("", "what is wrong", "what would help")
    for finding in findings:
        shown.add_row(_SEVERITIES[finding.severity], escape(finding.problem), escape(finding.advice))
    out.print(shown)
