"""The whole step: an epoch of the recipes `paper` and `paper-literal` beside a plain transcription, how long a training
takes with recalibration and choice of the graph, and what the update costs between raw text and prediction.

    BNCL_DATA=folder python -m benchmarks.step
    BNCL_DATA=folder python -m benchmarks.step --features benchmarks/.cache/scorers

The transcription is what the paper's equations say, line by line: weights (labels × labels) with a mask at every step,
a `DataLoader` that collates single samples, `torch.optim.Adam` as it comes. It finds what our `Trainer` finds, with the
same batches and L2 over each of them, or for `paper-literal` over the whole corpus, whose predictions it sums at every
step. Before anything is timed, both must find the same loss and the same weights after a step. How threads wait decides
much of the transcription's time, so that epochs are timed with and without `OMP_WAIT_POLICY`, and with one thread, each
in a process of its own.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from benchmarks.quality.datasets import DataSet
from benchmarks.results import about_this_run, footer, markdown_table, save
from bncl_pyg.corpus import Corpus, LabelSet
from bncl_pyg.estimator import BNCLClassifier
from bncl_pyg.features import Features, score_texts
from bncl_pyg.graph import SignedLabelGraph
from bncl_pyg.nn import BNCL, BalancedConv
from bncl_pyg.priors import Priors
from bncl_pyg.scorers import embedded_scorer
from bncl_pyg.training import PAPER, PAPER_LITERAL, PaperRecipe, Trainer

TEXTS = 256
SHARPNESS = 10
"""C, as in the recipe."""
CASES = (
    (PAPER, (30.0, 70.0)),
    (PAPER, (5.0, 95.0)),
    (PAPER_LITERAL, (5.0, 95.0)),
)
"""Which epochs are timed: by which recipe, with which percentiles of the label graph."""
ONE_THREAD = "one thread"
POLICIES = {
    "not set": "threads that wait keep their core for a while, which is good on an idle machine",
    "PASSIVE": "threads that wait sleep at once, which is good on a busy one",
    ONE_THREAD: "the processor's time, which depends least on what else runs",
}
"""How threads wait, by `OMP_WAIT_POLICY`, where there are several."""


def main(
    data: Annotated[Path, typer.Option(envvar="BNCL_DATA", help="The folder with the data sets.")],
    name: Annotated[str, typer.Option(help="Which of them.")] = "reuters21578",
    cache: Annotated[Path, typer.Option(help="Where vectors and scores are kept.")] = Path("benchmarks/.cache"),
    features: Annotated[
        Path | None,
        typer.Option(
            envvar="BNCL_FEATURES", help="A folder with feature stores, NAME-train and NAME-test, to read instead."
        ),
    ] = None,
    epochs: int = 15,
    repeats: int = 3,
    only_epochs: Annotated[bool, typer.Option(hidden=True, help="Time these and print their figures.")] = False,
) -> None:
    """Measure and write the tables."""
    load = os.getloadavg()[0]
    given = DataSet(data / name, cache, typer.echo, features)
    given.prepare()
    train, _ = given.scored
    if only_epochs:
        graphs = {pair: given.graph(given.default_vectors, pair, 2) for _, pair in CASES}
        found = [timed_epochs(train, given.priors, graphs[pair], epochs, recipe) for recipe, pair in CASES]
        typer.echo(json.dumps(found))
        return
    command = [sys.executable, "-m", "benchmarks.step", "--data", str(data), "--name", name, "--cache", str(cache)]
    command += ["--epochs", str(epochs), "--only-epochs"]
    command += [] if features is None else ["--features", str(features)]
    graph = given.graph(given.default_vectors, (5.0, 95.0), 2)
    content = {
        "about": about_this_run(),
        "load": load,
        "name": name,
        "epoch": {policy: _in_a_process(command, policy) for policy in POLICIES},
        "training": timed_training(train, given.priors, given.graph(given.default_vectors, (), 2)),
        "prediction": timed_prediction(train, given.priors, graph, given.test, given.labels, repeats),
    }
    save("step", content, as_markdown(content))
    typer.echo(as_markdown(content))


class Samples(Dataset[tuple[int, Tensor, Tensor]]):
    """One text at a time."""

    def __init__(self, features: Features) -> None:
        self.features = features

    def __len__(self) -> int:
        """Return how many texts there are."""
        return len(self.features)

    def __getitem__(self, place: int) -> tuple[int, Tensor, Tensor]:
        """Return a text's place and its scores."""
        return place, self.features.entailment[place], self.features.contradiction[place]


