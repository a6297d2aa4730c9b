"""A million short texts and 135 labels through featurise and predict: memory over time, and the end against the start.

    python -m benchmarks.load [--rows 1000000] [--folder FOLDER]

Texts are sentences of the bundled set, put together anew; labels are those of the bundled set and plain nouns. Each
stage is a process of its own with one thread; a thread beside it notes, every second, how many rows are done and how
much memory is held. What is done is saved stage by stage: the same command goes on with the next. Rows in are compared
with rows out, by id and in their order. Where other work shares the machine, CPU time is what compares.
"""

import gzip
import json
import random
import resource
import tempfile
import threading
import time
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from benchmarks.results import FOLDER, about_this_run, footer, markdown_table, save
from bncl_pyg.classify import predict_table
from bncl_pyg.corpus import Corpus, LabelSet, TextTable
from bncl_pyg.demo import demo_folder
from bncl_pyg.estimator import BNCLClassifier
from bncl_pyg.features import StoredFeatures, featurize
from bncl_pyg.persistence import read_json, write_json
from bncl_pyg.predictor import Predictor
from bncl_pyg.scorers import load_scorer

ROWS, LABELS, TRAINED_ON = 1_000_000, 135, 1000
SCORER, STAGES = "fast", ("featurize", "predict")
NOUNS = """
bread cheese fruit meat fish salt sugar wine tea coffee water river ocean island mountain forest desert garden flower
tree grass wheat corn cotton wool leather paper glass iron copper gold silver stone sand oil coal gas wind rain snow
storm fire heat ice light sound colour money bank price tax trade market factory farm ship train bridge road city
village school church hospital prison court law war peace king army police child family marriage house door window
table chair clock
"""
"""With the labels of the bundled set, more than are needed."""


def main(
    rows: Annotated[int, typer.Option(help="How many texts.")] = ROWS,
    folder: Annotated[Path | None, typer.Option(help="Where table, store and output lie; kept.")] = None,
    note: Annotated[str, typer.Option(help="What else is to be known of this run.")] = "",
    write: Annotated[bool, typer.Option("--save/--no-save", help="Whether to write the page of results.")] = True,
) -> None:
    """Measure stage by stage, and write the page."""
    if folder is None:
        with tempfile.TemporaryDirectory() as name:
            main(rows, Path(name), note, write)
        return
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"load-{rows}.json"
    content: dict[str, Any] = read_json(file) if file.is_file() else {"rows": rows, "stages": {}}
    content |= {"about": about_this_run(), "labels": LABELS, "scorer": SCORER, "note": note}
    prepare(folder, rows)
    for stage in STAGES:
        if stage not in content["stages"]:
            content["stages"][stage] = measured(stage, folder, rows)
            write_json(file, content)
    if write:
        save("load", content, as_markdown(content))
        draw(content, FOLDER / "load.png")
    typer.echo(as_markdown(content))


def label_names() -> list[str]:
    """Return the names of the labels."""
    return [*LabelSet.read(demo_folder() / "labels.jsonl").names, *NOUNS.split()][:LABELS]


def texts(rows: int) -> Iterator[str]:
    """Yield short texts: the beginning of one bundled text and that of another, and a number of their own."""
    first = [text.splitlines()[0] for text in Corpus.read(demo_folder() / "train.jsonl.gz").texts]
    draw_one = random.Random(0)
    for number in range(rows):
        yield f"{draw_one.choice(first)}, {draw_one.choice(first)} ({number})"


def prepare(folder: Path, rows: int) -> None:
    """Write the table and train the model, where they are not there."""
    table = table_of(folder, rows)
    if not table.exists():
        partial = table.with_name(f"unfinished-{table.name}")
        with gzip.open(partial, "wt", compresslevel=1, encoding="utf-8") as file:
            for number, text in enumerate(texts(rows)):
                file.write(json.dumps({"id": str(number), "text": text}) + "\n")
        partial.rename(table)
    if not (folder / "model").exists():
        some = list(texts(TRAINED_ON))
        BNCLClassifier(label_names(), scorer=SCORER).fit(some).save_pretrained(folder / "model")


def table_of(folder: Path, rows: int) -> Path:
    """Return where the table lies."""
    return folder / f"{rows}.jsonl.gz"


def measured(stage: str, folder: Path, rows: int) -> dict[str, Any]:
    """Run a stage in a process of its own; return what it noted, after its rows were counted."""
    noted = folder / f"{stage}-{rows}-noted.json"
    process = get_context("spawn").Process(target=run_stage, args=(stage, folder, rows, noted))
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"The stage {stage} ended with {process.exitcode}.")
    figures: dict[str, Any] = read_json(noted)
    out = out_of(stage, folder, rows)
    check_rows(list_ids(stage, out), rows)
    return figures


def out_of(stage: str, folder: Path, rows: int) -> Path:
    """Return where a stage writes."""
    return folder / (f"store-{rows}" if stage == "featurize" else f"predicted-{rows}.jsonl")


def list_ids(stage: str, out: Path) -> Iterator[str]:
    """Yield the ids of what a stage wrote, in their order."""
    if stage == "featurize":
        yield from StoredFeatures(out).ids
        return
    with out.open(encoding="utf-8") as file:
        for line in file:
            yield str(json.loads(line)["id"])


