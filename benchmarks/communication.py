"""Where training over many machines stops scaling: up to 64 processes on this machine, with injected latency.

    python -m benchmarks.communication

A step of the collective projection is simulated: every worker goes through its share of the texts, and one all-reduce
gives all of them each label's sum of probabilities and of slopes, 16 bytes a label. The local work is a pause, as long
as the work on so many texts was measured to take on one core, because 64 processes share the cores of one machine. The
all-reduce is real: processes send bytes through sockets, add them up and compare the result with what it must be; who
receives a message waits until the injected latency is over. A run that was stopped goes on.
"""

import json
import math
import multiprocessing
import select
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from benchmarks.results import FOLDER, about_this_run, footer, markdown_table, save

Array = NDArray[np.float64]
NAME = "communication"
WORKERS = (1, 2, 4, 8, 16, 32, 64)
LATENCIES = (0.0, 1.0, 5.0)
"""In milliseconds, one way: loopback, a data centre with a switch or two between, two data centres."""
LABELS, CANDIDATES, TEXTS = 10_000, 100, 1_000_000
STEPS = 8
"""Of these the first does not count."""
GIGABITS = 10.0
"""A second, between machines: an assumption for what is reckoned."""
SUMS = 2
"""Numbers a label: probabilities and slopes."""
PIECE = 1 << 20
STAMP = struct.Struct("<d")
MOST_SECONDS = 60.0
"""After which a worker that hears nothing gives up."""


@dataclass(frozen=True)
class Job:
    """One measurement.

    Args:
        algorithm: `doubling` or `ring`; with one worker there is nothing to send.
        workers: how many processes.
        latency: in milliseconds.
    """

    algorithm: str
    workers: int
    latency: float

    def pairs(self) -> set[tuple[int, int]]:
        """Return which workers talk to each other, the lower number first."""
        if self.algorithm == "ring":
            ends = [(rank, (rank + 1) % self.workers) for rank in range(self.workers)]
        else:
            rounds = range(int(math.log2(self.workers)))
            ends = [(rank, rank ^ (1 << bit)) for rank in range(self.workers) for bit in rounds]
        return {(min(end), max(end)) for end in ends if end[0] != end[1]}


class Worker:
    """One of the processes.

    Args:
        job: what is measured.
        rank: which one it is.
        sockets: by the rank at the other end.
    """

    def __init__(self, job: Job, rank: int, sockets: dict[int, socket.socket]) -> None:
        self.job, self.rank, self.sockets = job, rank, sockets
        for one in sockets.values():
            one.setblocking(False)

    def all_reduce(self, own: Array) -> Array:
        """Return the sum over all workers."""
        return self._ring(own) if self.job.algorithm == "ring" else self._doubling(own)

    def _doubling(self, own: Array) -> Array:
        """Exchange all sums with a neighbour, a neighbour's neighbour, …: log₂ W messages, each with everything."""
        total = own.copy()
        for bit in range(int(math.log2(self.job.workers))):
            other = self.rank ^ (1 << bit)
            total += self._exchange(other, total, other)
        return total

    def _ring(self, own: Array) -> Array:
        """Pass parts round, first adding up, then handing out: 2 (W − 1) messages, each with 1/W of everything."""
        count = self.job.workers
        parts = [part.copy() for part in np.array_split(own, count)]
        left, right = (self.rank - 1) % count, (self.rank + 1) % count
        for step in range(2 * (count - 1)):
            sent, received = (self.rank - step) % count, (self.rank - step - 1) % count
            adds = step < count - 1
            part = self._exchange(right, parts[sent], left, len(parts[received]))
            parts[received] = parts[received] + part if adds else part
        return np.concatenate(parts)

    def _exchange(self, to: int, content: Array, source: int, size: int | None = None) -> Array:
        """Send to one worker and receive from one, at the same time, whatever fits into the sockets' buffers."""
        out = memoryview(STAMP.pack(time.monotonic()) + content.tobytes())
        wanted = STAMP.size + 8 * (len(content) if size is None else size)
        parts: list[bytes] = []
        until = time.monotonic() + MOST_SECONDS
        while len(out) or wanted:
            reads = [self.sockets[source]] if wanted else []
            writes = [self.sockets[to]] if len(out) else []
            readable, writable, _ = select.select(reads, writes, [], 1.0)
            if writable:
                out = out[self.sockets[to].send(out[:PIECE]) :]
            if readable:
                part = self.sockets[source].recv(min(wanted, PIECE))
                if not part:
                    raise ConnectionError(f"Worker {source} is gone.")
                parts.append(part)
                wanted -= len(part)
            if time.monotonic() > until:
                raise TimeoutError(f"Worker {self.rank} has heard nothing of {source} for {MOST_SECONDS:g} s.")
        received = b"".join(parts)
        (sent,) = STAMP.unpack(received[: STAMP.size])
        time.sleep(max(0.0, sent + self.job.latency / 1000 - time.monotonic()))
        return np.frombuffer(received[STAMP.size :], dtype=np.float64)

    def run(self, local_seconds: float) -> list[dict[str, float]]:
        """Do the steps; return how long each took and how much of it was communication."""
        own = np.arange(SUMS * LABELS, dtype=np.float64) + self.rank
        expected = self.job.workers * np.arange(SUMS * LABELS) + self.job.workers * (self.job.workers - 1) / 2
        steps = []
        for _ in range(STEPS):
            start = time.monotonic()
            time.sleep(local_seconds / self.job.workers)
            worked = time.monotonic()
            total = self.all_reduce(own)
            end = time.monotonic()
            if not np.array_equal(total, expected):
                raise ArithmeticError(f"Worker {self.rank} has another sum than it must be.")
            steps.append({"step": end - start, "communication": end - worked})
        return steps


