"""`bncl data`: prepare what the other commands take."""

from pathlib import Path
from typing import Annotated

import typer

from . import public_data
from .options import IdColumn, LabelsColumn, Overwrite, TextColumns

app = typer.Typer(no_args_is_help=True, help="Prepare what the other commands take.")
app.command()(public_data.reuters)
app.command()(public_data.stackexchange)


@app.command()
def priors(
    texts: Annotated[Path, typer.Argument(metavar="TRAIN", help="A table of annotated texts.")],
    labels: Annotated[Path, typer.Option(help="Labels: rows with label and description, or a .txt of names.")],
    out: Annotated[Path, typer.Option(help="Where to write the priors (JSON); - is standard output.")],
    text: TextColumns = None,
    identifier: IdColumn = None,
    labels_column: LabelsColumn = None,
    overwrite: Overwrite = False,
) -> None:
    """Compute cardinality and prevalence from annotated texts.

    Without annotated texts, write the file by hand: {"cardinality": 1.24, "prevalence": {"label": 0.03, ...}}.
    """
    from bncl_pyg.corpus import Columns, Corpus, LabelSet
    from bncl_pyg.priors import Priors

    from .outputs import check_file, shown, write_figures
    from .show import say

    check_file(out, texts, labels, overwrite=overwrite)
    label_set = LabelSet.read(labels)
    corpus = Corpus.read(texts, label_set, Columns.of(text, identifier, labels_column))
    assert corpus.annotations is not None
    known = Priors.from_annotations(corpus.annotations)
    write_figures(out, known.as_dict(label_set))
    unseen = int((known.shares == 0).sum())
    say(
        f"{shown(out)}: {len(corpus)} texts have {known.cardinality:.3f} of {len(label_set)} labels on average; "
        f"{unseen} labels never occur."
    )
