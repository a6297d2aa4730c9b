"""Large label sets end to end: a task with 17,157 labels, label sets from a thousand to a million, and prediction.

    BNCL_DATA=folder python -m benchmarks.scale            all three, each part in a process of its own
    BNCL_DATA=folder python -m benchmarks.scale --parts sizes --most 100000

- **hypernyms**: wordnet-hypernyms by the default scorer and recipe without annotated texts, with and without the label
  graph; beside the scorer's own best labels and the bi-encoder's cosine, cut at the cardinality (top-k) or at the
  threshold that each label's prevalence demands (λ-quantile), the cosine's rows over all labels.
- **sizes**: label vectors, graph, two pruned hops and an epoch of the paper's recipe on 10,000 texts, for growing sets
  of label names. The vectors are means of word vectors, of labels and of texts; a text's candidates are its nearest
  labels, and entailment is (1 + cosine) / 2: what the scores are does not change what the steps cost.
- **serving**: a model of 100,000 labels: how many texts a second after encoding, and how long the first answer takes.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import torch
import typer
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from benchmarks.quality.datasets import GLOVE, DataSet
from benchmarks.quality.plan import DEFAULT, Trial
from benchmarks.quality.trials import default_recipe
from benchmarks.results import FOLDER, about_this_run, footer, markdown_table, save
from benchmarks.stores import STRONG, store_of
from bncl_pyg.corpus import Corpus, LabelSet
from bncl_pyg.estimator import BNCLClassifier
from bncl_pyg.evaluation import evaluate, precision_at
from bncl_pyg.features import Features, featurize, read_features
from bncl_pyg.graph import LabelVectors, build_graph, load_word_vectors, mean_of_words
from bncl_pyg.nn import log_odds
from bncl_pyg.priors import Priors
from bncl_pyg.scorers import LIGHT, BiEncoderScorer, embedded_head, hypotheses_of, load_scorer
from bncl_pyg.training import find_recipe

CANDIDATES, NEIGHBOURS = 100, 10
EPOCH_TEXTS, EPOCH_CANDIDATES = 10_000, 50
SERVED_LABELS, SERVED_TRAINING, SERVED_TEXTS = 100_000, 10_000, 1_000
PARTS = ("hypernyms", "sizes", "serving")
QUALIFIERS = (
    "acute",
    "ancient",
    "artificial",
    "chronic",
    "common",
    "digital",
    "eastern",
    "foreign",
    "former",
    "hidden",
)
"""With a WordNet name after it, each makes another name, for label sets larger than WordNet."""


def main(
    data: Annotated[Path, typer.Option(envvar="BNCL_DATA", help="The folder with the data sets.")],
    parts: Annotated[str, typer.Option(help="Which, with commas between.")] = ",".join(PARTS),
    most: Annotated[int, typer.Option(help="The largest label set of the part sizes.")] = 1_000_000,
    cache: Annotated[Path, typer.Option(help="Where vectors and scores are kept.")] = Path("benchmarks/.cache"),
    one: Annotated[str, typer.Option(hidden=True, help="Do this alone and print its figures.")] = "",
) -> None:
    """Measure and write the tables and the plot; parts that are not asked for stay as they were."""
    if one:
        typer.echo(json.dumps(_alone(one, data, cache)))
        return
    file = FOLDER / "scale.json"
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"parts": {}}
    for part in parts.split(","):
        jobs = [f"sizes:{name}:{labels}" for name, labels in SIZES if labels <= most] if part == "sizes" else [part]
        figures = [_in_a_process(job, data, cache) for job in jobs]
        content["parts"][part] = {"about": about_this_run(), "found": figures if part == "sizes" else figures[0]}
        save("scale", content, as_markdown(content))
    if "sizes" in content["parts"]:
        plot(content["parts"]["sizes"]["found"], FOLDER / "scale.png")


SIZES = (
    ("WordNet", 1_000),
    ("WordNet", 3_000),
    ("WordNet", 10_000),
    ("WordNet", 30_000),
    ("ICD-10-CM", 98_466),
    ("WordNet", 117_659),
    ("WordNet × qualifiers", 300_000),
    ("WordNet × qualifiers", 1_000_000),
)


def _in_a_process(job: str, data: Path, cache: Path) -> dict[str, Any]:
    """Return the figures of one job, which has a process of its own: its highest memory is its own."""
    command = [sys.executable, "-m", "benchmarks.scale", "--data", str(data), "--cache", str(cache), "--one", job]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    typer.echo(f"{job}: {figures}", err=True)
    return figures


def _alone(job: str, data: Path, cache: Path) -> dict[str, Any]:
    part, *rest = job.split(":")
    if part == "hypernyms":
        return hypernyms(data, cache)
    if part == "serving":
        return serving(data, cache)
    return size(rest[0], int(rest[1]), data)


class Clock:
    """Times of steps in seconds, and the highest memory of the process since it was made."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        Path("/proc/self/clear_refs").write_text("5")

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time what is done inside."""
        began = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - began, 2)
        typer.echo(f"{name}: {self.seconds[name]} s", err=True)

    def figures(self) -> dict[str, Any]:
        """Return what was measured."""
        lines = Path("/proc/self/status").read_text().splitlines()
        peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
        total = round(sum(self.seconds.values()), 2)
        return {"seconds": self.seconds, "total_seconds": total, "peak_gigabytes": round(peak / 1024**2, 2)}


def hypernyms(data: Path, cache: Path) -> dict[str, Any]:
    """Measure wordnet-hypernyms with the default scorer, and, after scoring, the default recipe with and without graph.

    The stores of features are kept in the cache.
    """
    held = DataSet(data / "wordnet-hypernyms", cache, lambda line: typer.echo(line, err=True))
    labels, truth, scorer = held.labels, held.test.annotations, load_scorer(STRONG)
    assert truth is not None
    scored: list[Features] = []
    for split, corpus in (("train", held.train), ("test", held.test)):
        texts = list(zip(corpus.ids, corpus.texts, strict=True))
        store = store_of(cache / "scorers", held.name, split)
        featurize(lambda texts=texts: texts, labels, scorer, store, candidates=CANDIDATES)  # type: ignore[misc]
        scored.append(read_features(store))
    (train, test), clock, rows = scored, Clock(), {}
    with clock.step("label graph"):
        graph = build_graph(labels)
    with clock.step("training"):
        classifier = BNCLClassifier(prevalence=held.priors, graph=graph).fit(train)
    with clock.step("prediction of the test texts"):
        predicted = classifier.predictions(test)
    measured = clock.figures()
    # Only labels with a score may be ranked, and a score of theirs may be below 0.
    decisions = predicted.indicator()
    rows["default recipe, annotation-free"] = _row(truth, decisions, _above_zero(predicted.score_matrix()))
    rows["the same, ranked by probability"] = _row(truth, decisions, predicted.probability_matrix())
    without = default_recipe(Trial(DEFAULT, without=("graph",)))
    predicted = BNCLClassifier(prevalence=held.priors, recipe=without, graph=graph).fit(train).predictions(test)
    rows["default recipe without the label graph"] = _row(
        truth, predicted.indicator(), _above_zero(predicted.score_matrix())
    )
    assert held.priors.cardinality is not None
    rows[f"the scorer `{STRONG}`, top-k"] = _top_k(truth, test, round(held.priors.cardinality))
    rows |= _cosine_rows(held, truth)
    kept = test.sparse(torch.ones(test.entailment.shape))
    recall = float(truth.multiply(kept).sum() / truth.sum())
    about = {"labels": len(labels), "train": len(train), "test": len(test), "candidates": CANDIDATES, "recall": recall}
    return {**about, **measured, "rows": rows}


def _top_k(truth: csr_array, test: Features, wanted: int) -> list[float]:
    """Return the row of each text's best candidates by the scorer's own log-odds."""
    odds = log_odds(test.entailment, test.contradiction)
    best, places = odds.topk(max(5, wanted), dim=1)
    assert test.candidates is not None
    labels = test.candidates.gather(1, places)
    kept = torch.zeros_like(best, dtype=torch.bool)
    kept[:, :wanted] = True
    count = len(test.labels)
    return _row(truth, _placed(kept, labels, count), _placed(best - best.min() + 1, labels, count))


def _above_zero(scores: csr_array) -> csr_array:
    shifted = scores.copy()
    shifted.data = shifted.data - shifted.data.min() + 1
    return shifted


def _row(truth: csr_array, decisions: csr_array, ranked: csr_array) -> list[float]:
    """Return precision@1 and @5, miF1, ebF1 and maF1."""
    metrics = evaluate(truth, decisions)
    best = [precision_at(truth, ranked, k) for k in (1, 5)]
    return [round(value, 4) for value in (*best, metrics.miF1, metrics.ebF1, metrics.maF1)]


def _cosine_rows(held: DataSet, truth: csr_array) -> dict[str, list[float]]:
    """Return the rows of the bi-encoder's cosine over all labels, cut in two ways."""
    encoder, labels = held.encoder, len(held.labels)
    against = encoder.encode(hypotheses_of(held.labels.descriptions))
    train, test = encoder.encode(held.train.texts), encoder.encode(held.test.texts)
    counts = np.round(held.priors.shares * len(train)).astype(int)
    thresholds = torch.full((labels,), torch.inf)
    for start in range(0, labels, 1024):
        cosines = against[start : start + 1024] @ train.T
        mine = counts[start : start + 1024]
        best = cosines.topk(int(mine.max()), dim=1).values
        for row, count in enumerate(mine):
            if count:
                thresholds[start + row] = best[row, count - 1]
    assert held.priors.cardinality is not None
    wanted = round(held.priors.cardinality)
    methods = {"bi-encoder top-k": torch.zeros(labels), "λ-quantile": thresholds}
    rows = {}
    for name, offsets in methods.items():
        chosen, ranked = [], []
        for part in test.split(1024):
            above = part @ against.T - offsets
            best, places = above.topk(max(5, wanted), dim=1)
            ranked.append(_placed(best - best.min() + 1, places, labels))
            kept = torch.zeros_like(best, dtype=torch.bool)
            kept[:, :wanted] = True
            is_top = name == "bi-encoder top-k"
            chosen.append(_placed(kept, places, labels) if is_top else csr_array((above >= 0).numpy()))
        rows[name] = _row(truth, _stacked(chosen), _stacked(ranked))
    return rows


