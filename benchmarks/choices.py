"""The ten numbers of the default recipe, each beside its neighbours, and what the other sets would have chosen.

    BNCL_DATA=folder BNCL_FEATURES=folder python -m benchmarks.choices [--datasets reuters21578,stackex-cooking]

The second folder holds a feature store of the scorer `strong` for each set, `NAME-train`. Training texts alone (see
`benchmarks.cuts`); no test text is read. Each training is saved when it is done; a run that is stopped goes on.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.cuts import DATASETS, USUAL_TEXTS, figures_of, read_cut
from benchmarks.results import FOLDER, footer, markdown_table
from benchmarks.runs import CORES, Workers, measure, open_results
from bncl_pyg.graph import default_graph
from bncl_pyg.persistence import write_bytes
from bncl_pyg.priors import Priors
from bncl_pyg.training import DefaultRecipe

NAME, NEIGHBOURS = "choices", "neighbours"
NUMBERS: dict[str, tuple[float, ...]] = {
    "slope": (2.5, 3.0, 3.5),
    "competition": (0.6, 0.75, 0.9),
    "rounds": (2, 3, 4),
    "text_C": (600.0, 900.0, 1350.0),
    "lsa_weight": (1.5, 2.0, 2.5),
    NEIGHBOURS: (3, 5, 10),
    "graph_texts": (0.0, 5.0, 10.0, 20.0, 1000.0),
    "logit_std": (1.0, 1.25, 1.5),
    "macro_weight": (2.0, 5.0, 10.0),
    "guess_power": (1.0, 1.25, 1.5),
}
"""All of them, with known priors but for the last, where nothing is known; at 0 texts' worth the label graph is not
used."""
STEPS = {"logit_std": "calibration", "macro_weight": "decisions", "guess_power": "estimation"}
"""The step of the recipe that a number belongs to, if it is not self-training."""
UNKNOWN = "guess_power"
"""The number that is looked at with nothing known."""


USUAL = "usual"
"""What a training is called in which nothing is changed."""


@dataclass(frozen=True)
class Job:
    """One training in which at most one number is changed."""

    dataset: str
    what: str
    value: float

    @property
    def key(self) -> str:
        """What it is called in the file of results."""
        return f"{self.dataset}/{self.what}/{self.value:g}"


def main(
    data: Annotated[Path, typer.Option(envvar="BNCL_DATA", help="The folder with the data sets.")],
    features: Annotated[Path, typer.Option(envvar="BNCL_FEATURES", help="The folder with the feature stores.")],
    datasets: Annotated[str, typer.Option(help="Which, with commas between.")] = ",".join(DATASETS),
    workers: Workers = CORES,
    out: Annotated[Path, typer.Option(help="The folder for JSON and Markdown.")] = FOLDER,
) -> None:
    """Measure what is missing and write the page."""
    file = out / f"{NAME}.json"
    content = open_results(file)
    for name in datasets.split(","):
        measure(content, file, jobs(name), partial(perform, data, features), workers)
    write_bytes(out / f"{NAME}.md", as_markdown(content).encode())


def jobs(dataset: str) -> Iterator[Job]:
    """Yield the trainings."""
    yield Job(dataset, USUAL, 0)
    yield Job(dataset, "aim at prevalence", 0)
    for number, values in NUMBERS.items():
        yield from (Job(dataset, number, value) for value in values if number == UNKNOWN or value != shipped(number))


def shipped(number: str) -> float:
    """Return the value that the recipe, or the default graph, has."""
    if number == NEIGHBOURS:
        return 5
    value: float = getattr(getattr(DefaultRecipe(), STEPS.get(number, "self_training")), number)
    return value


def perform(data: Path, stores: Path, job: Job) -> dict[str, Any]:
    """Train once, and measure on the texts held out."""
    cut = read_cut(data, stores, job.dataset)
    recipe, priors = DefaultRecipe(), Priors.from_annotations(cut.known)
    if job.what == "aim at prevalence":
        recipe = replace(recipe, aim="prevalence")
    elif job.what == "graph_texts" and not job.value:
        recipe = replace(recipe, self_training=replace(recipe.self_training, parts=("vectors", "words")))
    elif job.what in NUMBERS and job.what != NEIGHBOURS:
        step, value = STEPS.get(job.what, "self_training"), type(shipped(job.what))(job.value)
        changed: dict[str, Any] = {step: replace(getattr(recipe, step), **{job.what: value})}
        recipe = replace(recipe, **changed)
        if job.what == UNKNOWN:
            priors = Priors.nothing(len(cut.train.labels))
    began = time.perf_counter()
    neighbours = int(job.value if job.what == NEIGHBOURS else shipped(NEIGHBOURS))
    model = recipe.fit(cut.train, default_graph(cut.train.labels, neighbours=neighbours), priors)
    seconds = time.perf_counter() - began
    return {**figures_of(cut, model.predict(cut.held_out)), "seconds": round(seconds, 1)}


def as_markdown(content: dict[str, Any]) -> str:
    """Return the page that shows the figures."""
    lines = [
        "# The default recipe's numbers and their neighbours, on training texts\n",
        f"Scorer `strong`. A fifth of each training split is held out, of the rest up to {USUAL_TEXTS} texts are "
        "trained on, without annotation; no test text was read. With known priors, one number changed at a time; "
        "`neighbours` is of the default label graph; `graph_texts` 0 is without it, 1000 lets all labels listen to it "
        "alike. `guess_power`: nothing is known.\n",
    ]
    for name in DATASETS:
        rows = [
            [
                key.split("/")[1],
                key.split("/")[2],
                *(f"{run['metrics'][place]:.4f}" for place in (2, 3, 4)),
                f"{run['calibration error']:.4f}",
                f"{run['seconds']:.1f}",
            ]
            for key, run in ((job.key, content["runs"].get(job.key)) for job in jobs(name))
            if run is not None
        ]
        if rows:
            columns = ["number", "value", "ebF1", "miF1", "maF1", "calibration error", "seconds"]
            lines.append(f"## {name}\n\n{markdown_table(columns, rows)}")
    lines.append(f"## Chosen on the other sets\n\n{_left_out(content['runs'])}")
    return "\n".join(lines) + footer(content["sessions"][-1])


def _left_out(runs: dict[str, Any]) -> str:
    """Return a table: for each number and set, the value that the other sets would have chosen, and what it loses."""

    def quality(dataset: str, number: str, value: float) -> float | None:
        same = value == shipped(number) and number != UNKNOWN
        run = runs.get((Job(dataset, USUAL, 0) if same else Job(dataset, number, value)).key)
        return None if run is None else sum(run["metrics"][2:])

    names = [name for name in DATASETS if Job(name, USUAL, 0).key in runs]
    rows = []
    for number, values in NUMBERS.items():
        row = [number, f"{shipped(number):g}"]
        for name in names:
            totals = {}
            for value in values:
                others = [quality(other, number, value) for other in names if other != name]
                if others and None not in others:
                    totals[value] = sum(one for one in others if one is not None)
            own = {value: quality(name, number, value) for value in totals}
            if not totals or any(one is None for one in own.values()):
                row.append("")
                continue
            best = max(totals, key=totals.__getitem__)
            change = (own[best] or 0) - (own[shipped(number)] or 0)
            row.append(f"{best:g} ({100 * change / 3:+.2f})")
        rows.append(row)
    text = (
        "For each number and set, the value with the highest mean of ebF1, miF1 and maF1 on the *other* sets, and by "
        "how many points that mean is then higher on this one than with the recipe's value.\n\n"
    )
    return text + markdown_table(["number", "recipe", *names], rows)


if __name__ == "__main__":
    typer.run(main)
