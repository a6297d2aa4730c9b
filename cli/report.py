"""`bncl report`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Device, IdColumn, LabelsColumn, Overwrite, ScorerFolder, SkipEmpty, TextColumns, TrainedModel
from .terminal import echo

if TYPE_CHECKING:
    from bncl_pyg.corpus import Corpus
    from bncl_pyg.features import Features

TEXTS_AT_ONCE = 256
"""How many texts are scored before the bar moves."""


def report(
    model: TrainedModel,
    texts: Annotated[
        Path,
        typer.Argument(metavar="FEATURES|TEXTS", help="The folder of scored texts, or a table of texts."),
    ],
    out: Annotated[Path, typer.Option(metavar="OUT.html", help="Where to write the page.")],
    truth: Annotated[
        Path | None, typer.Option(metavar="TEXTS", help="The same texts with their labels: a table.")
    ] = None,
    content: Annotated[
        Path | None,
        typer.Option(
            "--texts",
            metavar="TEXTS",
            help="With features and without a truth: the texts themselves, for words and examples.",
        ),
    ] = None,
    training: Annotated[
        Path | None,
        typer.Option(metavar="FEATURES", help="For all baselines: the folder of the scored training texts."),
    ] = None,
    annotated: Annotated[
        Path | None,
        typer.Option(metavar="TEXTS", help="For baselines that learn: annotated texts, as for 'bncl eval'."),
    ] = None,
    text: TextColumns = None,
    identifier: IdColumn = None,
    labels_column: LabelsColumn = None,
    skip_empty: SkipEmpty = False,
    overwrite: Overwrite = False,
    scorer: ScorerFolder = None,
    device: Device = None,
) -> None:
    """Write one page to look at: figures, labels, the label graph, unsure texts, settings.

    The page needs nothing else and loads nothing from anywhere. With a truth it shows how good the model is, beside
    what one would use instead.
    """
    from bncl_pyg.corpus import Columns, Corpus, LabelSet
    from bncl_pyg.errors import InputError
    from bncl_pyg.persistence import local_folder, read_manifest, write_bytes

    from .evaluate import baseline_inputs
    from .outputs import check_file

    # All that can be wrong with files is told before torch is imported, which takes seconds.
    for option, value in (("--training", training), ("--annotated", annotated)):
        if value is not None and (truth is None or training is None):
            needed = "--truth" if truth is None else "--training"
            raise InputError(f"{option} is for the baselines, which need {needed} too.")
    check_file(out, model, texts, truth, content, training, annotated, overwrite=overwrite)
    folder = local_folder(model, "a model")
    read_manifest(folder, "model", check_files=False)
    if not texts.is_file():
        read_manifest(texts, "features", check_files=False)
    labels, columns = LabelSet.read(folder / "labels.jsonl"), Columns.of(text, identifier, labels_column)
    known = None if truth is None else Corpus.read(truth, labels, columns, skip_empty=skip_empty)
    learned = None if annotated is None else Corpus.read(annotated, labels, columns)
    source = texts if texts.is_file() else content
    corpus = None if source is None else _cleaned(Corpus.read(source, columns=columns, skip_empty=skip_empty))

    from bncl_pyg.estimator import BNCLClassifier
    from bncl_pyg.features import read_features
    from bncl_pyg.report import collect_report, render_report

    classifier = BNCLClassifier.from_pretrained(model, device=device)
    if texts.is_file():
        assert corpus is not None
        features = _scored(model, corpus, scorer, device)
    else:
        features = read_features(texts)
    inputs = None if training is None else baseline_inputs(classifier, training, learned)
    data = collect_report(
        classifier, features, texts=corpus, truth=known, inputs=inputs, title=f"Report on {Path(model).name}"
    )
    page = render_report(data).encode()
    write_bytes(out, page)
    echo(f"{out}: {data.n_texts} texts, {data.n_labels} labels, {len(page) / 1e6:.1f} MB; open it in a browser.")


def _cleaned(corpus: "Corpus") -> "Corpus":
    from bncl_pyg.corpus import Corpus, TextCleaner

    return Corpus(corpus.ids, tuple(map(TextCleaner().clean, corpus.texts)))


def _scored(model: str, corpus: "Corpus", scorer: str | None, device: str | None) -> "Features":
    """Return texts' features as the model reads them."""
    import numpy as np

    from bncl_pyg.features import Features
    from bncl_pyg.predictor import Predictor

    from .show import texts_bar

    predictor, parts = Predictor.load(model, scorer=scorer, device=device), []
    with texts_bar() as (start, progress, _):
        start(len(corpus), 0)
        for first in range(0, len(corpus), TEXTS_AT_ONCE):
            rows = np.arange(first, min(first + TEXTS_AT_ONCE, len(corpus)))
            parts.append(predictor.featurize(corpus.rows(rows)))
            progress(len(rows))
    return Features.joined(parts)
