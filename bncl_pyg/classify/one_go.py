"""`classify_table`: a table of texts and label names in, labels out, in one go; the second time only what changed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from bncl_pyg.classify.added import AddedColumns, Answer
from bncl_pyg.classify.summary import Summary
from bncl_pyg.classify.work import Progress, WorkFolder
from bncl_pyg.corpus import (
    Annotation,
    LabelSet,
    TextCleaner,
    TextTable,
    annotation_matrix,
    check_new_table,
    known_matrix,
    write_table,
)
from bncl_pyg.errors import InputError
from bncl_pyg.features import Choice, Features, Predictions
from bncl_pyg.priors import Priors
from bncl_pyg.scorers import STRONG, load_scorer
from bncl_pyg.training import Annotated, TrainedModel, TrainingStep, find_recipe


@dataclass(frozen=True)
class Classified:
    """A table of texts that have labels.

    Args:
        texts: the table.
        labels: the labels.
        ids: of the rows that have a text.
        contents: their texts.
        predictions: what the model says of them.
        trained: the model.
        work: the folder that keeps features, graph and model.
        scored: how many texts were scored now.
        built_graph: whether the graph was built now.
        trained_now: whether the model was trained now.
        annotated: how many texts are annotated.
        foreign: how many texts do not look like English.
    """

    texts: TextTable
    labels: LabelSet
    ids: Sequence[str]
    contents: Sequence[str]
    predictions: Predictions
    trained: TrainedModel
    work: Path
    scored: int
    built_graph: bool
    trained_now: bool
    annotated: int
    foreign: int

    @property
    def skipped(self) -> int:
        """How many rows have no text."""
        return self.texts.skipped

    @property
    def model(self) -> Path:
        """Where the model lies."""
        return self.work / "model"

    def summary(self) -> Summary:
        """Return what came of it, in a few figures."""
        return Summary.of(self.predictions, self.labels, self.ids, self.contents)

    def write(self, out: Path, *, wide: bool = False, overwrite: bool = False) -> None:
        """Write the table with the columns that it had, in its order, and the labels of each text.

        Args:
            out: a file whose ending tells the format, or "-" for standard output.
            wide: write a column a label, with its probability.
            overwrite: replace the file if it is there.
        """
        table = self.texts.table
        known = check_new_table(out, table, overwrite=overwrite)
        columns = table.all_columns if known.has_header else table.columns
        added = AddedColumns(columns, self.labels, known, wide=wide)

        def rows() -> Iterator[dict[str, Any]]:
            answers = Answer.each(self.predictions, wide=wide)
            for row, text in self.texts:
                yield {**row.fields, **added.fields(Answer() if text is None else next(answers))}

        write_table(out, (*columns, *added.names), rows(), like=table, list_types=added.list_types, overwrite=overwrite)


def classify_table(
    texts: TextTable,
    labels: LabelSet,
    work: Path,
    *,
    priors: Priors | None = None,
    annotated: TextTable | None = None,
    labels_column: str | None = None,
    scorer: str = STRONG,
    choice: Choice | None = None,
    cleaner: TextCleaner | None = None,
    seed: int = 0,
    device: str | None = None,
    progress: Progress | None = None,
) -> Classified:
    """Label the texts of a table: score them, build the graph, train, predict.

    Args:
        texts: the table.
        labels: the labels.
        work: a folder for features, graph and model; what is there and still right is not made again.
        priors: what is known of how common labels are; all of it is estimated, if not given.
        annotated: texts with their labels, all or some of them (see `Annotation`). Where both tables have ids, the same
            id is the same text; else the same words are. Texts that are not in the table are learned from, too.
        labels_column: the column of the table itself that has the labels of annotated rows; a row without a value is
            not annotated.
        scorer: what reads texts.
        choice: how labels are chosen, if not as the model decides.
        cleaner: what is done to every text first; HTML is stripped from texts that are mostly markup, if not given.
        seed: of the training.
        device: where the scorer runs.
        progress: told what is being done, how much of it is, and how much there is.
    """
    tell = progress or (lambda *_: None)
    cleaner = cleaner or TextCleaner()
    ids, contents, given = _read(texts, labels, labels_column, cleaner)
    extra_ids, extra_texts = _read_annotated(annotated, labels, ids, contents, given, cleaner)
    with WorkFolder.opened(work) as folder:
        tell("loading the language model", 0, 1)
        reader = load_scorer(scorer, device=device)
        tell("loading the language model", 1, 1)
        stored, rows, scored = folder.features([*contents, *extra_texts], labels, reader, scorer, tell)
        features = stored.take(rows, [*ids, *extra_ids], labels)
        inputs = _model_inputs(features, stored, rows, labels, priors, given, seed)
        built = trained_now = False
        if folder.is_current("model", inputs):
            trained = TrainedModel.load(folder.model)
        else:
            graph, built = folder.graph(labels, tell)
            trained = _train(features, graph, priors, given, seed, tell, folder.model)
            folder.made("model", inputs)
            trained_now = True
        predicted = trained.model.predict(features.rows(slice(0, len(ids))))
    return Classified(
        texts=texts,
        labels=labels,
        ids=ids,
        contents=contents,
        predictions=predicted.chosen(choice or Choice()),
        trained=trained,
        work=work,
        scored=scored,
        built_graph=built,
        trained_now=trained_now,
        annotated=len(given),
        foreign=cleaner.foreign,
    )


def _read(
    texts: TextTable, labels: LabelSet, labels_column: str | None, cleaner: TextCleaner
) -> tuple[list[str], list[str], dict[int, Annotation]]:
    """Return ids, texts, and the labels of annotated rows by their place."""
    ids: list[str] = []
    contents: list[str] = []
    given: dict[int, Annotation] = {}
    columns = None if labels_column is None else replace(texts.columns, labels=labels_column)
    for identifier, text, row in texts.unique():
        if columns is not None and not row.is_missing(columns.labels):
            own = Annotation.of(row, labels, columns)
            if own.says_something:
                given[len(ids)] = own
        ids.append(identifier)
        contents.append(cleaner(text))
    if labels_column is not None and not given:
        raise InputError(f"{texts.table.name}: no row has anything in column '{labels_column}'.")
    return ids, contents, given


def _read_annotated(
    annotated: TextTable | None,
    labels: LabelSet,
    ids: Sequence[str],
    contents: Sequence[str],
    given: dict[int, Annotation],
    cleaner: TextCleaner,
) -> tuple[list[str], list[str]]:
    """Add annotated texts of another table to those that are known; return the ids and texts that are only there."""
    extra_ids: list[str] = []
    extra_texts: list[str] = []
    if annotated is None:
        return extra_ids, extra_texts
    by_id = {identifier: place for place, identifier in enumerate(ids)} if annotated.has_ids else {}
    by_text: dict[str, int] = {}
    for place, text in enumerate(contents):
        by_text.setdefault(text, place)
    taken = set(ids)
    for identifier, text, row in annotated.unique():
        own = Annotation.of(row, labels, annotated.columns)
        if not own.says_something:
            continue
        text = cleaner.clean(text)
        place = by_id.get(identifier, by_text.get(text, -1))
        if place < 0:
            place = len(ids) + len(extra_ids)
            extra_ids.append(_unused(f"annotated {identifier}", taken))
            extra_texts.append(text)
        elif contents[place] != text:
            row.fail(f"text '{identifier}' is another one than in the table.")
        if given.setdefault(place, own) != own:
            row.fail(f"text '{identifier}' has other labels in the table.")
    return extra_ids, extra_texts


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "'"
    taken.add(name)
    return name


def _model_inputs(
    features: Features,
    stored: Features,
    rows: Sequence[int],
    labels: LabelSet,
    priors: Priors | None,
    given: dict[int, Annotation],
    seed: int,
) -> dict[str, Any]:
    """Return everything that decides what the model is."""
    return {
        "ids": features.ids,
        "texts": [stored.ids[row] for row in rows],
        "labels": labels.digest(),
        "scorer": features.scorer,
        "priors": None if priors is None else [priors.cardinality, priors.prevalence],
        "annotated": [[place, given[place].labels, given[place].not_labels] for place in sorted(given)],
        "recipe": find_recipe("default").config(),
        "seed": seed,
        "versions": [version("bncl-pyg"), version("torch")],
    }


def _train(
    features: Features,
    graph: Any,
    priors: Priors | None,
    given: dict[int, Annotation],
    seed: int,
    tell: Progress,
    out: Path,
) -> TrainedModel:
    # scikit-learn takes its time to import, and who only predicts does without.
    from bncl_pyg.estimator import BNCLClassifier

    def step(done: TrainingStep) -> None:
        tell("training", done.number, done.of)

    places = np.array(sorted(given), dtype=np.int64)
    read = [given[place] for place in places.tolist()]
    matrix = annotation_matrix([one.labels for one in read], len(features.labels))
    annotated = Annotated(places, matrix, known_matrix(read, len(features.labels))) if given else None
    tell("training", 0, 1)
    classifier = BNCLClassifier(prevalence=priors, graph=graph, seed=seed)
    classifier.fit(features, annotated, progress=step)
    classifier.save_pretrained(out, overwrite=True)
    return TrainedModel.load(out)
