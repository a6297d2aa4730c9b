"""The embedded scorer against what people would use instead: encoding, and texts with all their labels.

    BNCL_DATA=folder python -m benchmarks.encoder_speed

Encoding is measured against sentence-transformers with the same weights on the same texts; scoring at 135 (Reuters)
and 517 (Cooking) labels against transformers' `zero-shot-classification` pipeline with a model of the same size, which
reads every (text, label) pair. The runs alternate; each figure is a median. Peak memory is that of a process of its
own.
"""

import json
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

import torch
import typer

from benchmarks.results import about_this_run, footer, markdown_table, save
from bncl_pyg.corpus import LabelSet, stream_texts
from bncl_pyg.scorers import MINILM, TEMPLATE, SentenceEncoder, embedded_scorer, hypotheses_of

SETS = {"reuters21578": 135, "stackex-cooking": 517}
ENCODED, PIPELINED, SCORED = 200, 1, 200
"""How many texts each side reads a run: the pipeline is too slow for more."""


def main(
    data: Annotated[Path, typer.Option(envvar="BNCL_DATA", help="The folder with the data sets.")],
    repeats: int = 5,
    memory_of: Annotated[int, typer.Option(hidden=True)] = 0,
) -> None:
    """Measure and write the tables."""
    if memory_of:
        _featurize_and_tell(data, memory_of)
        return
    texts = _texts(data, "reuters21578", ENCODED)
    content = {
        "about": about_this_run(),
        "repeats": repeats,
        "encoding": _encoding(texts, repeats),
        "scoring": [_scoring(data, name, repeats) for name in SETS],
        "memory": {str(count): _memory(data, count) for count in (500, 2000)},
    }
    save("encoder-speed", content, as_markdown(content))
    typer.echo(as_markdown(content))


def as_markdown(content: dict[str, Any]) -> str:
    """Return the page that shows the figures of a run."""
    peer = content["encoding"][0]["texts_a_second"]
    encoding = [
        [
            row["encoder"],
            f"{row['texts_a_second']:.0f}",
            f"{row['texts_a_second'] / peer:.2f}×",
            f"{row['cosine']:.4f}",
        ]
        for row in content["encoding"]
    ]
    scoring = [
        [
            row["set"],
            str(row["labels"]),
            f"{row['pipeline']:.3f}",
            f"{row['embedded']:.1f}",
            f"{row['embedded'] / row['pipeline']:.0f}×",
        ]
        for row in content["scoring"]
    ]
    memory = [[count, f"{peak:.0f} MB"] for count, peak in content["memory"].items()]
    return (
        "# The embedded scorer\n\n"
        f"Reuters and Cooking training texts, 128 tokens, medians of {content['repeats']} alternating runs.\n\n"
        f"## Encoding {ENCODED} Reuters texts\n\n"
        + markdown_table(["encoder", "texts/s", "against the peer", "mean cosine to the peer's vectors"], encoding)
        + "\n## All labels of a text\n\nThe peer is transformers' `zero-shot-classification` with a classifier of the "
        "same size (MiniLM-L6 with a random head: speed only), as people call it.\n\n"
        + markdown_table(["texts", "labels", "pipeline, texts/s", "embedded scorer, texts/s", "ratio"], scoring)
        + "\n## Peak memory of `bncl featurize` by number of texts\n\nReuters texts and labels.\n\n"
        + markdown_table(["texts", "peak memory"], memory)
        + footer(content["about"])
    )


def _encoding(texts: list[str], repeats: int) -> list[dict[str, Any]]:
    from sentence_transformers import SentenceTransformer

    peer = SentenceTransformer(str(MINILM.local()), device="cpu")
    peer.max_seq_length = 128
    ours = {
        "bncl-pyg, float32": SentenceEncoder.embedded(),
        "bncl-pyg, onnx": SentenceEncoder.embedded(backend="onnx"),
        "bncl-pyg, onnx-int8": SentenceEncoder.embedded(backend="onnx-int8"),
    }
    sides: dict[str, Callable[[list[str]], Any]] = {
        "sentence-transformers": lambda some: peer.encode(some, convert_to_tensor=True, show_progress_bar=False)
    }
    sides |= {name: encoder.encode for name, encoder in ours.items()}
    vectors = {name: side(texts).float() for name, side in sides.items()}
    times = _alternate({name: partial(side, texts) for name, side in sides.items()}, repeats)
    expected = vectors["sentence-transformers"]
    return [
        {
            "encoder": name,
            "texts_a_second": len(texts) / times[name],
            "cosine": float(torch.nn.functional.cosine_similarity(vectors[name], expected).mean()),
        }
        for name in sides
    ]


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
    scorer = embedded_scorer()
    sides: dict[str, Callable[[], Any]] = {
        "pipeline": lambda: [
            peer(text, names, hypothesis_template=TEMPLATE, multi_label=True) for text in texts[:PIPELINED]
        ],
        "embedded": lambda: scorer.score(texts, hypotheses),
    }
    times = _alternate(sides, repeats)
    return {
        "set": name,
        "labels": len(labels),
        "pipeline": PIPELINED / times["pipeline"],
        "embedded": len(texts) / times["embedded"],
    }


def _memory(data: Path, texts: int) -> float:
    words = [sys.executable, "-m", "benchmarks.encoder_speed", "--data", str(data), "--memory-of", str(texts)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout.splitlines()[-1]))


def _featurize_and_tell(data: Path, count: int) -> None:
    from bncl_pyg.features import featurize

    labels = LabelSet.read(data / "reuters21578" / "labels.jsonl")
    with tempfile.TemporaryDirectory() as folder:
        featurize(
            lambda: islice(stream_texts(data / "reuters21578" / "train.jsonl"), count),
            labels,
            embedded_scorer(),
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
