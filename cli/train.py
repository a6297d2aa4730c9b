"""`bncl train`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from bncl_pyg.corpus import LabelSet, Supervision

SETTINGS = Literal["annotation-free", "scarce-annotation", "domain-supervisor"]


def train(
    features: Annotated[Path, typer.Argument(metavar="FEATURES", help="The folder of the scored training texts.")],
    graph: Annotated[Path, typer.Option(help="A folder that 'bncl graph build' wrote.")],
    setting: Annotated[SETTINGS, typer.Option(help="What is known: priors, annotated texts, or both.")],
    out: Annotated[Path, typer.Option(help="The folder to write the model to.")],
    priors: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|auto",
            help="Cardinality and prevalence (JSON), as 'bncl data priors' writes them; prevalences may be words "
            "(common, standard, uncommon, almost unseen). With 'auto', both are estimated from the scores.",
        ),
    ] = None,
    annotated: Annotated[
        Path | None, typer.Option(metavar="TEXTS", help="Annotated texts: rows with id, text, labels.")
    ] = None,
    annotations: Annotated[
        int | None, typer.Option(min=1, help="Draw this many of the annotated texts; all, if not given.")
    ] = None,
    recipe: Annotated[
        Literal["default", "paper", "reference"],
        typer.Option(help="The best we know, as the paper says, or as its authors' code does."),
    ] = "default",
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same model.")] = 0,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="For paper and reference: passes over the texts, if not 30.")
    ] = None,
    sharpness: Annotated[
        str | None,
        typer.Option(metavar="C|auto", help="For paper and reference: C of the sharpened sigmoid; 'auto' chooses it."),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Do not go on from an unfinished training.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the model if it is there.")] = False,
) -> None:
    """Train a classifier on scored texts.

    With the recipes paper and reference, training that is stopped goes on where it was when the same command is given
    again, and ends in the same model.
    """
    from bncl_pyg.corpus import AUTO, Corpus, RoughPriors, Supervision
    from bncl_pyg.estimator import BNCLClassifier
    from bncl_pyg.features import read_features
    from bncl_pyg.graph import SignedLabelGraph
    from bncl_pyg.persistence import check_free
    from bncl_pyg.training import EpochLog, Recipe, adapted_recipe

    from .show import epochs_bar, stages_bar

    check_free(out, "model", overwrite=overwrite)
    chosen = adapted_recipe(recipe, epochs=epochs, sharpness=sharpness)
    loaded = read_features(features)
    classifier = BNCLClassifier(setting, chosen, SignedLabelGraph.load(graph), seed)
    known: Supervision | RoughPriors | None = None
    if priors == AUTO:
        known = RoughPriors.nothing(len(loaded.labels))
    elif priors is not None:
        known = RoughPriors.read(Path(priors), loaded.labels)
    texts = None if annotated is None else Corpus.read(annotated, loaded.labels)
    checkpoint = out.with_name(f"{out.name}.checkpoint.safetensors")
    if fresh:
        checkpoint.unlink(missing_ok=True)
    try:
        with epochs_bar(chosen.epochs) if isinstance(chosen, Recipe) else stages_bar() as progress:
            classifier.fit(loaded, known, texts, annotations, checkpoint=checkpoint, progress=progress)
    except KeyboardInterrupt:
        again = "goes on after the last whole epoch" if isinstance(chosen, Recipe) else "starts anew"
        typer.echo(f"Stopped; the same command {again}.", err=True)
        raise typer.Exit(130) from None
    classifier.save_pretrained(out, overwrite=overwrite)
    checkpoint.unlink(missing_ok=True)
    last = classifier.log_[-1]
    told = f"{last.epoch} epochs, last loss {last.loss:.4g}" if isinstance(last, EpochLog) else "recipe default"
    taught = len(classifier.annotated_)
    texts_shown = f"{len(loaded)} texts, {taught} of them annotated" if taught else f"{len(loaded)} texts"
    typer.echo(f"{out}: trained {setting} on {texts_shown}, {told}.")
    if isinstance(known, RoughPriors) or known is None:
        typer.echo(f"Estimated: {_shown(classifier.supervision_, loaded.labels)}.")


def _shown(known: "Supervision", labels: "LabelSet") -> str:
    """Say what was estimated: the cardinality and the most common labels."""
    most = (-known.prevalence).argsort(kind="stable")[:3]
    names = ", ".join(f"{labels.names[place]} {known.prevalence[place]:.2g}" for place in most)
    return f"{known.cardinality:.3g} labels a text; most common: {names}"