def _placed(values: Tensor, places: Tensor, labels: int) -> csr_array:
    row = np.repeat(np.arange(len(values)), values.shape[1])
    matrix = csr_array((values.flatten().numpy(), (row, places.flatten().numpy())), shape=(len(values), labels))
    matrix.eliminate_zeros()
    return matrix


def _stacked(parts: list[csr_array]) -> csr_array:
    from scipy.sparse import vstack

    return csr_array(vstack(parts, format="csr"))


def label_names(name: str, count: int, data: Path) -> LabelSet:
    """Return a set of label names, the first so many; beyond WordNet, its names after drawn qualifiers."""
    file = "icd10cm.tsv" if name == "ICD-10-CM" else "wordnet_synsets.tsv"
    lines = (data / "labelsets" / file).read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t")[:2] for line in lines]
    identifiers, words = [row[0] for row in rows], [row[1] for row in rows]
    if count > len(rows):
        draw = np.random.default_rng(0)
        pairs = draw.choice(len(rows) * len(QUALIFIERS), count - len(rows), replace=False)
        for pair in pairs.tolist():
            row, qualifier = divmod(pair, len(QUALIFIERS))
            identifiers.append(f"{rows[row][0]}-{QUALIFIERS[qualifier]}")
            words.append(f"{QUALIFIERS[qualifier]} {rows[row][1]}")
    elif count < len(rows):
        places = np.sort(np.random.default_rng(0).choice(len(rows), count, replace=False))
        identifiers, words = [identifiers[place] for place in places], [words[place] for place in places]
    return LabelSet(tuple(identifiers), tuple(words))


