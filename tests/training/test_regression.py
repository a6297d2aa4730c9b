import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from bncl_pyg.features import AllPairs
from bncl_pyg.training import Inputs, regress


@pytest.fixture
def data() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(300, 5, generator=generator) * torch.tensor([3.0, 1.0, 1.0, 0.3, 0.1]) + 2
    logits = (inputs - 2) @ torch.tensor([[1.0, 0.0], [-1.0, 0.5], [0.0, 0.5], [1.0, 0.0], [0.0, 3.0]]) - 1
    return inputs, torch.bernoulli(torch.sigmoid(logits), generator=generator)


def test_it_is_scikit_learns_logistic_regression(data: tuple[torch.Tensor, torch.Tensor]) -> None:
    inputs, targets = data
    found = regress(Inputs.of(inputs), targets, targets.mean(dim=0).logit(), 2.0, steps=200)
    for label in range(2):
        peer = LogisticRegression(C=2.0, tol=1e-8, max_iter=1000).fit(inputs, targets[:, label])
        assert np.allclose(found.weights[:, label], peer.coef_[0], atol=2e-3)
        intercept = found.intercepts[label] + targets[:, label].mean().logit()
        assert float(intercept) == pytest.approx(float(peer.intercept_[0]), abs=5e-3)


def test_soft_targets_are_like_so_many_hard_ones(data: tuple[torch.Tensor, torch.Tensor]) -> None:
    inputs, targets = data
    twice, other = torch.cat([inputs, inputs]), targets.flip(0)
    hard = regress(Inputs.of(twice), torch.cat([targets, other]), torch.zeros(2), 2.0, steps=200)
    soft = regress(Inputs.of(inputs), (targets + other) / 2, torch.zeros(2), 4.0, steps=200)
    assert torch.allclose(hard.weights, soft.weights, atol=2e-3)


def test_without_examples_nothing_is_learned(data: tuple[torch.Tensor, torch.Tensor]) -> None:
    """A label that nobody has, and whose start says so, stays where it is; one that the start gets wrong moves."""
    inputs, targets = data
    none = torch.zeros(len(inputs), 1)
    scores = torch.randn(len(inputs), 1, generator=torch.Generator().manual_seed(1))
    weak = regress(Inputs.of(inputs), none, torch.full((1,), -9.0), 1.0, steps=50, intercept_spread=1.0, scores=scores)
    assert weak.weights.abs().max() < 0.02
    assert weak.slopes.abs().max() < 0.05
    moved = regress(
        Inputs.of(inputs), targets, torch.full((2,), -9.0), 1.0, steps=50, intercept_spread=10.0, scores=targets
    )
    assert moved.slopes.min() > 0.5


def test_rows_keep_the_coordinates(data: tuple[torch.Tensor, torch.Tensor]) -> None:
    inputs, targets = data
    some = torch.arange(0, 300, 2)
    whole = Inputs.of(inputs).rows(some)
    found = regress(whole, targets[some], torch.zeros(2), 2.0, steps=200)
    alone = regress(Inputs.of(inputs[some]), targets[some], torch.zeros(2), 2.0, steps=200)
    pairs = AllPairs(len(inputs), 2)
    assert torch.allclose(found.added(inputs, pairs), alone.added(inputs, pairs), atol=0.02)


def test_no_inputs_and_no_labels() -> None:
    nothing = Inputs.of(torch.zeros(10, 0))
    found = regress(nothing, torch.full((10, 1), 0.25), torch.zeros(1), 1.0, steps=50)
    assert torch.sigmoid(found.intercepts).item() == pytest.approx(0.25, abs=1e-3)
    assert regress(nothing, torch.zeros(10, 0), torch.zeros(0), 1.0, steps=5).weights.shape == (0, 0)
