"""Trains and compares heads that turn two sentence embeddings into entailment, neutral and contradiction.

    BNCL_DATA=folder python -m benchmarks.train_head [--ship]

The folder holds `nli`, `stackex-cooking` and `goemotions`. Only training splits and `nli/eval.jsonl` are read; Reuters
and debtags, on which the product is measured, decide nothing here. `--ship` writes the chosen head into the package
and prints the hash to put into `bncl_pyg/scorers/head.py`.
"""

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from scipy.sparse import csr_array
from sklearn.metrics import average_precision_score, label_ranking_average_precision_score
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from benchmarks.results import about_this_run, footer, markdown_table, save
from bncl_pyg.corpus import Corpus, LabelSet, digest
from bncl_pyg.evaluation import evaluate
from bncl_pyg.persistence import sha256_of, write_file
from bncl_pyg.scorers import (
    EMBEDDED_FILE,
    EMBEDDED_SHA256,
    MAX_TOKENS,
    TEMPLATE,
    CorrectedHead,
    CosineHead,
    Head,
    NetworkHead,
    SentenceEncoder,
    hypotheses_of,
    save_head,
)

RULE = (
    "Mean LRAP of entailment over the two training splits: the best head and those within 0.01 of it stay.",
    "Of these, mean ebF1 of the start (entailment > contradiction), as shipped: the best and those within 0.01 stay.",
    "Of these, accuracy on nli/eval: the best and those within 0.01 stay.",
    "Of these, the fewest parameters.",
)
"""As first written, before any head was compared, the second step looked at the blind start and chose (b+). It was
changed after BNCL had been trained (paper recipe, no annotation) from each head on the training split of
stackex-cooking: ebF1 / miF1 there .373 / .396 from (b+), .502 / .510 from (d+), .441 / .469 from (c)."""
CLOSE = 0.01

SEED = 0
LABEL_SETS = {"stackex-cooking": 3985, "goemotions": 8000}
"""How many texts of each training split are used."""
CLASSES = ("entailment", "neutral", "contradiction")
ENCODER_SCALE = 20.0
"""The cosine's factor in the loss that the encoder was trained with: so many log-odds is a cosine worth."""
HIDDEN, EPOCHS, BATCH, RATE, DECAY = 256, 6, 512, 1e-3, 1e-4
TOPIC_WORD = re.compile(r"[a-z]{3,}")
TOPIC_RANGE = (5, 0.004)
"""A word names a topic if at least this many sentences have it, and at most this share of them."""
HARD = 4
"""Of so many words drawn at random, the one nearest to the text is the wrong topic to learn from."""


# --- data -----------------------------------------------------------------------------------------------------------


