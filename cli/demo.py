"""`bncl demo`: the whole way on the bundled set, by the same commands that a user types."""

import json
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from .terminal import echo

EXAMPLES = 6


def demo(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="The folder to write graph, models and predictions to.")] = Path(
        "demo-output"
    ),
) -> None:
    """Go the whole way on bundled data: Debian packages and what they are used for."""
    from bncl_pyg.corpus import Corpus, LabelSet
    from bncl_pyg.demo import demo_folder
    from bncl_pyg.estimator import BNCLClassifier
    from bncl_pyg.evaluation import evaluate_classifier
    from bncl_pyg.features import read_features
    from bncl_pyg.persistence import write_json

    from .show import metrics_table

    data = demo_folder()
    labels_file, train_file, test_file = (
        data / "labels.jsonl",
        data / "train.jsonl.gz",
        data / "test.jsonl.gz",
    )
    train_features, test_features = out / "features-train", out / "features-test"
    labels = LabelSet.read(labels_file)
    count = str(len(labels))
    priors, graph = out / "priors.json", out / "graph"
    echo(f"Debian packages: {count} labels such as {', '.join(labels.descriptions[:4])}. Everything goes to {out}.")

    def run(*arguments: str | Path) -> None:
        """Show a command as a user would type it, and run it."""
        words = [str(word) for word in arguments]
        echo(f"\n$ bncl {' '.join(shlex.quote(_shown(word)) for word in words)}")
        context.find_root().command.main(words, standalone_mode=False)

    run("data", "priors", train_file, "--labels", labels_file, "--out", priors, "--overwrite")
    for texts, features in ((train_file, train_features), (test_file, test_features)):
        run("featurize", texts, "--labels", labels_file, "--out", features)
    run("graph", "build", labels_file, "--out", graph, "--overwrite")
    common: list[str | Path] = ["train", train_features, "--graph", graph, "--overwrite"]
    free, auto, supervised = out / "annotation-free", out / "auto", out / "domain-supervisor"
    run(*common, "--setting", "annotation-free", "--priors", "auto", "--out", auto)
    run(*common, "--setting", "annotation-free", "--priors", priors, "--out", free)
    settings: list[str | Path] = ["--priors", priors, "--annotated", train_file, "--annotations", count]
    run(*common, "--setting", "domain-supervisor", *settings, "--out", supervised)
    run("predict", free, test_features, "--out", out / "predictions.jsonl", "--overwrite")

    scored, truth = read_features(test_features), Corpus.read(test_file, labels)
    evaluations = {
        path.name: evaluate_classifier(BNCLClassifier.from_pretrained(path), scored, truth)
        for path in (auto, free, supervised)
    }
    rows = {"zero-shot start": evaluations[free.name].baselines["zero-shot"]}
    rows["knowing nothing (--priors auto)"] = evaluations[auto.name].metrics
    rows["knowing how common labels are"] = evaluations[free.name].metrics
    rows[f"and {count} annotated texts"] = evaluations[supervised.name].metrics
    echo("")
    metrics_table(f"{len(truth)} test texts", rows)
    content = {name: metrics._asdict() for name, metrics in rows.items()}
    about = {"train": len(read_features(train_features)), "test": len(truth), "labels": len(labels)}
    write_json(out / "metrics.json", {**about, "scorer": scored.scorer, "rows": content})
    descriptions = labels.as_dict()
    echo("The annotation-free model on a few of them:")
    for row, text in zip(_first_rows(out / "predictions.jsonl"), truth.texts, strict=False):
        given = ", ".join(descriptions[name] for name in row["labels"]) or "none"
        echo(f"  {text.splitlines()[0][:70]}  →  {given}")
    echo(
        "\nNext, open a report, ask why, look at the graph, and at what you would use instead:\n"
        f"  bncl report {free} {_shown(test_features)} --truth {_shown(test_file)} --out {out / 'report.html'}\n"
        f"  bncl explain {free} {shlex.quote(truth.ids[0])} --texts {_shown(test_file)}\n"
        f"  bncl graph stats {graph}\n"
        f"  bncl graph plot {graph} --out {out / 'graph.png'}\n"
        f"  bncl eval {free} {_shown(test_features)} --truth {_shown(test_file)} --json {out / 'eval.json'} "
        f"--baselines --training {_shown(train_features)}"
    )


def _first_rows(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines[:EXAMPLES]]


def _shown(word: str | Path) -> str:
    """Return a path relative to here where it lies below."""
    path = Path(word)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(word)