def main(
    texts: Annotated[int, typer.Option(help="How many texts all workers have together.")] = TEXTS,
    workers: Annotated[str, typer.Option(help="How many processes; powers of 2.")] = ",".join(map(str, WORKERS)),
    latencies: Annotated[str, typer.Option(help="In milliseconds.")] = ",".join(map(str, LATENCIES)),
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure everything again.")] = False,
    write: Annotated[bool, typer.Option("--save/--no-save", help="Whether to write the page of results.")] = True,
) -> None:
    """Measure and write the page."""
    settings = {"texts": texts, "labels": LABELS, "candidates": CANDIDATES, "steps": STEPS}
    content = None if fresh or not write else _earlier(settings)
    if content is None:
        content = {"about": about_this_run(), **settings, "seconds_a_text": seconds_a_text(), "jobs": []}
    for job in jobs([int(count) for count in workers.split(",")], [float(each) for each in latencies.split(",")]):
        entry = {"algorithm": job.algorithm, "workers": job.workers, "latency": job.latency}
        if any(entry.items() <= each.items() for each in content["jobs"]):
            continue
        content["jobs"].append({**entry, **measured(job, texts * content["seconds_a_text"])})
        if write:
            save(NAME, content, as_markdown(content))
    if write:
        plot(content, FOLDER / f"{NAME}.png")
    typer.echo(as_markdown(content))


def _earlier(settings: dict[str, Any]) -> dict[str, Any] | None:
    """Return what an earlier run with the same settings left."""
    file = FOLDER / f"{NAME}.json"
    if not file.exists():
        return None
    content: dict[str, Any] = json.loads(file.read_text())
    return content if settings.items() <= content.items() else None


def jobs(workers: list[int], latencies: list[float]) -> Iterator[Job]:
    """Yield what is measured; one worker needs no latency."""
    for count in workers:
        if count < 1 or count & (count - 1):
            raise typer.BadParameter(f"{count} is no power of 2.")
        for latency in latencies if count > 1 else [0.0]:
            for algorithm in ("doubling", "ring") if count > 1 else ("doubling",):
                yield Job(algorithm, count, latency)


def seconds_a_text(texts: int = 20_000, repeats: int = 5) -> float:
    """Measure what a step costs a text on one core: the sums of probabilities and slopes over its candidates."""
    import torch

    from bncl_pyg.features import pairs_of

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    candidates = torch.randint(LABELS, (texts, CANDIDATES), generator=generator).sort(dim=1).values
    logits = torch.randn(texts, CANDIDATES, generator=generator)
    pairs, offsets = pairs_of(candidates, logits, LABELS), torch.zeros(LABELS)
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        pairs.probability_sums(logits, offsets)
        seconds.append(time.process_time() - start)
    torch.set_num_threads(threads)
    return round(median(seconds) / texts, 9)


def measured(job: Job, local_seconds: float) -> dict[str, float]:
    """Start the processes, let them do the steps, and return the medians of the slowest worker in each step."""
    context = multiprocessing.get_context("fork")
    sockets: list[dict[int, socket.socket]] = [{} for _ in range(job.workers)]
    for one, other in job.pairs():
        sockets[one][other], sockets[other][one] = socket.socketpair()
    pipes = [context.Pipe(duplex=False) for _ in range(job.workers)]
    processes = [
        context.Process(target=_work, args=(job, rank, sockets[rank], pipes[rank][1], local_seconds), daemon=True)
        for rank in range(job.workers)
    ]
    for process in processes:
        process.start()
    results = []
    try:
        for rank, (reading, _) in enumerate(pipes):
            if not reading.poll(MOST_SECONDS + STEPS * local_seconds):
                raise SystemExit(f"{job}: worker {rank} does not answer.")
            result = reading.recv()
            if isinstance(result, str):
                raise SystemExit(f"{job}: {result}")
            results.append(result)
    finally:
        for process in processes:
            process.terminate()
            process.join()
        for ends in sockets:
            for each in ends.values():
                each.close()
    steps = [max(steps, key=lambda step: step["step"]) for steps in zip(*results, strict=True)][1:]
    return {name: round(median(step[name] for step in steps), 6) for name in ("step", "communication")}


