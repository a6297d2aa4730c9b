"""`bncl predict`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

TEXTS_AT_ONCE = 1024
"""How many texts are read and answered before the next."""


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
    html: Annotated[
        Literal["auto", "strip", "keep"],
        typer.Option(help="What happens to HTML, as for 'bncl featurize'."),
    ] = "auto",
    device: Annotated[
        str | None, typer.Option(help="Where scorer and model run, such as cuda; an accelerator, if there is one.")
    ] = None,
) -> None:
    """Write the labels of texts, the most probable first.

    Texts are read by the scorer that the model was trained with.
    """
    import numpy as np

    from bncl_pyg.corpus import Corpus, TextCleaner
    from bncl_pyg.features import read_features
    from bncl_pyg.persistence import write_jsonl
    from bncl_pyg.predictor import Predictor

    from .outputs import check_output
    from .show import texts_bar

    check_output(out, model, texts)
    predictor = Predictor.load(model, scorer=scorer, device=device)
    given = Corpus.read(texts) if texts.is_file() else read_features(texts)
    parts = [given]
    if isinstance(given, Corpus):
        given = Corpus(given.ids, tuple(map(TextCleaner(html).clean, given.texts)))
        starts = range(0, max(len(given), 1), TEXTS_AT_ONCE)
        parts = [given.rows(np.arange(start, min(start + TEXTS_AT_ONCE, len(given)))) for start in starts]
    rows = []
    with texts_bar("predicting") as (start, progress, _):
        start(len(given), 0)
        for part in parts:
            for row in predictor.rows(part):
                rows.append(row)
                progress(1)
    write_jsonl(out, iter(rows))
    without = sum(not row["labels"] for row in rows)
    typer.echo(f"{out}: {len(rows)} texts, {without} of them without any label.")
