import pytest
import torch
from torch import Tensor

from bncl_pyg.features import AllPairs, Pairs, pairs_of
from bncl_pyg.nn import CollectiveProjection
from bncl_pyg.training import Decisions
from bncl_pyg.training.decisions import highest_f1, match_prediction_count

TEXTS = 4000
DECISIONS = Decisions()
PREVALENCE = torch.tensor([0.4, 0.1, 0.02, 0.005])


@pytest.fixture
def margins() -> Tensor:
    """Logits of which the probabilities of four labels add up to what they should; they tell texts apart, not well."""
    logits = 1.2 * torch.randn(TEXTS, 4, generator=torch.Generator().manual_seed(0))
    margins: Tensor = CollectiveProjection.fit(logits, PREVALENCE, float(PREVALENCE.sum()), 0.0)(logits)
    return margins


def expected_f1(probabilities: Tensor, decisions: Tensor) -> float:
    return float(2 * (probabilities * decisions).sum() / (decisions.sum() + probabilities.sum()))


def thresholds(margins: Tensor, macro_weight: float, pairs: Pairs | None = None) -> Tensor:
    pairs = AllPairs(*margins.shape) if pairs is None else pairs
    return Decisions(macro_weight).expected_thresholds(margins, margins, 1.0, pairs)


def test_where_labels_count_for_nothing_by_themselves_the_f1_of_all_decisions_is_the_highest_expected(
    margins: Tensor,
) -> None:
    probabilities = torch.sigmoid(margins)
    aimed = thresholds(margins, 0.0)
    best = max(expected_f1(probabilities, probabilities > bound) for bound in torch.linspace(0.01, 0.9, 200))
    assert highest_f1(probabilities) == pytest.approx(best, abs=1e-4)
    assert expected_f1(probabilities, margins > aimed) == pytest.approx(best, abs=1e-4)
    assert torch.sigmoid(aimed).tolist() == pytest.approx([best / 2] * 4, abs=1e-3)
    assert best > expected_f1(probabilities, margins > 0) + 0.05


def test_rare_labels_stay_where_they_are(margins: Tensor) -> None:
    aimed = thresholds(margins, 10.0).abs()
    assert aimed[0] > 0.1
    assert float(aimed[3] / thresholds(margins, 0.0)[3].abs()) < 0.01
    assert float(thresholds(margins, 1e9).abs().max()) < 1e-6


def test_how_steep_margins_are_makes_no_difference(margins: Tensor) -> None:
    logits = 0.3 * margins - 1
    aimed = Decisions(0.0).expected_thresholds(margins, logits, 0.3, AllPairs(*margins.shape))
    probabilities = torch.sigmoid(logits)
    half = expected_f1(probabilities, margins > aimed) / 2
    assert ((margins > aimed) == (probabilities > half)).float().mean() > 0.999


@pytest.mark.parametrize("cardinality", [0.01, 0.05, 0.3, 1.0])
@pytest.mark.parametrize("labels", [1, 2, 5, 30])
def test_where_next_to_nothing_is_given_not_everything_is(labels: int, cardinality: float) -> None:
    logits = 0.7 * torch.randn(600, labels, generator=torch.Generator().manual_seed(3))
    prevalence = torch.full((labels,), min(cardinality / labels, 0.5))
    margins = CollectiveProjection.fit(logits, prevalence, cardinality, 0.0)(logits)
    soft = 0.3 * logits
    tempered = CollectiveProjection.fit(soft, prevalence, cardinality, 0.0)(soft)
    aimed = DECISIONS.expected_thresholds(margins, tempered, 0.3, AllPairs(600, labels))
    assert aimed.isfinite().all()
    assert float((margins > aimed).sum()) / 600 < max(3 * cardinality, 0.02 * labels)


def test_probabilities_that_tell_no_text_from_another_move_no_threshold(margins: Tensor) -> None:
    same = torch.logit(PREVALENCE).expand_as(margins)
    assert not DECISIONS.expected_thresholds(margins, same, 0.0, AllPairs(*margins.shape)).any()
    nothing, everything = torch.full_like(margins, -40.0), torch.full_like(margins, 40.0)
    for extreme in (nothing, everything):
        aimed = Decisions(0.0).expected_thresholds(extreme, extreme, 1.0, AllPairs(*margins.shape))
        assert aimed.isfinite().all()
        assert ((extreme > aimed) == (extreme > 0)).all()
    assert highest_f1(torch.zeros(3, 2)) == 0
    assert highest_f1(torch.ones(3, 2)) == pytest.approx(1)


def test_candidates_that_are_all_labels_change_nothing_and_a_label_that_is_none_has_no_threshold(
    margins: Tensor,
) -> None:
    every = pairs_of(torch.arange(4).expand(TEXTS, 4), margins, 4)
    assert torch.allclose(thresholds(margins, 3.0, every), thresholds(margins, 3.0), atol=1e-5)
    few = pairs_of(torch.arange(3).expand(TEXTS, 3), margins, 4)
    aimed = thresholds(margins[:, :3], 3.0, few)
    assert aimed[3] == 0
    assert aimed.isfinite().all()


def test_decisions_become_as_many_as_there_should_be() -> None:
    # Logits that hardly tell one text from the other, so that few probabilities exceed a half.
    logits = 0.5 * torch.randn(TEXTS, 4, generator=torch.Generator().manual_seed(2))
    prevalence, pairs = torch.tensor([0.4, 0.35, 0.3, 0.2]), AllPairs(TEXTS, 4)
    exact = CollectiveProjection.fit(logits, prevalence, 1.25, 0.0)
    matched = match_prediction_count(exact, logits, prevalence, pairs, at_least_one=False)
    assert float((exact(logits) > 0).sum()) / TEXTS < 0.8 * 1.25
    assert float((matched(logits) > 0).sum()) / TEXTS == pytest.approx(1.25, rel=0.05)
    # Where there are as many already, nothing changes.
    steep = 20 * logits
    enough = CollectiveProjection.fit(steep, prevalence, 1.25, 0.0)
    assert match_prediction_count(enough, steep, 0.5 * prevalence, pairs, at_least_one=False) is enough
