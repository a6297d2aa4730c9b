"""`bncl explain`."""

from collections.abc import Iterator
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Device, IdColumn, Overwrite, ScorerFolder, TextColumns, TrainedModel
from .terminal import echo, plain, plain_letters

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from bncl_pyg.corpus import Columns
    from bncl_pyg.explanation import Contribution, Explanation, LabelExplanation
    from bncl_pyg.features import Features

BAR, SHOWN, MOST_LETTERS = 24, 5, 700
FOR, AGAINST = "green", "red"


def explain(
    model: TrainedModel,
    text: Annotated[
        str,
        typer.Argument(metavar="TEXT|ID", help="The text itself; with --texts or --features, the id of one of theirs."),
    ],
    label: Annotated[
        str | None,
        typer.Option(help="The label to explain; if not given, all that the text is given, and the next best."),
    ] = None,
    texts: Annotated[Path | None, typer.Option(metavar="TEXTS", help="A table of texts, to find the id in.")] = None,
    features: Annotated[
        Path | None,
        typer.Option(
            metavar="FEATURES",
            help="The folder of scored texts, to find the id in; with --texts, its words are named too.",
        ),
    ] = None,
    columns: TextColumns = None,
    identifier: IdColumn = None,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    html: Annotated[Path | None, typer.Option(metavar="OUT.html", help="Write a page that shows it.")] = None,
    overwrite: Overwrite = False,
    scorer: ScorerFolder = None,
    device: Device = None,
) -> None:
    """Show why a text is given its labels: parts that add up to the logit of each decision.

    The start score, the words that speak for and against a label, what travelled along the label graph, competition
    and prior. A label is given where the logit is above its threshold.
    """
    from bncl_pyg.corpus import Columns
    from bncl_pyg.persistence import local_folder, read_manifest, write_bytes

    from .outputs import check_file

    # All that can be wrong with files is told before torch is imported, which takes seconds.
    check_file(html, model, texts, features, overwrite=overwrite)
    read_manifest(local_folder(model, "a model"), "model", check_files=False)
    content, scored = _look_up(text, texts, features, Columns.of(columns, identifier, None))

    from bncl_pyg.predictor import Predictor

    predictor = Predictor.load(model, scorer=scorer, device=device)
    explanation = predictor.explain(content, label, features=scored)
    if html is not None:
        from bncl_pyg.report import render_explanation

        write_bytes(html, render_explanation(explanation).encode())
    if json:
        import json as format

        typer.echo(format.dumps(explanation.as_dict(), ensure_ascii=False, indent=2))
    else:
        _show(explanation)
    if html is not None:
        echo(f"{html}: the same as a page; open it in a browser.", err=json)


def _look_up(
    given: str, texts: Path | None, features: Path | None, columns: "Columns"
) -> "tuple[str | None, Features | None]":
    """Return the text, if it is known, and its features, if they are stored."""
    from bncl_pyg.corpus import TextCleaner, rows_of
    from bncl_pyg.errors import InputError

    if texts is None and features is None:
        if not given.strip():
            raise InputError("The text is empty.")
        return TextCleaner().clean(given), None
    content = None if texts is None else TextCleaner().clean(_text_of(given, texts, columns))
    if features is None:
        return content, None
    from bncl_pyg.features import read_features

    stored = read_features(features, parts=True)
    row = int(rows_of([given], stored.ids, str(features))[0])
    return content, stored.rows(slice(row, row + 1))


def _text_of(identifier: str, path: Path, columns: "Columns") -> str:
    from bncl_pyg.corpus import TextTable
    from bncl_pyg.errors import InputError

    for one, text, _ in TextTable(path, columns, skip_empty=True).unique():
        if one == identifier:
            return text
    raise InputError(f"{path} has no text with id '{identifier}'.")


def _show(explanation: "Explanation") -> None:
    from .show import out

    if explanation.text is None and any(
        part.name == "words" for why in explanation.labels for part in why.contributions
    ):
        echo("Only the scores of this text are known; with --texts, its words are named too.")
    for why in explanation.labels:
        for part in _lines(why, explanation.text):
            out.print(part)


def _lines(why: "LabelExplanation", text: str | None) -> "Iterator[RenderableType]":
    from rich.padding import Padding
    from rich.rule import Rule
    from rich.table import Table
    from rich.text import Text

    name = why.label if why.description in ("", why.label) else f"{why.label}: {why.description}"
    yield Rule(Text(plain(name), style="bold"), align="left", style="dim")
    verdict = why.verdict()
    yield Text(verdict[0].upper() + verdict[1:] + ".", style=FOR if why.is_predicted else AGAINST)
    if text is not None and any(part.name == "words" for part in why.contributions):
        yield Padding(_highlighted(text, why["words"]), (1, 0, 0, 2))
    longest = max((abs(value) for value in _values(why)), default=0) or 1.0
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for part in why.contributions:
        table.add_row(_number(part.value, bold=True), _bar(part.value, longest), Text(plain(part.name), style="bold"))
        shown, rest = part.strongest(SHOWN)
        for detail in shown:
            words = Text(plain(f"  {detail.name}")).append(
                plain(f"  {detail.note}") if detail.note else "", style="dim"
            )
            table.add_row(_number(detail.value), _bar(detail.value, longest), words)
        if rest:
            value = fsum(detail.value for detail in rest)
            table.add_row(_number(value), _bar(value, longest), Text(f"  {len(rest)} more", style="dim"))
    table.add_row(_number(why.logit, bold=True), "", Text("logit: the sum", style="bold"))
    yield Padding(table, (1, 0, 1, 1))


def _values(why: "LabelExplanation") -> Iterator[float]:
    for part in why.contributions:
        yield part.value
        yield from (detail.value for detail in part.strongest(SHOWN)[0])


def _number(value: float, *, bold: bool = False) -> "Text":
    from rich.text import Text

    colour = FOR if value > 0 else AGAINST
    return Text(f"{value:+.3f}", style=f"bold {colour}" if bold else colour)


def _bar(value: float, longest: float) -> "Text":
    """Draw a bar to the right for what speaks for a label, to the left for what speaks against it."""
    from rich.text import Text

    half = BAR // 2
    length = round(abs(value) / longest * half)
    filled = "█" * length or ("▏" if value > 0 else "▕")
    left, right = ("", filled) if value > 0 else (filled, "")
    return Text(f"{left:>{half}}", style=AGAINST).append("│", style="dim").append(f"{right:<{half}}", style=FOR)


def _highlighted(text: str, words: "Contribution") -> "Text":
    """Colour what speaks for and against: bold where it says most, and underlined where it speaks against."""
    from rich.text import Text

    shown = Text(plain_letters(text[:MOST_LETTERS]))
    if len(text) > MOST_LETTERS:
        shown.append(f" … ({len(text) - MOST_LETTERS} more letters)", style="dim")
    most = max((abs(detail.value) for detail in words.details), default=0)
    for detail in words.details:
        share = abs(detail.value) / most if most else 0
        if share < 0.1:
            continue
        style: Any = ("bold " if share > 0.4 else "") + (FOR if detail.value > 0 else f"underline {AGAINST}")
        for start, end in detail.spans:
            if end <= MOST_LETTERS:
                shown.stylize(style, start, end)
    return shown
