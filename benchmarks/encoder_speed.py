"""Scorers against what people would use instead: reading texts, one text at a time, and memory.

    BNCL_DATA=folder python -m benchmarks.encoder_speed

Reading is measured against sentence-transformers with MiniLM's weights on the same texts; scoring at 135 (Reuters) and
517 (Cooking) labels against transformers' `zero-shot-classification` pipeline with a model of the same size, which
reads every (text, label) pair. The runs alternate; each figure is a median. Peak memory is that of its own process.
"""

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.results import about_this_run, footer, markdown_table, save
from bncl_pyg.corpus import Corpus, LabelSet, stream_texts
from bncl_pyg.demo import demo_folder
from bncl_pyg.estimator import BNCLClassifier
from bncl_pyg.features import featurize
from bncl_pyg.predictor import Predictor
from bncl_pyg.scorers import (
    BGE,
    MAX_TOKENS,
    MINILM,
    TEMPLATE,
    BiEncoderScorer,
    Scorer,
    SentenceEncoder,
    hypotheses_of,
    load_scorer,
    scorer_parts,
)

PEER = "sentence-transformers"
SCORERS = ("light", "strong", "fast")
READ, READ_TEXTS = ("reuters21578", "stackex-cooking", "goemotions"), 300
MEMORY_TEXTS = (1000, 4000)
FITTED = 300
"""How many of the bundled texts a model is trained on before one text is predicted."""
SETS = {"reuters21578": 135, "stackex-cooking": 517}
PIPELINED, SCORED = 1, 200
"""How many texts each side reads a run: the pipeline is too slow for more."""


