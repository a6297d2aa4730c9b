"""`bncl train`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from .options import IdColumn, Json, LabelsColumn, TextColumns
from .priors import AtLeastOne, LabelsPerText, priors_file, read_priors
from .terminal import echo

if TYPE_CHECKING:
    from bncl_pyg.corpus import LabelSet
    from bncl_pyg.priors import Priors

SETTINGS = Literal["annotation-free", "scarce-annotation", "domain-supervisor"]


def train(
    features: Annotated[Path, typer.Argument(metavar="FEATURES", help="The folder of the scored training texts.")],
    out: Annotated[Path, typer.Option(help="The folder to write the model to.")],
    graph: Annotated[
        Path | None,
        typer.Option(
            help="A folder that 'bncl graph build' wrote, used as it is; if left out, the default graph is built and "
            "kept, whose percentiles the recipe paper chooses."
        ),
    ] = None,
    setting: Annotated[
        SETTINGS | None,
        typer.Option(help="What is known: priors, annotated texts, or both. If left out, what is given decides."),
    ] = None,
    priors: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|auto",
            help="Cardinality and prevalence (JSON), as 'bncl data priors' writes them; a prevalence may be a number, "
            "an interval (a list of two), a word (common, standard, uncommon, almost unseen) or null. What is not "
            "known, and with 'auto' everything, is estimated from the scores.",
        ),
    ] = None,
    labels_per_text: LabelsPerText = None,
    annotated: Annotated[
        Path | None,
        typer.Option(
            metavar="TEXTS",
            help="A table of annotated texts, found by id among the scored ones. One with something in a column "
            "not_labels is annotated in part; one whose labels are '?' is not annotated yet.",
        ),
    ] = None,
    text: TextColumns = None,
    identifier: IdColumn = None,
    labels_column: LabelsColumn = None,
    annotations: Annotated[
        int | None, typer.Option(min=1, help="Draw this many of the annotated texts; all, if not given.")
    ] = None,
    recipe: Annotated[
        Literal["default", "paper", "paper-literal", "reference"],
        typer.Option(
            help="The best we know; the paper, as it can be trained; its printed formulas alone; its authors' code."
        ),
    ] = "default",
    aim: Annotated[
        Literal["f1", "prevalence"] | None,
        typer.Option(
            help="For default: whether labels are given so that F1 is expected to be high, or about as often as the "
            "priors say; if left out, f1."
        ),
    ] = None,
    at_least_one: AtLeastOne = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same model.")] = 0,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="For all but default: passes over the texts, if not 30.")
    ] = None,
    sharpness: Annotated[
        str | None,
        typer.Option(metavar="C|auto", help="For all but default: C of the sharpened sigmoid; 'auto' chooses it."),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Do not go on from an unfinished training.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the model if it is there.")] = False,
    json: Json = None,
) -> None:
    """Train a classifier on scored texts.

    With all recipes but default, training that is stopped goes on where it was when the same command is given
    again, and ends in the same model.
    """
    from bncl_pyg.corpus import Columns, Corpus, LabelSet
    from bncl_pyg.errors import InputError
    from bncl_pyg.persistence import check_free, read_manifest

    from .outputs import check_file, write_figures
    from .show import say, training_bar

    # All that can be wrong with files is told before torch is imported, which takes seconds.
    check_free(out, "model", overwrite=overwrite)
    check_file(json, features, graph, priors_file(priors), annotated, overwrite=overwrite)
    if annotations is not None and annotated is None:
        raise InputError(
            "There are no annotated texts to draw from: add --annotated TEXTS, or leave --annotations out."
        )
    read_manifest(features, "features", check_files=False)
    if graph is not None:
        read_manifest(graph, "graph", check_files=False)
    labels = LabelSet.read(features / "labels.jsonl")
    known = read_priors(priors, labels_per_text, at_least_one, labels)
    columns = Columns.of(text, identifier, labels_column)
    corpus = None
    if annotated is not None:
        corpus = Corpus.read(annotated, labels, columns, partial=True, needs_text=False)

    from bncl_pyg.estimator import BNCLClassifier
    from bncl_pyg.features import read_features
    from bncl_pyg.graph import SignedLabelGraph
    from bncl_pyg.training import Annotated as AnnotatedTexts
    from bncl_pyg.training import find_recipe

    given = {"epochs": epochs, "sharpness": sharpness, "aim": aim}
    chosen = find_recipe(recipe, **{name: value for name, value in given.items() if value is not None})
    loaded = read_features(features)
    texts = None
    if corpus is not None:
        texts = AnnotatedTexts.among(corpus, loaded.ids)
        if annotations is not None:
            texts = texts.drawn(chosen.draw(len(texts), annotations, seed))
    own_graph = None if graph is None else SignedLabelGraph.load(graph)
    classifier = BNCLClassifier(prevalence=known, recipe=chosen, setting=setting, graph=own_graph, seed=seed)
    checkpoint = out.with_name(f"{out.name}.checkpoint.safetensors")
    if fresh:
        checkpoint.unlink(missing_ok=True)
    try:
        with training_bar() as progress:
            classifier.fit(loaded, texts, checkpoint=checkpoint, progress=progress)
    except InputError as error:
        if checkpoint.name in str(error):
            raise InputError(f"{error} With --fresh, it is removed.") from None
        raise
    except KeyboardInterrupt:
        again = "goes on after the last whole epoch" if chosen.resumes else "starts anew"
        echo(f"Stopped; the same command {again}.", err=True)
        raise typer.Exit(130) from None
    classifier.save_pretrained(out, overwrite=overwrite)
    checkpoint.unlink(missing_ok=True)
    count, last = len(classifier.annotated_), classifier.log_[-1]
    texts_shown = f"{len(loaded)} texts, {count} of them annotated" if count else f"{len(loaded)} texts"
    loss = f", {last.number} epochs, last loss {last.figures['loss']:.4g}" if "loss" in last.figures else ""
    priors_now = classifier.priors_
    write_figures(
        json,
        {
            "model": str(out),
            "setting": str(classifier.setting_),
            "recipe": chosen.name,
            "texts": len(loaded),
            "annotated": count,
            "cardinality": priors_now.cardinality,
            "prevalence": dict(zip(loaded.labels.names, priors_now.shares.tolist(), strict=True)),
            **last.figures,
        },
    )
    say(f"{out}: trained {classifier.setting_} on {texts_shown}, recipe {chosen.name}{loss}.")
    if tried := [step for step in classifier.log_ if step.what.startswith("graph ")]:
        figures = "; ".join(
            f"{step.what.removeprefix('graph ')}: {name} {value:.4g}"
            for step in tried
            for name, value in step.figures.items()
        )
        low, high = classifier.graph_.provenance["percentiles"]
        say(f"Chosen for the label graph: percentiles {low:g}/{high:g} (on held-out texts {figures}).")
    if known is None or not known.is_exact:
        say(f"Estimated: {_shown(classifier.priors_, loaded.labels)}.")


def _shown(known: "Priors", labels: "LabelSet") -> str:
    """Say what was estimated: the cardinality and the most common labels."""
    most = (-known.shares).argsort(kind="stable")[:3]
    names = ", ".join(f"{labels.names[place]} {known.shares[place]:.2g}" for place in most)
    return f"{known.cardinality:.3g} labels a text; most common: {names}"
