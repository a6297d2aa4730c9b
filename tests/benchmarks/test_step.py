from pathlib import Path

from benchmarks.quality.datasets import DataSet
from benchmarks.step import timed_epochs, timed_prediction
from bncl_pyg.features import Features
from bncl_pyg.graph import SignedLabelGraph
from bncl_pyg.priors import Priors


def test_the_transcription_does_what_our_trainer_does(
    graph: SignedLabelGraph, features: Features, priors: Priors
) -> None:
    """The first step's loss and weights are compared inside."""
    found = timed_epochs(features, priors, graph, 1)
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
