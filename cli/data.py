"""`bncl data`: prepare what the other commands take."""

from pathlib import Path
from typing import Annotated

import typer

from . import public_data

app = typer.Typer(no_args_is_help=True, help="Prepare what the other commands take.")
app.command()(public_data.reuters)
app.command()(public_data.stackexchange)


@app.command()
def priors(
    texts: Annotated[Path, typer.Argument(metavar="TRAIN", help="Annotated texts: rows with id, text, labels.")],
    labels: Annotated[Path, typer.Option(help="Labels: rows with label and description, or a .txt of names.")],
    out: Annotated[Path, typer.Option(help="Where to write the priors (JSON).")],
) -> None:
    """Compute cardinality and prevalence from annotated texts.

    Without annotated texts, write the file by hand: {"cardinality": 1.24, "prevalence": {"label": 0.03, ...}}.
    """
    from bncl_pyg.corpus import Corpus, LabelSet
    from bncl_pyg.priors import Priors

    from .outputs import check_output

    check_output(out, texts, labels)
    label_set = LabelSet.read(labels)
    corpus = Corpus.read(texts, label_set)
    assert corpus.annotations is not None
    known = Priors.from_annotations(corpus.annotations)
    known.write(out, label_set)
    unseen = int((known.shares == 0).sum())
    typer.echo(
        f"{out}: {len(corpus)} texts have {known.cardinality:.3f} of {len(label_set)} labels on average; "
        f"{unseen} labels never occur."
    )
