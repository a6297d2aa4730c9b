"""`bncl train` on stores of growing length: time and peak memory of a fresh process.

    BNCL_DATA=folder python -m benchmarks.train_size [--texts 10000,100000,1000000]

The labels of Reuters-21578 and the beginnings of its training texts, repeated, each with a number of its own, scored by
`fast`. A store is kept in the cache, and goes on where it was left off; each training is saved when it is done.
"""

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.results import FOLDER, footer, markdown_table
from benchmarks.runs import measure, open_results
from bncl_pyg.corpus import Corpus, LabelSet
from bncl_pyg.features import featurize
from bncl_pyg.persistence import write_bytes
from bncl_pyg.priors import Priors
from bncl_pyg.scorers import load_scorer

NAME, DATASET, SCORER = "train-size", "reuters21578", "fast"
TEXTS, WORDS = (10_000, 100_000, 1_000_000), 40
"""How many texts there are, and how many words of each are taken."""


@dataclass(frozen=True)
class Job:
    """A store, and a training on it."""

    data: Path
    cache: Path
    texts: int

    @property
    def key(self) -> str:
        """What it is called in the file of results."""
        return str(self.texts)


def main(
    data: Annotated[Path, typer.Option(envvar="BNCL_DATA", help="The folder with the data sets.")],
    cache: Annotated[Path, typer.Option(help="Where the stores are kept.")] = Path("benchmarks/.cache/train-size"),
    texts: Annotated[str, typer.Option(help="How many texts, with commas between.")] = ",".join(map(str, TEXTS)),
    out: Annotated[Path, typer.Option(help="The folder for JSON and Markdown.")] = FOLDER,
) -> None:
    """Measure what is missing and write the page."""
    file, content = out / f"{NAME}.json", open_results(out / f"{NAME}.json")
    measure(content, file, [Job(data, cache, int(count)) for count in texts.split(",")], perform, workers=1)
    write_bytes(out / f"{NAME}.md", as_markdown(content).encode())


def perform(job: Job) -> dict[str, Any]:
    """Make the store, if it is not there, and train on it in a process of its own."""
    labels = LabelSet.read(job.data / DATASET / "labels.jsonl")
    corpus = Corpus.read(job.data / DATASET / "train.jsonl", labels)
    beginnings = [" ".join(text.split()[:WORDS]) for text in corpus.texts]
    assert corpus.annotations is not None
    rows = [(str(number), f"{beginnings[number % len(beginnings)]} {number}") for number in range(job.texts)]
    store = job.cache / str(job.texts)
    began = time.perf_counter()
    featurize(lambda: rows, labels, load_scorer(SCORER), store)
    scoring = time.perf_counter() - began
    with tempfile.TemporaryDirectory() as name:
        Priors.from_annotations(corpus.annotations).write(Path(name) / "priors.json", labels)
        words = ["train", str(store), "--priors", f"{name}/priors.json", "--out", f"{name}/model"]
        command = [sys.executable, "-m", "bncl_pyg", "-q", *words]
        began = time.perf_counter()
        process = subprocess.Popen(command, env={**os.environ, "OMP_WAIT_POLICY": "PASSIVE"}, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = 0
    if status:
        raise SystemExit(f"The training on {job.texts} texts ended with {status}.")
    return {
        "labels": len(labels),
        "scoring": round(scoring, 1),
        "seconds": round(seconds, 1),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_mb": round(usage.ru_maxrss / 1024),  # Linux counts in kilobytes
    }


def as_markdown(content: dict[str, Any]) -> str:
    """Return the page that shows the figures."""
    rows = [
        [
            f"{int(texts):,} × {run['labels']}",
            f"{run['seconds']:.0f} s",
            f"{run['cpu_seconds']:.0f} s",
            f"{run['peak_mb']:,} MB",
        ]
        for texts, run in sorted(content["runs"].items(), key=lambda pair: int(pair[0]))
    ]
    return (
        "# Training on very many texts\n\n"
        f"`bncl train` with the default recipe on stores by the scorer `{SCORER}`, from the start of the process until "
        "the model is saved. Reuters' labels, κ and λ; the beginnings of its training texts, repeated with a number: "
        "this measures time and memory, not quality. Of more than 30,000 texts so many are drawn "
        "([why](recipe-size.md)). Other work shared the machine.\n\n"
        + markdown_table(["texts × labels", "duration", "CPU time", "peak memory"], rows)
        + footer(content["sessions"][-1])
    )


if __name__ == "__main__":
    typer.run(main)
