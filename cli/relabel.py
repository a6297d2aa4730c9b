"""`bncl labels add | remove | rename | merge`: labels that change after a model was trained."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .options import Html, IdColumn, LabelsColumn, TextColumns
from .show import texts_bar, training_bar
from .terminal import echo

if TYPE_CHECKING:
    from bncl_pyg.corpus import Columns
    from bncl_pyg.relabel import Changed, LabelChange
    from bncl_pyg.training import TrainedModel, TrainingStep

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a trained model.")]
Features = Annotated[
    Path, typer.Option(metavar="FEATURES", help="The folder that it was trained from; new columns are added to it.")
]
Texts = Annotated[
    Path | None,
    typer.Option(metavar="TEXTS", help="The training texts, which a new label is scored on: a table."),
]
Graph = Annotated[
    Path | None, typer.Option(help="A graph of the changed labels; if left out, the model's own is extended.")
]
Out = Annotated[Path | None, typer.Option(help="The folder to write the changed model to.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace what is at --out; without --out, change MODEL itself.")
]


def add(
    model: Model,
    labels: Annotated[
        list[str],
        typer.Argument(metavar="LABEL...", help="New labels, NAME or NAME=DESCRIPTION each; or a file of labels."),
    ],
    features: Features,
    texts: Texts = None,
    prevalence: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]VALUE",
            help="How common a new label is: a share, an interval LOW..HIGH or a word; estimated, if left out.",
        ),
    ] = None,
    annotated: Annotated[
        Path | None,
        typer.Option(metavar="TEXTS", help="Annotated texts that say whether they have the new labels: a table."),
    ] = None,
    text: TextColumns = None,
    identifier: IdColumn = None,
    labels_column: LabelsColumn = None,
    graph: Graph = None,
    html: Html = "auto",
    out: Out = None,
    overwrite: Overwrite = False,
) -> None:
    """Add labels: only their columns are scored, and the model is trained again."""
    _check_files(model, out, features, texts, annotated, overwrite=overwrite)

    from bncl_pyg.corpus import Columns
    from bncl_pyg.relabel import LabelChange

    trained = _load(model)
    change = LabelChange.adding(trained.labels, _new_labels(labels))
    known = _prevalences(prevalence or [], change.added)
    columns = Columns.of(text, identifier, labels_column)
    _run(
        trained,
        change,
        model,
        out,
        overwrite,
        features,
        texts,
        html,
        graph,
        columns=columns,
        annotated=annotated,
        prevalence=known,
    )


def remove(
    model: Model,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="The labels to remove.")],
    features: Features,
    graph: Graph = None,
    out: Out = None,
    overwrite: Overwrite = False,
) -> None:
    """Remove labels: nothing is scored, and the model is trained again."""
    _check_files(model, out, features, overwrite=overwrite)

    from bncl_pyg.relabel import LabelChange

    trained = _load(model)
    _run(trained, LabelChange.removing(trained.labels, names), model, out, overwrite, features, graph=graph)


def rename(
    model: Model,
    old: Annotated[str, typer.Argument(metavar="OLD", help="The label's name.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Its new name; its description stays.")],
    out: Out = None,
    overwrite: Overwrite = False,
) -> None:
    """Rename a label: nothing is scored, and nothing is trained."""
    _check_files(model, out, overwrite=overwrite)

    from bncl_pyg.relabel import LabelChange

    trained = _load(model)
    _run(trained, LabelChange.renaming(trained.labels, {old: new}), model, out, overwrite)


def merge(
    model: Model,
    names: Annotated[list[str], typer.Argument(metavar="NAME NAME...", help="The labels to make one of.")],
    into: Annotated[str, typer.Option(metavar="NAME", help="What the merged label is called; may be one of them.")],
    features: Features,
    texts: Texts = None,
    description: Annotated[
        str | None, typer.Option(help="What the merged label means; all that they mean, if left out.")
    ] = None,
    text: TextColumns = None,
    identifier: IdColumn = None,
    graph: Graph = None,
    html: Html = "auto",
    out: Out = None,
    overwrite: Overwrite = False,
) -> None:
    """Make one label of several: it is scored alone, and the model is trained again."""
    _check_files(model, out, features, texts, overwrite=overwrite)

    from bncl_pyg.corpus import Columns
    from bncl_pyg.relabel import LabelChange

    trained = _load(model)
    change = LabelChange.merging(trained.labels, names, into, description)
    columns = Columns.of(text, identifier, None)
    _run(trained, change, model, out, overwrite, features, texts, html, graph, columns=columns)


class _Bars(ExitStack):
    """One bar after the other, each from when there is something to show: only one can be on the screen."""

    _scored: Any = None
    _trained: Any = None

    def start(self, total: int, done: int) -> None:
        """Show how texts are scored."""
        start, self._scored, _ = self.enter_context(texts_bar())
        start(total, done)

    def scored(self, texts: int) -> None:
        """Count texts that were scored."""
        self._scored(texts)

    def trained(self, step: "TrainingStep") -> None:
        """Show a step of training."""
        if self._trained is None:
            self.close()
            self._trained = self.enter_context(training_bar())
        self._trained(step)


def _check_files(
    model: Path,
    out: Path | None,
    features: Path | None = None,
    *tables: Path | None,
    overwrite: bool,
) -> None:
    """Refuse what cannot be read, and a place that cannot be written to, before torch is imported."""
    from bncl_pyg.corpus import Table
    from bncl_pyg.errors import InputError
    from bncl_pyg.persistence import check_free, read_manifest

    read_manifest(model, "model", check_files=False)
    if features is not None:
        read_manifest(features, "features", check_files=False)
    for table in tables:
        if table is not None:
            Table(table)
    if out is None and not overwrite:
        raise InputError(f"Say where the changed model goes: --out FOLDER, or --overwrite to change {model} itself.")
    if out is not None:
        check_free(out, "model", overwrite=overwrite)


def _load(model: Path) -> "TrainedModel":
    from bncl_pyg.training import TrainedModel

    return TrainedModel.load(model)


def _run(
    trained: "TrainedModel",
    change: "LabelChange",
    model: Path,
    out: Path | None,
    overwrite: bool,
    features: Path | None = None,
    texts: Path | None = None,
    html: Literal["auto", "strip", "keep"] = "auto",
    graph: Path | None = None,
    *,
    columns: "Columns | None" = None,
    annotated: Path | None = None,
    prevalence: dict[str, Any] | None = None,
) -> None:
    from bncl_pyg.corpus import Corpus, TextCleaner, stream_texts
    from bncl_pyg.graph import SignedLabelGraph
    from bncl_pyg.relabel import Work, change_labels

    begun = time.monotonic()
    cleaner = TextCleaner(html)

    def read() -> Iterator[tuple[str, str]]:
        assert texts is not None
        return ((name, cleaner.clean(text)) for name, text in stream_texts(texts, columns))

    more = None
    if annotated is not None:
        corpus = Corpus.read(annotated, change.labels, columns)
        assert corpus.annotations is not None
        more = {
            name: [change.labels.names[place] for place in corpus.annotations[[row]].indices]
            for row, name in enumerate(corpus.ids)
        }
    own_graph = None if graph is None else SignedLabelGraph.load(graph)
    with _Bars() as bars:
        work = Work(
            features,
            None if texts is None else read,
            prevalence,
            more,
            own_graph,
            start=bars.start,
            scoring=bars.scored,
            progress=bars.trained,
        )
        changed = change_labels(trained, change, work)
    changed.trained.save(out or model, overwrite=overwrite)
    _tell(changed, change, trained, out or model, features, time.monotonic() - begun)


def _tell(
    changed: "Changed", change: "LabelChange", before: "TrainedModel", out: Path, features: Path | None, seconds: float
) -> None:
    """Say what was done, what was not, and what is different."""
    made = changed.trained
    if not changed.is_retrained:
        echo(f"{out}: {len(made.labels)} labels; nothing was scored or trained.")
        return
    texts = f"{made.n_texts:,} texts" + (f", {len(made.annotated):,} of them annotated" if made.annotated else "")
    echo(f"{out}: {len(made.labels)} labels, trained again on {texts}, in {seconds:.1f} s.")
    kept = len(made.labels) - len(changed.scored)
    if changed.scored:
        names = ", ".join(changed.scored)
        echo(f"Scored now and kept in {features}: {names}; the scores of the other {kept} labels were there.")
    else:
        echo("Nothing was scored.")
    had, has = changed.edges
    echo(f"Label graph: {had} edges before, {has} now.")
    priors, shown = made.model.priors, [name for name, origin in _pairs(change) if len(origin) != 1]
    if shown:
        shares = ", ".join(f"{name} {priors.shares[made.labels.place(name)]:.2g}" for name in shown)
        echo(f"Taken to be as common as: {shares}; {priors.cardinality:.3g} labels a text.")
    if changed.left_out:
        echo(
            f"{len(changed.left_out)} annotated texts may have a new label, but nobody said so: they count no longer "
            f"(say it with --annotated)."
        )
    if made.setting != before.setting:
        echo(f"The setting was {before.setting} and is {made.setting} now.")


def _pairs(change: "LabelChange") -> list[tuple[str, tuple[str, ...]]]:
    return list(zip(change.labels.names, change.origins, strict=True))


def _new_labels(given: list[str]) -> Any:
    """Return new labels from NAME, NAME=DESCRIPTION, or a file."""
    from bncl_pyg.corpus import LabelSet
    from bncl_pyg.errors import InputError

    if len(given) == 1 and Path(given[0]).is_file():
        return LabelSet.read(Path(given[0]))
    labels: dict[str, str | None] = {}
    for word in given:
        name, _, description = word.partition("=")
        if name.strip() in labels:
            raise InputError(f"Label '{name.strip()}' is given twice.")
        labels[name.strip()] = description.strip() or None
    return LabelSet.of(labels)


def _prevalences(given: list[str], added: tuple[str, ...]) -> dict[str, Any]:
    """Return {name: prevalence} from [NAME=]VALUE."""
    from bncl_pyg.errors import InputError

    values: dict[str, Any] = {}
    for word in given:
        name, sign, value = word.rpartition("=")
        if not sign:
            if len(added) != 1:
                raise InputError(f"--prevalence {word} must name its label where more than one is new: NAME={word}.")
            name = added[0]
        values[name] = _value(value.strip())
    return values


def _value(text: str) -> Any:
    """Return a share, an interval or a word."""
    try:
        if ".." in text:
            low, high = text.split("..")
            return float(low), float(high)
        return float(text)
    except ValueError:
        return text
