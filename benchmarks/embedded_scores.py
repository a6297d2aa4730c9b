"""Scores from the embedded encoder, until `bncl featurize` exists: a cosine, calibrated by two numbers.

    python -m benchmarks.embedded_scores TEXTS.jsonl --labels LABELS.jsonl --out FEATURES

With c the cosine between a text and "This is about {description}.", entailment, neutral and contradiction are the
softmax of (z, 0, −z) with z = 20 (c − 0.38). The scale 20 is the one that the encoder was trained with; 0.38 is the
cosine from which saying "yes" gives the best ebF1 on the **training** split of stackex-cooking, a set that is shown
nowhere with these scores.
"""

from pathlib import Path
from typing import Annotated

import torch
import typer

from bncl_pyg.corpus import Corpus, LabelSet
from bncl_pyg.nli import Features, write_features
from bncl_pyg.nli.encoder import EMBEDDED_SHA256, SentenceEncoder

SCALE, MIDDLE = 20.0, 0.38
TEMPLATE = "This is about {}."


def score(corpus: Corpus, labels: LabelSet, max_tokens: int = 128) -> Features:
    """Return the features of all (text, label) pairs from N + L encodings."""
    encoder = SentenceEncoder.embedded(max_tokens)
    texts = encoder.encode(corpus.texts)
    hypotheses = encoder.encode([TEMPLATE.format(text) for text in labels.descriptions])
    margin = SCALE * (texts @ hypotheses.t() - MIDDLE)
    shares = torch.softmax(torch.stack([margin, torch.zeros_like(margin), -margin]), dim=0)
    scorer = {
        "name": "embedded cosine",
        "weights_sha256": EMBEDDED_SHA256,
        "template": TEMPLATE,
        "max_tokens": max_tokens,
        "scale": SCALE,
        "middle": MIDDLE,
    }
    return Features(corpus.ids, labels, shares[0], shares[2], scorer)


def main(
    texts: Path,
    labels: Annotated[Path, typer.Option()],
    out: Annotated[Path, typer.Option()],
    dtype: str = "float32",
) -> None:
    """Score texts and write a folder of features."""
    if dtype not in ("float16", "float32"):
        raise typer.BadParameter("must be float16 or float32", param_hint="--dtype")
    features = score(Corpus.read(texts), LabelSet.read(labels))
    write_features(features, out, dtype="float16" if dtype == "float16" else "float32")


if __name__ == "__main__":
    typer.run(main)
