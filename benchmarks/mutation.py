"""Mutation testing: small changes to the code, drawn by chance, and whether a test of the same room sees each.

    python -m benchmarks.mutation [--count 120] [--minutes 25]

A mutant is one comparison, sum, product, constant, `and`/`or` or `not` of `nn`, `graph`, `training` or `evaluation`
that is changed in a copy of the repository; the tests of its room run on it until one fails. Those of `training` take
minutes: there, only the tests of the same module run, and modules that have none are left out. A run that takes longer
than its limit is counted as neither. Each mutant is saved when it is done: the same command goes on with the next.
Survivors are listed with what was changed; those that change no behaviour say why in `EQUIVALENT`.
"""

import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.results import FOLDER, about_this_run, footer, markdown_table, save
from bncl_pyg.persistence import read_json

TOP = Path(__file__).parent.parent
ROOMS = ("nn", "graph", "training", "evaluation")
SLOW = ("training",)
"""Rooms of which only a module's own tests run."""
LIMIT = 300.0
"""Seconds that tests may take."""
COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
}
EQUIVALENT: dict[str, str] = {}
"""Survivors that no test could see, by their names, and why."""


@dataclass(frozen=True)
class Mutant:
    """A change: in which file, at which place, what became what.

    Args:
        file: under the top of the repository.
        line: where, counted from 1.
        column: where, counted from 0 in bytes.
        length: how many bytes are replaced, on one line.
        before: the code as it is.
        after: the code that stands there instead.
    """

    file: str
    line: int
    column: int
    length: int
    before: str
    after: str

    @property
    def name(self) -> str:
        """What it is called in the file of results."""
        return f"{self.file}:{self.line}:{self.column} {self.before} → {self.after}"

    @property
    def room(self) -> str:
        """Whose tests must see it."""
        return self.file.split("/")[1]

    @property
    def tests(self) -> Path:
        """Where these tests lie."""
        room = TOP / "tests" / self.room
        return room / f"test_{Path(self.file).stem}.py" if self.room in SLOW else room

    def applied(self, source: str) -> str:
        """Return the changed source."""
        lines = source.encode().split(b"\n")
        line = lines[self.line - 1]
        lines[self.line - 1] = line[: self.column] + self.after.encode() + line[self.column + self.length :]
        return b"\n".join(lines).decode()


def mutants_of(file: str, source: str) -> Iterator[Mutant]:
    """Yield every change to a file that is known here; none of several lines, none in annotations or docstrings."""
    tree = ast.parse(source)
    left_out = set(_not_run(tree))
    for node in ast.walk(tree):
        if id(node) in left_out or getattr(node, "end_lineno", None) != getattr(node, "lineno", 0):
            continue
        changed = _changed(node)
        if changed is None or not isinstance(node, ast.expr) or node.end_col_offset is None:
            continue
        before = ast.get_source_segment(source, node) or ""
        # Brackets: what stands around a product must not pull its parts asunder.
        after = changed if isinstance(node, ast.Constant) else f"({changed})"
        length = node.end_col_offset - node.col_offset
        yield Mutant(file, node.lineno, node.col_offset, length, before, after)


def _not_run(tree: ast.AST) -> Iterator[int]:
    """Yield nodes that are only read: annotations, docstrings, patterns, parts of f-strings, defaults of types."""
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if isinstance(node, ast.AnnAssign | ast.arg):
            parts.append(node.annotation)
        if isinstance(node, ast.FunctionDef):
            parts.append(node.returns)
        if isinstance(node, ast.JoinedStr | ast.Raise | ast.Subscript):
            # What is told, and what is only a type (`tuple[int, ...]`), which cannot be told from an index.
            parts.append(node)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            parts.append(node)
        for part in parts:
            yield from (id(inner) for inner in ast.walk(part)) if part is not None else ()


