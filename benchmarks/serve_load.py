"""A server under load: joined requests against one-by-one, latency, and memory over many requests; loopback only.

    python -m benchmarks.serve_load

A model with the scorer `fast` is trained on the bundled set and served by a process of its own on a free port of this
machine. Clients are coroutines of this process, each with one connection that it keeps; each sends one text, waits for
the answer, checks it, and sends the next. The same clients ask a server that joins requests into batches and one that
answers them one by one (a batch of one); and a single client asks alone. At last the first server is asked many times,
and tells how much memory it holds. The number of requests is fixed beforehand.
"""

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from benchmarks.results import about_this_run, footer, markdown_table, save
from bncl_pyg.corpus import Corpus, LabelSet
from bncl_pyg.demo import demo_folder
from bncl_pyg.estimator import BNCLClassifier

Result = TypeVar("Result")

SCORERS = ("fast",)
TRAINED_ON, WARM = 1000, 200
"""How many bundled texts the model is trained on, and how many requests come before what is measured."""
CLIENTS, REQUESTS, MEMORY_REQUESTS, POINTS = 32, 4000, 100_000, 10
"""Clients, requests of a measurement, requests over which memory is looked at, and how often."""

_SERVER = """
import sys
from bncl_pyg.serve import Limits, ServeOptions, serve
limits = Limits(batch=int(sys.argv[2]), wait=float(sys.argv[3]))
serve(sys.argv[1], ServeOptions(port=0, limits=limits), ready=lambda url: print(url, flush=True))
"""


def main(
    requests: Annotated[int, typer.Option(help="Requests of each measurement.")] = REQUESTS,
    clients: Annotated[int, typer.Option(help="Clients that ask at once.")] = CLIENTS,
    memory_requests: Annotated[int, typer.Option(help="Requests over which memory is looked at.")] = MEMORY_REQUESTS,
    scorers: Annotated[str, typer.Option(help="Scorers, joined by commas.")] = ",".join(SCORERS),
    note: Annotated[str, typer.Option(help="What else is to be known of this run.")] = "",
    write: Annotated[bool, typer.Option("--save/--no-save", help="Whether to write the page of results.")] = True,
) -> None:
    """Measure and write the tables."""
    content: dict[str, Any] = {"about": about_this_run(), "note": note, "clients": clients, "scorers": {}}
    for scorer in scorers.split(","):
        with tempfile.TemporaryDirectory() as folder:
            model, texts = _trained(Path(folder), scorer)
            content["scorers"][scorer] = measured(model, texts, requests, clients, memory_requests)
    if write:
        save("serve-load", content, as_markdown(content))
    typer.echo(as_markdown(content))


