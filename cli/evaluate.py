"""`bncl eval`."""

from pathlib import Path
from typing import Annotated

import typer


def evaluate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A folder that 'bncl train' wrote, or its hub name.")],
    features: Annotated[Path, typer.Argument(metavar="FEATURES", help="The folder of the scored test texts.")],
    truth: Annotated[Path, typer.Option(help="The test texts with their labels: rows with id, text, labels.")],
    json: Annotated[Path | None, typer.Option(metavar="OUT.json", help="Write metrics and the table by label.")] = None,
) -> None:
    """Show how good a model is, beside the zero-shot scores that it started from."""
    from bncl_pyg.classifier import BNCLClassifier
    from bncl_pyg.corpus import Corpus
    from bncl_pyg.evaluation import evaluate_classifier
    from bncl_pyg.files import write_json
    from bncl_pyg.nli import read_features

    from .show import metrics_table, out

    classifier = BNCLClassifier.from_pretrained(model)
    loaded = read_features(features)
    found = evaluate_classifier(classifier, loaded, Corpus.read(truth, classifier.labels_))
    if json is not None:
        write_json(json, found.as_dict())
    metrics_table(f"{found.texts} texts, {len(found.labels)} labels", {**found.baselines, "model": found.metrics})
    ranking = ", ".join(f"{name} {value:.4g}" for name, value in found.ranking.items())
    out.print(f"{ranking}; {found.cardinality:.3g} labels a text predicted", highlight=False)
