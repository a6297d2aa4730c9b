"""The cross-encoder against transformers' zero-shot pipeline: the same weights, the same pairs.

    python -m benchmarks.cross_encoder_speed [--texts 16] [--repeats 5]

The model has the size of MiniLM-L6: the embedded encoder with a random head of three outputs, drawn so wide that scores
spread over (0, 1). The texts are bundled ones that fit, with any hypothesis, into 128 tokens, so that neither side cuts
any; the hypotheses come from the set's 57 labels. Contenders take turns, and the median of their runs counts.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from torch import Tensor

from benchmarks.results import about_this_run, footer, markdown_table, save
from bncl_pyg.corpus import Corpus, LabelSet
from bncl_pyg.demo import demo_folder
from bncl_pyg.scorers import MAX_TOKENS, MINILM, TEMPLATE, CrossEncoderScorer, hypotheses_of

PIPELINE = "pipeline, as people call it"
BATCHES = (8, 16, 32)
Contender = Callable[[], Tensor]
"""Returns q / (q + q̄), which the pipeline calls the score, (texts, labels)."""


def make_model(folder: Path) -> None:
    """Write a classifier made of the embedded encoder."""
    from transformers import AutoTokenizer, BertForSequenceClassification
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    names = {0: "entailment", 1: "neutral", 2: "contradiction"}
    places = {name: place for place, name in names.items()}
    model = BertForSequenceClassification.from_pretrained(MINILM.local(), id2label=names, label2id=places)
    torch.manual_seed(0)
    torch.nn.init.normal_(model.classifier.weight, std=2.0)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(MINILM.local()).save_pretrained(folder)


def choose_texts(folder: Path, hypotheses: list[str], count: int) -> tuple[list[str], float]:
    """Return texts that fit, drawn at random, and the mean tokens of their pairs."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    corpus = Corpus.read(demo_folder() / "train.jsonl.gz")
    longest = max(hypotheses, key=lambda hypothesis: len(tokenizer(hypothesis)["input_ids"]))
    lengths = [len(tokenizer(text, longest)["input_ids"]) for text in corpus.texts]
    fitting = [text for text, length in zip(corpus.texts, lengths, strict=True) if length <= MAX_TOKENS]
    order = torch.randperm(len(fitting), generator=torch.Generator().manual_seed(0))[:count]
    texts = [fitting[place] for place in order.tolist()]
    pairs = [len(tokenizer(text, hypothesis)["input_ids"]) for text in texts for hypothesis in hypotheses]
    return texts, statistics.mean(pairs)


def pipelines(folder: Path, texts: list[str], labels: LabelSet) -> dict[str, Contender]:
    """Return transformers' pipeline as it comes, and in batches."""
    from transformers import pipeline

    zero_shot: Any = pipeline("zero-shot-classification", model=str(folder), device="cpu")

    def call(options: dict[str, int]) -> Tensor:
        answers = zero_shot(
            texts,
            candidate_labels=list(labels.descriptions),
            hypothesis_template=TEMPLATE,
            multi_label=True,
            **options,
        )
        rows = [dict(zip(row["labels"], row["scores"], strict=True)) for row in answers]
        return torch.tensor([[row[label] for label in labels.descriptions] for row in rows])

    batched = {f"pipeline, batches of {size}": partial(call, {"batch_size": size}) for size in BATCHES}
    return {PIPELINE: partial(call, {}), **batched}


def ours(folder: Path, texts: list[str], hypotheses: list[str]) -> dict[str, Contender]:
    """Return our scorer on each backend."""

    def call(scorer: CrossEncoderScorer) -> Tensor:
        scores = scorer.score(texts, hypotheses)
        return scores[0] / scores.sum(dim=0)

    backends = {"ours, float32": "torch", "ours, ONNX": "onnx", "ours, ONNX int8": "onnx-int8"}
    return {
        name: partial(call, CrossEncoderScorer(folder, backend=backend, device="cpu"))
        for name, backend in backends.items()
    }


