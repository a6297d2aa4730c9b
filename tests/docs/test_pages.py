"""The code in README and docs does what it says: every block is run, unless the page says why not.

Python is run in a namespace a page, `bncl` as the real command in this process.
"""

import re
import shlex
import shutil
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from bncl_cli.main import app
from typer.testing import CliRunner

BLOCK = re.compile(r"^(?P<before>[^\n]*)\n+```(?P<kind>\w+)\n(?P<body>.*?)^```", re.MULTILINE | re.DOTALL)
NOT_RUN = re.compile(r"<!-- not run: (?P<reason>.+) -->")


@dataclass(frozen=True)
class Block:
    """A block of a page: what is in it, where it begins, and why it is not run, if it is not."""

    page: str
    line: int
    kind: str
    body: str
    reason: str | None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(page: Path, root: Path) -> list[Block]:
    """Return the blocks of shell and of Python, in their order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in BLOCK.finditer(text):
        if match["kind"] in ("sh", "python"):
            note = NOT_RUN.search(match["before"])
            line = text.count("\n", 0, match.start("kind")) + 1
            name = str(page.relative_to(root))
            found.append(Block(name, line, match["kind"], match["body"], note["reason"] if note else None))
    return found


def run_python(block: Block, names: dict[str, Any]) -> None:
    """Run a block in a page's namespace; an exception names the page and the line."""
    exec(compile("\n" * block.line + block.body, block.page, "exec"), names)


def run_shell(block: Block) -> None:
    """Run the `bncl` commands of a block, each in this process; what they write is written anew."""
    for line in block.body.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if not words:
            continue
        assert words[0] == "bncl", f"{block}: only bncl can be run, not {words[0]}; say why it is not run"
        _make_room(words)
        result = CliRunner().invoke(app, words[1:])
        assert result.exit_code == 0, f"{block}: {line}\n{result.output}\n{result.exception!r}"


def _make_room(words: list[str]) -> None:
    """Remove what a command is to write, where an earlier block of the page wrote it."""
    for option, value in pairwise(words):
        if option == "--out":
            target = Path(value)
            shutil.rmtree(target, ignore_errors=True) if target.is_dir() else target.unlink(missing_ok=True)


ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = {page: blocks_of(page, ROOT) for page in PAGES}


def runnable(blocks: list[Block]) -> list[Block]:
    return [block for block in blocks if block.reason is None]


@pytest.mark.parametrize("page", [page for page in PAGES if runnable(BLOCKS[page])], ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page: Path, prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "here"
    shutil.copytree(prepared, folder)
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    for block in runnable(BLOCKS[page]):
        if block.kind == "python":
            run_python(block, names)
        else:
            run_shell(block)


def test_most_blocks_are_run() -> None:
    every = [block for blocks in BLOCKS.values() for block in blocks]
    assert len(runnable(every)) > len(every) / 2


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 150
