import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from bncl_pyg.features import AllPairs, Candidates, all_pairs
from bncl_pyg.training import PCAInputs, fit_logistic
from bncl_pyg.training.regression import fit_ridge, platt_scaling


@pytest.fixture
def data() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(300, 5, generator=generator) * torch.tensor([3.0, 1.0, 1.0, 0.3, 0.1]) + 2
    logits = (inputs - 2) @ torch.tensor([[1.0, 0.0], [-1.0, 0.5], [0.0, 0.5], [1.0, 0.0], [0.0, 3.0]]) - 1
    return inputs, torch.bernoulli(torch.sigmoid(logits), generator=generator)


def test_it_is_scikit_learns_logistic_regression(data: tuple[torch.Tensor, torch.Tensor]) -> None:
    inputs, targets = data
    learned = fit_logistic(PCAInputs.fit(inputs), targets, targets.mean(dim=0).logit(), 2.0, steps=200)
    for label in range(2):
        peer = LogisticRegression(C=2.0, tol=1e-8, max_iter=1000).fit(inputs, targets[:, label])
        assert np.allclose(learned.weights[:, label], peer.coef_[0], atol=2e-3)
        intercept = learned.intercepts[label] + targets[:, label].mean().logit()
        assert float(intercept) == pytest.approx(float(peer.intercept_[0]), abs=5e-3)


def test_soft_targets_are_like_so_many_hard_ones(data: tuple[torch.Tensor, torch.Tensor]) -> None:
    inputs, targets = data
    twice, other = torch.cat([inputs, inputs]), targets.flip(0)
    hard = fit_logistic(PCAInputs.fit(twice), torch.cat([targets, other]), torch.zeros(2), 2.0, steps=200)
    soft = fit_logistic(PCAInputs.fit(inputs), (targets + other) / 2, torch.zeros(2), 4.0, steps=200)
    assert torch.allclose(hard.weights, soft.weights, atol=2e-3)


def test_without_examples_nothing_is_learned(data: tuple[torch.Tensor, torch.Tensor]) -> None:
    """A label that nobody has, and whose start says so, stays where it is; one that the start gets wrong moves."""
    inputs, targets = data
    none = torch.zeros(len(inputs), 1)
    scores = torch.randn(len(inputs), 1, generator=torch.Generator().manual_seed(1))
    weak = fit_logistic(
        PCAInputs.fit(inputs), none, torch.full((1,), -9.0), 1.0, steps=50, intercept_std=1.0, scores=scores
    )
    assert weak.weights.abs().max() < 0.02
    assert weak.slopes.abs().max() < 0.05
    moved = fit_logistic(
        PCAInputs.fit(inputs), targets, torch.full((2,), -9.0), 1.0, steps=50, intercept_std=10.0, scores=targets
    )
    assert moved.slopes.min() > 0.5


def test_rows_keep_the_coordinates(data: tuple[torch.Tensor, torch.Tensor]) -> None:
    inputs, targets = data
    some = torch.arange(0, 300, 2)
    whole = PCAInputs.fit(inputs).rows(some)
    learned = fit_logistic(whole, targets[some], torch.zeros(2), 2.0, steps=200)
    alone = fit_logistic(PCAInputs.fit(inputs[some]), targets[some], torch.zeros(2), 2.0, steps=200)
    pairs = AllPairs(len(inputs), 2)
    assert torch.allclose(learned.added_logits(inputs, pairs), alone.added_logits(inputs, pairs), atol=0.02)


def test_no_inputs_and_no_labels() -> None:
    nothing = PCAInputs.fit(torch.zeros(10, 0))
    learned = fit_logistic(nothing, torch.full((10, 1), 0.25), torch.zeros(1), 1.0, steps=50)
    assert torch.sigmoid(learned.intercepts).item() == pytest.approx(0.25, abs=1e-3)
    assert fit_logistic(nothing, torch.zeros(10, 0), torch.zeros(0), 1.0, steps=5).weights.shape == (0, 0)


@pytest.mark.parametrize(("std", "intercept"), [(1.0, 0.0), (6.0, -8.0), (30.0, 5.0)])
def test_the_common_line_is_the_best_even_where_logits_are_far_out(std: float, intercept: float) -> None:
    draw = torch.Generator().manual_seed(0)
    logits = std * torch.randn(400, 5, generator=draw) - 20 * (std > 20)
    truth = torch.bernoulli(torch.sigmoid(0.3 * logits + intercept), generator=draw)

    def loss(line: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
        scaled = line[0] * logits.double() + line[1]
        fit = torch.nn.functional.binary_cross_entropy_with_logits(scaled, truth.double(), reduction="sum")
        return float(fit) + ((line[0] - 0.5) ** 2 + line[1] ** 2) / 2

    line = np.array([float(part) for part in platt_scaling(logits, truth, 0.5)])
    best = minimize(loss, [0.3, intercept], method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-9})
    assert loss(line) <= best.fun * (1 + 1e-5) + 1e-3


def test_a_line_never_falls_and_stays_near_what_is_usual_where_there_is_little_to_learn_from() -> None:
    logits = torch.linspace(-3, 3, 100)[:, None]
    assert platt_scaling(logits, (logits < 0).float(), 0.5)[0] == 0
    slope, intercept = platt_scaling(torch.tensor([[0.1]]), torch.tensor([[1.0]]), 0.5)
    assert float(slope) == pytest.approx(0.5, abs=0.05)
    assert float(intercept) == pytest.approx(0.0, abs=0.5)


def test_the_ridge_is_one_step_of_newtons_method(data: tuple[torch.Tensor, torch.Tensor]) -> None:
    inputs, targets = data
    pca, pairs = PCAInputs.fit(inputs), all_pairs(targets)
    centred, share = inputs - inputs.mean(dim=0), targets.mean(dim=0)
    fitted = fit_ridge(pca, targets, 0.7, pairs)
    for label in range(targets.shape[1]):
        curvature = share[label] * (1 - share[label]) * centred.T @ centred + torch.eye(inputs.shape[1]) / 0.7
        expected = torch.linalg.solve(curvature, centred.T @ (targets[:, label] - share[label]))
        assert torch.allclose(fitted[:, label], expected, atol=1e-4)
    every = Candidates(torch.arange(targets.shape[1]).expand(targets.shape), targets.shape[1])
    assert torch.allclose(fit_ridge(pca, targets, 0.7, every), fitted, atol=1e-4)


def test_what_is_not_known_is_not_learned(data: tuple[torch.Tensor, torch.Tensor]) -> None:
    inputs, targets = data
    known = torch.ones_like(targets)
    known[::2] = 0
    other = torch.where(known > 0, targets, 1 - targets)
    one, two = (
        fit_logistic(PCAInputs.fit(inputs), of, torch.zeros(targets.shape[1]), 1.0, steps=30, known=known)
        for of in (targets, other)
    )
    assert torch.allclose(one.weights, two.weights, atol=2e-2)
    whole = fit_logistic(PCAInputs.fit(inputs), other, torch.zeros(targets.shape[1]), 1.0, steps=30)
    assert not torch.allclose(one.weights, whole.weights, atol=0.1)