class Transcription(torch.nn.Module):
    """The paper's equations with dense masks; annotation-free.

    Args:
        model: whose weights it starts with.
        features: the training texts.
        priors: κ and λ.
        over_corpus: whether L2 counts over the whole corpus, or over each batch alone.
    """

    def __init__(self, model: BNCL, features: Features, priors: Priors, *, over_corpus: bool) -> None:
        super().__init__()
        self.over_corpus = over_corpus
        self.features, labels = features, len(features.labels)
        assert priors.cardinality is not None
        self.cardinality, self.prevalence = priors.cardinality, torch.from_numpy(priors.shares).float()
        self.weights = torch.nn.ParameterList()
        for layer in model.layers:
            edges = [getattr(layer, name) for name in ("friends", "enemies", "enemies", "friends")]
            assert isinstance(layer, BalancedConv)
            for weight, (sources, targets) in zip(layer.weights(), edges, strict=True):
                mask = torch.zeros(labels, labels)
                mask[sources, targets] = 1
                full = torch.nn.init.normal_(torch.empty(labels, labels), std=labels**-0.5)
                full[sources, targets] = weight.detach()
                self.weights.append(torch.nn.Parameter(full))
                self.register_buffer(f"mask{len(self.weights)}", mask)
        self.optimizer = torch.optim.Adam(self.parameters(), lr=PAPER.learning_rate, betas=PAPER.betas)
        self.predicted = torch.zeros(len(features), labels)

    def forward(self, h: Tensor, against: Tensor) -> tuple[Tensor, Tensor]:
        """Update both channels hop by hop."""
        masked = [weight * getattr(self, f"mask{place + 1}") for place, weight in enumerate(self.weights)]
        for hop in range(0, len(masked), 4):
            friends, enemies_against, enemies, friends_against = masked[hop : hop + 4]
            h, against = (
                h + torch.relu(h @ friends) + torch.relu(against @ enemies_against),
                against + torch.relu(h @ enemies) + torch.relu(against @ friends_against),
            )
        return h, against

    def loss(self, rows: Tensor, p: Tensor, against: Tensor) -> tuple[Tensor, Tensor]:
        """Return the collective loss of a batch, and s of the batch."""
        predicted = torch.sigmoid(SHARPNESS * (p - against))
        of_labels, of_texts, _ = PAPER.loss_weights
        hesitation = (p + against - 1).norm(dim=1).sum()
        counts, texts = predicted.sum(dim=0), len(rows)
        if self.over_corpus:
            others = self.predicted.sum(dim=0, dtype=torch.float64)
            others -= self.predicted[rows].sum(dim=0, dtype=torch.float64)
            counts, texts = counts + others.float(), len(self.predicted)
        prevalence = (texts * self.prevalence - counts).square().sum()
        cardinality = (self.cardinality - predicted.sum(dim=1)).square().sum()
        return hesitation + of_labels * prevalence + of_texts * cardinality, predicted.detach()

    def look(self) -> None:
        """Predict the whole corpus with the weights as they are."""
        with torch.no_grad():
            for rows, entailment, contradiction in DataLoader(Samples(self.features), batch_size=PAPER.batch):
                p, against = self(entailment, contradiction)
                self.predicted[rows] = torch.sigmoid(SHARPNESS * (p - against))

    def step(self, rows: Tensor, entailment: Tensor, contradiction: Tensor) -> float:
        """Train on a batch and return its loss."""
        total, predicted = self.loss(rows, *self(entailment, contradiction))
        self.optimizer.zero_grad()
        total.backward()
        self.optimizer.step()
        if self.over_corpus:
            self.predicted[rows] = predicted
        return float(total.detach())

    def train_epoch(self) -> float:
        """Train an epoch and return its mean loss."""
        if self.over_corpus:
            self.look()
        batches = DataLoader(Samples(self.features), batch_size=PAPER.batch, shuffle=True)
        losses = [self.step(*batch) for batch in batches]
        return sum(losses) / len(losses)


