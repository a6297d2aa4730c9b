"""Where a command may write: never over what it reads, and over what is there only if asked."""

import json
from pathlib import Path
from typing import Any

from bncl_pyg.errors import InputError

STANDARD_OUTPUT = Path("-")


def shown(out: Path) -> str:
    """Return what an output is called."""
    return "standard output" if out == STANDARD_OUTPUT else str(out)


def check_output(out: Path | None, *inputs: Path | str | None) -> None:
    """Raise if an output is one of a command's inputs, or lies inside of a folder that is one."""
    if out is None or out == STANDARD_OUTPUT or (not out.exists() and not out.parent.exists()):
        return
    for given in inputs:
        path = None if given is None else Path(given)
        if path is None or not path.exists():
            continue
        if out.exists() and out.samefile(path):
            raise InputError(f"{out} is what this command reads, and would be overwritten; choose another name.")
        if path.is_dir() and out.resolve().is_relative_to(path.resolve()):
            raise InputError(f"{out} lies inside of {path}, which this command reads; choose another place.")


def check_file(out: Path | None, *inputs: Path | str | None, overwrite: bool) -> None:
    """Raise if a file cannot be written: it is an input, or it is there and may not be replaced."""
    from bncl_pyg.persistence import check_new_file

    from . import show

    check_output(out, *inputs)
    if out == STANDARD_OUTPUT:
        # What a program reads there is the file and nothing else.
        show.to_stderr()
    elif out is not None:
        check_new_file(out, overwrite=overwrite)


def write_figures(out: Path | None, content: dict[str, Any]) -> None:
    """Write figures as JSON, if they are wanted."""
    import typer

    from bncl_pyg.persistence import write_json

    if out == STANDARD_OUTPUT:
        typer.echo(json.dumps(content, indent=2, ensure_ascii=False))
    elif out is not None:
        write_json(out, content)
