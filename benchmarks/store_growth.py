"""A store that grows: time, bytes of manifests and peak memory for stores of growing length, up to two million texts.

    python -m benchmarks.store_growth

Texts of three words are scored by a scorer that does almost nothing (two labels, vectors of four numbers), so that what
is measured is the store. Each store is made, gone on with and read shard by shard by a fresh process; peak memory is
the system's, and counts what is mapped. A run that was stopped goes on with the stores in the folder.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from torch import Tensor

from benchmarks.results import about_this_run, footer, markdown_table, save
from bncl_pyg.corpus import LabelSet
from bncl_pyg.features import StoredFeatures, featurize
from bncl_pyg.scorers import Hypothesis, Reading

ROWS = (250_000, 500_000, 1_000_000, 2_000_000)
LABELS = LabelSet(("even", "odd"), ("even numbers", "odd numbers"))
STAGES = ("make", "again", "read")


class QuickScorer:
    """Scores without reading."""

    block_texts = 1024

    def config(self) -> dict[str, Any]:
        """Return what decides the scores."""
        return {"name": "quick"}

    def score(self, texts: Sequence[str], hypotheses: Sequence[Hypothesis], pairs: Tensor | None = None) -> Tensor:
        """Return the same scores for all texts."""
        assert pairs is None
        return torch.full((2, len(texts), len(hypotheses)), 0.25)

    def vectors(self, texts: Sequence[str]) -> Tensor:
        """Return vectors of four numbers."""
        return torch.ones(len(texts), 4)

    def top_labels(self, texts: Sequence[str], hypotheses: Sequence[Hypothesis], k: int) -> Tensor:
        """Return the first labels."""
        assert k <= len(hypotheses)
        return torch.arange(k).repeat(len(texts), 1)

    def encode_labels(self, hypotheses: Sequence[Hypothesis]) -> dict[str, Tensor]:
        """Return nothing."""
        assert hypotheses
        return {}

    def use_labels(self, hypotheses: Sequence[Hypothesis], tensors: Mapping[str, Tensor]) -> None:
        """Use nothing, as nothing was computed."""
        raise AssertionError(f"{len(hypotheses)} hypotheses and {len(tensors)} tensors are not expected.")

    def reading(self, texts: Sequence[str]) -> Reading | None:
        """Return nothing."""
        assert texts
        return None


def texts_of(count: int) -> Iterator[tuple[str, str]]:
    """Yield id and text of so many texts."""
    return ((f"text-{number}", f"number {number} counts") for number in range(count))


def main(
    rows: Annotated[str, typer.Option(help="How many texts the stores have.")] = ",".join(map(str, ROWS)),
    folder: Annotated[Path | None, typer.Option(help="Where the stores are made and kept, if they are.")] = None,
    write: Annotated[bool, typer.Option("--save/--no-save", help="Whether to write the page of results.")] = True,
    stage: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    """Measure and write the table."""
    if stage:
        assert folder is not None
        typer.echo(json.dumps(work(stage, folder, int(rows))))
        return
    content: dict[str, Any] = {"about": about_this_run(), "stores": []}
    with tempfile.TemporaryDirectory() as temporary:
        for count in map(int, rows.split(",")):
            store = (folder or Path(temporary)) / str(count)
            figures = {name: in_own_process(name, store, count) for name in STAGES}
            manifests = [file.stat().st_size for file in store.glob("shard-*.json")]
            size = sum(file.stat().st_size for file in store.iterdir())
            about = {"shards": len(manifests), "manifest_bytes": sum(manifests), "bytes": size}
            content["stores"].append({"rows": count, **about, **figures})
            if write:
                save("store-growth", content, as_markdown(content))
    typer.echo(as_markdown(content))


def work(stage: str, store: Path, count: int) -> dict[str, Any]:
    """Make a store, go on with it or read it; return how long that took."""
    start = time.perf_counter()
    if stage == "read":
        stored = StoredFeatures(store)
        seen = sum(len(features) for features in stored)
        last = stored.shard(len(stored.shards) - 1).ids[-1]
        if (seen, last) != (count, f"text-{count - 1}"):
            raise SystemExit(f"{store} holds {seen} texts up to {last}.")
    else:
        done = featurize(lambda: texts_of(count), LABELS, QuickScorer(), store)
        if done.texts != count or (stage == "again" and done.scored_blocks):
            raise SystemExit(f"{store}: {done.texts} texts, {done.scored_blocks} blocks scored.")
    return {"seconds": round(time.perf_counter() - start, 1)}


def in_own_process(stage: str, store: Path, count: int) -> dict[str, Any]:
    """Do one stage in a process of its own; return its time and its peak memory."""
    words = ["--rows", str(count), "--folder", str(store), "--stage", stage]
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.store_growth", *words], stdout=subprocess.PIPE)
    assert process.stdout is not None
    told = process.stdout.read()
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    if status:
        raise SystemExit(f"'{stage}' of {count} texts ended with {status}.")
    cpu = round(usage.ru_utime + usage.ru_stime, 1)
    return {**json.loads(told), "cpu_seconds": cpu, "peak_mb": round(usage.ru_maxrss / 1024)}


def as_markdown(content: dict[str, Any]) -> str:
    """Return the page that shows the figures of a run."""
    rows = [
        [
            f"{one['rows']:,}",
            f"{one['shards']:,}",
            f"{one['manifest_bytes'] / one['shards']:,.0f} B",
            f"{one['make']['seconds']:.0f} s",
            f"{one['make']['cpu_seconds'] / one['rows'] * 1e6:.0f} µs",
            f"{one['make']['peak_mb']:,} MB",
            f"{one['again']['seconds']:.0f} s",
            f"{one['read']['seconds']:.0f} s",
            f"{one['read']['peak_mb']:,} MB",
        ]
        for one in content["stores"]
    ]
    columns = ["texts", "shards", "manifest/shard", "made in", "CPU time/text", "peak memory"]
    return (
        "# A store that grows\n\n"
        "`featurize` with a scorer that does almost nothing, two labels, shards of 1024 texts: the store made, the "
        "same again (all files compared with their checksums, nothing scored), and read shard by shard, a fresh "
        "process for each. If one manifest held all shards, CPU time a text would grow with the texts. Peak memory "
        "counts what is mapped.\n\n"
        + markdown_table([*columns, "again", "read", "peak memory when read"], rows)
        + footer(content["about"])
    )


if __name__ == "__main__":
    typer.run(main)