def size(name: str, count: int, data: Path) -> dict[str, Any]:
    """Measure graph, two pruned hops and an epoch with one set of labels."""
    words = load_word_vectors(str(data / GLOVE))
    labels = label_names(name, count, data)
    texts = _glosses(data, EPOCH_TEXTS)
    clock = Clock()
    with clock.step("label vectors"):
        vectors = mean_of_words(labels, words, "GloVe")
    with clock.step("graph, two pruned hops"):
        graph = build_graph(labels, vectors, neighbours=NEIGHBOURS, max_neighbours=NEIGHBOURS)
    with clock.step("candidates"):
        features = _nearest_labels(texts, labels, vectors, words)
    priors, recipe = _even_priors(len(labels)), find_recipe("paper", epochs=1)
    with clock.step("an epoch"):
        classifier = BNCLClassifier(prevalence=priors, recipe=recipe, graph=graph).fit(features)
    weights = sum(weight.numel() for weight in classifier.model_.parameters())
    recalls = graph.provenance.get("recall", {})
    recall = {f"recall_{kind}": round(recalls[kind], 4) for kind in ("friends", "enemies") if kind in recalls}
    edges = int(graph.num_edges) // 2
    about = {
        "name": name,
        "labels": len(labels),
        "pairs": edges,
        "weights": weights,
        "loss": classifier.log_[-1].figures["loss"],
    }
    return {**about, **recall, **clock.figures()}


def _even_priors(labels: int) -> Priors:
    """Return two labels a text, all labels as common: what they are does not change what the steps cost."""
    return Priors.exact(2.0, np.full(labels, 2.0 / labels))


