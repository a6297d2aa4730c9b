"""`BalancedConv`, forward and backward, beside other ways to compute the same layer, and beside the machine's limits.

    python -m benchmarks.kernels

Random neighbourhoods, 128 texts. A step is a forward and a backward, with gradients for all weights and for both
channels of states. All ways take their turn in every repeat of one run; a turn is two steps, of which the second is
timed, and each figure is a median. Peak memory is measured in a process of its own for every way. The last table
decides the constants of `bncl_pyg/nn/balanced_conv.py`.
"""

import gc
import importlib.util
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import typer
from torch import Tensor
from torch_geometric.nn import MessagePassing

from benchmarks.results import about_this_run, footer, markdown_table, save
from bncl_pyg.nn import BalancedConv
from bncl_pyg.sparse import SparsePattern

TEXTS = 128
SIZES = [(135, 1_700), (294, 40_000), (4_000, 80_000), (30_000, 600_000), (100_000, 2_000_000)]
"""Labels, and edges of both signs together."""
CHOICES = [(57, 1_200), (135, 1_700), (135, 16_000), (294, 100_000), (517, 26_000), (517, 450_000), (1_000, 1_000_000)]
"""Where dense products may win."""
OURS = "BalancedConv"
WAYS = {
    OURS: "the path that `auto` takes; states by labels, as between two layers",
    "BalancedConv, by texts": "the same with states by texts, which it turns round on the way in and out",
    "gather-scatter": "PyG's, by `BalancedConv`'s path `message`; states by texts",
    "gather-scatter, by labels": "PyG's with states by labels",
    "torch CSR autograd": "four CSR products, differentiated by torch, which forms (labels × labels) gradients; "
    "states by labels",
    "torch-sparse": "four `torch_sparse.matmul`; states by labels",
    "dense mask": "weights (labels × labels), multiplied with the neighbourhoods at every step; states by texts",
}
BY_TEXTS = ("BalancedConv, by texts", "gather-scatter", "dense mask")
MOST_BYTES = 6e9
"""What a way may need beside the other jobs of a machine with 24 GB."""
SLOW = 20_000
"""A way that takes more milliseconds is timed once."""
Step = Callable[[], tuple[Tensor, ...]]


def main(repeats: int = 31) -> None:
    """Measure every way at every size and write the tables."""
    torch.manual_seed(0)
    load = os.getloadavg()[0]
    content = {
        "about": about_this_run(),
        "load": load,
        "texts": TEXTS,
        "repeats": repeats,
        "limits": limits(),
        "rows": [measured(labels, edges, repeats if labels < 10_000 else min(3, repeats)) for labels, edges in SIZES],
        "choices": [chosen(labels, edges, repeats) for labels, edges in CHOICES],
    }
    save("kernels", content, as_markdown(content))
    typer.echo(as_markdown(content))


def limits(megabytes: int = 512) -> dict[str, float]:
    """Return the memory's bandwidth (the better of copy and triad) and the rate of a matrix product, per second."""
    count = megabytes * 2**20 // 4
    first, second, third = torch.rand(3, count).unbind()
    copied = _medians({"copy": lambda: first.copy_(second)}, 7)["copy"]
    summed = _medians({"triad": lambda: torch.add(first, second, alpha=2.0, out=third)}, 7)["triad"]
    square = torch.rand(2048, 2048)
    multiplied = _medians({"product": lambda: square @ square}, 7)["product"]
    return {
        "bytes": max(2 * count * 4 / copied, 3 * count * 4 / summed) * 1000,
        "operations": 2 * 2048**3 / multiplied * 1000,
    }


def measured(labels: int, edges: int, repeats: int) -> dict[str, Any]:
    """Return times and peak memory of all ways at one size."""
    layer = Layer(labels, edges)
    refusals = {way: refusal(way, labels) for way in WAYS}
    steps = {way: layer.step(way) for way, reason in refusals.items() if reason is None}
    differences = {way: layer.difference(step) for way, step in steps.items()}
    if max(differences.values()) > 1e-4:
        raise AssertionError(f"The ways do not agree: {differences}.")
    milliseconds = _medians(steps, repeats)
    row = {
        "labels": labels,
        "edges": layer.edges,
        "path": layer.conv.backend,
        "repeats": repeats,
        "milliseconds": {way: milliseconds.get(way) for way in WAYS},
        "refusals": {way: reason for way, reason in refusals.items() if reason is not None},
        "work": work(labels, layer.edges),
    }
    typer.echo(str(row))
    del layer, steps
    gc.collect()
    row["megabytes"] = {way: None if refusals[way] else peak_memory(way, labels, edges) for way in WAYS}
    return row


