"""The last step of the default recipe: how sure to be, and which labels to give."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from bncl_pyg.features import reachable
from bncl_pyg.nn import CollectiveModel
from bncl_pyg.training import Annotated, Calibration, CorrectionFit, Decisions, ScarcePrevalence, SelfTraining
from bncl_pyg.training.calibration import CalibratedFit
from bncl_pyg.training.self_training import Prepared, SelfTrained
from tests.training.world import World, with_candidates

EVERY_LABEL = torch.ones(8, dtype=torch.bool)


@pytest.fixture(scope="module")
def data(world: World) -> Prepared:
    return SelfTraining().prepare(world.train, world.graph)


@pytest.fixture(scope="module")
def prevalence(world: World) -> Tensor:
    return torch.from_numpy(world.priors.shares).float()


def self_trained(world: World, data: Prepared) -> SelfTrained:
    assert world.priors.cardinality is not None
    return SelfTraining().fit(data, torch.from_numpy(world.priors.shares).float(), world.priors.cardinality)


@pytest.fixture(scope="module")
def unsupervised(world: World, data: Prepared) -> SelfTrained:
    return self_trained(world, data)


def calibrated(data: Prepared, decisions: Decisions | None = None) -> CalibratedFit:
    max_logit = CorrectionFit().max_logit
    return CalibratedFit(data, SelfTraining(), ScarcePrevalence(), Calibration(), decisions or Decisions(), max_logit)


def test_few_annotated_texts_hardly_say_how_sure_to_be(world: World, data: Prepared, unsupervised: SelfTrained) -> None:
    ratios = []
    for count in (5, 900):
        correction = CorrectionFit().fit(data, unsupervised, world.first(count), 0)
        surer = replace(correction, inverse_temperature=10 * correction.inverse_temperature)
        usual, changed = (
            calibrated(data).fit(world.priors, unsupervised, one, None).network.inverse_temperature
            for one in (correction, surer)
        )
        ratios.append(changed / usual)
    assert ratios[0] < 2
    assert ratios[1] > 8


def test_the_more_scores_repeat_themselves_the_less_sure(
    world: World, data: Prepared, unsupervised: SelfTrained
) -> None:
    for dispersion, expected in ((0.1, 0.5), (0.8, 0.4), (1.6, 0.2), (9.0, 0.15)):
        repeated = replace(unsupervised, dispersion=dispersion)
        model = calibrated(data).fit(world.priors, repeated, None, None)
        assert model.network.inverse_temperature == pytest.approx(expected)


@pytest.mark.parametrize(("dispersion", "least"), [(0.5, 1.0), (1.6, 1 / 1.6)])
def test_scores_that_say_the_same_many_times_over_are_never_sure(
    world: World, data: Prepared, unsupervised: SelfTrained, prevalence: Tensor, dispersion: float, least: float
) -> None:
    model = calibrated(data).fit(world.priors, replace(unsupervised, dispersion=dispersion), None, None)
    ceiling = model.network.get_buffer("ceiling")
    assert torch.allclose(ceiling, ((1 + prevalence) / 2).clamp_min(least))
    probabilities = model.network.probabilities(unsupervised.logits)
    assert bool((probabilities <= ceiling).all())
    assert torch.allclose(probabilities.mean(dim=0), prevalence, rtol=0.1)


@pytest.mark.parametrize("best", [2, 3, 4, 8])
def test_a_ceiling_and_candidates_fit_together(world: World, prevalence: Tensor, best: int) -> None:
    """With probabilities under a ceiling, labels are as common among candidates as they would be without one."""
    data = SelfTraining().prepare(with_candidates(world.train, best), world.graph)
    unsupervised = replace(self_trained(world, data), dispersion=1.8)
    model = calibrated(data).fit(world.priors, unsupervised, None, None)
    probabilities = model.network.probabilities(unsupervised.logits, data.pairs)
    asked = reachable(prevalence * len(world.train), data.pairs, SelfTraining().projection.least_reachable)
    enough = asked > 5
    assert bool(enough.any())
    ratios = data.pairs.sums(probabilities)[enough] / asked[enough]
    assert torch.allclose(ratios, torch.tensor(1.0), atol=0.15)


def test_who_gives_prevalences_gets_decisions_as_common_and_who_does_not_gets_those_with_the_highest_f1(
    world: World, data: Prepared, unsupervised: SelfTrained
) -> None:
    given, guess = (
        calibrated(data).fit(world.priors, unsupervised, None, guessed).network for guessed in (None, EVERY_LABEL)
    )
    assert not given.get_buffer("thresholds").any()
    assert guess.get_buffer("thresholds").abs().max() > 0.01
    probabilities = given.probabilities(unsupervised.logits)
    assert torch.equal(probabilities, guess.probabilities(unsupervised.logits))

    def expected_f1(network: CollectiveModel) -> float:
        decisions = network.decision_function(unsupervised.logits) > 0
        return float(2 * (probabilities * decisions).sum() / (decisions.sum() + probabilities.sum()))

    assert expected_f1(guess) > expected_f1(given)


def test_only_guessed_labels_have_thresholds(world: World, data: Prepared, unsupervised: SelfTrained) -> None:
    every, some = (
        calibrated(data).fit(world.priors, unsupervised, None, guessed).network.get_buffer("thresholds")
        for guessed in (EVERY_LABEL, torch.arange(8) > 3)
    )
    assert not some[:4].any()
    assert torch.equal(some[4:], every[4:])


def test_thresholds_are_left_out_where_annotated_texts_fare_better_without(
    world: World, data: Prepared, unsupervised: SelfTrained
) -> None:
    """Probabilities that hardly tell texts apart: the most common label seems worth a try everywhere, others not."""
    correction = CorrectionFit().fit(data, unsupervised, world.first(900), 0)
    unsure = replace(correction, inverse_temperature=0.1)
    only_the_first = torch.zeros_like(correction.truth).index_fill(1, torch.tensor([0]), 1.0)
    fit = calibrated(data, Decisions(macro_weight=0.1))
    dropped, kept = (
        fit.fit(world.priors, unsupervised, one, EVERY_LABEL).network.get_buffer("thresholds")
        for one in (unsure, replace(unsure, truth=only_the_first))
    )
    assert not dropped.any()
    assert kept[0] < -1
    assert kept[1:].min() > 1


@pytest.mark.parametrize("count", [3, 900])
def test_few_annotated_texts_move_thresholds_less(
    world: World, data: Prepared, unsupervised: SelfTrained, count: int
) -> None:
    """As if labels' own F1 counted 1 + 50 / texts times as much."""
    correction = CorrectionFit().fit(data, unsupervised, world.first(count), 0)
    decisions = Decisions(macro_weight=0.5)
    network = calibrated(data, decisions).fit(world.priors, unsupervised, correction, EVERY_LABEL).network
    logits, beta, decision_beta = correction.logits, network.inverse_temperature, network.decision_inverse_temperature
    margins = network.projections["decision"](decision_beta * logits)
    tempered = network.projections["calibration"](beta * logits)

    def expected(macro_weight: float) -> Tensor:
        ones, slope = torch.ones(8), beta / decision_beta
        return decisions.expected_thresholds(margins, tempered, ones, slope, macro_weight, data.pairs)

    thresholds = network.get_buffer("thresholds")
    assert torch.allclose(thresholds, expected(0.5 * (1 + 50 / count)), atol=1e-5)
    assert 0 < thresholds.abs().max() < expected(0.5).abs().max()


def test_decisions_from_annotated_texts_are_as_many_as_there_should_be(
    world: World, data: Prepared, unsupervised: SelfTrained
) -> None:
    rows = np.arange(100)
    correction = CorrectionFit().fit(data, unsupervised, Annotated(rows, world.annotations[rows]), 0)
    network = calibrated(data).fit(world.priors, unsupervised, correction, None).network
    decisions = network.decide(network.decision_function(correction.logits))
    assert float(decisions.sum()) / 900 == pytest.approx(world.priors.cardinality, rel=0.1)