def measured(model: Path, texts: list[str], requests: int, clients: int, memory_requests: int) -> dict[str, Any]:
    """Ask servers that join requests and that do not, and one for long; return the figures."""
    runs = {}
    with running(model, batch=64, wait=0.003) as url:
        runs["joined"] = load(url, texts, requests, clients)
        runs["joined, one client"] = load(url, texts, max(requests // 8, 1), 1)
    with running(model, batch=1, wait=0.0) as url:
        runs["one by one"] = load(url, texts, requests, clients)
        runs["one by one, one client"] = load(url, texts, max(requests // 8, 1), 1)
    with running(model, batch=64, wait=0.003) as url:
        memory = _memory(url, texts, memory_requests, clients)
    ratio = runs["joined"]["requests_a_second"] / runs["one by one"]["requests_a_second"]
    return {"runs": runs, "ratio": round(ratio, 2), "memory": memory}


def _trained(folder: Path, scorer: str) -> tuple[Path, list[str]]:
    labels = LabelSet.read(demo_folder() / "labels.jsonl")
    train = Corpus.read(demo_folder() / "train.jsonl.gz").texts[:TRAINED_ON]
    BNCLClassifier(labels, scorer=scorer).fit(train).save_pretrained(folder / "model")
    return folder / "model", list(Corpus.read(demo_folder() / "test.jsonl.gz").texts)


@contextmanager
def running(model: Path, *, batch: int, wait: float) -> Iterator[str]:
    """Serve a model by a process of its own; yield the address."""
    command = [sys.executable, "-c", _SERVER, str(model), str(batch), str(wait)]
    environment = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        if not url.startswith("http://127.0.0.1:"):
            raise SystemExit("The server did not start.")
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()
    if process.returncode not in (0, -signal.SIGTERM):
        raise SystemExit(f"The server ended with {process.returncode}.")


class _Connection:
    """One connection to the server, kept open."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Return the content of an answer; anything but 200 ends the benchmark."""
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        await self._writer.drain()
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
        length = next(int(line.split(":")[1]) for line in lines if line.startswith("content-length:"))
        content = await self._reader.readexactly(length)
        if " 200 " not in lines[0] + " ":
            raise SystemExit(f"{path} was answered with {lines[0]}: {content[:200]!r}")
        return content


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[_Connection]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    try:
        yield _Connection(reader, writer)
    finally:
        writer.close()
        await writer.wait_closed()


def load(url: str, texts: list[str], requests: int, clients: int) -> dict[str, Any]:
    """Ask so many requests by so many clients; return throughput and latency."""
    _run(_asked(url, texts, min(WARM, requests), clients))
    began = time.perf_counter()
    seconds = _run(_asked(url, texts, requests, clients))
    duration = time.perf_counter() - began
    ranks = sorted(seconds)
    return {
        "requests": requests,
        "clients": clients,
        "seconds": round(duration, 2),
        "requests_a_second": round(requests / duration, 1),
        "p50_ms": round(1000 * statistics.median(ranks), 2),
        "p99_ms": round(1000 * ranks[min(int(0.99 * len(ranks)), len(ranks) - 1)], 2),
        "longest_ms": round(1000 * ranks[-1], 2),
    }


def _run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run on a thread of its own: this one may have a loop already."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


async def _asked(url: str, texts: list[str], requests: int, clients: int) -> list[float]:
    """Return how long each request took."""
    bodies = [json.dumps({"text": text}).encode() for text in texts]
    numbers, seconds = iter(range(requests)), []

    async def client() -> None:
        async with _connected(url) as connection:
            for number in numbers:
                began = time.perf_counter()
                content = await connection.ask("POST", "/v1/predict", bodies[number % len(bodies)])
                seconds.append(time.perf_counter() - began)
                if b'"predictions"' not in content:
                    raise SystemExit(f"An answer holds no predictions: {content[:200]!r}")

    await asyncio.gather(*(client() for _ in range(clients)))
    return seconds


def _memory(url: str, texts: list[str], requests: int, clients: int) -> list[dict[str, Any]]:
    """Return how much memory the server holds after how many requests."""
    load(url, texts, WARM, clients)
    points = [{"requests": 0, "megabytes": _run(_resident(url))}]
    for place in range(POINTS):
        count = requests * (place + 1) // POINTS - requests * place // POINTS
        _run(_asked(url, texts, count, clients))
        done = requests * (place + 1) // POINTS
        points.append({"requests": done, "megabytes": _run(_resident(url))})
    return points


async def _resident(url: str) -> float:
    async with _connected(url) as connection:
        lines = (await connection.ask("GET", "/metrics")).decode().splitlines()
    value = next(line for line in lines if line.startswith("bncl_resident_memory_bytes "))
    return round(float(value.split()[1]) / 1e6, 1)


def as_markdown(content: dict[str, Any]) -> str:
    """Return the page that shows the figures of a run."""
    parts = [
        "# A server under load\n\n"
        f"`bncl serve` on this machine, asked over loopback by {content['clients']} clients, each of which sends one "
        "text and waits for the answer. Joined: requests of 3 ms make a batch of 64 at most. One by one: the same "
        "server with batches of one. The clients share the machine with the server.\n"
    ]
    for scorer, figures in content["scorers"].items():
        rows = [
            [
                name,
                str(run["clients"]),
                f"{run['requests']:,}",
                f"{run['requests_a_second']:,.0f}",
                f"{run['p50_ms']:.1f} ms",
                f"{run['p99_ms']:.1f} ms",
                f"{run['longest_ms']:.0f} ms",
            ]
            for name, run in figures["runs"].items()
        ]
        columns = ["server", "clients", "requests", "requests/s", "p50", "p99", "longest"]
        parts.append(f"\n## Scorer `{scorer}`: {figures['ratio']:.1f} times the throughput of one by one\n\n")
        parts.append(markdown_table(columns, rows))
        points = [[f"{one['requests']:,}", f"{one['megabytes']:.0f} MB"] for one in figures["memory"]]
        parts.append("\nMemory of the server process:\n\n" + markdown_table(["after requests", "held"], points))
    if content["note"]:
        parts.append(f"\n{content['note']}\n")
    return "".join([*parts, footer(content["about"])])


if __name__ == "__main__":
    typer.run(main)