def work(labels: int, edges: int) -> dict[str, float]:
    """Return what a step of the sparse path moves and computes.

    An edge has two weights, one a channel. Each is met three times: in the forward, for the weight's gradient and for
    the state's; every time a row of 128 numbers is fetched, and an index and a value of 4 bytes. States come in and go
    out once, and so do their gradients. The compulsory part is what is left if a row that was fetched once is never
    fetched from memory again.
    """
    met = 3 * 2 * edges
    states = 8 * labels * TEXTS * 4
    return {
        "bytes": met * (TEXTS * 4 + 8) + states,
        "compulsory": met * 8 + states,
        "operations": 2 * met * TEXTS,
    }


def chosen(labels: int, edges: int, repeats: int) -> dict[str, Any]:
    """Return the times of our dense and sparse paths at one size, and which `auto` takes."""
    layer = Layer(labels, edges)
    steps = {
        path: layer.stepped(BalancedConv(layer.friends, layer.enemies, labels, path)) for path in ("dense", "sparse")
    }
    share = layer.edges / (2 * labels**2)
    times = _medians(steps, 2 * repeats)
    return {"labels": labels, "share": share, "milliseconds": times, "auto": layer.conv.backend}


def refusal(way: str, labels: int) -> str | None:
    """Return why a way is not measured, if it is not."""
    if way == "torch-sparse" and importlib.util.find_spec("torch_sparse") is None:
        return "not installed"
    matrices = {"torch CSR autograd": 2, "dense mask": 16}.get(way, 0)
    needed = matrices * 4 * labels**2
    return f"would need {needed / 1e9:.0f} GB" if needed > MOST_BYTES else None


