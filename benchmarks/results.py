"""How every benchmark leaves its figures: a JSON file, and a Markdown file made from that JSON alone."""

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bncl_pyg.persistence import write_bytes, write_json

FOLDER = Path(__file__).parent / "results"
PACKAGES = ("torch", "torch-geometric", "transformers", "scikit-learn", "scipy", "numpy")
"""Whose versions are recorded."""


def about_this_run() -> dict[str, Any]:
    """Return what ran, on what."""
    called = sys.modules["__main__"].__spec__  # is there when python was called with -m
    words = [Path(sys.argv[0]).name] if called is None else ["python", "-m", called.name.removesuffix(".__main__")]
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!benchmarks/results")
    return {
        "command": shlex.join([*words, *sys.argv[1:]]),
        "commit": _git("rev-parse", "--short", "HEAD") + (" with changes" if changed else ""),
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
        "cores": os.cpu_count(),
    }


def _git(*words: str) -> str:
    top = Path(__file__).parent.parent
    return subprocess.run(["git", *words], cwd=top, capture_output=True, text=True, check=True).stdout.strip()


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def footer(about: dict[str, Any]) -> str:
    """Return the line that says what ran."""
    machine = f"Python {about['python']}, torch {about['torch']}, {about['cores']} cores, commit {about['commit']}"
    return f"\nMade by `{about['command']}` ({machine}).\n"


def save(name: str, content: dict[str, Any], markdown: str) -> None:
    """Write `NAME.json` and `NAME.md` into the folder of results."""
    write_json(FOLDER / f"{name}.json", content)
    write_bytes(FOLDER / f"{name}.md", markdown.encode())
