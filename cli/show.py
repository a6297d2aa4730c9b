"""Tables and progress bars, in one manner for all commands."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .terminal import echo, plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from bncl_pyg.evaluation import Metrics
    from bncl_pyg.graph import BlockLog
    from bncl_pyg.training import TrainingStep

out = Console()
err = Console(stderr=True)
_shown_on = {"stderr": False, "nowhere": False}
"""Whether what is said goes to standard error, since standard output holds a file; or nowhere, since another process
says it."""


def to_stdout() -> None:
    """Let what is said go to standard output, as it does at first."""
    _shown_on.update(stderr=False, nowhere=False)


def to_stderr() -> None:
    """Let what is said go to standard error: standard output holds a file."""
    _shown_on["stderr"] = True


def be_silent() -> None:
    """Say and show nothing: this is one of several processes, of which the first speaks."""
    _shown_on["nowhere"] = err.quiet = True
    logging.getLogger("bncl_pyg").setLevel(logging.CRITICAL)


def is_silent() -> bool:
    """Return whether another process speaks."""
    return _shown_on["nowhere"]


def say(sentence: str) -> None:
    """Print a sentence as it is."""
    if not is_silent():
        echo(sentence, err=_shown_on["stderr"])


def console() -> Console:
    """Return where tables are printed."""
    return err if _shown_on["stderr"] else out


def examples(rows: "Sequence[tuple[str, Sequence[str], Sequence[float]]]") -> None:
    """Print some texts, each with its labels and how probable they are."""
    from rich.text import Text

    for text, labels, probabilities in rows:
        given = ", ".join(f"{name} {share:.2f}" for name, share in zip(labels, probabilities, strict=True)) or "none"
        line = Text(plain(" ".join(text.split())))
        line.truncate(max(console().width - 4, 20), overflow="ellipsis")
        console().print(Text("  ") + line, highlight=False, soft_wrap=True)
        console().print(Text(plain(f"    → {given}")), highlight=False, soft_wrap=True)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table; the first column is text, the others are numbers."""
    shown = Table(title=title, title_justify="left", title_style="bold")
    for place, column in enumerate(columns):
        shown.add_column(column, justify="left" if place == 0 else "right", overflow="fold")
    for row in rows:
        # A label's name may have brackets, which are no markup.
        shown.add_row(*(f"{cell:.4f}" if isinstance(cell, float) else escape(plain(str(cell))) for cell in row))
    console().print(shown)


def metrics_table(title: str, rows: "Mapping[str, Metrics]") -> None:
    """Print the five metrics, a row a method."""
    table(title, ["", "ACC", "HA", "ebF1", "miF1", "maF1"], [[name, *metrics] for name, metrics in rows.items()])


@contextmanager
def training_bar() -> "Iterator[Callable[[TrainingStep], None]]":
    """Show a bar, what was done last and, if there is one, the loss; yield what to call after every step."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(bar_width=20), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=err) as bar:
        task = bar.add_task("reading the scores", total=None)

        def advance(step: "TrainingStep") -> None:
            loss = f", loss {step.figures['loss']:.4g}" if "loss" in step.figures else ""
            bar.update(task, total=step.of, completed=step.number, description=f"{step.what}{loss}")

        yield advance


@contextmanager
def texts_bar(
    doing: str = "scoring",
) -> "Iterator[tuple[Callable[[int, int], None], Callable[[int], None], Callable[[str, int, int], None]]]":
    """Show a bar with texts a second and the time left.

    Yields what to call at the start, after every step, and with whatever else is being done, how far, of how much.
    """
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Speed(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text("" if task.speed is None else f"{task.speed:.1f}/s")

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        Speed(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, speed_estimate_period=300) as bar:
        tasks = {doing: bar.add_task(f"{doing} texts", total=None)}

        def aside(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done)

        yield (
            lambda total, done: bar.update(tasks[doing], total=total, completed=done),
            lambda texts: bar.update(tasks[doing], advance=texts),
            aside,
        )


@contextmanager
def stages_bar() -> "Iterator[Callable[[str, int, int], None]]":
    """Show a bar for each thing that is done, one below the other; yield what to call with how far it is."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err) as bar:
        tasks: dict[str, TaskID] = {}

        def advance(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done, total=total)

        yield advance


_STAGES = {
    "vectors": "label vectors",
    "coarse": "percentiles",
    "fine": "percentiles, exactly",
    "edges": "pairs beyond the percentiles",
    "centroids": "clusters of labels",
    "clusters": "each label's cluster",
    "probes": "recall on a sample",
    "nearest": "nearest and farthest",
}


@contextmanager
def blocks_bar() -> "Iterator[Callable[[BlockLog], None]]":
    """Show a bar for each stage of a build; yield what to call after every block."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    columns = (BarColumn(bar_width=20), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    with Progress(*columns, console=err) as bar:
        tasks: dict[str, TaskID] = {}

        def advance(entry: "BlockLog") -> None:
            if entry.stage not in tasks:
                shown = _STAGES.get(entry.stage, entry.stage.replace("hop", "hop "))
                tasks[entry.stage] = bar.add_task(shown, total=entry.of)
            bar.update(tasks[entry.stage], completed=entry.finished)

        yield advance
