"""Where a command may write: never over what it reads."""

from pathlib import Path

from bncl_pyg.errors import InputError


def check_output(out: Path | None, *inputs: Path | str | None) -> None:
    """Raise if an output is one of a command's inputs, or lies inside of a folder that is one."""
    if out is None or (not out.exists() and not out.parent.exists()):
        return
    for given in inputs:
        path = None if given is None else Path(given)
        if path is None or not path.exists():
            continue
        if out.exists() and out.samefile(path):
            raise InputError(f"{out} is what this command reads, and would be overwritten; choose another name.")
        if path.is_dir() and out.resolve().is_relative_to(path.resolve()):
            raise InputError(f"{out} lies inside of {path}, which this command reads; choose another place.")
