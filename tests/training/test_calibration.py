"""The last step of the default recipe: how sure to be, and which labels to give."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from bncl_pyg.features import reachable
from bncl_pyg.nn import CollectiveModel, ProjectionSteps
from bncl_pyg.training import Annotated, Calibration, CorrectionFit, Decisions, SelfTraining
from bncl_pyg.training.calibration import CalibratedFit, std_within_labels
from bncl_pyg.training.self_training import Prepared, SelfTrained
from tests.training.world import World, with_candidates

CORRECTION = CorrectionFit(line_std=3.0, slope=0.3)


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
    return CalibratedFit(data, SelfTraining(), Calibration(), decisions)


@pytest.mark.parametrize("logit_std", [0.5, 1.25])
def test_logits_of_probabilities_vary_as_much_as_is_said(
    world: World, data: Prepared, unsupervised: SelfTrained, prevalence: Tensor, logit_std: float
) -> None:
    fit = replace(calibrated(data), calibration=Calibration(logit_std))
    network = fit.fit(world.priors, unsupervised, None).network
    probabilities = network.probabilities(unsupervised.logits)
    assert std_within_labels(torch.logit(probabilities), data.pairs) == pytest.approx(logit_std, rel=0.25)
    assert torch.allclose(probabilities.mean(dim=0), prevalence, rtol=0.1)


@pytest.mark.parametrize("best", [4, 8])
def test_among_candidates_labels_are_as_common_as_can_be_asked(world: World, prevalence: Tensor, best: int) -> None:
    data = SelfTraining().prepare(with_candidates(world.train, best), world.graph)
    unsupervised = self_trained(world, data)
    model = calibrated(data).fit(world.priors, unsupervised, None)
    probabilities = model.network.probabilities(unsupervised.logits, data.pairs)
    asked = reachable(prevalence * len(world.train), data.pairs, ProjectionSteps().least_reachable)
    enough = asked > 5
    assert bool(enough.any())
    ratios = data.pairs.sums(probabilities)[enough] / asked[enough]
    assert torch.allclose(ratios, torch.tensor(1.0), atol=0.15)


def test_decisions_are_as_common_as_prevalences_say_or_have_the_highest_f1(
    world: World, data: Prepared, unsupervised: SelfTrained
) -> None:
    common, aimed = (
        calibrated(data, decisions).fit(world.priors, unsupervised, None).network for decisions in (None, Decisions())
    )
    assert not common.get_buffer("thresholds").any()
    assert aimed.get_buffer("thresholds").abs().max() > 0.01
    probabilities = common.probabilities(unsupervised.logits)
    assert torch.equal(probabilities, aimed.probabilities(unsupervised.logits))

    def expected_f1(network: CollectiveModel) -> float:
        decisions = network.decision_function(unsupervised.logits) > 0
        return float(2 * (probabilities * decisions).sum() / (decisions.sum() + probabilities.sum()))

    assert expected_f1(aimed) > expected_f1(common)


def test_with_annotated_texts_those_held_out_say_how_sure_to_be(
    world: World, data: Prepared, unsupervised: SelfTrained
) -> None:
    correction = CORRECTION.fit(data, unsupervised, world.first(300), 0)
    network = calibrated(data).fit(world.priors, unsupervised, correction).network
    assert network.inverse_temperature == correction.inverse_temperature
    assert network.decision_inverse_temperature == SelfTraining().slope


def test_decisions_from_annotated_texts_are_as_many_as_there_should_be(
    world: World, data: Prepared, unsupervised: SelfTrained
) -> None:
    rows = np.arange(100)
    correction = CORRECTION.fit(data, unsupervised, Annotated(rows, world.annotations[rows]), 0)
    network = calibrated(data).fit(world.priors, unsupervised, correction).network
    decisions = network.decide(network.decision_function(correction.logits))
    assert float(decisions.sum()) / 900 == pytest.approx(world.priors.cardinality, rel=0.1)
