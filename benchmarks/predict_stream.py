"""`bncl predict` on tables of growing length: texts a second, and peak memory, which must not grow with the table.

    python -m benchmarks.predict_stream

A model with the scorer `fast` is trained on the bundled set; the tables repeat the first lines of its test texts, each
with a number of its own. Every table is predicted by a fresh process, as a user would type it; peak memory and time are
the system's.
"""

import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.results import about_this_run, footer, markdown_table, save
from bncl_pyg.corpus import Corpus, LabelSet
from bncl_pyg.demo import demo_folder
from bncl_pyg.estimator import BNCLClassifier

ROWS = (10_000, 100_000, 1_000_000)
SCORER = "fast"
TRAINED_ON = 1000
"""How many of the bundled training texts the model is trained on."""


def main(
    rows: Annotated[str, typer.Option(help="How many rows the tables have.")] = ",".join(map(str, ROWS)),
    write: Annotated[bool, typer.Option("--save/--no-save", help="Whether to write the page of results.")] = True,
) -> None:
    """Measure and write the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        labels = LabelSet.read(demo_folder() / "labels.jsonl")
        train = Corpus.read(demo_folder() / "train.jsonl.gz").texts[:TRAINED_ON]
        BNCLClassifier(labels, scorer=SCORER).fit(train).save_pretrained(folder / "model")
        content: dict[str, Any] = {"about": about_this_run(), "labels": len(labels), "scorer": SCORER, "tables": []}
        for count in rows.split(","):
            content["tables"].append(measured(folder, int(count)))
            if write:
                save("predict-stream", content, as_markdown(content))
    typer.echo(as_markdown(content))


def measured(folder: Path, count: int) -> dict[str, Any]:
    """Predict a table of so many rows in a process of its own; return its speed and its peak memory."""
    table, out = folder / f"{count}.csv.gz", folder / f"{count}.jsonl"
    texts = [text.splitlines()[0] for text in Corpus.read(demo_folder() / "test.jsonl.gz").texts]
    with gzip.open(table, "wt", compresslevel=1, encoding="utf-8", newline="") as file:
        file.write("nr,text\n")
        for number in range(count):
            text = texts[number % len(texts)].replace('"', '""')
            file.write(f'{number},"{text} (number {number})"\n')
    words = ["-q", "predict", str(folder / "model"), str(table), "--out", str(out)]
    command = [sys.executable, "-m", "bncl_pyg", *words]
    start = time.perf_counter()
    process = subprocess.Popen(command, env={**os.environ, "OMP_WAIT_POLICY": "PASSIVE"}, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if status:
        raise SystemExit(f"The prediction of {count} rows ended with {status}.")
    process.returncode = 0
    check_rows(out, count)
    size = table.stat().st_size
    table.unlink()
    out.unlink()
    return {
        "rows": count,
        "seconds": round(seconds, 1),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "texts_a_second": round(count / seconds),
        "peak_mb": round(_megabytes(usage)),
        "table_mb": round(size / 1e6, 1),
    }


def _megabytes(usage: resource.struct_rusage) -> float:
    return usage.ru_maxrss / 1024  # Linux counts in kilobytes


def check_rows(out: Path, count: int) -> None:
    """Raise unless every row is there, in its order."""
    with out.open(encoding="utf-8") as file:
        number = -1
        for number, line in enumerate(file):
            if json.loads(line)["nr"] != str(number):
                raise SystemExit(f"Row {number} is out of its place.")
    if number + 1 != count:
        raise SystemExit(f"There are {number + 1} rows instead of {count}.")


def as_markdown(content: dict[str, Any]) -> str:
    """Return the page that shows the figures of a run."""
    rows = [
        [
            f"{row['rows']:,}",
            f"{row['seconds']:.0f} s",
            f"{row['texts_a_second']:,}",
            f"{row['cpu_seconds']:.0f} s",
            f"{row['rows'] / row['cpu_seconds']:,.0f}",
            f"{row['peak_mb']:,} MB",
        ]
        for row in content["tables"]
    ]
    return (
        "# A table of any length\n\n"
        f"`bncl predict` with the scorer `{content['scorer']}` and {content['labels']} labels on a `.csv.gz` of "
        "short texts (eight words), a fresh process for each table: from its start until the output is whole, with all "
        "rows checked to be there in their order. Where other work shares the machine, CPU time is what compares.\n\n"
        + markdown_table(["rows", "duration", "texts/s", "CPU time", "texts/CPU s", "peak memory"], rows)
        + footer(content["about"])
    )


if __name__ == "__main__":
    typer.run(main)
