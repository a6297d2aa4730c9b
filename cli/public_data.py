"""`bncl data reuters` and `bncl data stackexchange`: public sets out of the files that their publishers give."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .terminal import echo

if TYPE_CHECKING:
    from bncl_pyg.corpus import PublicDataSet

Out = Annotated[Path, typer.Option(help="The folder to write: train.jsonl, test.jsonl, labels.jsonl and a manifest.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the folder if it is there.")]


def reuters(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help="The unpacked distribution: reut2-000.sgm to reut2-021.sgm and the lists of topics beside them.",
        ),
    ],
    out: Out,
    overwrite: Overwrite = False,
) -> None:
    """Prepare Reuters-21578 with the paper's split: 7694 and 3010 texts, 135 labels.

    Its text is for research use; do not pass the folder on.
    """
    from bncl_pyg.corpus import read_reuters
    from bncl_pyg.persistence import check_free

    check_free(out, "dataset", overwrite=overwrite)
    dataset = read_reuters(folder)
    _write(out, dataset, overwrite=overwrite)
    expected = dataset.expected_counts
    if expected is not None and dataset.counts() != expected:
        echo(
            f"Warning: the unchanged distribution gives {expected['train']} texts to train and {expected['test']} to "
            f"test.",
            err=True,
        )


def stackexchange(
    posts: Annotated[
        Path, typer.Argument(metavar="POSTS.xml", help="The Posts.xml of an unpacked Stack Exchange dump.")
    ],
    embeddings: Annotated[
        str,
        typer.Option(
            metavar="VECTORS",
            help="Word vectors that every word of a tag must be in: a file (GloVe or word2vec text, .bin, .kv, .npy "
            "with .vocab.txt) or a gensim-data name.",
        ),
    ],
    out: Out,
    questions: Annotated[int, typer.Option(min=1, help="How many questions to read from the start.")] = 5000,
    seen: Annotated[int, typer.Option(min=1, help="How many of them a tag must have to become a label.")] = 3,
    test_share: Annotated[float, typer.Option(help="The share of the texts to test on; above 0, below 1.")] = 0.2,
    seed: Annotated[int, typer.Option(help="Decides which texts are the test split.")] = 1,
    overwrite: Overwrite = False,
) -> None:
    """Prepare a Stack Exchange site as the paper prepared Philosophy: questions are texts, tags are labels.

    The dumps are CC BY-SA: attribute Stack Exchange wherever the texts are shown.
    """
    from bncl_pyg.corpus import read_stackexchange
    from bncl_pyg.errors import InputError
    from bncl_pyg.graph import EMBEDDED, load_word_vectors
    from bncl_pyg.persistence import check_free

    check_free(out, "dataset", overwrite=overwrite)
    if embeddings == EMBEDDED:
        raise InputError("--embeddings must name word vectors: the embedded encoder has a vector for any text.")
    words = load_word_vectors(embeddings)
    dataset = read_stackexchange(
        posts,
        lambda word: word in words or word.lower() in words,
        questions=questions,
        seen=seen,
        test_share=test_share,
        seed=seed,
    )
    _write(out, dataset, {"vectors": Path(embeddings).name}, overwrite=overwrite)


def _write(out: Path, dataset: "PublicDataSet", more: Mapping[str, Any] | None = None, *, overwrite: bool) -> None:
    from bncl_pyg.persistence import new_folder, write_jsonl, write_manifest

    counts = {**dataset.counts(), "labels": len(dataset.labels)}
    with new_folder(out, "dataset", overwrite=overwrite) as folder:
        for name, rows in dataset.splits.items():
            write_jsonl(folder / f"{name}.jsonl", iter(rows))
        dataset.labels.write(folder / "labels.jsonl")
        write_manifest(folder, "dataset", {**dataset.provenance, **(more or {}), "counts": counts})
    echo(f"{out}: {counts['train']} texts to train, {counts['test']} to test, {counts['labels']} labels.")
