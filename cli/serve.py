"""`bncl serve`."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from .options import TABLE, Device, IdColumn, ScorerFolder, TextColumns, TrainedModel
from .terminal import echo


def serve(
    model: TrainedModel,
    host: Annotated[str, typer.Option(help="Where to listen: this machine only, unless told otherwise.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")] = 8000,
    annotate: Annotated[
        Path | None, typer.Option(metavar="TEXTS", help=f"A table of texts to annotate on the page ({TABLE}).")
    ] = None,
    project: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The folder that keeps the answers; made if it is not there.")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="BNCL_TOKEN",
            help="What whoever asks must know; needed where others than this machine can ask. Better in the "
            "environment than here, where other users of the machine can see it.",
        ),
    ] = None,
    retrain_every: Annotated[
        int, typer.Option(metavar="ANSWERS", min=1, help="So many new answers start a training, which runs behind.")
    ] = 10,
    text: TextColumns = None,
    identifier: IdColumn = None,
    scorer: ScorerFolder = None,
    device: Device = None,
) -> None:
    """Serve a model: predictions and explanations over HTTP, and a page to try it, annotate with it and look at it.

    With --annotate and --project, the page shows one text after the other, those that teach most first, as
    'bncl suggest' chooses them; every answer is on the disk before the next text appears, and the model learns from
    them while you go on.

    It ends by Ctrl-C, after it has finished what it took. The log goes to standard error, as lines of JSON without any
    text.
    """
    from bncl_pyg.corpus import Columns, TextTable
    from bncl_pyg.errors import InputError
    from bncl_pyg.persistence import local_folder, read_manifest
    from bncl_pyg.serve import ServeOptions, check_serving

    from .outputs import check_output

    # All that can be wrong with options and files is told before torch is imported, which takes seconds.
    columns = Columns.of(text, identifier, None)
    if (annotate is None) != (project is None):
        given, needed = ("--project", "--annotate") if annotate is None else ("--annotate", "--project")
        raise InputError(f"{given} needs {needed} too: the texts, and the folder that keeps the answers.")
    options = ServeOptions(host, port, token, annotate, project, columns, retrain_every, scorer, device)
    check_serving(options)
    check_output(project, model, annotate)
    read_manifest(local_folder(model, "a model"), "model", check_files=False)
    if annotate is not None and not any(True for _ in TextTable(annotate, columns, skip_empty=True).unique()):
        raise InputError(f"{annotate} holds no text.")

    from bncl_pyg.serve import JsonLines
    from bncl_pyg.serve import serve as start

    def tell(url: str) -> None:
        asks = " It asks for the token." if token is not None else ""
        echo(f"{url}: open it in a browser; {url}/docs says what can be asked.{asks} Ctrl-C ends it.")

    with _json_logs(JsonLines()):
        start(model, options, ready=tell)


@contextmanager
def _json_logs(lines: logging.Formatter) -> Iterator[None]:
    """Write what the server logs as JSON, a line each, for as long as it runs."""
    handler = logging.StreamHandler()
    handler.setFormatter(lines)
    logs = [logging.getLogger(name) for name in ("bncl_pyg", "uvicorn.error")]
    before = [(log.handlers, log.propagate) for log in logs]
    for log in logs:
        log.handlers, log.propagate = [handler], False
    try:
        yield
    finally:
        for log, (handlers, propagate) in zip(logs, before, strict=True):
            log.handlers, log.propagate = handlers, propagate
