"""The default recipe with rough priors, with texts that have no label, with few texts, and the label graph's share.

    BNCL_DATA=folder BNCL_FEATURES=folder python -m benchmarks.recipe [--pages priors,none] [--datasets goemotions]

The second folder holds a feature store of the scorer `strong` for each set, `NAME-train` (with 100 candidates a text
for wordnet-hypernyms; the page `size` takes stores of all training texts by the scorer `fast` from the folder `fast` in
it). Training texts alone (see `benchmarks.cuts`); no test text is read. A page is a JSON file; each
training is saved when it is done; a run that is stopped goes on.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from torch import Tensor

from benchmarks.cuts import DATASETS, HYPERNYMS, Cut, figures_of, read_cut
from benchmarks.quality.plan import group_of
from benchmarks.results import FOLDER, footer, markdown_table
from benchmarks.runs import CORES, Workers, measure, open_results
from bncl_pyg.features import Features
from bncl_pyg.graph import SignedLabelGraph, build_graph, default_graph
from bncl_pyg.persistence import write_bytes
from bncl_pyg.priors import WORDS, Priors
from bncl_pyg.training import Annotated as AnnotatedTexts
from bncl_pyg.training import DefaultRecipe, SelfTraining, draw

PAGES = ("priors", "none", "calibration", "graph", "size")
FAST, HYPERNYM_TEXTS = "fast", 60_000
DRAWS, THIRDS = 3, 5
"""How often wrong shares, and how often a third of the labels, are drawn."""
PRIORS = {
    "exact": 1,
    "words": 1,
    "off by a factor of 2, said so": DRAWS,
    "off by a factor of 2, not said": DRAWS,
    "of half of the labels": DRAWS,
    "κ alone": 1,
    "κ alone, half of it": 1,
    "κ alone, twice as much": 1,
    "nothing": 1,
}
"""What is known of κ and λ, and how often it is drawn."""
NONE = ("known", "κ alone", "may have none", "nothing", "every text has one")
FILTERS = ("one label", "two labels")
NUMBERS_OF_TEXTS = (1000, 3000, 10_000, 20_000, 30_000)
SIZES, LEVELS = (300, 1000, 3000), ("0", "L", "20%", "100%")
GRAPHS = (
    "without",
    "as it is",
    "friends alone",
    "signs ignored",
    "1 hop",
    "all hops",
    "nearest 10",
    "nearest 20",
    "percentiles 1/99",
    "percentiles 5/95",
    "percentiles 10/90",
    "from the corpus",
    "parents",
)
SPARSE_GRAPHS = (
    "without",
    "as it is",
    "friends alone",
    "signs ignored",
    "1 hop",
    "nearest 10",
    "nearest 20",
    "parents",
)
"""Where labels are so many that no matrix of all pairs can be made."""
LEFT_OUT = {"parents": ("stackex-cooking", "goemotions"), "nearest 20": ("goemotions",)}
"""Where no such edges are given, or where 28 labels are too few."""
MANY_HOPS, DAMPING = 12, 0.95


@dataclass(frozen=True)
class Job:
    """One training."""

    page: str
    dataset: str
    variant: str
    level: str = "0"
    draw: int = 0

    @property
    def key(self) -> str:
        """What it is called in the file of results."""
        return f"{self.dataset}|{self.variant}|{self.level}|{self.draw}"


def main(
    data: Annotated[Path, typer.Option(envvar="BNCL_DATA", help="The folder with the data sets.")],
    features: Annotated[Path, typer.Option(envvar="BNCL_FEATURES", help="The folder with the feature stores.")],
    datasets: Annotated[str, typer.Option(help="Which, with commas between.")] = ",".join(DATASETS),
    pages: Annotated[str, typer.Option(help="Which, with commas between.")] = ",".join(PAGES),
    workers: Workers = CORES,
    out: Annotated[Path, typer.Option(help="The folder for JSON and Markdown.")] = FOLDER,
) -> None:
    """Measure what is missing and write the pages."""
    for page in pages.split(","):
        file = out / f"recipe-{page}.json"
        content = open_results(file)
        for name in datasets.split(","):
            measure(content, file, jobs(page, name), partial(perform, data, features), workers)
        write_bytes(out / f"recipe-{page}.md", as_markdown(page, content).encode())


def jobs(page: str, dataset: str) -> Iterator[Job]:
    """Yield the trainings of a page."""
    if page == "graph":
        levels = ("0",) if dataset == HYPERNYMS else ("0", "L", "100%")
        variants = SPARSE_GRAPHS if dataset == HYPERNYMS else GRAPHS
        # A level above 0 is looked at with and without only: annotated texts take the graph's place.
        for level in levels:
            for variant in variants if level == "0" else variants[:2]:
                if dataset not in LEFT_OUT.get(variant, ()):
                    yield Job(page, dataset, variant, level)
    elif dataset == HYPERNYMS:
        return
    elif page == "priors":
        yield from (Job(page, dataset, known, draw=one) for known, draws in PRIORS.items() for one in range(draws))
    elif page == "none":
        yield from (Job(page, dataset, known, draw=one) for known in NONE for one in range(THIRDS))
        yield from (Job(page, dataset, known, draw=one) for known in FILTERS for one in range(DRAWS))
    elif page == "size":
        most = {"goemotions": 5, "debtags": 4}.get(dataset, 0)
        yield from (Job(page, dataset, f"{size} texts") for size in NUMBERS_OF_TEXTS[:most])
    elif page == "calibration":
        yield from (Job(page, dataset, f"{size} texts", level) for size in SIZES for level in LEVELS)


def perform(data: Path, stores: Path, job: Job) -> dict[str, Any]:
    """Train once, and measure on the texts held out."""
    recipe = DefaultRecipe()
    if job.page == "size":
        cut = read_cut(data, stores / FAST, job.dataset, FAST, int(job.variant.split()[0]))
    elif job.dataset == HYPERNYMS:
        cut = read_cut(data, stores, job.dataset, texts=HYPERNYM_TEXTS)
    else:
        cut = read_cut(data, stores, job.dataset)
    if job.page == "none":
        cut = cut.third(job.draw) if job.variant in NONE else _filter(cut, job)
    elif job.page == "calibration":
        cut = cut.some_texts(int(job.variant.split()[0]))
    priors = Priors.from_annotations(cut.known)
    if job.dataset == HYPERNYMS:
        priors = Priors.exact(float(cut.prevalence.sum()), cut.prevalence)
    if job.page == "priors":
        priors = known_priors(priors, job)
    elif job.page == "none":
        priors = _or_none(priors, job)
    graph = default_graph(cut.train.labels)
    if job.page == "graph":
        graph, recipe = _with_graph(graph, cut, recipe, job.variant, data / job.dataset)
    annotated = None
    if job.level != "0":
        texts, labels = cut.known.shape
        count = min(labels, texts) if job.level == "L" else round(texts * float(job.level.rstrip("%")) / 100)
        annotated = AnnotatedTexts(np.arange(texts), cut.known).drawn(draw(texts, max(count, 2), job.draw))
    began = time.perf_counter()
    model = recipe.fit(cut.train, graph, priors, annotated)
    seconds = round(time.perf_counter() - began, 1)
    figures = figures_of(cut, model.predict(cut.held_out))
    true = float(cut.truth.sum() / cut.truth.shape[0])
    kappa = {"cardinality": round(float(model.priors.cardinality or 0), 3), "true cardinality": round(true, 3)}
    return {**figures, **kappa, "seconds": seconds}


def known_priors(exact: Priors, job: Job) -> Priors:
    """Return what is known of κ and λ."""
    kappa, labels, random = exact.cardinality, len(exact), np.random.default_rng(job.draw)
    assert kappa is not None
    if job.variant == "words":
        return replace(exact, prevalence=tuple(WORDS[group] for group in group_of(exact.shares, len(WORDS))))
    if job.variant.startswith("off by a factor of 2"):
        shares = np.minimum(exact.shares * random.choice([0.5, 2.0], labels), 1.0)
        if job.variant.endswith("not said"):
            return replace(exact, prevalence=tuple(shares.tolist()))
        intervals = [(one / 2, min(2 * one, 1.0)) if one else 0.0 for one in shares.tolist()]
        return replace(exact, prevalence=tuple(intervals))
    if job.variant == "of half of the labels":
        known = random.permutation(labels) < labels / 2
        return replace(
            exact, prevalence=tuple(one if said else None for one, said in zip(exact.shares, known, strict=True))
        )
    if job.variant.startswith("κ alone"):
        factor = {"half": 0.5, "twice": 2.0}.get(job.variant.removeprefix("κ alone, ").split()[0], 1.0)
        return Priors(kappa * factor, (None,) * labels)
    return Priors.nothing(labels) if job.variant == "nothing" else exact


def _or_none(exact: Priors, job: Job) -> Priors:
    """Return what is known where texts may have none of the labels."""
    nothing = Priors.nothing(len(exact))
    return {
        "κ alone": replace(nothing, cardinality=exact.cardinality),
        "may have none": replace(nothing, at_least_one=False),
        "nothing": nothing,
        "every text has one": replace(exact, at_least_one=True),
    }.get(job.variant, exact)


def _filter(cut: Cut, job: Job) -> Cut:
    """Return the cut with one or two labels, drawn among those that a hundredth of the texts have."""
    common = np.flatnonzero(np.asarray(cut.known.mean(axis=0)).ravel() > 0.01)
    count = 1 if job.variant == "one label" else 2
    return cut.some_labels(np.sort(np.random.default_rng(job.draw).choice(common, count, replace=False)))


@dataclass(frozen=True)
class OtherSmoothing(SelfTraining):
    """Self-training whose labels listen along walks of another length."""

    hops: int = 1

    def prepare(self, features: Features, graph: SignedLabelGraph) -> Any:
        """Return what self-training sees, with other smoothing."""
        data = super().prepare(features, graph)
        edges, are_friends = graph.message_edges()
        smoothing: Any = DenseSmoothing if self.hops > 1 else OneHop
        return replace(data, smoothing=smoothing(edges, are_friends, len(features.labels)))


class OneHop:
    """Labels listen to their neighbours alone: K = I + N."""

    def __init__(self, edges: Tensor, are_friends: Tensor, labels: int) -> None:
        degree = torch.bincount(edges[1], minlength=labels).float().clamp_min(1)
        values = (are_friends.float() * 2 - 1) / (degree[edges[0]] * degree[edges[1]]).sqrt()
        self.adjacency = torch.sparse_coo_tensor(edges, values, (labels, labels)).coalesce()

    def kernel(self, weights: Tensor) -> Tensor:
        """Return weights @ K."""
        from_neighbours: Tensor = torch.sparse.mm(self.adjacency, weights.t()).t()
        return weights + from_neighbours

    def __call__(self, weights: Tensor, texts: Tensor, graph_texts: float) -> Tensor:
        """Return smoothed weights."""
        return torch.lerp(weights, self.kernel(weights), graph_texts / (graph_texts + texts))


class DenseSmoothing(OneHop):
    """Labels listen along all balanced walks: K is the sum of the powers of N, damped, scaled to a diagonal of 1."""

    def kernel(self, weights: Tensor) -> Tensor:
        """Return weights @ K."""
        adjacency = DAMPING * self.adjacency.to_dense()
        total = power = torch.eye(len(adjacency))
        for _ in range(MANY_HOPS):
            power = power @ adjacency
            total = total + power
        scale = total.diagonal().clamp_min(1e-6).rsqrt()
        return weights @ (scale[:, None] * total * scale)


def _with_graph(
    graph: SignedLabelGraph, cut: Cut, recipe: DefaultRecipe, variant: str, folder: Path
) -> tuple[SignedLabelGraph, DefaultRecipe]:
    """Return the label graph of a variant, and the recipe that uses it."""
    training, labels = recipe.self_training, cut.train.labels
    if variant == "without":
        return graph, replace(recipe, self_training=replace(training, parts=("vectors", "words")))
    if variant in ("1 hop", "all hops"):
        return graph, replace(recipe, self_training=OtherSmoothing(hops=1 if variant == "1 hop" else MANY_HOPS))
    if variant.startswith("nearest"):
        count = int(variant.split()[1])
        return build_graph(labels, neighbours=count, max_neighbours=count), recipe
    if variant.startswith("percentiles"):
        low, high = variant.split()[1].split("/")
        return build_graph(labels, percentiles=(float(low), float(high))), recipe
    edges, are_friends = graph.message_edges()
    nothing = edges[:, :0]
    if variant == "friends alone":
        return _graph_of(edges[:, are_friends], nothing, labels.names), recipe
    if variant == "signs ignored":
        return _graph_of(edges, nothing, labels.names), recipe
    if variant == "from the corpus":
        return _from_corpus(training.prepare(cut.train, graph).scores, labels.names), recipe
    if variant == "parents":
        return _graph_of(_kin(folder), nothing, labels.names), recipe
    return graph, recipe


def _graph_of(friends: Tensor, enemies: Tensor, names: tuple[str, ...]) -> SignedLabelGraph:
    return SignedLabelGraph.from_edge_index(friends, enemies, label_names=list(names))


def _from_corpus(scores: Tensor, names: tuple[str, ...]) -> SignedLabelGraph:
    """Return a graph whose friends score alike over the texts, and whose enemies do not: 5% of all pairs each."""
    correlation = torch.corrcoef(scores.t()).nan_to_num()
    above = torch.triu(torch.ones_like(correlation), diagonal=1).bool()
    low, high = np.quantile(correlation[above].numpy(), (0.05, 0.95))
    apart = ~torch.eye(len(correlation), dtype=torch.bool)
    return _graph_of((apart & (correlation >= high)).nonzero().t(), (apart & (correlation <= low)).nonzero().t(), names)


def _kin(folder: Path) -> Tensor:
    """Return edges that are given: parents and children, or labels of the same facet or group; both ways."""
    rows = [json.loads(line) for line in (folder / "labels.jsonl").read_text(encoding="utf-8").splitlines()]
    places = {row["label"]: place for place, row in enumerate(rows)}
    pairs: list[tuple[int, int]] = []
    if "parents" in rows[0]:
        pairs = [
            (place, places[parent]) for place, row in enumerate(rows) for parent in row["parents"] if parent in places
        ]
    else:
        key = "facet" if "facet" in rows[0] else "group"
        groups: dict[str, list[int]] = {}
        for place, row in enumerate(rows):
            groups.setdefault(row[key], []).append(place)
        pairs = [(one, other) for group in groups.values() for one in group for other in group if one < other]
    one_way = torch.tensor(pairs).t()
    both_ways: Tensor = torch.cat([one_way, one_way.flip(0)], dim=1).unique(dim=1)
    return both_ways


TITLES = {
    "priors": "# Rough priors, on training texts\n",
    "none": "# Texts that have none of the labels, on training texts\n",
    "calibration": "# Calibration with few training texts\n",
    "graph": "# The label graph's share, on training texts\n",
    "size": "# More texts teach less and less, on training texts\n",
}
USUALLY = (
    "Default recipe, scorer `strong`, a fifth of each training split held out, up to 3,500 of the other texts trained "
    "on; no test text was read."
)
TEXTS = {
    "priors": f"{USUALLY} Without annotation. *cost* is what miF1 loses beside exact priors; decisions aim at F1 "
    f"everywhere. Drawn: each share times 2 or a half ({DRAWS} draws; κ is known), or which half of the labels is "
    "known. *said so*: as intervals from half to twice the share. *labels given*: a text.\n",
    "none": f"{USUALLY} Without annotation. A third of the labels is kept, drawn {THIRDS} times, and texts with none "
    "of them stay. *ebF1 with none* counts 1 for a text that rightly gets no label, where ebF1 counts 0. *known*: κ "
    "and λ, counted; *κ alone*: one number; *may have none*: nothing but that (`--or-none`); *nothing*: `auto`; *every "
    "text has one*: κ and λ, and `--at-least-one`. *one label*, *two labels*: a filter, drawn "
    f"{DRAWS} times among labels that a hundredth of the texts have, κ and λ known.\n",
    "size": "Default recipe without annotation, κ and λ known, scorer `fast`; a fifth of all training texts, at most "
    "6,000, is held out, and more and more of the others are trained on; no test text was read.\n",
    "calibration": f"{USUALLY} Expected calibration error of the model and of the zero-shot start, over all (text, "
    "label) pairs; κ and λ are those of the texts trained on, counted. It is asked to be below .01, or half the "
    "start's.\n",
    "graph": f"{USUALLY} κ and λ known. wordnet-hypernyms: 100 candidates a text, all other texts are trained on, κ "
    "and λ of the whole training split, because half of the labels occur in no text of a cut. "
    "Labels' weights are tied along the graph by rarity (see docs/default-recipe.md). *as it is*: the default graph, "
    "each label's 5 nearest and farthest, two hops. *all hops*: the sum of all balanced walks. *from the corpus*: "
    "friends score alike over the texts. "
    "*parents*: edges that are given, of hypernyms, or among labels of the same facet (debtags) or group (Reuters). "
    "Differences from *without*, in points.\n",
}


def as_markdown(page: str, content: dict[str, Any]) -> str:
    """Return a page, made from its figures alone."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for job in (job for name in (*DATASETS, HYPERNYMS) for job in jobs(page, name)):
        if job.key in content["runs"]:
            groups.setdefault((job.dataset, job.variant, job.level), []).append(content["runs"][job.key])
    lines = [TITLES[page], TEXTS[page]]
    for name in (*DATASETS, HYPERNYMS):
        means = {
            (variant, level): {figure: np.mean([run[figure] for run in runs], axis=0) for figure in runs[0]}
            for (dataset, variant, level), runs in groups.items()
            if dataset == name
        }
        if means:
            lines.append(f"## {name}\n\n{ROWS[page](means)}")
    return "\n".join(lines) + footer(content["sessions"][-1])


