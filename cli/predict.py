"""`bncl predict`."""

from pathlib import Path
from typing import Annotated

import typer


def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A folder that 'bncl train' wrote, or its hub name.")],
    texts: Annotated[
        Path,
        typer.Argument(
            metavar="FEATURES|TEXTS", help="The folder of scored texts, or a file of rows with id and text."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Where to write a row a text (JSONL): id, labels, probabilities.")],
    scorer: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Where the scorer of the texts lies, if it was a local folder.")
    ] = None,
) -> None:
    """Write the labels of texts, the most probable first.

    Texts are read by the scorer that the model was trained with.
    """
    from bncl_pyg.classifier import BNCLClassifier
    from bncl_pyg.corpus import Corpus
    from bncl_pyg.files import write_jsonl
    from bncl_pyg.nli import read_features

    classifier = BNCLClassifier.from_pretrained(model)
    if scorer is not None:
        classifier.scorer = scorer
    given = Corpus.read(texts) if texts.is_file() else read_features(texts)
    rows = list(classifier.predicted_rows(given))
    write_jsonl(out, iter(rows))
    without = sum(not row["labels"] for row in rows)
    typer.echo(f"{out}: {len(rows)} texts, {without} of them without any label.")
