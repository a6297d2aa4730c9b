"""`bncl train`."""

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from .options import Address, IdColumn, Json, LabelsColumn, TextColumns, Workers, check_engine
from .priors import AtLeastOne, LabelsPerText, priors_file, read_priors

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
    engine: Annotated[
        Literal["local", "torchrun", "ray", "rank"],
        typer.Option(
            help="What does the work, with the same result: this process; processes on this machine, each of which "
            "holds some of the texts; the workers of a Ray cluster; or this process as one of those that torchrun "
            "started on several machines (torchrun … -m bncl_pyg.train)."
        ),
    ] = "local",
    processes: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="For --engine torchrun: how many; one a core, if not given.")
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            min=1,
            metavar="SECONDS",
            help="For several processes: after how long one that does not answer counts as lost; 600, if not given.",
        ),
    ] = None,
    address: Address = None,
    workers: Workers = None,
    json: Json = None,
) -> None:
    """Train a classifier on scored texts.

    With all recipes but default, training that is stopped goes on where it was when the same command is given
    again, and ends in the same model.
    """
    given = dict(locals())
    from bncl_pyg.corpus import Columns, Corpus, LabelSet
    from bncl_pyg.errors import InputError
    from bncl_pyg.persistence import check_free, read_manifest

    from .outputs import check_file

    # All that can be wrong with files is told before torch is imported, which takes seconds.
    check_engine(engine, address, workers)
    _check_processes(engine, processes, timeout)
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

    from bncl_pyg.distributed import RayOptions, TrainingJob
    from bncl_pyg.training import find_recipe

    from .train_engines import train_alone, train_as_one_of_many, train_by_ray, train_by_torchrun

    changed = {"epochs": epochs, "sharpness": sharpness, "aim": aim}
    chosen = find_recipe(recipe, **{name: value for name, value in changed.items() if value is not None})
    job = TrainingJob(
        features, out, chosen, known, setting, graph, corpus, annotations, seed, fresh=fresh, overwrite=overwrite
    )
    if engine == "torchrun":
        train_by_torchrun(job, given, processes)
    elif engine == "ray":
        train_by_ray(job, RayOptions(address, workers), json)
    elif engine == "rank":
        train_as_one_of_many(job, json, timeout)
    else:
        train_alone(job, json)


def _check_processes(engine: str, processes: int | None, timeout: float | None) -> None:
    """Raise if options of the engine do not fit, or if this is no process that torchrun started."""
    from bncl_pyg.errors import InputError

    if processes is not None and engine != "torchrun":
        raise InputError("--processes is for --engine torchrun.")
    if timeout is not None and engine not in ("torchrun", "rank"):
        raise InputError("--timeout is for --engine torchrun and for processes that torchrun started.")
    if engine == "rank" and not {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys():
        raise InputError(
            "--engine rank is for a process that torchrun started, which knows its rank; with --engine torchrun, this "
            "command starts some itself."
        )