def _glosses(data: Path, count: int) -> list[str]:
    with (data / "wordnet-hypernyms" / "train.jsonl").open(encoding="utf-8") as file:
        return [json.loads(line)["text"] for line, _ in zip(file, range(count), strict=False)]


def _nearest_labels(texts: list[str], labels: LabelSet, vectors: LabelVectors, words: Any) -> Features:
    """Return features by the cosine of mean word vectors; a text without any known word is near to anything."""
    corpus = LabelSet(tuple(map(str, range(len(texts)))), tuple(texts))
    units = torch.nn.functional.normalize(torch.from_numpy(vectors.vectors))
    nearest, cosines = [], []
    for part in torch.nn.functional.normalize(torch.from_numpy(mean_of_words(corpus, words, "").vectors)).split(250):
        best, places = (part @ units.T).topk(EPOCH_CANDIDATES, dim=1)
        places, order = places.sort(dim=1)
        nearest.append(places)
        cosines.append(best.gather(1, order))
    entailment = ((1 + torch.cat(cosines)) / 2).clamp(0, 1)
    return Features(corpus.names, labels, entailment, 1 - entailment, candidates=torch.cat(nearest))


def serving(data: Path, cache: Path) -> dict[str, Any]:
    """Measure prediction with a model of 100,000 labels."""
    held = DataSet(data / "wordnet-hypernyms", cache, lambda line: typer.echo(line, err=True))
    encoder = held.encoder
    everything = label_names("WordNet", 117_659, data)
    encoder.learn(hypotheses_of(everything.descriptions))
    labels = LabelSet(everything.names[:SERVED_LABELS], everything.descriptions[:SERVED_LABELS])
    scorer = BiEncoderScorer(encoder, embedded_head(), LIGHT)
    clock = Clock()
    with TemporaryDirectory() as name:
        folder = Path(name)
        texts = list(zip(held.train.ids, held.train.texts, strict=True))[:SERVED_TRAINING]
        with clock.step("candidates and scores of the training texts"):
            featurize(lambda: texts, labels, scorer, folder / "features", candidates=EPOCH_CANDIDATES)
            train = read_features(folder / "features")
        with clock.step("label graph, two pruned hops"):
            vectors = LabelVectors(train.label_tensors["vectors"].numpy(), "embedded")
            graph = build_graph(labels, vectors, neighbours=NEIGHBOURS, max_neighbours=NEIGHBOURS)
        with clock.step("training"):
            classifier = BNCLClassifier(prevalence=_even_priors(len(labels)), graph=graph).fit(train)
        classifier.save_pretrained(folder / "model")
        measured = clock.figures()
        size = sum(file.stat().st_size for file in (folder / "model").rglob("*") if file.is_file())
        corpus = Corpus(held.test.ids[:SERVED_TEXTS], held.test.texts[:SERVED_TEXTS])
        command = _command_seconds(folder, corpus)
        began = time.perf_counter()
        loaded = BNCLClassifier.from_pretrained(folder / "model")
        loading = time.perf_counter() - began
    # What warms the process: the encoder has read something, and the labels' vectors are at hand.
    list(loaded.predict_rows(["a text to begin with"]))
    answers = []
    for text in corpus.texts[:20]:
        began = time.perf_counter()
        list(loaded.predict_rows([text]))
        answers.append(time.perf_counter() - began)
    # After encoding: the vectors of these texts are remembered.
    loaded.set_params(scorer=scorer)
    list(loaded.predict_rows(corpus.texts[:8]))
    began = time.perf_counter()
    list(loaded.predict_rows(corpus))
    rate = len(corpus) / (time.perf_counter() - began)
    return {
        "labels": len(labels),
        "candidates": EPOCH_CANDIDATES,
        **measured,
        "model_megabytes": round(size / 1e6),
        "loading_seconds": round(loading, 2),
        "command_seconds": command,
        "first_answer_seconds": [round(statistic, 3) for statistic in (answers[0], float(np.median(answers)))],
        "texts_a_second_after_encoding": round(rate),
    }


