"""What annotated texts teach, and what they say of how common labels are."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from bncl_pyg.training import Annotated, CorrectionFit, PriorEstimation, ScarcePrevalence, SelfTraining
from bncl_pyg.training.self_training import Prepared, SelfTrained
from tests.training.world import World


@pytest.fixture(scope="module")
def data(world: World) -> Prepared:
    return SelfTraining().prepare(world.train, world.graph)


@pytest.fixture(scope="module")
def unsupervised(world: World, data: Prepared) -> SelfTrained:
    assert world.priors.cardinality is not None
    return SelfTraining().fit(data, torch.from_numpy(world.priors.shares).float(), world.priors.cardinality)


def test_logits_of_annotated_texts_are_held_out(world: World, data: Prepared, unsupervised: SelfTrained) -> None:
    """A text that is annotated wrongly is not predicted as it is annotated, but others like it are a little more."""
    truth = world.annotations[:300].toarray()
    wrong = truth.copy()
    wrong[0] = ~wrong[0]
    corrections = [
        CorrectionFit().fit(data, unsupervised, Annotated(np.arange(300), csr_array(labels)), 0)
        for labels in (truth, wrong)
    ]
    right, held_out = (correction.logits[0] for correction in corrections)
    assert torch.allclose(right, held_out, atol=0.5)
    assert not torch.equal(corrections[0].logits[400], corrections[1].logits[400])


def test_one_annotated_text_is_enough(world: World, data: Prepared, unsupervised: SelfTrained) -> None:
    correction = CorrectionFit().fit(data, unsupervised, world.first(1), 0)
    assert CorrectionFit().Cs[0] == correction.C
    assert bool(correction.logits.isfinite().all())


def test_c_is_chosen_by_what_is_held_out(data: Prepared, unsupervised: SelfTrained) -> None:
    """Labels that follow the text are learned with a high C, labels that follow nothing with a low one."""
    draw = np.random.default_rng(0)
    of_text = data.inputs[:, :24].numpy() @ draw.normal(size=(24, 8)) > 0.3
    of_nothing = draw.random((900, 8)) < 0.3
    for truth, C in ((of_text, 30.0), (of_nothing, 1e-3)):
        annotated = Annotated(np.arange(900), csr_array(truth))
        assert CorrectionFit(Cs=(1e-3, 30.0)).fit(data, unsupervised, annotated, 0).C == C


def test_texts_may_stay_without_a_label_where_many_annotated_ones_do(
    world: World, data: Prepared, unsupervised: SelfTrained
) -> None:
    truth = world.annotations[:100].toarray()
    for without, at_least_one in ((0, True), (4, True), (10, False)):
        some = truth.copy()
        some[:without] = False
        annotated = Annotated(np.arange(100), csr_array(some))
        assert CorrectionFit().fit(data, unsupervised, annotated, 0).at_least_one == at_least_one


def test_a_text_that_was_drawn_twice_counts_once(world: World, data: Prepared, unsupervised: SelfTrained) -> None:
    rows = np.array([5, 3, 5])
    correction = CorrectionFit().fit(data, unsupervised, Annotated(rows, world.annotations[rows]), 0)
    distinct, truth = correction.distinct()
    assert distinct.tolist() == [3, 5]
    assert torch.equal(truth, torch.from_numpy(world.annotations[[3, 5]].toarray()).float())


def test_labels_that_no_annotated_text_has_are_as_common_as_those_that_one_has(
    data: Prepared, unsupervised: SelfTrained
) -> None:
    truth = np.zeros((100, 8), dtype=bool)
    truth[:60, 0], truth[0, 1], truth[1, 2], truth[2, 3], truth[50:, 4] = True, True, True, True, True
    annotated = Annotated(np.arange(100), csr_array(truth))
    correction = CorrectionFit().fit(data, unsupervised, annotated, 0)
    guess = torch.tensor([0.1, 0.1, 0.1, 0.4, 0.1, 0.1, 0.1, 0.1])

    def estimate(shrinkage_texts: float, guess_share: float = 0.0) -> torch.Tensor:
        scarce = ScarcePrevalence(shrinkage_texts=shrinkage_texts, guess_share=guess_share)
        return scarce.update(data, correction, annotated, guess)

    plain, shrunk = estimate(1e9), estimate(50)
    assert float(estimate(0)[5:].sum()) == pytest.approx(3 / 100)
    assert float(shrunk[5:].sum()) == pytest.approx((3 + 50 * float(plain[5:].sum())) / 150, rel=1e-3)
    assert shrunk[:5].tolist() == pytest.approx(plain[:5].tolist())
    # Of the three labels with one example, the guess says that the last is more common; their sum stays.
    told_apart = estimate(50, 0.3)
    assert float(told_apart[3] / shrunk[3]) > 1.1
    assert float(told_apart[1] / shrunk[1]) < 1
    assert float(told_apart[1:4].sum()) == pytest.approx(float(shrunk[1:4].sum()))
    assert float(told_apart[0]) == pytest.approx(float(shrunk[0]))


def test_before_anything_is_learned_counts_are_shrunk_towards_a_guess(world: World, data: Prepared) -> None:
    estimation, scarce = PriorEstimation(), ScarcePrevalence()
    truth = np.zeros((50, 8), dtype=bool)
    truth[:, 7] = True
    annotated = Annotated(np.arange(50), csr_array(truth))
    guess, first = scarce.start(data, annotated, 1.2, None, estimation)
    expected = estimation.unknown_prevalence(data.features, 1.2)
    assert guess.numpy() == pytest.approx(expected, rel=1e-5)
    assert float(first.sum()) == pytest.approx(1.2)
    assert first[7] > 1.5 * guess[7]
    given = np.full(8, 0.15)
    guess, first = scarce.start(data, annotated, 1.2, given, estimation)
    assert guess.numpy() == pytest.approx(given)
    shares = (50 * truth[0] + 50 * given) / 100
    assert first.numpy() == pytest.approx(shares * 1.2 / shares.sum(), rel=1e-5)


CHANGES = {
    "folds": 5,
    "intercept_std": 0.1,
    "slope_std": 2.0,
    "slope_prior": 2.0,
    "platt_penalty": 1e4,
    "choice_steps": 1,
    "final_steps": 1,
    "max_logit": 1.0,
}


@pytest.mark.parametrize("name", CHANGES)
def test_every_number_counts(world: World, data: Prepared, unsupervised: SelfTrained, name: str) -> None:
    usual, other = (
        numbers.fit(data, unsupervised, world.first(60), 0).logits
        for numbers in (CorrectionFit(), replace(CorrectionFit(), **{name: CHANGES[name]}))
    )
    assert not torch.allclose(usual, other, atol=1e-3)
