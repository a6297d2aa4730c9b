from pathlib import Path

import pytest

from benchmarks.quality.datasets import DataSet
from benchmarks.step import timed_epochs, timed_prediction, timed_training
from bncl_pyg.features import Features
from bncl_pyg.graph import SignedLabelGraph
from bncl_pyg.priors import Priors
from bncl_pyg.training import PAPER, PAPER_LITERAL, PaperRecipe


@pytest.mark.parametrize("recipe", [PAPER, PAPER_LITERAL], ids=lambda recipe: recipe.name)
def test_the_transcription_does_what_our_trainer_does(
    recipe: PaperRecipe, graph: SignedLabelGraph, features: Features, priors: Priors
) -> None:
    """The first step's loss and weights are compared inside."""
    found = timed_epochs(features, priors, graph, 1, recipe)
    assert found["first_step"]["weights_apart"] < 1e-6
    assert found["seconds"]["ours"] > 0


def test_every_step_of_a_prediction_is_timed(sample: Path, tmp_path: Path) -> None:
    data = DataSet(sample, tmp_path / "cache")
    data.prepare()
    graph = data.graph("embedded", (5.0, 95.0), 2)
    measured = timed_prediction(data.scored[0], data.priors, graph, data.test, data.labels, 1)
    assert measured["texts"] == 40
    assert set(measured["seconds"]) == {"scoring", "paper", "default", "update"}
    assert all(seconds > 0 for seconds in measured["seconds"].values())


def test_a_whole_training_is_timed(sample: Path, tmp_path: Path) -> None:
    data = DataSet(sample, tmp_path / "cache")
    data.prepare()
    found = timed_training(data.scored[0], data.priors, data.graph("embedded", (), 2))
    assert tuple(found["percentiles"]) in PAPER.percentiles
    assert found["seconds"]["chosen"] > found["seconds"]["given"] > 0