class Embeddings:
    """Sentence embeddings, computed once: a file is named by what it was made from."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._encoder: SentenceEncoder | None = None

    def of(self, name: str, texts: Sequence[str]) -> Tensor:
        """Return unit vectors, (texts, dimensions)."""
        key = digest([EMBEDDED_SHA256, str(MAX_TOKENS), *texts])[:16]
        path = self._folder / f"head-{name}-{key}.npy"
        if not path.exists():
            vectors = self._encode(name, texts).numpy()

            def write(temporary: Path) -> None:
                with temporary.open("wb") as file:
                    np.save(file, vectors)

            write_file(path, write)
        return torch.from_numpy(np.load(path))

    def _encode(self, name: str, texts: Sequence[str]) -> Tensor:
        if self._encoder is None:
            self._encoder = SentenceEncoder.embedded(MAX_TOKENS)
        done = told = 0

        def progress(count: int) -> None:
            nonlocal done, told
            done += count
            if done - told >= 10_000 or done == len(texts):
                told = done
                typer.echo(f"{name}: {done} of {len(texts)} encoded")

        return self._encoder.encode(texts, progress=progress)


@dataclass(frozen=True)
class LabelTask:
    """Texts u and label hypotheses v of a training split, and which belong together."""

    u: Tensor
    v: Tensor
    truth: csr_array


@dataclass(frozen=True)
class Pairs:
    """Premises and hypotheses as rows of `vectors`, with the class of each pair."""

    vectors: Tensor
    premises: Tensor
    hypotheses: Tensor
    classes: Tensor


@dataclass(frozen=True)
class Topics:
    """Made label hypotheses: of each pair, the premise's row in the NLI vectors and the topic's row in `vectors`."""

    vectors: Tensor
    premises: Tensor
    topics: Tensor


def read_label_task(data: Path, name: str, store: Embeddings) -> LabelTask:
    """Read the training split, or a seeded sample of it."""
    labels = LabelSet.read(data / name / "labels.jsonl")
    corpus = Corpus.read(data / name / "train.jsonl", labels)
    assert corpus.annotations is not None
    rows = np.arange(len(corpus.ids))
    if len(rows) > LABEL_SETS[name]:
        rows = np.sort(np.random.default_rng(SEED).choice(len(rows), LABEL_SETS[name], replace=False))
    u = store.of(f"{name}-texts", [corpus.texts[row] for row in rows])
    v = store.of(f"{name}-labels", hypotheses_of(labels.descriptions, TEMPLATE))
    return LabelTask(u, v, corpus.annotations[rows])


def read_nli(data: Path, store: Embeddings) -> tuple[Pairs, Pairs, Topics]:
    """Return the training pairs, the evaluation pairs, and topics out of the training pairs alone."""
    rows = {}
    for split in ("train", "eval"):
        with (data / "nli" / f"{split}.jsonl").open(encoding="utf-8") as file:
            rows[split] = [json.loads(line) for line in file]
    train, held_out = (_pairs(split, rows[split], store) for split in ("train", "eval"))
    return train, held_out, _topics(rows["train"], train, store)


def _pairs(split: str, rows: list[dict[str, str]], store: Embeddings) -> Pairs:
    sentences = sorted({row[side] for row in rows for side in ("premise", "hypothesis")})
    places = {sentence: place for place, sentence in enumerate(sentences)}
    premises, hypotheses = (torch.tensor([places[row[side]] for row in rows]) for side in ("premise", "hypothesis"))
    classes = torch.tensor([CLASSES.index(row["label"]) for row in rows])
    return Pairs(store.of(f"nli-{split}", sentences), premises, hypotheses, classes)


def _topics(rows: list[dict[str, str]], train: Pairs, store: Embeddings) -> Topics:
    """Say of a premise that it is about the rarer words of what it entails."""
    sentences = {row[side] for row in rows for side in ("premise", "hypothesis")}
    counts = Counter(word for sentence in sentences for word in set(TOPIC_WORD.findall(sentence.lower())))
    least, share = TOPIC_RANGE
    words = sorted(word for word, count in counts.items() if least <= count <= share * len(sentences))
    places = {word: place for place, word in enumerate(words)}
    pairs = [
        (int(premise), places[word])
        for row, premise in zip(rows, train.premises, strict=True)
        if row["label"] == "entailment"
        for word in sorted(set(TOPIC_WORD.findall(row["hypothesis"].lower())))
        if word in places
    ]
    premises, topics = torch.tensor(pairs).unbind(dim=1)
    return Topics(store.of("topics", hypotheses_of(words, TEMPLATE)), premises, topics)


# --- heads ----------------------------------------------------------------------------------------------------------


def nli_cosine(train: Pairs) -> CosineHead:
    """Fit slopes and offsets to the NLI pairs by maximum likelihood."""
    head = CosineHead.symmetric(5.0, 0.6)
    cosines = (train.vectors[train.premises] * train.vectors[train.hypotheses]).sum(dim=1)
    optimizer = torch.optim.LBFGS(head.parameters(), max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = cross_entropy(head.of_cosines(cosines), train.classes)
        value.backward()
        return value

    optimizer.step(loss)
    return head


def network(train: Pairs, topics: Topics | None) -> NetworkHead:
    """Train the network on NLI pairs.

    With topics, every batch also holds as many unrelated pairs, which are neutral, and as many (premise, made label
    hypothesis) pairs: NLI pairs are always about the same thing, label hypotheses hardly ever.
    """
    torch.manual_seed(SEED)
    head = NetworkHead(train.vectors.shape[1], HIDDEN).train()
    optimizer = torch.optim.AdamW(head.parameters(), lr=RATE, weight_decay=DECAY)
    steps = EPOCHS * -(-len(train.classes) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(train.classes)).split(BATCH):
            u, v = train.vectors[train.premises[rows]], train.vectors[train.hypotheses[rows]]
            parts = [(u, v, train.classes[rows])]
            if topics is not None:
                parts.append((u, v.roll(1, dims=0), torch.full((len(rows),), CLASSES.index("neutral"))))
                parts += _topic_parts(train, topics, len(rows) // 2)
            batch_u, batch_v, classes = (torch.cat(part) for part in zip(*parts, strict=True))
            loss = cross_entropy(head.logits(batch_u, batch_v), classes)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return head.eval()


def _topic_parts(train: Pairs, topics: Topics, count: int) -> list[tuple[Tensor, Tensor, Tensor]]:
    chosen = torch.randint(len(topics.topics), (count,))
    u = train.vectors[topics.premises[chosen]]
    # Wrong topics are drawn as often as they are right elsewhere: a topic must not be wrong because it is rare.
    drawn = topics.vectors[topics.topics[torch.randint(len(topics.topics), (count, HARD))]]
    nearest = torch.einsum("td,thd->th", u, drawn).argmax(dim=1)
    wrong = drawn[torch.arange(count), nearest]
    right = topics.vectors[topics.topics[chosen]]
    return [
        (u, right, torch.full((count,), CLASSES.index("entailment"))),
        (u, wrong, torch.full((count,), CLASSES.index("contradiction"))),
    ]


Margin = Callable[[LabelTask], Tensor]
"""Log-odds of entailment against contradiction before calibration, (texts, labels)."""


def cosine_margin(task: LabelTask) -> Tensor:
    """Return the cosine in the encoder's own log-odds."""
    return ENCODER_SCALE * (task.u @ task.v.t())


