"""The paths of `BalancedConv`, forward and backward, one beside the other: which wins where.

    python -m benchmarks.kernels

Random neighbourhoods, 128 texts; each figure is the median of repeated steps, all paths in one run. The rows decide
the constants of `bncl_pyg/nn/balanced_conv.py`.
"""

import importlib.util
import statistics
import time
from typing import Any

import torch
import typer
from torch import Tensor

from benchmarks.results import about_this_run, footer, markdown_table, save
from bncl_pyg.nn import BalancedConv
from bncl_pyg.nn.balanced_conv import Path

TEXTS = 128
SIZES = [
    (57, 600),
    (135, 850),
    (135, 8_000),
    (294, 2_000),
    (294, 20_000),
    (517, 13_000),
    (517, 130_000),
    (1_000, 25_000),
    (1_000, 500_000),
    (4_000, 40_000),
    (30_000, 300_000),
]
"""Labels, and edges of each sign."""
PATHS: list[Path] = ["dense", "sparse", "torch-sparse", "message"]


def main(repeats: int = 15) -> None:
    """Time every path at every size and write the table."""
    torch.manual_seed(0)
    rows: list[dict[str, Any]] = []
    for labels, edges in SIZES:
        friends, enemies = _random_edges(labels, edges), _random_edges(labels, edges)
        entailment, contradiction = torch.rand(2, TEXTS, labels)
        times: dict[str, float | None] = {}
        for path in PATHS:
            if not _possible(path, labels, edges):
                times[path] = None
                continue
            conv = BalancedConv(friends, enemies, labels, path)
            times[path] = _median_step(conv, entailment, contradiction, repeats)
        chosen = BalancedConv(friends, enemies, labels).path
        rows.append({"labels": labels, "edges": int(friends.size(1)), "milliseconds": times, "auto": chosen})
        typer.echo(str(rows[-1]))
    content = {"about": about_this_run(), "texts": TEXTS, "repeats": repeats, "rows": rows}
    save("kernels", content, as_markdown(content))


def as_markdown(content: dict[str, Any]) -> str:
    """Return the page that shows the figures of a run."""
    shown = [
        [
            f"{row['labels']:,}",
            f"{row['edges']:,} ({row['edges'] / row['labels'] ** 2:.1%})",
            *("–" if row["milliseconds"][path] is None else f"{row['milliseconds'][path]:.2f}" for path in PATHS),
            row["auto"],
        ]
        for row in content["rows"]
    ]
    columns = ["labels", "edges a sign", *(f"{path}, ms" for path in PATHS), "`auto` takes"]
    return (
        "# The paths of BalancedConv\n\n"
        f"Forward and backward of one layer, {content['texts']} texts, random neighbourhoods, median of "
        f"{content['repeats']} steps; – where a path is not installed or would need too much memory or time.\n\n"
        + markdown_table(columns, shown)
        + footer(content["about"])
    )


def _possible(path: Path, labels: int, edges: int) -> bool:
    if path == "dense":
        return labels <= 4_000
    if path == "torch-sparse":
        return importlib.util.find_spec("torch_sparse") is not None
    return path != "message" or TEXTS * edges * 4 * 4 < 4e9


def _random_edges(labels: int, edges: int) -> Tensor:
    keys = torch.unique(torch.randint(0, labels * labels, (edges,)))
    return torch.stack([keys // labels, keys % labels])


def _median_step(conv: BalancedConv, entailment: Tensor, contradiction: Tensor, repeats: int) -> float:
    times = []
    for repeat in range(repeats + 2):
        began = time.perf_counter()
        p, against = conv(entailment, contradiction)
        (p.sum() + against.sum()).backward()
        if repeat >= 2:  # the first two warm up
            times.append(1000 * (time.perf_counter() - began))
    return statistics.median(times)


if __name__ == "__main__":
    typer.run(main)