def measure(contenders: dict[str, Contender], repeats: int, pairs: int) -> dict[str, dict[str, Any]]:
    """Run them in turns; return the speed of each, and how far its scores are from the pipeline's."""
    scores = {name: contender() for name, contender in contenders.items()}
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    # The processor's time says what the work costs, whoever else uses the machine.
    processor: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, contender in contenders.items():
            start, processor_start = time.perf_counter(), time.process_time()
            contender()
            seconds[name].append(time.perf_counter() - start)
            processor[name].append(time.process_time() - processor_start)
    figures: dict[str, dict[str, Any]] = {}
    for name, times in seconds.items():
        change = (scores[name] - scores[PIPELINE]).abs()
        figures[name] = {
            "pairs_per_second": pairs / statistics.median(times),
            "pairs_per_processor_second": pairs / statistics.median(processor[name]),
            "seconds": times,
            "processor_seconds": processor[name],
            "largest_change": change.max().item(),
            "mean_change": change.mean().item(),
            "decisions_changed": ((scores[name] > 0.5) != (scores[PIPELINE] > 0.5)).float().mean().item(),
        }
    figures[PIPELINE]["spread"] = scores[PIPELINE].std().item()
    return figures


def as_markdown(content: dict[str, Any]) -> str:
    """Return the table and how to read it."""
    speeds = {name: row["pairs_per_second"] for name, row in content["contenders"].items()}
    best = max(speed for name, speed in speeds.items() if name.startswith("pipeline"))
    rows = [
        [
            name,
            f"{speeds[name]:.0f}",
            f"{speeds[name] / speeds[PIPELINE]:.2f}",
            f"{speeds[name] / best:.2f}",
            f"{row['pairs_per_processor_second']:.0f}",
            f"{row['largest_change']:.1e}",
            f"{row['mean_change']:.1e}",
            f"{row['decisions_changed']:.2%}",
        ]
        for name, row in content["contenders"].items()
    ]
    columns = ["", "pairs a second", "× pipeline", "× its best batches", "pairs a CPU second"]
    columns += ["largest change", "mean change", "decisions"]
    return (
        "# Cross-encoder against the zero-shot pipeline of transformers\n\n"
        f"{content['texts']} bundled texts × {content['labels']} labels, {content['mean_tokens']:.0f} tokens a pair, a "
        f"model of the size of MiniLM-L6 with a random head; medians of {content['repeats']} alternating runs, "
        f"{content['about']['threads']} threads on a shared machine (load {content['about']['load'][0]:.1f} before, "
        f"{content['about']['load'][1]:.1f} after; the run itself adds up to 2). "
        f"Changes are of q / (q + q̄) against the pipeline's scores, whose standard deviation is "
        f"{content['contenders'][PIPELINE]['spread']:.2f}; decisions are scores that went across ½.\n\n"
        + markdown_table(columns, rows)
        + footer(content["about"])
    )


def main(
    texts: Annotated[int, typer.Option(min=1)] = 16,
    repeats: Annotated[int, typer.Option(min=1)] = 5,
) -> None:
    """Measure, and write the results."""
    load = os.getloadavg()[0]
    labels = LabelSet.read(demo_folder() / "labels.jsonl")
    hypotheses = hypotheses_of(labels.descriptions)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "minilm-l6-random-head"
        make_model(folder)
        chosen, mean_tokens = choose_texts(folder, hypotheses, texts)
        contenders = {**pipelines(folder, chosen, labels), **ours(folder, chosen, hypotheses)}
        figures = measure(contenders, repeats, len(chosen) * len(labels))
    machine = {"transformers": version("transformers"), "onnxruntime": version("onnxruntime")}
    about = {**about_this_run(), **machine, "threads": torch.get_num_threads(), "load": [load, os.getloadavg()[0]]}
    content = {
        "about": about,
        "texts": len(chosen),
        "labels": len(labels),
        "mean_tokens": mean_tokens,
        "repeats": repeats,
        "contenders": figures,
    }
    markdown = as_markdown(content)
    save("cross-encoder-speed", content, markdown)
    typer.echo(markdown)


if __name__ == "__main__":
    typer.run(main)