def _command_seconds(folder: Path, corpus: Corpus) -> float:
    """Return how long `bncl predict` takes for one text in a fresh process."""
    row = {"id": corpus.ids[0], "text": corpus.texts[0]}
    (folder / "one.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    words = [Path(sys.executable).with_name("bncl"), "predict", folder / "model", folder / "one.jsonl"]
    began = time.perf_counter()
    subprocess.run(
        [*map(str, words), "--out", str(folder / "predictions.jsonl")], check=True, stdout=subprocess.DEVNULL
    )
    return round(time.perf_counter() - began, 2)


def as_markdown(content: dict[str, Any]) -> str:
    """Return the page that shows the figures."""
    parts, shown = content["parts"], ["# Large label sets\n"]
    for part, page in (("hypernyms", _hypernyms_page), ("sizes", _sizes_page), ("serving", _serving_page)):
        if part in parts:
            shown.append(page(parts[part]["found"]) + footer(parts[part]["about"]))
    return "\n".join(shown)


def _hypernyms_page(figures: dict[str, Any]) -> str:
    steps = "; ".join(f"{name} {seconds:.0f} s" for name, seconds in figures["seconds"].items())
    rows = [[name, *(f"{value:.4f}" for value in values)] for name, values in figures["rows"].items()]
    return (
        "## wordnet-hypernyms without annotated texts\n\n"
        f"{figures['train']:,} training and {figures['test']:,} test texts, {figures['labels']:,} labels; "
        f"{figures['candidates']} candidates a text, which hold {figures['recall']:.1%} of the test texts' true "
        f"labels. "
        f"After scoring: {figures['total_seconds'] / 60:.1f} minutes ({steps}), "
        f"at most {figures['peak_gigabytes']:.1f} GB.\n\n"
        + markdown_table(["", "P@1", "P@5", "miF1", "ebF1", "maF1"], rows)
        + "\nThe cosine's rows are over all labels, not over candidates; λ-quantile and the recipe know cardinality "
        "and prevalences of the training split, top-k its cardinality. λ-quantile is ranked by the distance from a "
        "label's threshold, the recipe by its `decision_function`: its probabilities, which are softer, rank frequent "
        "labels too high where there are so many rare ones.\n"
    )


def _sizes_page(sizes: list[dict[str, Any]]) -> str:
    steps = list(sizes[0]["seconds"])
    rows = [
        [
            f"{row['labels']:,} ({row['name']})",
            f"{row['pairs']:,}",
            *(f"{row['seconds'][step]:.1f}" for step in steps),
            f"{row['total_seconds']:.0f}",
            f"{row['peak_gigabytes']:.2f}",
            f"{row['recall_friends']:.3f} / {row['recall_enemies']:.3f}" if "recall_friends" in row else "exact",
        ]
        for row in sizes
    ]
    columns = ["labels", "pairs", *(f"{step}, s" for step in steps), "all, s", "peak, GB", "recall, near / far"]
    return (
        "## From a thousand to a million labels\n\n"
        f"{NEIGHBOURS} nearest and farthest labels, as many kept a hop and sign; an epoch of the paper's recipe on "
        f"{EPOCH_TEXTS:,} texts with {EPOCH_CANDIDATES} candidates each. Other work ran on the machine.\n\n"
        + markdown_table(columns, rows)
        + "\n![Time and memory by the number of labels](scale.png)\n"
    )


def _serving_page(figures: dict[str, Any]) -> str:
    first, usual = figures["first_answer_seconds"]
    return (
        "## A model of 100,000 labels\n\n"
        f"{figures['labels']:,} labels, {figures['candidates']} candidates a text. In a process that has the model "
        f"loaded, "
        f"the answer to a first text takes {first:.2f} s, usually {usual:.2f} s, with encoding; after encoding, "
        f"{figures['texts_a_second_after_encoding']:,} texts a second. `bncl predict` of one text in a fresh process: "
        f"{figures['command_seconds']:.1f} s. The model takes {figures['model_megabytes']:,} MB; loading it "
        f"{figures['loading_seconds']:.1f} s.\n"
    )


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw time and memory by the number of labels."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    labels: NDArray[np.int64] = np.array([row["labels"] for row in rows])
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for step in rows[0]["seconds"]:
        left.plot(labels, [row["seconds"][step] for row in rows], marker="o", label=step)
    left.plot(labels, [row["total_seconds"] for row in rows], marker="o", color="black", label="all")
    last = rows[-1]["total_seconds"]
    left.plot(labels, last * labels / labels[-1], linestyle=":", color="grey", label="linear")
    right.plot(labels, [row["peak_gigabytes"] for row in rows], marker="o", color="black")
    right.axhline(16, linestyle="--", color="grey")
    for axis, what in ((left, "seconds"), (right, "highest memory, GB")):
        axis.set(xscale="log", yscale="log", xlabel="labels", ylabel=what)
    left.legend(fontsize=8)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


if __name__ == "__main__":
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    typer.run(main)
