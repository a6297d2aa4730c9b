"""The `bncl` command: joins the groups and turns errors into one sentence and exit code 2."""

import errno
import logging
import os
import re
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from bncl_pyg.errors import InputError

from . import (
    classify,
    data,
    demo,
    doctor,
    evaluate,
    explain,
    featurize,
    graph,
    labels,
    predict,
    push,
    report,
    serve,
    suggest,
    train,
)
from .terminal import echo, plain


class _OneSentence(TyperGroup):
    """Shows what is wrong with the input as one sentence, never as a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except InputError as error:
            if "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("RANK", "0") != "0":
                # The first of several processes that train together says it.
                raise typer.Exit(2) from None
            sentence = _with_options(str(error))
        except OSError as error:
            # Whoever read our output has gone: no fault of the input.
            if error.errno in (None, errno.EPIPE):
                raise
            sentence = f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
        except Exception as error:
            lacking = _lacking(error)
            if lacking is None:
                raise
            sentence = lacking
        echo(f"Error: {sentence}", err=True)
        raise typer.Exit(2)


def _lacking(error: Exception) -> str | None:
    """Say what this machine, or a limit that somebody has set, does not have enough of; `None` for any other error."""
    first = next(iter(str(error).splitlines()), "")
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "allocat" in first):
        return "There is not enough memory for this" + (f" ({first})." if first else ".")
    if isinstance(error, ImportError) and ("failed to map" in first or "annot allocate" in first):
        return f"There is not enough memory to load a package ({first})."
    if type(error).__name__ == "SafetensorError" and "os error" in first:
        return f"A file cannot be written or read ({first})."
    return None


def _with_options(sentence: str) -> str:
    """Name the library's arguments as options: `overwrite=True` is --overwrite, `label_map="…"` is --label-map "…"."""
    return re.sub(
        r'\b([a-z]+(?:_[a-z]+)*)=(?:True\b|("[^"]*"))',
        lambda match: f"--{match[1].replace('_', '-')}" + (f" {match[2]}" if match[2] else ""),
        sentence,
    )


class _Plain(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        message = plain(record.getMessage())
        return message if record.levelno < logging.WARNING else f"{record.levelname.capitalize()}: {message}"


app = typer.Typer(
    cls=_OneSentence,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    help="Multi-label text classification from label names.",
    epilog="Exit codes: 0 done, 1 an error of ours, 2 the input or an option cannot be used (one sentence says what), "
    "130 stopped by Ctrl-C.",
)
app.add_typer(data.app, name="data")
app.add_typer(graph.app, name="graph")
app.add_typer(labels.app, name="labels")
app.command("classify")(classify.classify)
app.command("featurize")(featurize.featurize)
app.command("train")(train.train)
app.command("eval")(evaluate.evaluate)
app.command("predict")(predict.predict)
app.command("explain")(explain.explain)
app.command("report")(report.report)
app.command("serve")(serve.serve)
app.command("suggest")(suggest.suggest)
app.command("push")(push.push)
app.command("doctor")(doctor.doctor)
app.command("demo")(demo.demo)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"bncl-pyg {version('bncl-pyg')}")
        raise typer.Exit


@app.callback()
def _options(
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress bars and no notes; warnings and errors are shown.")
    ] = False,
    _version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and stop.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Plain())
    logger = logging.getLogger("bncl_pyg")
    logger.handlers = [handler]
    logger.setLevel(logging.WARNING if quiet else logging.INFO)
    from .show import err, to_stdout

    to_stdout()
    if quiet:
        err.quiet = True


def main() -> None:
    """Run the command line."""
    # On a busy machine, threads that wait by spinning slow torch down several times.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    app()


def train_as_rank() -> None:
    """Run `bncl train` as one of the processes that torchrun started."""
    sys.argv[1:1] = ["train", "--engine", "rank"]
    main()
