"""`bncl featurize`."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from .completion import complete_scorer
from .options import (
    TABLE,
    Address,
    Engine,
    IdColumn,
    Json,
    Overwrite,
    SkipEmpty,
    TextColumns,
    Workers,
    check_engine,
)
from .ray_engine import FromRay, ray_featurize
from .terminal import echo

if TYPE_CHECKING:
    from bncl_pyg.corpus import LabelSet
    from bncl_pyg.priors import Priors
    from bncl_pyg.scorers import Scorer

CHECKED_LABELS = 2000
"""Up to how many labels are looked at for names that say nothing."""
SAMPLE = 1000
"""How many texts are looked at to say what reading them costs."""


def featurize(
    texts: Annotated[
        str,
        typer.Argument(
            metavar="TEXTS",
            help=f"A table of texts ({TABLE}); with --engine ray, also a folder of tables, and s3://… and the like.",
        ),
    ],
    labels: Annotated[Path, typer.Option(help="Labels: rows with label and description, or a .txt of names.")],
    out: Annotated[Path, typer.Option(help="The folder of features to write or to go on with.")],
    text: TextColumns = None,
    identifier: IdColumn = None,
    skip_empty: SkipEmpty = False,
    scorer: Annotated[
        str,
        typer.Option(
            metavar="strong|light|fast|multilingual|FOLDER|HUB-NAME",
            autocompletion=complete_scorer,
            help="The language model: 'strong' joins three small encoders, 'light' is the smallest of them, 'fast' has "
            "static vectors (thousands of texts a second), 'multilingual' knows sixteen languages; or any Hugging Face "
            "NLI classifier, sentence encoder or model2vec folder, as a folder or by name; or several joined by '+'.",
        ),
    ] = "strong",
    template: Annotated[
        list[str] | None,
        typer.Option(
            help="How a label becomes a hypothesis, 'This is about {}.' if not given; several are averaged.",
            show_default=False,
        ),
    ] = None,
    candidates: Annotated[
        int | None,
        typer.Option(min=1, metavar="M", help="Keep only the M best labels of each text; all, if not given."),
    ] = None,
    rerank: Annotated[
        bool,
        typer.Option(
            "--rerank",
            help="Have a cross-encoder read each text beside its candidates, too: better for topics, not for emotions.",
        ),
    ] = False,
    reranker: Annotated[
        str, typer.Option(metavar="ms-marco|FOLDER|HUB-NAME", help="For --rerank: which cross-encoder.")
    ] = "ms-marco",
    budget: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="PAIRS",
            help="Ask the scorer, a cross-encoder, about so many pairs alone: what --cheap and --priors leave open.",
        ),
    ] = None,
    cheap: Annotated[
        str, typer.Option(metavar="light|strong|fast|…", help="For --budget: what reads all pairs before.")
    ] = "light",
    priors: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="For --budget: cardinality and prevalence, as 'bncl train' takes them."),
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=8, help="How many tokens of a text are read at a time.")] = 128,
    windows: Annotated[
        int, typer.Option(min=1, help="How many overlapping windows of that size are read of a long text at most.")
    ] = 1,
    html: Annotated[
        Literal["auto", "strip", "keep"],
        typer.Option(help="What happens to HTML: stripped where a text is mostly markup, always, or never."),
    ] = "auto",
    label_map: Annotated[
        str | None,
        typer.Option(
            metavar="MAP",
            help="Which outputs of a classifier mean what, if its own names do not say: "
            "entailment=2,neutral=1,contradiction=0.",
        ),
    ] = None,
    backend: Annotated[
        Literal["torch", "onnx", "onnx-int8"] | None,
        typer.Option(help="What runs the model; the fastest that it can be computed with, if not given."),
    ] = None,
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
    label_shards: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="For --engine ray with --candidates and very many labels: N further workers hold a part of the labels "
            "each, and search it; if not given, every worker compares with all labels.",
        ),
    ] = None,
    engine: Engine = "local",
    address: Address = None,
    workers: Workers = None,
    json: Json = None,
    overwrite: Overwrite = False,
) -> None:
    """Score every text against every label.

    A run that was stopped, even by force, goes on when the same command is given again; later texts, labels and parts
    of a scorer are added.
    """
    from bncl_pyg.corpus import Columns, LabelSet, TextCleaner, TextTable
    from bncl_pyg.errors import InputError

    from .outputs import check_file, write_figures
    from .show import say, texts_bar

    if rerank and candidates is None:
        raise InputError("--rerank reads each text beside its candidates: say how many with --candidates M.")
    if budget is not None and (candidates is not None or rerank):
        raise InputError("--budget chooses pairs among all labels: leave --candidates and --rerank out.")
    if label_shards is not None and (engine != "ray" or candidates is None):
        raise InputError("--label-shards is for --engine ray with --candidates M.")
    if budget is None and priors is not None:
        raise InputError("--priors is for --budget PAIRS; features need none.")
    check_engine(engine, address, workers, texts)
    check_file(json, texts, labels, overwrite=overwrite)
    label_set = LabelSet.read(labels)
    templates = template or ["This is about {}."]
    if engine == "ray":
        if rerank or budget is not None:
            raise InputError("--rerank and --budget are not for --engine ray.")
        how = {"max_tokens": max_tokens, "windows": windows, "label_map": label_map, "backend": backend}
        ray_featurize(
            FromRay(texts, text, identifier, skip_empty, html, address, workers),
            label_set,
            out,
            scorer,
            {**how, "device": device},
            candidates=candidates,
            label_shards=label_shards,
            template=templates[0] if len(templates) == 1 else templates,
            dtype=dtype,
            fresh=fresh,
            json=json,
        )
        return
    known = None
    if budget is not None:
        from bncl_pyg.persistence import check_free
        from bncl_pyg.priors import Priors

        check_free(out, "features", overwrite=overwrite)
        known = None if priors is None else Priors.read(priors, label_set)
    table = TextTable(Path(texts), Columns.of(text, identifier), skip_empty=skip_empty)
    cleaner = TextCleaner(html)
    # A row that cannot be used is told before torch is imported and a model is loaded, which takes seconds.
    sample = [cleaner.clean(content) for place, (_, content, _) in enumerate(table.unique()) if place < SAMPLE]

    from bncl_pyg.features import featurize as run
    from bncl_pyg.scorers import (
        MULTILINGUAL,
        load_scorer,
        ranker_for,
        reads_english_only,
        scorer_is_quick,
        with_reranker,
    )

    passes = 0

    def cleaned() -> Iterator[tuple[str, str]]:
        nonlocal passes
        passes += 1
        # Texts are gone through more than once, but counted in the first turn.
        clean = cleaner if passes == 1 else cleaner.clean
        return ((name, clean(content)) for name, content, _ in table.unique())

    chosen = load_scorer(
        scorer,
        max_tokens=max_tokens,
        windows=windows,
        label_map=None if rerank and reranker != "ms-marco" else label_map,
        backend=backend,
        device=device,
    )
    expensive, store = None, out
    if budget is not None:
        if scorer_is_quick(chosen):
            raise InputError(
                f"--budget is for a cross-encoder; '{scorer}' reads texts and labels apart, which is cheap."
            )
        expensive, store = chosen, out.with_name(f"{out.name}.cheap")
        chosen = load_scorer(cheap, max_tokens=max_tokens, windows=windows, device=device)
    ranker = None if candidates is None else ranker_for(chosen, device)
    if rerank:
        chosen = with_reranker(chosen, reranker, max_tokens=max_tokens, label_map=label_map)
    _tell_cost(chosen, sample, windows)
    _tell_labels(chosen, label_set)
    with texts_bar() as (start, progress, aside):
        done = run(
            cleaned,
            label_set,
            chosen,
            store,
            ranker=ranker,
            candidates=candidates,
            template=templates[0] if len(templates) == 1 else templates,
            dtype=dtype,
            fresh=fresh,
            start=start,
            progress=progress,
            labels_progress=lambda done, total: aside("encoding labels", done, total),
        )
    asked = 0
    if expensive is not None:
        assert budget is not None
        asked = _spend(budget, expensive, known, dict(cleaned()), store, out, overwrite=overwrite)
    write_figures(
        json,
        {
            "texts": done.texts,
            "labels": done.labels,
            "skipped": table.skipped,
            "blocks": done.blocks,
            "scored_now": done.scored_blocks,
            "cut": done.cut,
            "asked": asked,
            "html": cleaner.stripped,
            "not_english": cleaner.foreign,
        },
    )
    say(f"{out}: {done.texts} texts × {done.labels} labels; {done.scored_blocks} of {done.blocks} blocks scored now.")
    if asked:
        say(f"'{scorer}' was asked about {asked} of {done.texts * done.labels} pairs, '{cheap}' about all.")
    if table.skipped:
        say(f"{table.skipped} rows without a text were skipped.")
    if cleaner.stripped:
        say(f"{cleaner.stripped} texts are HTML, of which the text was read (--html keep reads the markup, too).")
    if cleaner.foreign and reads_english_only(chosen):
        say(
            f"{cleaner.foreign} texts do not look like English, which is all that '{scorer}' was trained on; for other "
            f"languages, there is --scorer {MULTILINGUAL}, or any multilingual sentence encoder on the hub, such as "
            f"intfloat/multilingual-e5-small."
        )
    if done.cut:
        say(f"{done.cut} of {done.read} texts were cut at their end, which more --windows would read.")
    if done.recall is not None:
        yes = "" if done.recall.entailed is None else f"{done.recall.entailed:.1%} of the labels that it entails and "
        say(
            f"On {done.recall.texts} texts scored in full, the {candidates} candidates hold {yes}"
            f"{done.recall.best:.1%} of the 5 best."
        )


def _spend(
    budget: int,
    scorer: "Scorer",
    priors: "Priors | None",
    texts: dict[str, str],
    store: Path,
    out: Path,
    *,
    overwrite: bool,
) -> int:
    """Ask an expensive scorer within a budget, write the features, and return how many pairs it was asked about."""
    import shutil
    from dataclasses import replace

    from bncl_pyg.active import PairBudget
    from bncl_pyg.features import read_features, write_features
    from bncl_pyg.graph import default_graph
    from bncl_pyg.scorers import hypotheses_of

    from .show import stages_bar

    features = read_features(store)
    template, plan = features.scorer["template"], PairBudget(budget)
    kept = out.with_name(f"{out.name}.asked.safetensors")
    with stages_bar() as tell:
        made, answers = plan.spend(
            features,
            [texts[name] for name in features.ids],
            hypotheses_of(features.labels.phrases(), template),
            scorer,
            default_graph(features.labels),
            priors,
            kept=kept,
            progress=lambda count, of: tell("asking about pairs", count, of),
        )
    spent = {"scorer": scorer.config(), "pairs": len(answers), "rounds": plan.rounds, "weight": plan.weight}
    write_features(replace(made, scorer={**features.scorer, "budget": spent}), out, overwrite=overwrite)
    shutil.rmtree(store)
    kept.unlink()
    return len(answers)


def _tell_cost(scorer: "Scorer", sample: list[str], windows: int) -> None:
    """Say how long the texts are, and what reading them takes, before it starts."""
    reading = scorer.reading(sample)
    if reading is None or not reading.longer:
        return
    share = f"{reading.longer:.0%} of {reading.texts} texts looked at are longer than a window"
    if windows == 1:
        echo(f"{share}: only their beginning is read; --windows 4 would read more.", err=True)
        return
    cut = f", and {reading.cut:.0%} are cut after the last" if reading.cut else ""
    echo(f"{share}: {reading.windows:.1f} windows a text are read, as many times the work{cut}.", err=True)


def _tell_labels(scorer: "Scorer", labels: "LabelSet") -> None:
    """Say in at most two lines what is wrong with the labels' names."""
    from bncl_pyg.label_check import check_labels, worst_findings
    from bncl_pyg.scorers import LIGHT, BiEncoderScorer, scorer_parts

    light = scorer_parts(scorer).get(LIGHT)
    # With more labels, encoding them here would be felt; 'bncl labels check' takes its time.
    if isinstance(light, BiEncoderScorer) and len(labels) <= CHECKED_LABELS:
        for line in worst_findings(check_labels(labels, light), 2):
            echo(line, err=True)