Means = dict[tuple[str, str], dict[str, Any]]


def _priors_rows(means: Means) -> str:
    exact = means["exact", "0"]["metrics"][3]
    rows = [
        [
            variant,
            *(f"{value:.4f}" for value in run["metrics"][2:]),
            f"{100 * (1 - run['metrics'][3] / exact):.1f}%",
            f"{run['cardinality']:.2f}",
            f"{run['labels given']:.2f}",
        ]
        for (variant, _), run in means.items()
    ]
    return markdown_table(["known", "ebF1", "miF1", "maF1", "cost", "κ", "labels given"], rows)


def _none_rows(means: Means) -> str:
    rows = [
        [
            variant,
            f"{run['without any']:.0%}",
            f"{run['F1 of none']:.3f}",
            *(f"{value:.4f}" for value in (run["ebF1 with none"], *run["metrics"][3:])),
            f"{run['cardinality']:.2f} ({run['true cardinality']:.2f})",
        ]
        for (variant, _), run in means.items()
    ]
    return markdown_table(
        ["known", "texts with none", "F1 of none", "ebF1 with none", "miF1", "maF1", "κ (true)"], rows
    )


def _calibration_rows(means: Means) -> str:
    rows = []
    for (variant, level), run in means.items():
        error, start = run["calibration error"], run["calibration error of the start"]
        held = "yes" if error < 0.01 or error <= start / 2 else "**no**"
        rows.append([variant, level, f"{error:.4f}", f"{start:.4f}", held])
    return markdown_table(["trained on", "annotated", "model", "start", "as asked"], rows)


def _graph_rows(means: Means) -> str:
    rows = []
    for (variant, level), run in means.items():
        usual = means["without", level]["metrics"]
        change = (f"{100 * (one - other):+.2f}" for one, other in zip(run["metrics"][2:], usual[2:], strict=True))
        shown = [""] * 3 if variant == "without" else change
        rows.append([level, variant, *(f"{value:.4f}" for value in run["metrics"][2:]), *shown])
    return markdown_table(["annotated", "graph", "ebF1", "miF1", "maF1", "Δ ebF1", "Δ miF1", "Δ maF1"], rows)


def _size_rows(means: Means) -> str:
    rows = [
        [
            variant,
            *(f"{value:.4f}" for value in run["metrics"][2:]),
            f"{run['calibration error']:.4f}",
            f"{run['seconds']:.0f}",
        ]
        for (variant, _), run in means.items()
    ]
    return markdown_table(["trained on", "ebF1", "miF1", "maF1", "calibration error", "seconds"], rows)


ROWS = {
    "size": _size_rows,
    "priors": _priors_rows,
    "none": _none_rows,
    "calibration": _calibration_rows,
    "graph": _graph_rows,
}

if __name__ == "__main__":
    typer.run(main)
