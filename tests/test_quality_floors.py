"""How good the public class is on the bundled set, at every level of knowledge: floors a little below what it reaches.

Training on 1,800 texts, decisions and probabilities for 500 others; nothing is read from committed results. The figures
that the floors stand below are in the README. Another number of threads, or other batches, moves them by up to 0.005.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

from bncl_pyg import BNCLClassifier, Corpus, Features, LabelSet, read_features
from bncl_pyg.demo import demo_folder
from bncl_pyg.errors import InputError
from bncl_pyg.evaluation import evaluate, reliability
from bncl_pyg.features import score_texts
from bncl_pyg.scorers import load_scorer

ANNOTATED = 57
"""As many texts as there are labels."""


class Quality(NamedTuple):
    """What is measured on the test texts."""

    ebF1: float
    miF1: float
    maF1: float
    calibration_error: float


FLOORS = {
    # Measured: .4954 .4688 .3549, calibration error .0115
    "auto": Quality(0.480, 0.454, 0.340, 0.0140),
    # Measured: .5640 .5336 .3437, .0074
    "words": Quality(0.549, 0.518, 0.328, 0.0100),
    # Measured: .5487 .5212 .3840, .0076
    "annotated": Quality(0.534, 0.506, 0.369, 0.0105),
    # Measured: .6013 .5821 .4333, .0076
    "prevalence": Quality(0.588, 0.569, 0.418, 0.0100),
    # Measured: .6166 .5922 .4171, .0063
    "prevalence and annotated": Quality(0.602, 0.577, 0.402, 0.0090),
}
"""What is known → the lowest F1 and the highest calibration error."""


class Demo(NamedTuple):
    """The bundled set, scored."""

    labels: LabelSet
    train: Corpus
    test: Corpus
    train_features: Features
    test_features: Features

    def truth(self) -> np.ndarray:
        assert self.test.annotations is not None
        return self.test.annotations.toarray()

    def shares(self) -> dict[str, float]:
        """Return the share of the training texts that has each label."""
        assert self.train.annotations is not None
        return dict(zip(self.labels.names, self.train.annotations.toarray().mean(axis=0).tolist(), strict=True))

    def some_annotated(self) -> list[list[str] | None]:
        """Return the labels of a few training texts, and None for the others."""
        assert self.train.annotations is not None
        drawn = set(np.random.default_rng(0).choice(len(self.train), ANNOTATED, replace=False).tolist())
        rows = self.train.annotations.toarray()
        return [
            [self.labels.names[place] for place in np.flatnonzero(row)] if number in drawn else None
            for number, row in enumerate(rows)
        ]


@pytest.fixture(scope="module")
def demo(request: pytest.FixtureRequest) -> Demo:
    """Score the texts, which takes a minute, or take the scores of `make demo`, which `make test` runs before."""
    labels = LabelSet.read(demo_folder() / "labels.jsonl")
    scorer = load_scorer()
    splits = {name: Corpus.read(demo_folder() / f"{name}.jsonl.gz", labels) for name in ("train", "test")}
    scored = []
    for name, corpus in splits.items():
        features = _kept(request.config.rootpath / "demo-output" / f"features-{name}")
        sample = score_texts(corpus.rows(np.arange(8)), labels, scorer)
        if features is None or not _same_scores(features, corpus, sample):
            features = score_texts(corpus, labels, scorer)
        scored.append(features)
    return Demo(labels, splits["train"], splits["test"], *scored)


def _kept(folder: Path) -> Features | None:
    try:
        return read_features(folder)
    except InputError:
        return None


def _same_scores(features: Features, corpus: Corpus, sample: Features) -> bool:
    """Tell whether features are of these texts, and today's scorer would score them so."""
    if features.ids != corpus.ids or features.labels != sample.labels:
        return False
    pairs = zip((features.entailment, features.contradiction), (sample.entailment, sample.contradiction), strict=True)
    return all(torch.allclose(kept[: len(new)], new, atol=0.05) for kept, new in pairs)


@pytest.fixture(scope="module")
def qualities(demo: Demo) -> dict[str, Quality]:
    """Train with each level of knowledge."""
    shares, annotated = demo.shares(), demo.some_annotated()
    words = {name: _word(share) for name, share in shares.items()}
    scores = demo.test_features
    start = evaluate(demo.truth(), (scores.entailment > scores.contradiction).numpy())
    return {
        "zero-shot": Quality(start.ebF1, start.miF1, start.maF1, 0.0),
        "auto": _quality(demo),
        "words": _quality(demo, words),
        "annotated": _quality(demo, None, annotated),
        "prevalence": _quality(demo, shares),
        "prevalence and annotated": _quality(demo, shares, annotated),
    }


def _word(share: float) -> str:
    """Return how somebody would put it who has a rough idea."""
    words = {"common": 0.05, "standard": 0.02, "uncommon": 0.008, "almost unseen": 0.0}
    return next(word for word, least in words.items() if share >= least)


def _quality(
    demo: Demo, prevalence: dict[str, float] | dict[str, str] | None = None, y: list[list[str] | None] | None = None
) -> Quality:
    classifier = BNCLClassifier(labels=demo.labels, prevalence=prevalence).fit(demo.train_features, y)
    metrics = evaluate(demo.truth(), classifier.predict(demo.test_features))
    error = reliability(demo.truth(), classifier.predict_proba(demo.test_features)).error()
    return Quality(metrics.ebF1, metrics.miF1, metrics.maF1, error)


@pytest.mark.parametrize("known", list(FLOORS))
def test_quality_is_above_its_floor(known: str, qualities: dict[str, Quality]) -> None:
    reached, floor = qualities[known], FLOORS[known]
    for metric in ("ebF1", "miF1", "maF1"):
        assert getattr(reached, metric) >= getattr(floor, metric), (known, metric, reached)
    assert reached.calibration_error <= floor.calibration_error, (known, reached)


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ("zero-shot", "auto"),
        ("auto", "words"),
        ("auto", "annotated"),
        ("words", "prevalence"),
        ("annotated", "prevalence and annotated"),
        ("prevalence", "prevalence and annotated"),
    ],
)
def test_who_knows_more_gets_more(less: str, more: str, qualities: dict[str, Quality]) -> None:
    assert qualities[more].ebF1 > qualities[less].ebF1
    assert qualities[more].miF1 > qualities[less].miF1
