"""`bncl predict`."""

from pathlib import Path
from typing import Annotated

import typer


def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A folder that 'bncl train' wrote, or its hub name.")],
    features: Annotated[Path, typer.Argument(metavar="FEATURES", help="The folder of the scored texts.")],
    out: Annotated[Path, typer.Option(help="Where to write a row a text (JSONL): id, labels, probabilities.")],
) -> None:
    """Write the labels of scored texts, the most probable first."""
    from bncl_pyg.classifier import BNCLClassifier
    from bncl_pyg.files import write_jsonl
    from bncl_pyg.nli import read_features

    classifier = BNCLClassifier.from_pretrained(model)
    loaded = read_features(features)
    rows = list(classifier.predicted_rows(loaded))
    write_jsonl(out, iter(rows))
    without = sum(not row["labels"] for row in rows)
    typer.echo(f"{out}: {len(rows)} texts, {without} of them without any label.")