def _work(
    job: Job, rank: int, sockets: dict[int, socket.socket], told: "Connection[Any, Any]", local_seconds: float
) -> None:
    try:
        told.send(Worker(job, rank, sockets).run(local_seconds))
    except (OSError, ArithmeticError) as error:
        told.send(str(error))


def as_markdown(content: dict[str, Any]) -> str:
    """Return the page that shows the figures of a run."""
    alone = next((job["step"] for job in content["jobs"] if job["workers"] == 1), None)
    columns = [
        "all-reduce",
        "latency",
        "workers",
        "a step",
        "communication",
        "speed-up",
        "efficiency",
        "texts a worker",
    ]
    columns.append("efficiency, reckoned with a core each")
    rows = []
    for job in sorted(content["jobs"], key=lambda job: (job["algorithm"], job["latency"], job["workers"])):
        faster = "" if alone is None else f"{alone / job['step']:.1f}"
        share = "" if alone is None else f"{alone / job['step'] / job['workers']:.0%}"
        rows.append(
            [
                job["algorithm"] if job["workers"] > 1 else "–",
                f"{job['latency']:g} ms" if job["workers"] > 1 else "–",
                str(job["workers"]),
                f"{1000 * job['step']:.1f} ms",
                f"{1000 * job['communication']:.1f} ms",
                faster,
                share,
                f"{_half(job, content):,}" if job["workers"] > 1 else "–",
                f"{_reckoned(job, content):.0%}",
            ]
        )
    size = 8 * SUMS * content["labels"]
    return (
        "# Where training over many machines stops scaling\n\n"
        f"A step of the collective projection: {content['texts']:,} texts with {content['candidates']} candidates of "
        f"{content['labels']:,} labels, cut among the workers, and one all-reduce of {SUMS} numbers a label ({size:,} "
        "bytes). **What is measured and what is not:** the workers are processes on one machine and share its "
        f"{content['about']['cores']} cores, so that their local work is a pause of "
        f"{1e6 * content['seconds_a_text']:.2f} µs a text, which is what the work was measured to take on one core "
        "before. The all-reduce is real: bytes go through Unix sockets and are added up, and every sum is compared "
        "with what it must be. A message waits for the injected latency. With many workers, processes wait for a core "
        "as well, also at 0 ms, which workers with cores of their own do not: their efficiency is reckoned in the last "
        f"column, from latency and {GIGABITS:g} Gb/s alone (an assumption). The truth of a cluster lies between the "
        f"two. Medians of {content['steps'] - 1} steps, of the slowest worker in each; other work ran on the "
        "machine.\n\n"
        "`doubling`: log₂ W messages one after the other, each with all sums; `ring`: 2 (W − 1) messages, each with "
        "one W-th of them. Texts a worker: with so many, a step is half work and half communication; with fewer, more "
        "workers hardly help.\n\n"
        + markdown_table(columns, rows)
        + f"\n![Speed-up by the number of workers]({NAME}.png)\n"
        + footer(content["about"])
    )


def _half(job: dict[str, Any], content: dict[str, Any]) -> int:
    """Return how many texts take a worker as long as the communication, to two digits."""
    texts = job["communication"] / content["seconds_a_text"]
    return int(float(f"{texts:.1e}"))


def _reckoned(job: dict[str, Any], content: dict[str, Any]) -> float:
    """Return the efficiency of workers that have a core each: by latency and bandwidth alone."""
    count, size = job["workers"], 8 * SUMS * content["labels"]
    messages = 2 * (count - 1) if job["algorithm"] == "ring" else math.log2(count)
    sent = size * messages / count if job["algorithm"] == "ring" else size * messages
    local = content["texts"] * content["seconds_a_text"] / count
    return float(local / (local + messages * job["latency"] / 1000 + 8 * sent / (GIGABITS * 1e9)))


def plot(content: dict[str, Any], path: Path) -> None:
    """Draw the speed-up by workers, a line for each latency and algorithm."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    alone = next(job["step"] for job in content["jobs"] if job["workers"] == 1)
    most = max(job["workers"] for job in content["jobs"])
    axes.plot([1, most], [1, most], color="grey", linestyle=":", label="ideal")
    styles = {"doubling": "-", "ring": "--"}
    latencies = sorted({job["latency"] for job in content["jobs"] if job["workers"] > 1})
    for algorithm, style in styles.items():
        for place, latency in enumerate(latencies):
            chosen = [job for job in content["jobs"] if (job["algorithm"], job["latency"]) == (algorithm, latency)]
            points = sorted((job["workers"], alone / job["step"]) for job in chosen if job["workers"] > 1)
            label = f"{algorithm}, {latency:g} ms"
            axes.plot(*zip((1, 1.0), *points, strict=True), style, color=f"C{place}", label=label)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xlabel("workers")
    axes.set_ylabel("speed-up of a step")
    axes.legend(fontsize="small")
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


if __name__ == "__main__":
    typer.run(main)
