"""How featurizing scales with workers: one and two of one thread each, in turns in one run, on a Ray cluster here.

    python -m benchmarks.distributed

A cluster of two cores is started on this machine. The bundled training texts, each with a number of its own, are
featurized by one worker and by two, in turns; a rate is texts a second from the moment when every worker has done its
first shard until all is done, so that the start of processes does not count. The ratio of the rates is the scaling.
"""

import logging
import os
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Annotated, Any

import typer

from benchmarks.results import about_this_run, footer, markdown_table, save
from bncl_pyg.corpus import Corpus, LabelSet
from bncl_pyg.demo import demo_folder
from bncl_pyg.distributed import RayOptions, featurize_on_ray
from bncl_pyg.persistence import write_jsonl
from bncl_pyg.scorers import Scorer, load_scorer

ASKED = 1.7
"""What two workers should do of what one does, at least."""


def load(name: str) -> tuple[Scorer, Scorer | None]:
    """Load the scorer, here and in the workers."""
    return load_scorer(name), None


def main(
    texts: Annotated[int, typer.Option(help="How many texts.")] = 24_576,
    scorer: Annotated[str, typer.Option(help="Which scorer.")] = "light",
    turns: Annotated[int, typer.Option(min=1, help="How often one and two workers take turns.")] = 2,
    write: Annotated[bool, typer.Option("--save/--no-save", help="Whether to write the page of results.")] = True,
) -> None:
    """Measure and write the table."""
    import ray

    os.environ["OMP_NUM_THREADS"] = "1"
    labels = LabelSet.read(demo_folder() / "labels.jsonl")
    content: dict[str, Any] = {"about": about_this_run(), "scorer": scorer, "texts": texts, "labels": len(labels)}
    content["runs"] = []
    with tempfile.TemporaryDirectory() as name:
        table = Path(name) / "texts.jsonl"
        known = Corpus.read(demo_folder() / "train.jsonl.gz").texts
        rows = ({"id": str(number), "text": f"{known[number % len(known)]} ({number})"} for number in range(texts))
        write_jsonl(table, rows)
        ray.init(num_cpus=2, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
        try:
            for turn in range(turns):
                for workers in (1, 2) if turn % 2 == 0 else (2, 1):
                    content["runs"].append(measured(table, labels, scorer, workers))
        finally:
            ray.shutdown()
    content |= {"ratio": ratio(content["runs"]), "asked": ASKED}
    if write:
        save("distributed", content, as_markdown(content))
    typer.echo(as_markdown(content))


def measured(table: Path, labels: LabelSet, scorer: str, workers: int) -> dict[str, Any]:
    """Featurize with so many workers; return the rate."""
    marks: list[tuple[float, int]] = []
    start = time.perf_counter()
    featurize_on_ray(
        str(table),
        labels,
        partial(load, scorer),
        table.parent / f"store-{start}",
        RayOptions(workers=workers),
        progress=lambda texts: marks.append((time.perf_counter(), texts)),
    )
    seconds = time.perf_counter() - start
    steady = marks[workers:]
    rate = sum(count for _, count in steady) / (steady[-1][0] - marks[workers - 1][0])
    return {"workers": workers, "seconds": round(seconds, 1), "texts_a_second": round(rate, 1)}


def ratio(runs: list[dict[str, Any]]) -> float:
    """Return what two workers do of what one does, by the mean rates."""
    one, two = (mean(float(run["texts_a_second"]) for run in runs if run["workers"] == count) for count in (1, 2))
    return round(two / one, 2)


def as_markdown(content: dict[str, Any]) -> str:
    """Return the page that shows the figures of a run."""
    rows = [
        [str(run["workers"]), f"{run['seconds']:.0f} s", f"{run['texts_a_second']:,.0f}"] for run in content["runs"]
    ]
    return (
        "# Featurizing on Ray\n\n"
        f"{content['texts']:,} texts, {content['labels']} labels, scorer `{content['scorer']}`, workers of one thread "
        "on one machine, in turns. Texts a second from when every worker has done its first shard; the duration has "
        f"the start of all processes, too.\n\nTwo workers do {content['ratio']:.2f} times what one does (asked: at "
        f"least {content['asked']}).\n\n"
        + markdown_table(["workers", "duration", "texts/s"], rows)
        + footer(content["about"])
    )


if __name__ == "__main__":
    typer.run(main)
