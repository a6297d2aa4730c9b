"""`bncl train`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

SETTINGS = Literal["annotation-free", "scarce-annotation", "domain-supervisor"]


def train(
    features: Annotated[Path, typer.Argument(metavar="FEATURES", help="The folder of the scored training texts.")],
    graph: Annotated[Path, typer.Option(help="A folder that 'bncl graph build' wrote.")],
    setting: Annotated[SETTINGS, typer.Option(help="What is known: priors, annotated texts, or both.")],
    out: Annotated[Path, typer.Option(help="The folder to write the model to.")],
    priors: Annotated[
        Path | None,
        typer.Option(help="Cardinality and prevalence (JSON), as 'bncl data priors' writes them."),
    ] = None,
    annotated: Annotated[
        Path | None, typer.Option(metavar="TEXTS", help="Annotated texts: rows with id, text, labels.")
    ] = None,
    annotations: Annotated[
        int | None, typer.Option(min=1, help="Draw this many of the annotated texts; all, if not given.")
    ] = None,
    recipe: Annotated[
        Literal["paper", "reference"], typer.Option(help="As the paper says, or as its authors' code does.")
    ] = "paper",
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same model.")] = 0,
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the texts; the recipe's if not given.")] = None,
    sharpness: Annotated[
        str | None,
        typer.Option(metavar="C|auto", help="C of the sharpened sigmoid; 'auto' chooses it by the paper's procedure."),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Do not go on from an unfinished training.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the model if it is there.")] = False,
) -> None:
    """Train a classifier on scored texts.

    Training that is stopped goes on where it was when the same command is given again, and ends in the same model.
    """
    from bncl_pyg.classifier import BNCLClassifier
    from bncl_pyg.corpus import Corpus, Supervision
    from bncl_pyg.files import check_free
    from bncl_pyg.graph import SignedLabelGraph
    from bncl_pyg.nli import read_features
    from bncl_pyg.training import adapted_recipe

    from .show import epochs_bar

    check_free(out, "model", overwrite=overwrite)
    chosen = adapted_recipe(recipe, epochs=epochs, sharpness=sharpness)
    loaded = read_features(features)
    classifier = BNCLClassifier(setting, chosen, SignedLabelGraph.load(graph), seed)
    known = None if priors is None else Supervision.read_priors(priors, loaded.labels)
    texts = None if annotated is None else Corpus.read(annotated, loaded.labels)
    checkpoint = out.with_name(f"{out.name}.checkpoint.safetensors")
    if fresh:
        checkpoint.unlink(missing_ok=True)
    try:
        with epochs_bar(chosen.epochs) as progress:
            classifier.fit(loaded, known, texts, annotations, checkpoint=checkpoint, progress=progress)
    except KeyboardInterrupt:
        typer.echo("Stopped; the same command goes on after the last whole epoch.", err=True)
        raise typer.Exit(130) from None
    classifier.save_pretrained(out, overwrite=overwrite)
    checkpoint.unlink(missing_ok=True)
    last = classifier.log_[-1]
    typer.echo(f"{out}: trained {setting} on {len(loaded)} texts, {last.epoch} epochs, last loss {last.loss:.4g}.")
