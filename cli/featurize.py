"""`bncl featurize`."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def featurize(
    texts: Annotated[Path, typer.Argument(metavar="TEXTS", help="Texts: rows with id and text (JSONL, CSV, Parquet).")],
    labels: Annotated[Path, typer.Option(help="Labels: rows with label and description, or a .txt of names.")],
    out: Annotated[Path, typer.Option(help="The folder of features to write or to go on with.")],
    scorer: Annotated[
        str,
        typer.Option(
            metavar="embedded|FOLDER|HUB-NAME",
            help="The language model: 'embedded' is all-MiniLM-L6-v2 with a small NLI head; or any Hugging Face NLI "
            "classifier or sentence encoder, as a folder or by name, such as facebook/bart-large-mnli.",
        ),
    ] = "embedded",
    template: Annotated[str, typer.Option(help="How a label becomes a hypothesis.")] = "This is about {}.",
    candidates: Annotated[
        int | None,
        typer.Option(min=1, metavar="M", help="Keep only the M best labels of each text; all, if not given."),
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=8, help="How much of a text is read.")] = 128,
    label_map: Annotated[
        str | None,
        typer.Option(
            metavar="MAP",
            help="Which outputs of a classifier mean what, if its own names do not say: "
            "entailment=2,neutral=1,contradiction=0.",
        ),
    ] = None,
    backend: Annotated[
        Literal["torch", "onnx", "onnx-int8"],
        typer.Option(help="What runs the model; onnx and onnx-int8 are faster and need the extra onnx."),
    ] = "torch",
    device: Annotated[
        str | None,
        typer.Option(help="Where torch runs the model: cpu, cuda, cuda:1, mps; an accelerator if there is one."),
    ] = None,
    dtype: Annotated[
        Literal["float16", "float32"], typer.Option(help="How scores are stored; float16 halves the folder.")
    ] = "float32",
    fresh: Annotated[
        bool, typer.Option("--fresh/--resume", help="Start anew, or score only what is missing (the default).")
    ] = False,
) -> None:
    """Score every text against every label.

    A run that was stopped, even by force, goes on when the same command is given again; later texts and labels are
    added.
    """
    from bncl_pyg.corpus import LabelSet, stream_texts
    from bncl_pyg.features import featurize as run
    from bncl_pyg.scorers import load_scorer, ranker_for

    from .show import texts_bar

    label_set = LabelSet.read(labels)
    chosen = load_scorer(scorer, max_tokens=max_tokens, label_map=label_map, backend=backend, device=device)
    ranker = None if candidates is None else ranker_for(chosen, device)
    with texts_bar() as (start, progress, aside):
        done = run(
            lambda: stream_texts(texts),
            label_set,
            chosen,
            out,
            ranker=ranker,
            candidates=candidates,
            template=template,
            dtype=dtype,
            fresh=fresh,
            start=start,
            progress=progress,
            labels_progress=lambda done, total: aside("encoding labels", done, total),
        )
    typer.echo(
        f"{out}: {done.texts} texts × {done.labels} labels; {done.scored_blocks} of {done.blocks} blocks scored now."
    )
    if done.recall is not None:
        yes = "" if done.recall.entailed is None else f"{done.recall.entailed:.1%} of the labels that it entails and "
        typer.echo(
            f"On {done.recall.texts} texts scored in full, the {candidates} candidates hold {yes}"
            f"{done.recall.best:.1%} of the 5 best."
        )
