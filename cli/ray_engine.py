"""What `--engine ray` does in the commands that have it."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from .terminal import echo

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bncl_pyg.classify import Predicted
    from bncl_pyg.corpus import LabelSet
    from bncl_pyg.distributed import InputOptions, RayOptions
    from bncl_pyg.features import Choice
    from bncl_pyg.predictor import Predictor
    from bncl_pyg.scorers import Scorer


@dataclass(frozen=True)
class FromRay:
    """What the commands have in common: where texts come from, and where the work is done."""

    source: str
    text: str | None
    identifier: str | None
    skip_empty: bool
    html: Literal["auto", "strip", "keep"]
    address: str | None
    workers: int | None

    def reading(self) -> "InputOptions":
        """Return how tables are read."""
        from bncl_pyg.distributed import InputOptions

        return InputOptions(self.text, self.identifier, self.skip_empty, self.html)

    def options(self) -> "RayOptions":
        """Return where the work is done."""
        from bncl_pyg.distributed import RayOptions

        return RayOptions(self.address, self.workers)


def load_scorers(name: str, options: dict[str, Any], candidates: int | None) -> "tuple[Scorer, Scorer | None]":
    """Return the scorer and, where only candidates are kept, who chooses them."""
    from bncl_pyg.scorers import load_scorer, ranker_for

    scorer = load_scorer(name, **options)
    return scorer, None if candidates is None else ranker_for(scorer, options["device"])


def ray_featurize(
    given: FromRay,
    labels: "LabelSet",
    out: Path,
    scorer: str,
    how: dict[str, Any],
    *,
    candidates: int | None,
    label_shards: int | None,
    template: "str | Sequence[str]",
    dtype: Literal["float16", "float32"],
    fresh: bool,
    json: Path | None,
) -> None:
    """Featurize on a cluster, and say what was done."""
    from bncl_pyg.distributed import featurize_on_ray

    from .outputs import write_figures
    from .show import say, texts_bar

    with texts_bar() as (start, progress, aside):
        done, texts = featurize_on_ray(
            given.source,
            labels,
            partial(load_scorers, scorer, how, candidates),
            out,
            given.options(),
            reading=given.reading(),
            candidates=candidates,
            label_shards=label_shards,
            template=template,
            dtype=dtype,
            fresh=fresh,
            start=start,
            progress=progress,
            labels_progress=lambda done, total: aside("encoding labels", done, total),
        )
    figures = {"texts": done.texts, "labels": done.labels, "blocks": done.blocks, "scored_now": done.scored_blocks}
    counts = {"skipped": texts.total("skipped"), "html": texts.total("stripped"), "not_english": texts.total("foreign")}
    write_figures(json, {**figures, "cut": done.cut, **counts})
    say(f"{out}: {done.texts} texts × {done.labels} labels; {done.scored_blocks} of {done.blocks} blocks scored now.")
    if counts["skipped"]:
        say(f"{counts['skipped']} rows without a text were skipped.")
    if done.cut:
        say(f"{done.cut} of {done.read} texts were cut at their end, which more --windows would read.")


def check_ray_output(source: Path, out: Path) -> None:
    """Raise if a cluster cannot predict this, or write there."""
    from bncl_pyg.corpus import check_new_table
    from bncl_pyg.errors import InputError

    if source.is_dir():
        raise InputError(f"{source} is a folder: --engine ray predicts one table; features are predicted without it.")
    if str(out) == "-":
        raise InputError("--engine ray writes to a file, not to standard output.")
    check_new_table(out, overwrite=True)


def ray_predict(
    given: FromRay,
    load: "Callable[[], Predictor]",
    out: Path,
    choice: "Choice",
    *,
    wide: bool,
    resume: bool,
    overwrite: bool,
) -> "Predicted":
    """Predict a table on a cluster."""
    from bncl_pyg.distributed import predict_on_ray

    from .show import texts_bar

    try:
        with texts_bar("predicting") as (start, progress, _):
            return predict_on_ray(
                given.source,
                load,
                out,
                given.options(),
                reading=given.reading(),
                choice=choice,
                wide=wide,
                resume=resume,
                overwrite=overwrite,
                start=start,
                progress=progress,
            )
    except KeyboardInterrupt:
        echo("Stopped; the same command with --resume goes on.", err=True)
        raise typer.Exit(130) from None