def timed_epochs(
    features: Features, priors: Priors, graph: SignedLabelGraph, epochs: int, recipe: PaperRecipe
) -> dict[str, Any]:
    """Return the median seconds of an epoch by our trainer and by the transcription, in turn."""
    ours = Trainer(recipe.network(graph), features, priors, None, recipe)
    plain = Transcription(ours.model, features, priors, over_corpus=recipe.prevalence_over == "corpus")
    first = first_step(ours, plain)
    number = iter(range(1, 10**6))
    works: dict[str, Callable[[], Any]] = {
        "ours": lambda: ours.train_epoch(next(number)),
        "transcription": plain.train_epoch,
    }
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(epochs + 1):
        for name, work in works.items():
            seconds[name].append(_seconds(work, time.process_time if torch.get_num_threads() == 1 else None))
    return {
        "recipe": recipe.name,
        "percentiles": graph.provenance["percentiles"],
        "texts": len(features),
        "labels": len(features.labels),
        "paths": [str(layer.backend) for layer in ours.model.layers],
        "epochs": epochs,
        "first_step": first,
        "seconds": {name: statistics.median(taken[1:]) for name, taken in seconds.items()},  # the first warms up
    }


def first_step(ours: Trainer, plain: Transcription) -> dict[str, float]:
    """Take one step on the same batch with both; return the losses, and by how much the weights then differ at most."""
    rows = torch.arange(min(PAPER.batch, len(plain.features)))
    scores = plain.features.entailment[rows], plain.features.contradiction[rows]
    plain.look()
    theirs = plain.step(rows, *scores)
    mine = float(ours.train_step(rows, ours.corpus_indicators() if plain.over_corpus else None)[0])
    difference = 0.0
    places = iter(range(len(plain.weights)))
    for layer in ours.model.layers:
        edges = [getattr(layer, name) for name in ("friends", "enemies", "enemies", "friends")]
        assert isinstance(layer, BalancedConv)
        for weight, (sources, targets) in zip(layer.weights(), edges, strict=True):
            full = plain.weights[next(places)].detach()
            if weight.numel():
                difference = max(difference, float((full[sources, targets] - weight.detach()).abs().max()))
    if abs(theirs - mine) > 1e-4 * abs(theirs) or difference > 1e-4:
        raise AssertionError(f"The two do not do the same: losses {mine} and {theirs}, weights {difference} apart.")
    return {"ours": mine, "transcription": theirs, "weights_apart": difference}


def timed_training(features: Features, priors: Priors, graph: SignedLabelGraph) -> dict[str, Any]:
    """Return the seconds of a training by the recipe `paper`, which chooses the graph, and with that graph given."""
    began = time.perf_counter()
    chosen = BNCLClassifier(prevalence=priors, recipe=PAPER, graph=graph).fit(features)
    seconds = {"chosen": time.perf_counter() - began}
    given = BNCLClassifier(prevalence=priors, recipe=PAPER, graph=chosen.graph_)
    seconds["given"] = _seconds(lambda: given.fit(features))
    return {"percentiles": chosen.graph_.provenance["percentiles"], "seconds": seconds}


def timed_prediction(
    train: Features, priors: Priors, graph: SignedLabelGraph, test: Corpus, labels: LabelSet, repeats: int
) -> dict[str, Any]:
    """Return the seconds from texts to features, and from features to decisions by both recipes' models."""
    corpus = Corpus(test.ids[:TEXTS], test.texts[:TEXTS])
    models = {
        recipe: BNCLClassifier(prevalence=priors, recipe=recipe, graph=graph).fit(train)
        for recipe in ("paper", "default")
    }
    seconds: dict[str, list[float]] = {"scoring": [], **{recipe: [] for recipe in models}, "update": []}
    for _ in range(repeats + 1):
        scorer = embedded_scorer()  # a new one: it remembers the last texts
        scored: list[Features] = []
        seconds["scoring"].append(_seconds(lambda: scored.append(score_texts(corpus, labels, scorer))))  # noqa: B023
        features = scored[0]
        network = models["paper"].model_.network
        with torch.inference_mode():
            network(features.entailment, features.contradiction)  # scoring has left other things in the caches
            seconds["update"].append(_seconds(lambda: network(features.entailment, features.contradiction)))  # noqa: B023
        for recipe, model in models.items():
            model.predict(features)
            seconds[recipe].append(_seconds(lambda: model.predict(features)))  # noqa: B023
    return {
        "texts": len(corpus),
        "repeats": repeats,
        "seconds": {name: statistics.median(taken[1:]) for name, taken in seconds.items()},
    }