def _changed(node: ast.AST) -> str | None:
    """Return the code of another expression in a node's place."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARED:
        other: ast.expr = ast.Compare(node.left, [COMPARED[type(node.ops[0])]()], node.comparators)
    elif isinstance(node, ast.BinOp) and type(node.op) in COMPUTED:
        other = ast.BinOp(node.left, COMPUTED[type(node.op)](), node.right)
    elif isinstance(node, ast.BoolOp):
        other = ast.BoolOp(ast.And() if isinstance(node.op, ast.Or) else ast.Or(), node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        other = node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        other = ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        other = ast.Constant(node.value + 1)
    else:
        return None
    return ast.unparse(ast.fix_missing_locations(other))


def drawn(count: int, seed: int = 0) -> list[Mutant]:
    """Return mutants of all rooms, drawn without replacement."""
    every = [
        mutant
        for room in ROOMS
        for path in sorted((TOP / "bncl_pyg" / room).rglob("*.py"))
        for mutant in mutants_of(path.relative_to(TOP).as_posix(), path.read_text(encoding="utf-8"))
    ]
    every = [mutant for mutant in every if mutant.tests.exists()]
    return random.Random(seed).sample(every, min(count, len(every)))


def main(
    count: Annotated[int, typer.Option(help="How many mutants.")] = 120,
    minutes: Annotated[float, typer.Option(help="Begin no mutant later than this.")] = 25.0,
    seed: Annotated[int, typer.Option(help="Of the draw.")] = 0,
) -> None:
    """Try mutants one after the other, each saved when it is done."""
    file, last = FOLDER / "mutation.json", time.monotonic() + 60 * minutes
    content: dict[str, Any] = read_json(file) if file.is_file() else {"mutants": {}}
    content["about"] = about_this_run()
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "copy"
        shutil.copytree(TOP, copy, ignore=shutil.ignore_patterns(".git", ".venv", "*.png", ".*_cache", "__pycache__"))
        for mutant in drawn(count, seed):
            if mutant.name in content["mutants"]:
                continue
            if time.monotonic() > last:
                break
            content["mutants"][mutant.name] = tried(mutant, copy)
            typer.echo(f"{content['mutants'][mutant.name]['outcome']}: {mutant.name}")
            save("mutation", content, as_markdown(content))
    save("mutation", content, as_markdown(content))


def tried(mutant: Mutant, copy: Path) -> dict[str, Any]:
    """Return what the tests of the room say to a mutant."""
    path = copy / mutant.file
    source = path.read_text(encoding="utf-8")
    path.write_text(mutant.applied(source), encoding="utf-8")
    began = time.monotonic()
    try:
        outcome = outcome_of(copy, mutant.tests.relative_to(TOP).as_posix())
    finally:
        path.write_text(source, encoding="utf-8")
    line = source.splitlines()[mutant.line - 1].strip()
    return {"room": mutant.room, "outcome": outcome, "seconds": round(time.monotonic() - began, 1), "line": line}


def outcome_of(copy: Path, tests: str) -> str:
    """Return whether one of some tests fails in a copy of the repository: `killed`, `survived` or `unfinished`."""
    # An editable install would find the original: the copy comes first, and nothing is compiled into it.
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", tests]
    try:
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return "unfinished"
    # 1: a test failed; 2: a module could not be imported, 4: nor could conftest. All else is trouble of pytest's own.
    if done.returncode not in (0, 1, 2) and b"while loading conftest" not in done.stderr:
        raise SystemExit(f"pytest ended with {done.returncode}: {done.stderr.decode()[-500:]}")
    return "survived" if done.returncode == 0 else "killed"


def as_markdown(content: dict[str, Any]) -> str:
    """Return the page: the share that was killed, by room, and the survivors."""
    every = content["mutants"]
    rows = []
    for room in (*ROOMS, "all"):
        mine = [one for one in every.values() if room in (one["room"], "all") and one["outcome"] != "unfinished"]
        killed = sum(one["outcome"] == "killed" for one in mine)
        names = [name for name, one in every.items() if one["outcome"] == "survived" and name in EQUIVALENT]
        same = sum(room in (every[name]["room"], "all") for name in names)
        able = len(mine) - same
        rows.append([room, str(len(mine)), str(killed), str(same), f"{100 * killed / able:.0f} %" if able else "-"])
    survivors = [
        [f"`{name.split(' ')[0]}`", f"`{one['line']}`", f"`{name.split(' ', 1)[1]}`", EQUIVALENT.get(name, "a gap")]
        for name, one in sorted(every.items())
        if one["outcome"] == "survived"
    ]
    survivors = [[cell.replace("|", "\\|") for cell in row] for row in survivors]
    return (
        "# Mutation testing\n\n"
        "One comparison, sum, product, constant or truth value is changed at a time, drawn by chance; the tests of the "
        "same room (of `training`: of the same module) run on it until one fails. The share is of those "
        "that change what the code does.\n\n"
        + markdown_table(["room", "mutants", "killed", "change nothing", "killed of the rest"], rows)
        + "\n## Survivors\n\n"
        + markdown_table(["where", "line", "change", "what it is"], survivors)
        + footer(content["about"])
    )


if __name__ == "__main__":
    typer.run(main)
