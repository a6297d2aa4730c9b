"""`bncl eval`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import IdColumn, Json, LabelsColumn, Overwrite, SkipEmpty, TextColumns, TrainedModel

if TYPE_CHECKING:
    from torch import Tensor

    from bncl_pyg.corpus import Corpus
    from bncl_pyg.estimator import BNCLClassifier
    from bncl_pyg.evaluation import BaselineInputs
    from bncl_pyg.features import Features

SHOWN = ("ebF1", "miF1", "maF1")


def evaluate(
    model: TrainedModel,
    features: Annotated[
        Path,
        typer.Argument(metavar="FEATURES|TEXTS", help="The folder of the scored test texts, or a table of them."),
    ],
    truth: Annotated[Path, typer.Option(help="A table of the test texts with their labels, found by id.")],
    baselines: Annotated[
        bool,
        typer.Option(
            "--baselines",
            help="Show what one would use instead: thresholds on the scores and, with annotated texts, ML-kNN, "
            "ML-ARAM, TF-IDF + LinearSVC and logistic regression on the encoder's vectors.",
        ),
    ] = False,
    training: Annotated[
        Path | None,
        typer.Option(metavar="FEATURES", help="For baselines: the folder of the scored training texts."),
    ] = None,
    annotated: Annotated[
        Path | None,
        typer.Option(
            metavar="TEXTS",
            help="For baselines: annotated texts. Of those that the model was trained on, they see the same; beside an "
            "annotation-free model, all.",
        ),
    ] = None,
    text: TextColumns = None,
    identifier: IdColumn = None,
    labels_column: LabelsColumn = None,
    skip_empty: SkipEmpty = False,
    json: Json = None,
    overwrite: Overwrite = False,
    update_card: Annotated[
        bool,
        typer.Option("--update-card", help="Put the figures into the model's card, MODEL/README.md, beside baselines."),
    ] = False,
    device: Annotated[
        str | None, typer.Option(help="Where the model runs, such as cuda; the CPU, if not given.")
    ] = None,
) -> None:
    """Show how good a model is, beside the zero-shot scores that it started from and, if asked, other methods."""
    from bncl_pyg.corpus import Columns, Corpus, LabelSet
    from bncl_pyg.errors import InputError
    from bncl_pyg.persistence import CARD, local_folder, read_manifest, with_evaluation, write_bytes

    from .outputs import check_file, write_figures
    from .show import metrics_table, say

    # All that can be wrong with files is told before torch is imported, which takes seconds.
    if baselines and training is None:
        raise InputError(
            "The baselines need the scored training texts: add --training FEATURES, a folder that 'bncl featurize' "
            "wrote."
        )
    for option, value in (("--training", training), ("--annotated", annotated)):
        if value is not None and not baselines:
            raise InputError(f"Only the baselines look at {option}: add --baselines, or leave it out.")
    check_file(json, model, features, truth, training, annotated, overwrite=overwrite)
    if update_card and not Path(model).is_dir():
        raise InputError(f"Only the card of a folder can be updated, but {model} is none: leave --update-card out.")
    folder = local_folder(model, "a model")
    read_manifest(folder, "model", check_files=False)
    if not features.is_file():
        read_manifest(features, "features", check_files=False)
    labels, columns = LabelSet.read(folder / "labels.jsonl"), Columns.of(text, identifier, labels_column)
    corpus = Corpus.read(truth, labels, columns, skip_empty=skip_empty)
    texts = Corpus.read(features, columns=columns, skip_empty=skip_empty) if features.is_file() else None
    known = None if annotated is None else Corpus.read(annotated, labels, columns)

    from bncl_pyg.estimator import BNCLClassifier
    from bncl_pyg.evaluation import evaluate_classifier
    from bncl_pyg.features import read_features

    classifier = BNCLClassifier.from_pretrained(model, device=device)
    loaded = _columns_of(classifier, read_features(features)) if texts is None else _scored(classifier, texts)
    inputs = None if training is None else baseline_inputs(classifier, training, known)
    evaluation = evaluate_classifier(classifier, loaded, corpus, inputs)
    write_figures(json, evaluation.as_dict())
    if update_card:
        card = classifier.card_ or classifier.generate_model_card().content
        write_bytes(Path(model) / CARD, with_evaluation(card, evaluation.as_dict()).encode())
    methods = {**evaluation.baselines, "model": evaluation.metrics}
    metrics_table(f"{evaluation.texts} texts, {len(evaluation.labels)} labels", methods)
    if evaluation.annotated:
        seen = "the model learned too" if classifier.annotated_ else "the model was not told"
        say(f"The baselines that learn were given {evaluation.annotated} annotated texts, whose labels {seen}.")
    if inputs is not None:
        best = {metric: max(methods, key=lambda name: getattr(methods[name], metric)) for metric in SHOWN}
        say("Best: " + ", ".join(f"{metric} {name}" for metric, name in best.items()) + ".")
    ranking = ", ".join(f"{name} {value:.4g}" for name, value in evaluation.ranking.items())
    count = f"{evaluation.cardinality:.3g} labels a text predicted, {evaluation.true_cardinality:.3g} true"
    say(f"Model: {ranking}; {count}")
    ours, start = (evaluation.calibration[name] for name in ("model", "zero-shot"))
    say(f"Calibration error of the probabilities: {ours:.4f}; of the zero-shot start's: {start:.4f}")
    if json is not None and str(json) != "-":
        say(f"{json}: all of this, and a table by label")
    if update_card:
        say(f"{Path(model) / CARD}: the model card shows these figures now")


def _scored(classifier: "BNCLClassifier", texts: "Corpus") -> "Features":
    from bncl_pyg.corpus import Corpus, TextCleaner

    return classifier.featurize(Corpus(texts.ids, tuple(map(TextCleaner().clean, texts.texts))))


def baseline_inputs(classifier: "BNCLClassifier", training: Path, known: "Corpus | None") -> "BaselineInputs":
    """Return what the baselines need: scored training texts, annotated ones, and an encoder."""
    from bncl_pyg.evaluation import BaselineInputs
    from bncl_pyg.features import read_features
    from bncl_pyg.scorers import SentenceEncoder

    from .show import texts_bar

    def encode(texts: Sequence[str]) -> "Tensor":
        with texts_bar("encoding") as (start, progress, _):
            start(len(texts), 0)
            return SentenceEncoder.embedded().encode(texts, progress)

    return BaselineInputs(_columns_of(classifier, read_features(training)), known, encode)


def _columns_of(classifier: "BNCLClassifier", features: "Features") -> "Features":
    """Return the columns of the model's labels, where a folder has more, or has them under other names."""
    from bncl_pyg.features import missing_labels, select_labels

    labels = classifier.labels_
    if features.labels == labels or features.candidates is not None or missing_labels(labels, features.labels):
        return features
    return select_labels(features, labels)