def as_markdown(content: dict[str, Any]) -> str:
    """Return the page that shows the figures of a run."""
    prediction = content["prediction"]
    spent, texts = prediction["seconds"], prediction["texts"]
    rows = [
        ["scoring: encoding, head, words", spent["scoring"], "the rest"],
        ["the balanced update alone, recipe `paper`", spent["update"], _share(spent, "update")],
        ["prediction from scores, recipe `paper`", spent["paper"], _share(spent, "paper")],
        ["prediction from scores, recipe `default`", spent["default"], _share(spent, "default")],
    ]
    lines = [[what, f"{1000 * seconds / texts:.4f} ms", share] for what, seconds, share in rows]
    policies = list(content["epoch"])
    epochs = []
    for cases in zip(*content["epoch"].values(), strict=True):
        ours = [case["seconds"]["ours"] for case in cases]
        theirs = [case["seconds"]["transcription"] for case in cases]
        times = [f"{one:.3f} s / {other:.3f} s: {other / one:.1f}" for one, other in zip(ours, theirs, strict=True)]
        low, high = cases[0]["percentiles"]
        paths = " and ".join(f"`{path}`" for path in cases[0]["paths"])
        epochs.append([f"`{cases[0]['recipe']}`", f"{low:g}/{high:g}", paths, *times])
    case = content["epoch"]["not set"][0]
    apart = max(case["first_step"]["weights_apart"] for cases in content["epoch"].values() for case in cases)
    return (
        "# The whole step\n\n"
        f"On {content['name']}; the machine's load was {content['load']:.1f} when the run began.\n\n"
        "## An epoch\n\n"
        f"{case['texts']} texts × {case['labels']} labels, batches of {PAPER.batch}; medians of {case['epochs']} "
        "epochs, in turn: our `Trainer` / transcription: ratio. The transcription has dense masks and a `DataLoader` "
        "of single samples. `paper` has L2 over each batch; with `paper-literal` it is over the whole corpus: there "
        "the transcription sums what it predicts of the corpus at every step, where ours keeps a running sum. Both "
        f"find the same: after the first step, losses agree and weights are at most {apart:.0e} apart.\n\n"
        + markdown_table(
            ["recipe", "percentiles", "the layers' paths", *(_policy_name(policy) for policy in policies)],
            epochs,
        )
        + "".join(f"\n- {policy}: {POLICIES[policy]}." for policy in policies)
        + "\n"
        + _training(content.get("training"))
        + "\n## From raw text to prediction\n\n"
        f"{texts} test texts with the embedded scorer, medians of {prediction['repeats']} runs. The share is that of "
        'scoring and the step together; the paper calls the update\'s time "almost imperceptible".\n\n'
        + markdown_table(["what", "a text", "share of the total"], lines)
        + footer(content["about"])
    )


def _training(found: dict[str, Any] | None) -> str:
    """Return what the page says of a whole training, if it was timed."""
    if found is None:
        return ""
    low, high = found["percentiles"]
    seconds = found["seconds"]
    return (
        f"\n## A whole training\n\nBy the recipe `paper`, without annotated texts: {seconds['chosen']:.1f} s with "
        f"recalibration and choice of the graph (it is {low:g}/{high:g}), {seconds['given']:.1f} s with that graph "
        f"given.\n"
    )


def _policy_name(policy: str) -> str:
    return policy if policy == ONE_THREAD else f"`OMP_WAIT_POLICY` {policy}"


def _share(spent: dict[str, float], name: str) -> str:
    return f"{spent[name] / (spent['scoring'] + spent[name]):.2%}"


def _in_a_process(command: list[str], policy: str) -> Any:
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    if policy == ONE_THREAD:
        environment["OMP_NUM_THREADS"] = "1"
    elif policy != "not set":
        environment["OMP_WAIT_POLICY"] = policy
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def _seconds(work: Callable[[], Any], clock: Callable[[], float] | None = None) -> float:
    clock = time.perf_counter if clock is None else clock
    began = clock()
    work()
    return clock() - began


if __name__ == "__main__":
    typer.run(main)
