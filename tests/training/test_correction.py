"""What annotated texts teach."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from bncl_pyg.training import Annotated, CorrectionFit, SelfTraining
from bncl_pyg.training import correction as module
from bncl_pyg.training.self_training import Prepared, SelfTrained
from tests.training.world import World

USUAL = CorrectionFit(line_std=3.0, slope=0.3)


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
        USUAL.fit(data, unsupervised, Annotated(np.arange(300), csr_array(labels)), 0) for labels in (truth, wrong)
    ]
    right, held_out = (correction.logits[0] for correction in corrections)
    assert torch.allclose(right, held_out, atol=0.5)
    assert not torch.equal(corrections[0].logits[400], corrections[1].logits[400])


def test_one_annotated_text_is_enough(world: World, data: Prepared, unsupervised: SelfTrained) -> None:
    correction = USUAL.fit(data, unsupervised, world.first(1), 0)
    assert module.CS[0] == correction.C
    assert bool(correction.logits.isfinite().all())


def test_c_is_chosen_by_what_is_held_out(
    data: Prepared, unsupervised: SelfTrained, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels that follow the text are learned with a high C, labels that follow nothing with a low one."""
    monkeypatch.setattr(module, "CS", (1e-3, 30.0))
    draw = np.random.default_rng(0)
    of_text = data.inputs[:, :24].numpy() @ draw.normal(size=(24, 8)) > 0.3
    of_nothing = draw.random((900, 8)) < 0.3
    for truth, C in ((of_text, 30.0), (of_nothing, 1e-3)):
        annotated = Annotated(np.arange(900), csr_array(truth))
        assert USUAL.fit(data, unsupervised, annotated, 0).C == C


def test_texts_may_stay_without_a_label_where_annotated_ones_do(
    world: World, data: Prepared, unsupervised: SelfTrained
) -> None:
    truth = world.annotations[:100].toarray()
    for without, at_least_one in ((0, True), (1, False), (10, False)):
        some = truth.copy()
        some[:without] = False
        annotated = Annotated(np.arange(100), csr_array(some))
        assert USUAL.fit(data, unsupervised, annotated, 0).at_least_one == at_least_one


@pytest.mark.parametrize("changes", [{"line_std": 0.1}, {"slope": 5.0}], ids=["line_std", "slope"])
def test_every_number_counts(
    world: World, data: Prepared, unsupervised: SelfTrained, changes: dict[str, float]
) -> None:
    usual, other = (
        numbers.fit(data, unsupervised, world.first(60), 0).logits for numbers in (USUAL, replace(USUAL, **changes))
    )
    assert not torch.allclose(usual, other, atol=1e-3)
