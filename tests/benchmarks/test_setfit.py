"""SetFit is heavy and not installed for the tests; where it is, the wrapper is tried on a handful of texts."""

import pytest
import torch

from bncl_pyg.corpus import Corpus, LabelSet, annotation_matrix
from bncl_pyg.evaluation.baselines import Evidence
from bncl_pyg.features import Features
from bncl_pyg.priors import Priors

pytest.importorskip("setfit")


@pytest.mark.filterwarnings("default")  # what its own dependencies warn of is not ours
def test_setfit_learns_two_topics_and_leaves_the_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.quality import setfit_baseline

    monkeypatch.setattr(setfit_baseline, "PAIRS_A_TEXT", 2)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    texts = ("gold and silver prices rose", "the mine sells silver", "wheat harvest is late", "corn and wheat fields")
    labels = LabelSet(("metal", "grain", "never", "always"), ("metal", "grain", "never", "always"))
    annotated = Corpus(("a", "b", "c", "d"), texts, annotation_matrix([[0, 3], [0, 3], [1, 3], [1, 3]], 4))
    scored = Features(annotated.ids, labels, torch.full((4, 4), 0.4), torch.full((4, 4), 0.4))
    given = Evidence(
        scored, scored, Priors(2.0, (0.5,) * 4), annotated, texts, lambda texts: torch.zeros(len(texts), 1)
    )
    said = setfit_baseline.decide(given)
    assert annotated.annotations is not None
    assert said.tolist() == annotated.annotations.toarray().tolist()
