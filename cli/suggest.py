"""`bncl suggest`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from .options import (
    TABLE,
    Device,
    Html,
    IdColumn,
    LabelsColumn,
    Overwrite,
    ScorerFolder,
    SkipEmpty,
    TextColumns,
    TrainedModel,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bncl_pyg.corpus import Corpus, TextCleaner
    from bncl_pyg.features import Features
    from bncl_pyg.predictor import Predictor

STRATEGY = Literal["representative", "diverse", "expected-change", "least-sure", "missing-examples", "random"]


def suggest(
    model: TrainedModel,
    features: Annotated[
        Path, typer.Argument(metavar="FEATURES|TEXTS", help=f"The folder of scored texts, or a table ({TABLE}).")
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="Where to write the table to be filled in; the ending says in which format, and - is standard output."
        ),
    ],
    n: Annotated[int, typer.Option("--n", metavar="N", min=1, help="How many texts.")] = 20,
    strategy: Annotated[
        STRATEGY,
        typer.Option(
            help="Texts that together look like all texts; hard ones that are unlike each other; those that may change "
            "F1 most; those the model is least sure of; those for labels with no example; by chance."
        ),
    ] = "representative",
    texts: Annotated[
        Path | None,
        typer.Option(metavar="TEXTS", help="The table of the texts that were scored, to write them beside their ids."),
    ] = None,
    text: TextColumns = None,
    identifier: IdColumn = None,
    skip_empty: SkipEmpty = False,
    annotated: Annotated[
        Path | None,
        typer.Option(
            metavar="TEXTS", help="A table of texts that were annotated since then: they are not asked again."
        ),
    ] = None,
    labels_column: LabelsColumn = None,
    top_k: Annotated[int, typer.Option(min=0, help="How many of the most probable labels are named.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same texts.")] = 0,
    overwrite: Overwrite = False,
    scorer: ScorerFolder = None,
    html: Html = "auto",
    device: Device = None,
) -> None:
    """Write the texts that teach a model most if somebody annotates them.

    The table has id, text, likely labels with their probabilities, and a column for labels with ? in it: put the names
    of all labels of a text there, with semicolons between, or leave it blank where a text has none of them. Rows that
    still have ? are passed over when the table is given back with 'bncl train --annotated' or 'bncl classify
    --annotated'.
    """
    from bncl_pyg.corpus import Columns, Corpus, LabelSet, TextCleaner, check_new_table
    from bncl_pyg.errors import InputError
    from bncl_pyg.persistence import local_folder, read_manifest

    from .outputs import check_output, shown
    from .show import say, to_stderr

    # All that can be wrong with files is told before torch is imported, which takes seconds.
    check_output(out, model, features, texts, annotated)
    check_new_table(out, overwrite=overwrite)
    folder = local_folder(model, "a model")
    read_manifest(folder, "model", check_files=False)
    labels = LabelSet.read(folder / "labels.jsonl")
    columns = Columns.of(text, identifier, labels_column)
    if features.is_dir():
        read_manifest(features, "features", check_files=False)
    elif texts is not None:
        raise InputError(f"{features} is a table of texts: --texts is for those of a folder of scored texts.")
    source = texts if features.is_dir() else features
    corpus = None if source is None else Corpus.read(source, columns=columns, skip_empty=skip_empty)
    given = None
    if annotated is not None:
        given = Corpus.read(annotated, labels, columns, partial=True, needs_text=False)
    if str(out) == "-":
        to_stderr()

    from bncl_pyg.active import rows_to_annotate
    from bncl_pyg.active import suggest as choose
    from bncl_pyg.corpus import write_table
    from bncl_pyg.predictor import Predictor

    predictor = Predictor.load(model, scorer=scorer, device=device)
    scored = _scored(predictor, features, corpus, TextCleaner(html))
    pool = predictor.pool(scored)
    if given is not None:
        pool = pool.with_annotated(given, scored.ids)
    rows = choose(pool, n, strategy, seed)
    contents = None if corpus is None else _contents(corpus, scored.ids, str(source))
    written = rows_to_annotate(pool, rows, scored.ids, labels.names, contents, top_k)
    header = ("id", *(() if contents is None else ("text",)), "likely", "probabilities", "labels")
    types = {"likely": str, "probabilities": float, "labels": str}
    write_table(out, header, written, list_types=types, overwrite=overwrite)
    say(f"{shown(out)}: {len(rows)} of {len(pool.open)} texts that nobody annotated, by the strategy {strategy}.")


def _scored(predictor: "Predictor", features: Path, corpus: "Corpus | None", cleaner: "TextCleaner") -> "Features":
    """Return the scored texts of a folder, or those of a table, scored now."""
    from bncl_pyg.corpus import Corpus
    from bncl_pyg.features import read_features

    if features.is_dir():
        return read_features(features)
    assert corpus is not None
    return predictor.featurize(Corpus(corpus.ids, tuple(cleaner.clean(text) for text in corpus.texts)))


def _contents(corpus: "Corpus", ids: "Sequence[str]", source: str) -> list[str]:
    from bncl_pyg.corpus import rows_of

    return [corpus.texts[row] for row in rows_of(ids, corpus.ids, source)]
