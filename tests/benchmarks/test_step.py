from benchmarks.step import timed_epochs
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
