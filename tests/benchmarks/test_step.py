import json

from benchmarks.results import FOLDER
from benchmarks.step import as_markdown, timed_epochs
from bncl_pyg.corpus import Supervision
from bncl_pyg.features import Features
from bncl_pyg.graph import SignedLabelGraph


def test_the_committed_page_is_what_its_json_says() -> None:
    content = json.loads((FOLDER / "step.json").read_text())
    assert (FOLDER / "step.md").read_text() == as_markdown(content)
    for epoch in content["epoch"].values():
        assert epoch["first_step"]["weights_apart"] < 1e-6
        assert epoch["seconds"]["transcription"] > 2 * epoch["seconds"]["ours"]


def test_the_transcription_does_what_our_trainer_does(
    graph: SignedLabelGraph, features: Features, priors: Supervision
) -> None:
    """The first step's loss and weights are compared inside."""
    found = timed_epochs(features, priors, graph, 1)
    assert found["first_step"]["weights_apart"] < 1e-6
    assert found["seconds"]["ours"] > 0
