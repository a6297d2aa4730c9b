import pytest
import torch
from torch import Tensor

from bncl_pyg.features import AllPairs, Pairs, pairs_of
from bncl_pyg.nn import CollectiveProjection
from bncl_pyg.training import Decisions
from bncl_pyg.training.decisions import highest_f1

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
    return DECISIONS.expected_thresholds(margins, margins, torch.ones(4), 1.0, macro_weight, pairs)


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


def test_how_steep_margins_are_and_where_probabilities_end_makes_no_difference(margins: Tensor) -> None:
    logits, ceiling = 0.3 * margins - 1, torch.tensor([0.6, 0.7, 0.8, 1.0])
    aimed = DECISIONS.expected_thresholds(margins, logits, ceiling, 0.3, 0.0, AllPairs(*margins.shape))
    probabilities = ceiling * torch.sigmoid(logits)
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
    aimed = DECISIONS.expected_thresholds(margins, tempered, torch.ones(labels), 0.3, 5.0, AllPairs(600, labels))
    assert aimed.isfinite().all()
    assert float((margins > aimed).sum()) / 600 < max(3 * cardinality, 0.02 * labels)


def test_probabilities_that_tell_no_text_from_another_move_no_threshold(margins: Tensor) -> None:
    same = torch.logit(PREVALENCE).expand_as(margins)
    assert not DECISIONS.expected_thresholds(margins, same, torch.ones(4), 0.0, 5.0, AllPairs(*margins.shape)).any()
    nothing, everything = torch.full_like(margins, -40.0), torch.full_like(margins, 40.0)
    for extreme in (nothing, everything):
        aimed = DECISIONS.expected_thresholds(extreme, extreme, torch.ones(4), 1.0, 0.0, AllPairs(*margins.shape))
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


def test_only_what_is_clearly_worse_is_called_so() -> None:
    draw = torch.Generator().manual_seed(1)
    truth = (torch.rand(300, 5, generator=draw) < 0.3).float()
    flipped = torch.rand(300, 5, generator=draw) < 0.1
    good, bad, pairs = truth.bool(), truth.bool() ^ flipped, AllPairs(300, 5)
    assert DECISIONS.is_clearly_worse(bad, good, truth, pairs)
    assert not DECISIONS.is_clearly_worse(good, bad, truth, pairs)
    assert not DECISIONS.is_clearly_worse(good, good, truth, pairs)
    # What is clear with 300 texts is left to chance with 3: better for one of them, worse for two.
    before, after = torch.tensor([[1, 0], [1, 1], [1, 0]]).bool(), torch.tensor([[1, 1], [0, 1], [0, 0]]).bool()
    true = torch.tensor([[1.0, 1.0], [1.0, 1.0], [1.0, 0.0]])
    assert not DECISIONS.is_clearly_worse(after, before, true, AllPairs(3, 2))
    often = [one.repeat(100, 1) for one in (after, before, true)]
    assert DECISIONS.is_clearly_worse(*often, AllPairs(300, 2))


def test_the_same_is_worse_among_candidates() -> None:
    draw = torch.Generator().manual_seed(4)
    truth = (torch.rand(300, 5, generator=draw) < 0.3).float()
    bad = truth.bool() ^ (torch.rand(300, 5, generator=draw) < 0.1)
    candidates = torch.stack([torch.randperm(5, generator=draw)[:3].sort().values for _ in range(300)])
    few = pairs_of(candidates, truth, 5)
    mine = [one.gather(1, candidates) for one in (bad, truth.bool(), truth)]
    assert DECISIONS.is_clearly_worse(*mine, few)
    assert not DECISIONS.is_clearly_worse(mine[1], mine[0], mine[2], few)


def test_one_label_that_gets_much_worse_is_noticed_though_all_decisions_together_are_as_good() -> None:
    truth = torch.zeros(1000, 2)
    truth[:500, 0], truth[::100, 1] = 1, 1
    good = truth.bool()
    bad = good.clone()
    bad[:, 1] = False
    assert DECISIONS.is_clearly_worse(bad, good, truth, AllPairs(1000, 2))


def test_decisions_become_as_many_as_there_should_be_unless_annotated_texts_say_no() -> None:
    # Logits that hardly tell one text from the other, so that few probabilities exceed a half.
    logits = 0.5 * torch.randn(TEXTS, 4, generator=torch.Generator().manual_seed(2))
    prevalence, pairs = torch.tensor([0.4, 0.35, 0.3, 0.2]), AllPairs(TEXTS, 4)
    exact = CollectiveProjection.fit(logits, prevalence, 1.25, 0.0)
    rows, everything = torch.arange(50), torch.ones(50, 4)
    wide = DECISIONS.match_prediction_count(exact, logits, prevalence, pairs, rows, everything, at_least_one=False)
    assert float((exact(logits) > 0).sum()) / TEXTS < 0.8 * 1.25
    assert float((wide(logits) > 0).sum()) / TEXTS == pytest.approx(1.25, rel=0.05)
    # Annotated texts that have no label at all fare clearly better with fewer.
    kept = DECISIONS.match_prediction_count(exact, logits, prevalence, pairs, rows, 0 * everything, at_least_one=False)
    assert kept is exact


def test_its_numbers_bound_what_it_does(margins: Tensor) -> None:
    pairs, ones = AllPairs(*margins.shape), torch.ones(4)
    bounded = Decisions(max_threshold=0.05).expected_thresholds(margins, margins, ones, 1.0, 0.0, pairs)
    assert float(thresholds(margins, 0.0).abs().max()) > 0.5
    assert float(bounded.abs().max()) == pytest.approx(0.05)
    assert not Decisions(least_slope=1.5).expected_thresholds(margins, margins, ones, 1.0, 0.0, pairs).any()
    logits = 0.5 * margins
    exact = CollectiveProjection.fit(logits, PREVALENCE, float(PREVALENCE.sum()), 0.0)
    counts = []
    for most in (1.05, 2.0):
        factors = Decisions(match_factors=(1.0, most))
        rows, truth = torch.arange(50), torch.ones(50, 4)
        matched = factors.match_prediction_count(exact, logits, PREVALENCE, pairs, rows, truth, at_least_one=False)
        counts.append(int((matched(logits) > 0).sum()))
    assert int((exact(logits) > 0).sum()) < counts[0] < counts[1]
