"""Commands that are killed at random moments, again and again: does each end with the undisturbed result?

    python -m tests.hard.kill_loop --kills 10 --seed 0

One process imports everything once and runs each command in a fork of itself, so that a kill costs no start of Python.
It prints what became of each command as JSON. After every kill, what a reader could open must be whole: the folder
that was there before, or the new one.
"""

import argparse
import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TEXTS, ROWS = 40, 2500
WORDS = [
    *("gold", "silver", "wheat", "corn", "money", "rates", "ships", "trade"),
    *("oil", "coffee", "sugar", "cotton", "copper", "zinc", "rice", "tea"),
]


@dataclass
class Case:
    """A command that is killed.

    Attributes:
        name: what it is called.
        words: what is typed, where `{out}` is a folder of its own.
        again: what is typed after it was killed, where that is something else; it depends on what is there.
        prepare: puts what is there before into the folder.
        whole: raises where something that can be read is not whole.
        result: of the folder, what must be the same as undisturbed.
    """

    name: str
    words: list[str]
    result: str
    again: Callable[[Path], list[str]] | None = None
    prepare: Callable[[Path], None] = lambda folder: None
    whole: Callable[[Path], None] = lambda folder: None
    kills: int = 0
    killed_in_time: int = 0
    wrong: list[str] = field(default_factory=list)


def main() -> int:
    """Kill, and say what came of it."""
    options = argparse.ArgumentParser()
    options.add_argument("--kills", type=int, default=10)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--seconds", type=float, default=600)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        cases = run(Path(name), given.kills, given.seed, given.seconds)
    content = [
        {"command": case.name, "kills": case.kills, "while_running": case.killed_in_time, "wrong": case.wrong}
        for case in cases
    ]
    print(json.dumps(content))
    return 1 if any(case.wrong for case in cases) else 0


def run(top: Path, kills: int, seed: int, seconds: float) -> list[Case]:
    """Kill every command some times, in turns, until all kills are spent or the time is over."""
    draw, end = random.Random(seed), time.monotonic() + seconds
    cases = make_cases(top)
    expected: dict[str, dict[str, str]] = {}
    durations: dict[str, float] = {}
    for case in cases:
        folder = fresh_folder(top, case)
        start = time.monotonic()
        wait_for(start_command(case.words, folder), case)
        durations[case.name] = time.monotonic() - start
        expected[case.name] = digests(folder / case.result)
    spent = turn = 0
    while spent < kills and time.monotonic() < end:
        case = cases[turn % len(cases)]
        turn += 1
        folder = fresh_folder(top, case)
        words = case.words
        # Each is killed once; then some once, and some again and again before they may end.
        times = 1 if turn <= len(cases) else draw.choice((1, 1, 2, 4))
        for _ in range(min(times, kills - spent)):
            kill(case, words, folder, draw.uniform(0, 1.1 * durations[case.name]))
            spent += 1
            words = case.words if case.again is None else case.again(folder)
        wait_for(start_command(words, folder), case)
        check_result(case, folder, expected[case.name])
    return cases


def kill(case: Case, words: list[str], folder: Path, moment: float) -> None:
    """Start a command, kill it at a moment, and look whether what is there is whole."""
    process = start_command(words, folder)
    time.sleep(moment)
    os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    case.kills += 1
    case.killed_in_time += os.WIFSIGNALED(status)
    if not os.WIFSIGNALED(status) and os.waitstatus_to_exitcode(status) != 0:
        case.wrong.append(f"it ended with {os.waitstatus_to_exitcode(status)} before it was killed: {log_of(folder)}")
    try:
        case.whole(folder)
    except Exception as error:
        case.wrong.append(f"after a kill: {error}")


def check_result(case: Case, folder: Path, expected: dict[str, str]) -> None:
    """Compare with the undisturbed result, and look for what nobody cleaned up."""
    made = digests(folder / case.result)
    if made != expected:
        other = sorted(name for name in made.keys() | expected.keys() if made.get(name) != expected.get(name))
        case.wrong.append(f"{', '.join(other)} is not as undisturbed")
    left = [str(file.relative_to(folder)) for file in folder.rglob("*") if ".bncl-" in file.name]
    left += [file.name for file in folder.iterdir() if file.name.endswith((".partial", ".blocks", ".checkpoint"))]
    if left:
        case.wrong.append(f"left behind: {', '.join(left)}")


def digests(path: Path) -> dict[str, str]:
    """Return the hash of every file that counts, by its name."""
    files = [path] if path.is_file() else sorted(path.rglob("*"))
    return {
        str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in files
        if file.is_file() and not file.name.startswith(".")
    }


def fresh_folder(top: Path, case: Case) -> Path:
    """Return an empty folder with what is there before."""
    folder = top / case.name.replace(" ", "-")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    case.prepare(folder)
    return folder


def start_command(words: list[str], folder: Path) -> int:
    """Run a command in a fork; return its process."""
    process = os.fork()
    if process:
        return process
    code = 70
    try:
        with (folder / "log.txt").open("w") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
            code = run_command([word.replace("{out}", str(folder)) for word in words])
    finally:
        os._exit(code)


def run_command(words: list[str]) -> int:
    """Run a command in this process; return its exit code."""
    from bncl_cli.main import app

    try:
        app(words, standalone_mode=True)
    except SystemExit as end:
        sys.stdout.flush()
        sys.stderr.flush()
        return end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        return 1
    return 0


def wait_for(process: int, case: Case) -> None:
    """Wait until a command has ended as it should."""
    _, status = os.waitpid(process, 0)
    if status:
        case.wrong.append(f"the command ended with {os.waitstatus_to_exitcode(status)}")