@dataclass(frozen=True)
class Calibration:
    """A margin d becomes temperature · (d − middle)."""

    temperature: float
    middle: float


def calibrate(margins: Sequence[Tensor], tasks: Sequence[LabelTask]) -> Calibration:
    """Fit the temperature by maximum likelihood, the middle by the mean ebF1 of the plain decision."""
    truths = [torch.from_numpy(task.truth.toarray()) for task in tasks]
    slope = torch.ones((), requires_grad=True)
    # Each set has an intercept of its own, so that the slope does not depend on how common its labels are.
    intercepts = torch.zeros(len(tasks), requires_grad=True)
    optimizer = torch.optim.LBFGS([slope, intercepts], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = torch.stack(
            [
                binary_cross_entropy_with_logits(slope * (margin - margin.mean()) + intercept, truth.float())
                for margin, truth, intercept in zip(margins, truths, intercepts, strict=True)
            ]
        ).sum()
        value.backward()
        return value

    optimizer.step(loss)
    lowest, highest = min(margin.mean().item() for margin in margins), max(margin.max().item() for margin in margins)
    grid = torch.linspace(lowest, highest, 150).tolist()
    gains = [
        sum(_ebf1(margin > middle, truth) for margin, truth in zip(margins, truths, strict=True)) for middle in grid
    ]
    return Calibration(slope.item(), grid[int(np.argmax(gains))])


def _ebf1(decisions: Tensor, truth: Tensor) -> float:
    hits, sizes = (decisions & truth).sum(dim=1), decisions.sum(dim=1) + truth.sum(dim=1)
    return (2 * hits / sizes.clamp(min=1)).mean().item()


def calibrated_cosine(calibration: Calibration) -> CosineHead:
    """Return softmax(z, 0, −z) whose odds of entailment against contradiction are the calibrated margin."""
    return CosineHead.symmetric(calibration.temperature * ENCODER_SCALE / 2, calibration.middle / ENCODER_SCALE)


def corrected(base: NetworkHead, calibration: Calibration) -> CorrectedHead:
    """Return temperature · (network + cosine), with the middle taken from the cosine's part."""
    head = CorrectedHead(**base.sizes())
    head.cosine = calibrated_cosine(calibration)
    head.network.load_state_dict(base.state_dict())
    with torch.no_grad():
        for parameter in head.network.last.parameters():
            parameter.mul_(calibration.temperature)
    return head.eval()


# --- measures -------------------------------------------------------------------------------------------------------


def nli_accuracy(head: Head, pairs: Pairs) -> float:
    """Return the share of pairs whose most probable class is right."""
    right = 0
    with torch.no_grad():
        for rows in torch.arange(len(pairs.classes)).split(4096):
            logits = head.logits(pairs.vectors[pairs.premises[rows]], pairs.vectors[pairs.hypotheses[rows]])
            right += int((logits.argmax(dim=1) == pairs.classes[rows]).sum())
    return right / len(pairs.classes)


def ranking(scores: Tensor, task: LabelTask) -> tuple[float, float]:
    """Return the label ranking average precision of texts, and the average precision of labels, averaged."""
    truth, values = task.truth.toarray().astype(np.int64), scores.numpy()
    seen = np.flatnonzero(truth.any(axis=0))
    by_label = [average_precision_score(truth[:, place], values[:, place]) for place in seen]
    return float(label_ranking_average_precision_score(truth, values)), float(np.mean(by_label))


def start(scores: Tensor, task: LabelTask) -> dict[str, float]:
    """Return how the decision entailment > contradiction does before any training."""
    decisions = (scores[0] > scores[1]).numpy()
    metrics = evaluate(task.truth, decisions)
    return {"ebF1": metrics.ebF1, "miF1": metrics.miF1, "labels": float(decisions.sum(axis=1).mean())}


@dataclass(frozen=True)
class Candidate:
    """A head as it would ship, and for each set the head that did not see that set's labels."""

    name: str
    shipped: Head
    blind: dict[str, Head]


def measure(candidate: Candidate, tasks: dict[str, LabelTask], held_out: Pairs) -> dict[str, Any]:
    """Return a row of the comparison."""
    sets: dict[str, Any] = {}
    for name, task in tasks.items():
        scores = candidate.blind[name](task.u, task.v)
        lrap, by_label = ranking(scores[0], task)
        sets[name] = {
            "LRAP": lrap,
            "LRAP of entailment - contradiction": ranking(scores[0] - scores[1], task)[0],
            "mAP by label": by_label,
            "start": start(scores, task),
            "start as shipped": start(candidate.shipped(task.u, task.v), task),
        }
    return {
        "name": candidate.name,
        "kind": candidate.shipped.kind,
        "parameters": sum(parameter.numel() for parameter in candidate.shipped.parameters()),
        "NLI accuracy": nli_accuracy(candidate.shipped, held_out),
        "mean LRAP": float(np.mean([figures["LRAP"] for figures in sets.values()])),
        "mean ebF1": float(np.mean([figures["start as shipped"]["ebF1"] for figures in sets.values()])),
        "sets": sets,
    }


def choose(rows: Sequence[dict[str, Any]]) -> tuple[str, list[list[str]]]:
    """Follow `RULE`; return the chosen name and who was left after each step."""
    left, steps = list(rows), []
    for measure_name in ("mean LRAP", "mean ebF1", "NLI accuracy"):
        best = max(row[measure_name] for row in left)
        left = [row for row in left if row[measure_name] >= best - CLOSE]
        steps.append([row["name"] for row in left])
    chosen = min(left, key=lambda row: int(row["parameters"]))
    return chosen["name"], steps


# --- the run --------------------------------------------------------------------------------------------------------


def main(
    data: Annotated[Path, typer.Option(envvar="BNCL_DATA", help="The folder with the data sets.")],
    cache: Annotated[Path, typer.Option(help="Where embeddings are kept between runs.")] = Path("benchmarks/.cache"),
    ship: Annotated[bool, typer.Option("--ship", help="Write the chosen head into the package.")] = False,
) -> None:
    """Train every head, compare them, choose one by the rule."""
    began = time.perf_counter()
    store = Embeddings(cache)
    tasks = {name: read_label_task(data, name, store) for name in LABEL_SETS}
    train, held_out, topics = read_nli(data, store)
    encoded = time.perf_counter()
    candidates = _candidates(train, topics, tasks)
    trained = time.perf_counter()
    rows = []
    for candidate in [*candidates, _stand_in()]:
        rows.append(measure(candidate, tasks, held_out))
        typer.echo(f"{rows[-1]['name']}: LRAP {rows[-1]['mean LRAP']:.4f}, NLI {rows[-1]['NLI accuracy']:.4f}")
    chosen, steps = choose(rows[:-1])
    shares = torch.bincount(held_out.classes, minlength=len(CLASSES)) / len(held_out.classes)
    content = {
        "about": about_this_run(),
        "rule": list(RULE),
        "rows": rows,
        "chance": {"NLI majority class": shares.max().item(), "LRAP": _chance(tasks)},
        "steps": steps,
        "chosen": chosen,
        "topics": {"words": len(topics.vectors), "pairs": len(topics.topics)},
        "seconds": {
            "embeddings, or reading their cache": encoded - began,
            "training and calibration": trained - encoded,
            "measuring": time.perf_counter() - trained,
        },
    }
    save("nli-head", content, as_markdown(content))
    typer.echo(f"chosen: {chosen}")
    if ship:
        _ship(next(item.shipped for item in candidates if item.name == chosen), chosen, content)


def _candidates(train: Pairs, topics: Topics, tasks: dict[str, LabelTask]) -> list[Candidate]:
    plain, with_topics = network(train, None), network(train, topics)

    def same(name: str, head: Head) -> Candidate:
        return Candidate(name, head, dict.fromkeys(tasks, head))

    def fitted(name: str, margin: Margin, make: Callable[[Calibration], Head]) -> Candidate:
        margins = {task: margin(tasks[task]) for task in tasks}

        def fit(names: list[str]) -> Head:
            calibration = calibrate([margins[task] for task in names], [tasks[task] for task in names])
            head = make(calibration)
            head.facts["calibration"] = {
                "temperature": calibration.temperature,
                "middle": calibration.middle,
                "sets": names,
            }
            return head

        return Candidate(
            name, fit(list(tasks)), {task: fit([other for other in tasks if other != task]) for task in tasks}
        )

    def sum_of(base: NetworkHead) -> tuple[Margin, Callable[[Calibration], Head]]:
        uncalibrated = corrected(base, Calibration(1.0, 0.0))

        def margin(task: LabelTask) -> Tensor:
            entailment, contradiction = uncalibrated(task.u, task.v).unbind()
            margin: Tensor = entailment.log() - contradiction.log()
            return margin

        return margin, lambda calibration: corrected(base, calibration)

    return [
        same("(a) cosine, calibrated on NLI", nli_cosine(train)),
        same("(b) network, NLI pairs", plain),
        same("(b+) network, NLI, unrelated and topic pairs", with_topics),
        fitted("(c) cosine, calibrated on labels", cosine_margin, calibrated_cosine),
        fitted("(d) cosine + (b), calibrated on labels", *sum_of(plain)),
        fitted("(d+) cosine + (b+), calibrated on labels", *sum_of(with_topics)),
    ]


def _stand_in() -> Candidate:
    """Return what scored before there was a head; its 0.38 comes from the labels of stackex-cooking."""
    head = CosineHead.symmetric(20.0, 0.38)
    return Candidate("stand-in until now: z = 20 (c − 0.38)", head, dict.fromkeys(LABEL_SETS, head))


def _chance(tasks: dict[str, LabelTask]) -> dict[str, float]:
    generator = torch.Generator().manual_seed(SEED)
    return {
        name: ranking(torch.rand(len(task.u), len(task.v), generator=generator), task)[0]
        for name, task in tasks.items()
    }


def _ship(head: Head, name: str, content: dict[str, Any]) -> None:
    row = next(row for row in content["rows"] if row["name"] == name)
    head.facts = {
        "name": name,
        "data": "nli/train (103,506 pairs); calibration: training labels of stackex-cooking and goemotions",
        "template": TEMPLATE,
        "max_tokens": MAX_TOKENS,
        "seed": SEED,
        "NLI accuracy": round(row["NLI accuracy"], 4),
        "LRAP": {task: round(figures["LRAP"], 4) for task, figures in row["sets"].items()},
        **head.facts,
    }
    save_head(head, EMBEDDED_FILE)
    typer.echo(f"EMBEDDED_HEAD_SHA256 = {sha256_of(EMBEDDED_FILE)!r}")


def as_markdown(content: dict[str, Any]) -> str:
    """Return the page that shows the comparison."""
    names = list(content["rows"][0]["sets"])
    chance = content["chance"]
    columns = ["head", "parameters", "NLI accuracy", "mean LRAP", *(f"LRAP {name}" for name in names)]
    columns += [*(f"LRAP q − q̄ {name}" for name in names), *(f"mAP by label {name}" for name in names)]
    shown = []
    for row in content["rows"]:
        mark = "**" if row["name"] == content["chosen"] else ""
        cells = [row["NLI accuracy"], row["mean LRAP"]]
        for key in ("LRAP", "LRAP of entailment - contradiction", "mAP by label"):
            cells += [row["sets"][name][key] for name in names]
        shown.append([f"{mark}{row['name']}{mark}", f"{row['parameters']:,}", *(f"{cell:.4f}" for cell in cells)])
    by_chance = [chance["LRAP"][name] for name in names]
    shown.append(
        ["*majority class; random scores*", "", f"{chance['NLI majority class']:.4f}", f"{np.mean(by_chance):.4f}"]
        + [f"{value:.4f}" for value in by_chance]
        + [""] * (2 * len(names))
    )
    starts = [
        [
            row["name"],
            f"{row['mean ebF1']:.4f}",
            *(_start_cell(row["sets"][name]["start"]) for name in names),
            *(_start_cell(row["sets"][name]["start as shipped"]) for name in names),
        ]
        for row in content["rows"]
    ]
    start_columns = [
        "head",
        "mean ebF1",
        *(f"{name}, blind" for name in names),
        *(f"{name}, as shipped" for name in names),
    ]
    steps = [
        f"{number}. {text}" + (f" Left: {'; '.join(left)}." if left else f" Chosen: **{content['chosen']}**.")
        for number, (text, left) in enumerate(zip(content["rule"], [*content["steps"], None], strict=True), start=1)
    ]
    seconds = ", ".join(f"{name} {value:.0f} s" for name, value in content["seconds"].items())
    return (
        "# The head over the embedded encoder\n\n"
        "Heads that turn the embeddings of a text and of a hypothesis into entailment q, neutral and contradiction q̄. "
        f"Trained on 103,506 NLI pairs; NLI accuracy on 12,359 pairs with other premises. Ranking and start on "
        f"**training** splits, template “{TEMPLATE}”: stackex-cooking (517 labels, 3985 texts, Stack Exchange "
        "Cooking, CC BY-SA; it stands in for the paper's StackEx-Philosophy) and a seeded sample of 8000 texts of "
        "goemotions (28 labels). No test label, and nothing of Reuters or debtags, was used.\n\n"
        "## Ranking and NLI\n\n"
        + markdown_table(columns, shown)
        + "\nLRAP: label ranking average precision of q within each text. mAP by label: average precision of q over "
        "texts, averaged over labels.\n\n## The start: q > q̄ before any training\n\n"
        "ebF1 / miF1 / labels said a text. *Blind*: calibrated without that set's labels, on the other set alone; "
        "*as shipped*: calibrated on both, so in-sample.\n\n"
        + markdown_table(start_columns, starts)
        + "\n## The choice\n\n"
        + "\n".join(steps)
        + "\n\nAs first written, before any head was compared, the second step looked at the blind start and chose "
        "(b+), which says yes to 47 labels a text on stackex-cooking. It was changed after BNCL had been trained "
        "(paper recipe, no annotation) from each head on the training split of stackex-cooking: ebF1 / miF1 there "
        ".373 / .396 from (b+), .441 / .469 from (c), .502 / .510 from (d+). What that costs: on goemotions the start "
        "says hardly anything. That check was a one-off run, cut off before it reached goemotions."
        "\n\nThe last row of the tables is shown for comparison and was no candidate. The width, the epochs, the "
        "kinds of made pairs (`_topics`, `network`) and the sum of (d) were picked in exploratory runs on these two "
        "training splits with nli/eval in view: the figures of (b+) and (d+) are those of a development set.\n\n"
        f"Topic pairs: {content['topics']['pairs']:,} over {content['topics']['words']:,} words. Time: {seconds}.\n"
        + footer(content["about"])
    )


def _start_cell(figures: dict[str, float]) -> str:
    return f"{figures['ebF1']:.3f} / {figures['miF1']:.3f} / {figures['labels']:.2f}"


if __name__ == "__main__":
    typer.run(main)