class Layer:
    """A random layer, states and gradients to go back with.

    Args:
        labels: how many.
        edges: of both signs together.
    """

    def __init__(self, labels: int, edges: int) -> None:
        self.labels = labels
        self.friends, self.enemies = (_random_edges(labels, edges // 2) for _ in range(2))
        self.edges = self.friends.shape[1] + self.enemies.shape[1]
        self.conv = BalancedConv(self.friends, self.enemies, labels)
        self._lying: dict[bool, list[Tensor]] = {}

    def step(self, way: str) -> Step:
        """Return a forward and backward with the weights of `conv`, done that way."""
        if way.startswith(OURS):
            return self.stepped(self.conv, way in BY_TEXTS)
        if way == "gather-scatter":
            conv = BalancedConv(self.friends, self.enemies, self.labels, "message")
            conv.load_state_dict(self.conv.state_dict())
            return self.stepped(conv)
        friends, enemies = self.conv.friends, self.conv.enemies
        hoods = [friends, enemies, enemies, friends]
        weights = [weight.detach().clone().requires_grad_() for weight in self.conv.weights()]
        products = {
            "gather-scatter, by labels": _gather_scatter,
            "torch CSR autograd": _torch_csr,
            "torch-sparse": _torch_sparse,
            "dense mask": _dense_mask,
        }[way](hoods, weights, self.labels)

        def update(*states: Tensor) -> tuple[Tensor, Tensor]:
            channels = states if way in BY_TEXTS else [channel.t() for channel in states]
            sums = [product(channels[part % 2]).relu() for part, product in enumerate(products)]
            updated = channels[0] + sums[0] + sums[1], channels[1] + sums[2] + sums[3]
            return updated if way in BY_TEXTS else (updated[0].t(), updated[1].t())

        return self.stepped(update, way in BY_TEXTS)

    def stepped(self, update: Callable[..., tuple[Tensor, Tensor]], by_texts: bool = True) -> Step:
        """Return one forward and backward; it returns the updated states and the gradients of the states before."""

        lying = self._both(by_texts)

        def step() -> tuple[Tensor, ...]:
            states = [channel.detach().requires_grad_() for channel in lying[:2]]
            updated = update(*states)
            # A loss gives the gradient as the states lie that it is given.
            torch.autograd.backward(updated, self._both(updated[0].stride(1) == 1)[2:])
            return *(each.detach() for each in updated), *(each.grad for each in states if each.grad is not None)

        return step

    def _both(self, by_texts: bool) -> list[Tensor]:
        """Return states and gradients of both channels, (texts, labels); made when somebody wants them to lie so."""
        if by_texts not in self._lying:
            made = torch.rand(4, TEXTS, self.labels, generator=torch.Generator().manual_seed(0))
            turned = made if by_texts else made.transpose(1, 2).contiguous()
            self._lying[by_texts] = [each if by_texts else each.t() for each in turned]
        return self._lying[by_texts]

    def difference(self, step: Step) -> float:
        """Return how far its states and gradients of states are from ours, relative to their norm.

        Not the largest difference: where a sum is 0 to rounding, the ReLU may pass a gradient here and not there.
        """
        pairs = zip(self.step(OURS)(), step(), strict=True)
        return max(float((one - other).norm() / one.norm()) for one, other in pairs)


class _LabelsFirst(MessagePassing):
    def __init__(self) -> None:
        super().__init__(aggr="add", node_dim=0)

    def forward(self, edge_index: Tensor, states: Tensor, weight: Tensor) -> Tensor:
        summed: Tensor = self.propagate(edge_index, x=states, weight=weight)
        return summed

    def message(self, x_j: Tensor, weight: Tensor) -> Tensor:
        return weight[:, None] * x_j


Product = Callable[[Tensor], Tensor]


def _gather_scatter(hoods: list[Tensor], weights: list[Tensor], _: int) -> list[Product]:
    conv = _LabelsFirst()
    return [lambda x, hood=hood, w=w: conv(hood, x, w) for hood, w in zip(hoods, weights, strict=True)]  # type: ignore[misc]


def _torch_csr(hoods: list[Tensor], weights: list[Tensor], labels: int) -> list[Product]:
    patterns = [SparsePattern(hood[1], hood[0], (labels, labels), by_columns=False) for hood in hoods]
    return [lambda x, p=p, w=w: p.matrix(w) @ x for p, w in zip(patterns, weights, strict=True)]  # type: ignore[misc]


def _torch_sparse(hoods: list[Tensor], weights: list[Tensor], labels: int) -> list[Product]:
    from torch_sparse import SparseTensor, matmul

    matrices = [SparseTensor(row=h[1], col=h[0], sparse_sizes=(labels, labels)).fill_cache_() for h in hoods]
    return [
        lambda x, m=m, w=w: matmul(m.set_value(w, layout="coo"), x)  # type: ignore[misc]
        for m, w in zip(matrices, weights, strict=True)
    ]


def _dense_mask(hoods: list[Tensor], weights: list[Tensor], labels: int) -> list[Product]:
    masks = [torch.zeros(labels, labels).index_put((hood[0], hood[1]), torch.ones(())) for hood in hoods]
    full = [
        torch.randn(labels, labels).index_put((hood[0], hood[1]), weight.detach()).requires_grad_()
        for hood, weight in zip(hoods, weights, strict=True)
    ]
    return [lambda x, m=m, w=w: x @ (w * m) for m, w in zip(masks, full, strict=True)]  # type: ignore[misc]


def peak_memory(way: str, labels: int, edges: int) -> float:
    """Return what a step needs at most, the layer and its states included, in MB; in a process of its own."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch_geometric.nn", "bncl_pyg.nn", "typer"])
    queue = context.SimpleQueue()
    process = context.Process(target=_report_peak, args=(queue, way, labels, edges))
    process.start()
    peak: float = queue.get()
    process.join()
    return peak


def _report_peak(queue: Any, way: str, labels: int, edges: int) -> None:
    torch.set_num_threads(1)
    before = _resident("VmRSS")
    step = Layer(labels, edges).step(way)
    step()  # makes what is kept from step to step
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # from here on the peak is counted anew
    step()
    queue.put(max(0.0, _resident("VmHWM") - before))


def _resident(name: str) -> float:
    """Return a figure of this process's memory, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(name))) * 1024 / 1e6


def as_markdown(content: dict[str, Any]) -> str:
    """Return the page that shows the figures of a run."""
    rows, limit = content["rows"], content["limits"]
    peers = [way for way in WAYS if not way.startswith(OURS)]
    sizes = [[f"{row['labels']:,}", f"{row['edges']:,}"] for row in rows]
    times = [[*size, *(_shown(row, way) for way in WAYS)] for size, row in zip(sizes, rows, strict=True)]
    ratios, by_texts = (
        [[*size, *(_ratio(row, way, ours) for way in peers)] for size, row in zip(sizes, rows, strict=True)]
        for ours in (OURS, "BalancedConv, by texts")
    )
    memory = [
        [*size, *("–" if row["megabytes"][way] is None else f"{row['megabytes'][way]:,.0f}" for way in WAYS)]
        for size, row in zip(sizes, rows, strict=True)
    ]
    shares = [[*size, *_share(row, limit)] for size, row in zip(sizes, rows, strict=True)]
    choices = [
        [
            f"{row['labels']:,}",
            f"{row['share']:.1%}",
            *(f"{row['milliseconds'][path]:.2f}" for path in ("dense", "sparse")),
            row["auto"],
        ]
        for row in content["choices"]
    ]
    head = ["labels", "edges, both signs"]
    return (
        "# BalancedConv's speed\n\n"
        f"A forward and a backward of one layer with gradients for all weights and both channels of states, "
        f"{content['texts']} texts, random neighbourhoods. All ways in one run, in turn; a turn is two steps, and the "
        "second is timed, because in training a step follows a step of the same way. States lie in memory as a way "
        "wants them, by texts or by labels, and gradients as the states do that it returned. Medians of "
        f"{content['repeats']} steps ({min(3, content['repeats'])} from 30,000 labels; one where it takes more than "
        f"{SLOW // 1000} s). The machine was shared, with a load of {content['load']:.1f} on "
        f"{content['about']['cores']} cores when the run began.\n\n"
        + "".join(f"- **{way}**: {what}.\n" for way, what in WAYS.items())
        + "\n## Milliseconds a step\n\n"
        + markdown_table([*head, *WAYS], times)
        + "\n## How many times as long as ours\n\n"
        + markdown_table([*head, *peers], ratios)
        + "\nAnd as ours by texts:\n\n"
        + markdown_table([*head, *peers], by_texts)
        + "\n## Peak memory, MB\n\n"
        "Of a step in a process of its own, with the layer, its states and their gradients; one number for every "
        f"text and each of {rows[-1]['labels']:,} labels takes "
        f"{rows[-1]['labels'] * content['texts'] * 4 / 1e6:,.0f} MB.\n\n"
        + markdown_table([*head, *WAYS], memory)
        + "\n## How near the machine's limit ours is\n\n"
        f"Measured in the same run: {limit['bytes'] / 1e9:.1f} GB/s memory bandwidth (the better of copy and triad "
        f"over 512 MB, all cores), {limit['operations'] / 1e9:.0f} Gflop/s in a matrix product. *Fetched* counts a row "
        "of states for every edge and channel in the forward and twice in the backward, with its index and value, and "
        "all states and gradients once in and once out; rows that are still in the cache come faster than memory, so "
        "that the share can exceed 100%. *Compulsory* counts every row once: no kernel can move less.\n\n"
        + markdown_table(
            [
                *head,
                "path",
                "fetched",
                "GB/s",
                "share of bandwidth",
                "compulsory",
                "its share",
                "share of product rate",
            ],
            shares,
        )
        + "\n## Dense or sparse\n\n"
        "Our two paths, where either may win; *share* is that of all pairs that are edges, the mean of both signs.\n\n"
        + markdown_table(["labels", "share", "dense, ms", "sparse, ms", "`auto` takes"], choices)
        + footer(content["about"])
    )


def _shown(row: dict[str, Any], way: str) -> str:
    time_ = row["milliseconds"][way]
    return f"– ({row['refusals'][way]})" if time_ is None else f"{time_:,.2f}" if time_ < 100 else f"{time_:,.0f}"


def _ratio(row: dict[str, Any], way: str, ours: str) -> str:
    time_ = row["milliseconds"][way]
    return "–" if time_ is None else f"{time_ / row['milliseconds'][ours]:.1f}"


def _share(row: dict[str, Any], limit: dict[str, float]) -> list[str]:
    seconds, done = row["milliseconds"][OURS] / 1000, row["work"]
    return [
        row["path"],
        f"{done['bytes'] / 1e6:,.0f} MB",
        f"{done['bytes'] / seconds / 1e9:.1f}",
        f"{done['bytes'] / seconds / limit['bytes']:.0%}",
        f"{done['compulsory'] / 1e6:,.0f} MB",
        f"{done['compulsory'] / seconds / limit['bytes']:.0%}",
        f"{done['operations'] / seconds / limit['operations']:.0%}",
    ]


def _random_edges(labels: int, edges: int) -> Tensor:
    keys = torch.unique(torch.randint(0, labels * labels, (edges,)))
    return torch.stack([keys // labels, keys % labels])


def _medians(works: dict[str, Any], repeats: int) -> dict[str, float]:
    """Return the median times in ms of works that take turns."""
    times: dict[str, list[float]] = {name: [] for name in works}
    with _no_collection():
        for _ in range(repeats):
            for name, each in works.items():
                if not times[name] or times[name][0] < SLOW:
                    each()  # in training a step follows a step of the same way
                    began = time.perf_counter()
                    each()
                    times[name].append(1000 * (time.perf_counter() - began))
    return {name: statistics.median(taken) for name, taken in times.items()}


@contextmanager
def _no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


if __name__ == "__main__":
    typer.run(main)