def log_of(folder: Path) -> str:
    """Return the end of what a command printed."""
    return (folder / "log.txt").read_text(errors="replace")[-300:]


def make_cases(top: Path) -> list[Case]:
    """Make the inputs, and say what is killed."""
    from bncl_pyg.features import read_features
    from bncl_pyg.graph import SignedLabelGraph
    from bncl_pyg.training import TrainedModel

    draw = random.Random(7)
    labels, texts, table, vectors = (top / name for name in ("labels.txt", "texts.jsonl", "table.csv", "vectors.txt"))
    labels.write_text("".join(f"{word}\n" for word in WORDS))
    rows = [f"{' '.join(draw.choices(WORDS, k=12))} number {place}" for place in range(ROWS)]
    with texts.open("w") as file:
        file.writelines(json.dumps({"id": f"t{place}", "text": rows[place]}) + "\n" for place in range(TEXTS))
    table.write_text("id,text\n" + "".join(f"r{place},{row}\n" for place, row in enumerate(rows)))
    numbers = ((word, [draw.gauss(0, 1) for _ in range(8)]) for word in WORDS)
    vectors.write_text("".join(f"{word} {' '.join(f'{one:.4f}' for one in row)}\n" for word, row in numbers))
    scored, graph, model = top / "scored", top / "graph", top / "model"
    featurize = ["featurize", str(texts), "--labels", str(labels), "--scorer", "fast", "--out"]
    build = ["graph", "build", str(labels), "--embeddings", str(vectors), "--neighbours", "3", "--max-neighbours", "2"]
    train_on = ["train", str(scored), "--graph", str(graph), "--priors", "auto"]
    # In this process, so that every fork has imported what it needs.
    with contextlib.redirect_stdout(sys.stderr):
        for words in (
            [*featurize, str(scored)],
            [*build, "--hops", "2", "--out", str(graph)],
            [*train_on, "--out", str(model)],
            [*train_on, "--recipe", "paper", "--epochs", "1", "--out", str(top / "paper")],
            ["classify", str(texts), "--labels", str(labels), "--scorer", "fast", "--out", str(top / "c.csv")],
        ):
            if run_command(["--quiet", *words]):
                raise RuntimeError(f"The inputs could not be made: {' '.join(words)}")

    other = top / "other"
    with contextlib.redirect_stdout(sys.stderr):
        run_command(["--quiet", *featurize, str(other), "--template", "It is {}."])

    def copied(source: Path, name: str) -> Callable[[Path], None]:
        return lambda folder: shutil.copytree(source, folder / name) and None

    def loadable_if_there(name: str, load: Callable[[Path], Any]) -> Callable[[Path], None]:
        return lambda folder: load(folder / name) if (folder / name).exists() else None

    many = [*featurize[:1], str(table), *featurize[2:]]
    predict = ["predict", str(model), str(table), "--out", "{out}/p.jsonl"]
    train = [*train_on, "--recipe", "paper", "--epochs", "4"]
    return [
        Case("featurize", [*many, "{out}/f"], "f"),
        Case(
            "featurize --fresh",
            [*featurize, "{out}/f", "--fresh"],
            "f",
            # What had not begun to start anew is still the old store, which only --fresh replaces.
            again=lambda folder: [*featurize, "{out}/f", *(["--fresh"] if is_other(folder / "f") else [])],
            prepare=copied(other, "f"),
        ),
        Case(
            "graph build --overwrite",
            [*build, "--hops", "3", "--overwrite", "--out", "{out}/g"],
            "g",
            prepare=copied(graph, "g"),
            whole=lambda folder: SignedLabelGraph.load(folder / "g") and None,
        ),
        Case(
            "train --recipe paper",
            [*train, "--out", "{out}/m"],
            "m",
            again=lambda _: [*train, "--out", "{out}/m", "--overwrite"],
            whole=loadable_if_there("m", TrainedModel.load),
        ),
        Case("predict --resume", predict, "p.jsonl", again=lambda _: [*predict, "--resume"], whole=whole_rows),
        Case(
            "classify",
            [
                "classify",
                str(texts),
                "--labels",
                str(labels),
                "--scorer",
                "fast",
                "--out",
                "{out}/c.csv",
                "--overwrite",
            ],
            "c.csv",
            whole=loadable_if_there("texts.bncl/model", TrainedModel.load),
        ),
        Case(
            "featurize, read beside",
            [*featurize, "{out}/f", "--template", "It is {}.", "--fresh"],
            "f",
            prepare=copied(scored, "f"),
            whole=lambda folder: refused_or_read(lambda: read_features(folder / "f")),
        ),
    ]


def is_other(store: Path) -> bool:
    """Return whether a store is of the template that was there before."""
    return json.loads((store / "manifest.json").read_text())["template"] == "It is {}."


def whole_rows(folder: Path) -> None:
    """Raise where a table is there that is not whole."""
    if (folder / "p.jsonl").exists():
        rows = [json.loads(line) for line in (folder / "p.jsonl").read_text().splitlines()]
        if len(rows) != ROWS:
            raise ValueError(f"the table has {len(rows)} of {ROWS} rows")


def refused_or_read(read: Callable[[], Any]) -> None:
    """Let a store be read, or be refused in words."""
    from bncl_pyg.errors import InputError

    with contextlib.suppress(InputError):
        read()


def command_line(kills: int, seed: int, seconds: float) -> Iterator[str]:
    """Yield how this is started."""
    yield from (sys.executable, "-m", "tests.hard.kill_loop")
    yield from ("--kills", str(kills), "--seed", str(seed), "--seconds", str(seconds))


if __name__ == "__main__":
    sys.exit(main())