def main(
    data: Annotated[Path, typer.Option(envvar="BNCL_DATA", help="The folder with the data sets.")],
    repeats: int = 5,
    memory_of: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    """Measure and write the tables."""
    if memory_of:
        _featurize_and_tell(data, *memory_of.split(":"))
        return
    content = {
        "about": about_this_run(),
        "repeats": repeats,
        "reading": [_reading(data, name, repeats) for name in READ],
        "int8": _int8(data),
        "scoring": [_scoring(data, name, repeats) for name in SETS],
        "prediction": [_prediction(name, repeats) for name in ("light", "strong", "fast")],
        "memory": {name: {str(count): _memory(data, name, count) for count in MEMORY_TEXTS} for name in SCORERS},
    }
    save("encoder-speed", content, as_markdown(content))
    typer.echo(as_markdown(content))


def as_markdown(content: dict[str, Any]) -> str:
    """Return the page that shows the figures of a run."""
    reading = [
        [row["set"], f"{row[PEER]:.0f}", *(f"{row[name]:.0f} ({row[name] / row[PEER]:.2f}×)" for name in SCORERS)]
        for row in content["reading"]
    ]
    scoring = [
        [
            row["set"],
            str(row["labels"]),
            f"{row['pipeline']:.3f}",
            f"{row['light']:.1f}",
            f"{row['light'] / row['pipeline']:.0f}×",
        ]
        for row in content["scoring"]
    ]
    prediction = [
        [row["scorer"], f"{row['warm']:.0f} ms", f"{row['fresh']:.1f} s", f"{row['fresh wall']:.1f} s"]
        for row in content["prediction"]
    ]
    memory = [
        [name, *(f"{counts[str(count)]:.0f} MB" for count in MEMORY_TEXTS)]
        for name, counts in content["memory"].items()
    ]
    cosines = ", ".join(f"{name} {value:.4f}" for name, value in content["int8"].items())
    return (
        "# Reading texts: speed and memory\n\n"
        f"Training texts, one window of 128 tokens, medians of {content['repeats']} alternating runs.\n\n"
        f"## {READ_TEXTS} texts with all their labels, texts/s (against sentence-transformers)\n\n"
        "The peer only encodes, with the same MiniLM weights in float32; our scorers also score every label: *strong* "
        "reads each text with three encoders. Encoders run in 8 bits.\n\n"
        + markdown_table(["texts", PEER, *SCORERS], reading)
        + f"\nMean cosine of 8-bit vectors to the same weights in torch, float32: {cosines}.\n"
        + "\n## All labels of a text\n\nThe peer is transformers' `zero-shot-classification` with a classifier of the "
        "same size (MiniLM-L6 with a random head: speed only), as people call it.\n\n"
        + markdown_table(["texts", "labels", "pipeline, texts/s", "light, texts/s", "ratio"], scoring)
        + "\n## One text\n\nA text of 128 tokens, 57 labels (the bundled set): a prediction with everything loaded, "
        "and a fresh `bncl predict` (CPU time of the process, and its duration).\n\n"
        + markdown_table(["scorer", "warm", "fresh, CPU", "fresh, duration"], prediction)
        + "\n## Peak memory of `featurize` by number of texts\n\nReuters texts and labels.\n\n"
        + markdown_table(["scorer", *(f"{count} texts" for count in MEMORY_TEXTS)], memory)
        + footer(content["about"])
    )


def _reading(data: Path, name: str, repeats: int) -> dict[str, Any]:
    from sentence_transformers import SentenceTransformer

    peer = SentenceTransformer(str(MINILM.local()), device="cpu")
    peer.max_seq_length = MAX_TOKENS
    texts = _texts(data, name, READ_TEXTS)
    hypotheses = hypotheses_of(LabelSet.read(data / name / "labels.jsonl").descriptions)
    sides: dict[str, Callable[[], Any]] = {PEER: lambda: peer.encode(texts, show_progress_bar=False)}
    for scorer in SCORERS:
        loaded = load_scorer(scorer)
        loaded.use_labels(hypotheses, loaded.encode_labels(hypotheses))
        sides[scorer] = partial(_read, loaded, texts, hypotheses)
    for side in sides.values():
        side()
    times = _alternate(sides, repeats)
    return {"set": name, **{side: len(texts) / taken for side, taken in times.items()}}


def _read(scorer: Scorer, texts: list[str], hypotheses: list[str]) -> None:
    """Score texts that the scorer does not remember."""
    for part in scorer_parts(scorer).values():
        if isinstance(part, BiEncoderScorer):
            part.forget()
    scorer.score(texts, hypotheses)


def _int8(data: Path) -> dict[str, float]:
    texts = _texts(data, "reuters21578", 100)
    found = {}
    for name, folder, pooling in (("MiniLM", MINILM.local(), "mean"), ("bge", BGE.local(), "cls")):
        exact, rounded = (SentenceEncoder(folder, backend=one, pooling=pooling) for one in ("torch", "onnx-int8"))  # type: ignore[arg-type]
        found[name] = float((exact.encode(texts) * rounded.encode(texts)).sum(dim=1).mean())
    return found


def _prediction(scorer: str, repeats: int) -> dict[str, Any]:
    """Train on some of the bundled texts; time a prediction with everything loaded, and a fresh command."""
    folder = demo_folder()
    train = Corpus.read(folder / "train.jsonl.gz")
    text = " ".join(train.texts[:10])
    labels = LabelSet.read(folder / "labels.jsonl")
    with tempfile.TemporaryDirectory() as place:
        model = Path(place) / "model"
        BNCLClassifier(labels, scorer=scorer).fit(train.rows(np.arange(FITTED))).save_pretrained(model)
        predictor = Predictor.load(model)
        warm = []
        for turn in range(4 * repeats):
            began = time.perf_counter()
            predictor.predictions([f"{turn} {text}"])
            warm.append(time.perf_counter() - began)
        one = Path(place) / "one.jsonl"
        one.write_text(json.dumps({"id": "1", "text": text}) + "\n")
        command = [str(Path(sys.executable).parent / "bncl"), "predict", str(model), str(one)]
        fresh = []
        for turn in range(repeats):
            before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            subprocess.run([*command, "--out", str(Path(place) / f"{turn}.jsonl")], check=True, capture_output=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
            fresh.append((cpu, time.perf_counter() - began))
    return {
        "scorer": scorer,
        "warm": 1000 * statistics.median(warm[2:]),
        "fresh": statistics.median(cpu for cpu, _ in fresh),
        "fresh wall": statistics.median(wall for _, wall in fresh),
    }


def _scoring(data: Path, name: str, repeats: int) -> dict[str, Any]:
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification, pipeline

    labels = LabelSet.read(data / name / "labels.jsonl")
    texts = _texts(data, name, SCORED)
    hypotheses = hypotheses_of(labels.descriptions)
    config = BertConfig.from_pretrained(MINILM.local(), num_labels=3)
    config.id2label = {0: "contradiction", 1: "neutral", 2: "entailment"}
    config.label2id = {word: place for place, word in config.id2label.items()}
    model = BertForSequenceClassification(config).eval()
    tokenizer = AutoTokenizer.from_pretrained(MINILM.local(), model_max_length=128)
    peer = pipeline("zero-shot-classification", model=model, tokenizer=tokenizer, device="cpu")
    names = list(labels.descriptions)
    scorer = load_scorer("light")
    sides: dict[str, Callable[[], Any]] = {
        "pipeline": lambda: [
            peer(text, names, hypothesis_template=TEMPLATE, multi_label=True) for text in texts[:PIPELINED]
        ],
        "light": lambda: _read(scorer, texts, hypotheses),
    }
    times = _alternate(sides, repeats)
    return {
        "set": name,
        "labels": len(labels),
        "pipeline": PIPELINED / times["pipeline"],
        "light": len(texts) / times["light"],
    }


def _memory(data: Path, scorer: str, texts: int) -> float:
    words = [sys.executable, "-m", "benchmarks.encoder_speed", "--data", str(data), "--memory-of", f"{scorer}:{texts}"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout.splitlines()[-1]))


def _featurize_and_tell(data: Path, scorer: str, count: str) -> None:
    labels = LabelSet.read(data / "reuters21578" / "labels.jsonl")
    with tempfile.TemporaryDirectory() as folder:
        featurize(
            lambda: islice(stream_texts(data / "reuters21578" / "train.jsonl"), int(count)),
            labels,
            load_scorer(scorer),
            Path(folder) / "features",
        )
    # Not getrusage, whose maximum a process inherits from the one that started it.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    typer.echo(json.dumps(int(status["VmHWM"].split()[0]) / 1024))


def _texts(data: Path, name: str, count: int) -> list[str]:
    return [text for _, text in islice(stream_texts(data / name / "train.jsonl"), count)]


def _alternate(sides: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, side in sides.items():
            began = time.perf_counter()
            side()
            times[name].append(time.perf_counter() - began)
    return {name: statistics.median(taken) for name, taken in times.items()}


if __name__ == "__main__":
    typer.run(main)
