"""The start: one offset on the log-odds, so that κ labels a text are predicted before any training."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from bncl_pyg.features import Features
from bncl_pyg.graph import SignedLabelGraph
from bncl_pyg.priors import Priors
from bncl_pyg.training import PAPER, PAPER_LITERAL, recalibrate, shifted
from tests.training.world import World, with_candidates


def predicted(features: Features, offset: float) -> int:
    """Return how many labels the shifted start predicts for all texts together."""
    return int(shifted(features, offset).zero_shot().sum())


def log_odds(features: Features) -> Tensor:
    return (features.entailment / features.contradiction).log()


@pytest.mark.parametrize("cardinality", [0.5, 1.0, 1.5, 1.65, 3.0, 5.95, 6.0])
def test_the_start_predicts_exactly_so_many_labels_a_text(features: Features, cardinality: float) -> None:
    offset = recalibrate(features.entailment, features.contradiction, cardinality)
    assert predicted(features, offset) == round(cardinality * len(features))


@pytest.mark.parametrize("count", [2, 5])
def test_of_texts_with_candidates_only_these_count(world: World, count: int) -> None:
    features = with_candidates(world.train, count)
    assert world.priors.cardinality is not None
    offset = recalibrate(features.entailment, features.contradiction, world.priors.cardinality)
    assert predicted(features, offset) == round(world.priors.cardinality * len(features))


def test_more_labels_than_candidates_are_all_of_them(world: World) -> None:
    features = with_candidates(world.train, 2)
    assert predicted(features, recalibrate(features.entailment, features.contradiction, 7.0)) == 2 * len(features)


def test_pairs_with_the_same_scores_are_predicted_together() -> None:
    """Of ten pairs, three are alike at the cut: the nearer of 2 and 5 is taken."""
    entailment = torch.tensor([[0.9, 0.8, 0.5, 0.5, 0.5], [0.1, 0.1, 0.1, 0.1, 0.1]])
    for wanted, reached in ((2, 2), (3, 2), (4, 5), (5, 5)):
        offset = recalibrate(entailment, 1 - entailment, wanted / 2)
        both = (entailment / (1 - entailment)).log() + offset
        assert int((both > 0).sum()) == reached


def test_one_offset_is_added_to_all_log_odds_and_what_is_neutral_stays(features: Features) -> None:
    moved = shifted(features, 1.25)
    assert torch.allclose(log_odds(moved), log_odds(features) + 1.25, atol=1e-5)
    assert torch.allclose(
        moved.entailment + moved.contradiction, features.entailment + features.contradiction, atol=1e-6
    )
    assert moved.ids == features.ids


def test_scores_of_nothing_and_of_all_stay_scores(features: Features) -> None:
    sure = torch.zeros(60, 6)
    sure[:, 0] = 1
    extreme = replace(features, entailment=sure, contradiction=1 - sure)
    moved = shifted(extreme, recalibrate(extreme.entailment, extreme.contradiction, 1.0))
    assert torch.equal(moved.zero_shot(), sure.bool())
    neither = replace(features, entailment=torch.zeros(60, 6), contradiction=torch.zeros(60, 6))
    assert not shifted(neither, 3.0).zero_shot().any()


def test_the_offset_is_kept_and_applied_at_prediction(
    graph: SignedLabelGraph, features: Features, priors: Priors
) -> None:
    quick = replace(PAPER, epochs=2)
    assert priors.cardinality is not None
    offset = recalibrate(features.entailment, features.contradiction, priors.cardinality)
    model = quick.fit(features, graph, priors)
    assert model.config()["offset"] == offset
    by_hand = replace(quick, start="as scored").fit(shifted(features, offset), graph, priors)
    assert by_hand.config()["offset"] is None
    assert torch.equal(by_hand.predict(shifted(features, offset)).scores, model.predict(features).scores)
    assert not torch.equal(by_hand.predict(features).scores, model.predict(features).scores)


def test_a_scorer_that_never_says_yes_is_no_other_start(
    graph: SignedLabelGraph, features: Features, priors: Priors
) -> None:
    """Whatever offset is on all log-odds already is taken away again; without recalibration it is not."""
    shy = shifted(features, -4.0)
    one, other = (PAPER.fit(scores, graph, priors).predict(scores) for scores in (features, shy))
    assert torch.allclose(one.scores, other.scores, atol=1e-3)
    plain = replace(PAPER_LITERAL, epochs=2)
    one, other = (plain.fit(scores, graph, priors).predict(scores) for scores in (features, shy))
    assert not torch.allclose(one.scores, other.scores, atol=1e-1)


def test_the_offset_lies_in_the_middle() -> None:
    odds = torch.tensor([[3.0, 1.0, 0.5]])
    entailment = odds / (1 + odds)
    assert recalibrate(entailment, 1 - entailment, 1.0) == pytest.approx(-math.log(3) / 2, abs=1e-6)