def check_rows(ids: Iterator[str], rows: int) -> None:
    """Raise unless every row is there, in its order."""
    number = -1
    for number, identifier in enumerate(ids):
        if identifier != str(number):
            raise SystemExit(f"Row {number} is out of its place.")
    if number + 1 != rows:
        raise SystemExit(f"There are {number + 1} rows instead of {rows}.")


def run_stage(stage: str, folder: Path, rows: int, noted: Path) -> None:
    """Do a stage in this process, and write down what was noted beside it."""
    torch.set_num_threads(1)
    table, out = TextTable(table_of(folder, rows)), out_of(stage, folder, rows)
    notes = Notes()
    with notes:
        if stage == "featurize":
            labels = LabelSet.of(label_names())
            pairs = lambda: ((str(row.fields["id"]), text) for row, text in table if text is not None)  # noqa: E731
            scorer = load_scorer(SCORER)
            featurize(pairs, labels, scorer, out, start=lambda *_: notes.begin(), progress=notes.add)
        else:
            predictor = Predictor.load(folder / "model")
            notes.begin()
            predict_table(predictor, table, out, resume=True, overwrite=True, progress=notes.add)
    write_json(noted, notes.figures(rows))


class Notes:
    """Notes every second what is done and held, on a thread of its own; and when each group of rows was done."""

    def __init__(self, every: float = 1.0) -> None:
        self._every, self._done, self._stop = every, 0, threading.Event()
        self._start = time.perf_counter()
        self.memory: list[tuple[float, int, float]] = []
        self.groups: list[tuple[float, float, int]] = []
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Notes":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def begin(self) -> None:
        """Note that the first row is begun."""
        self.groups.append((time.perf_counter(), time.process_time(), 0))

    def add(self, rows: int) -> None:
        """Note that more rows are done."""
        self._done += rows
        self.groups.append((time.perf_counter(), time.process_time(), self._done))

    def _watch(self) -> None:
        while not self._stop.wait(self._every):
            self.memory.append((round(time.perf_counter() - self._start, 1), self._done, resident()))

    def figures(self, rows: int) -> dict[str, Any]:
        """Return speed at the start and at the end, and memory over time."""
        first, last = speed(self.groups, 0, rows // 10), speed(self.groups, rows - rows // 10, rows)
        step = max(len(self.memory) // 300, 1)
        half = [held for _, done, held in self.memory if done >= rows // 10]
        return {
            "seconds": round(time.perf_counter() - self._start, 1),
            "cpu_seconds": round(time.process_time(), 1),
            "first_tenth": first,
            "last_tenth": last,
            "memory": [list(point) for point in self.memory[::step]],
            "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
            "steady_mb": [round(min(half)), round(max(half))] if half else [],
        }


def speed(groups: list[tuple[float, float, int]], begin: int, end: int) -> dict[str, float]:
    """Return texts a second, and a second of CPU time, between two rows; groups are taken whole."""
    wall, cpu, done = [group for group in groups if group[2] <= begin][-1]
    wall_end, cpu_end, done_end = next(group for group in groups if group[2] >= end)
    count = done_end - done
    return {
        "texts_a_second": round(count / max(wall_end - wall, 1e-9)),
        "texts_a_cpu_second": round(count / max(cpu_end - cpu, 1e-9)),
    }


def resident() -> float:
    """Return how many megabytes this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * resource.getpagesize() / 1e6, 1)


def as_markdown(content: dict[str, Any]) -> str:
    """Return the page that shows the figures of a run."""
    cells = []
    for stage, one in content["stages"].items():
        first, last = one["first_tenth"], one["last_tenth"]
        low, high = one["steady_mb"] or (0, 0)
        cells.append(
            [
                stage,
                f"{one['seconds']:,.0f} s",
                f"{one['cpu_seconds']:,.0f} s",
                f"{first['texts_a_second']:,}",
                f"{last['texts_a_second']:,}",
                f"{first['texts_a_cpu_second']:,}",
                f"{last['texts_a_cpu_second']:,}",
                f"{100 * last['texts_a_cpu_second'] / first['texts_a_cpu_second']:.0f} %",
                f"{low:,}-{high:,} MB",
                f"{one['peak_mb']:,} MB",
            ]
        )
    columns = ["stage", "duration", "CPU time", "texts/s, first tenth", "last", "texts/CPU s, first tenth", "last"]
    columns += ["last against first", "memory after the first tenth", "peak"]
    return (
        "# A million texts\n\n"
        f"{content['rows']:,} short texts and {content['labels']} labels with the scorer `{content['scorer']}`: "
        "`featurize` into a store, and `predict_table`, each in a process of its own with one thread. All rows are "
        "there, once and in their order. Memory counts what is mapped.\n\n"
        + markdown_table(columns, cells)
        + "\n![Memory over rows](load.png)\n"
        + (f"\n{content['note']}\n" if content["note"] else "")
        + footer(content["about"])
    )


def draw(content: dict[str, Any], file: Path) -> None:
    """Draw memory over time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.5), layout="constrained")
    axes = figure.subplots()
    for stage, one in content["stages"].items():
        axes.plot([point[0] for point in one["memory"]], [point[2] for point in one["memory"]], label=stage)
    axes.set(xlabel="seconds since the process began", ylabel="resident memory, MB", ylim=(0, None))
    axes.legend()
    figure.savefig(file, dpi=120)


if __name__ == "__main__":
    typer.run(main)
