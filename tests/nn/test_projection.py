import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bncl_pyg.features import AllPairs, row_blocks
from bncl_pyg.nn import CollectiveProjection, ProjectionSteps, solve_text_offsets
from bncl_pyg.nn.projection import solve_label_offsets


@given(st.integers(0, 10_000), st.floats(0.5, 6))
@settings(max_examples=40, deadline=None)
def test_totals_are_met(seed: int, slope: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = slope * torch.randn(40, 5, generator=generator)
    totals = 0.05 + 30 * torch.rand(5, generator=generator)
    offsets = solve_label_offsets(logits, totals, torch.zeros(5), 25, AllPairs(40, 5))
    assert torch.allclose(torch.sigmoid(logits + offsets).sum(dim=0), totals, rtol=1e-3)
    cardinality = float(totals[0])
    offsets = solve_text_offsets(logits.T.contiguous(), cardinality, torch.zeros(5), 25)
    totals = torch.sigmoid(logits.T + offsets[:, None]).sum(dim=1)
    assert torch.allclose(totals, torch.full((5,), cardinality), rtol=1e-3)


def test_blocks_that_fit_the_cache_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = torch.randn(50, 7, generator=torch.Generator().manual_seed(5))
    projection = CollectiveProjection.fit(logits, torch.full((7,), 0.2), 1.4, 0.75)
    whole = projection(logits)
    monkeypatch.setattr("bncl_pyg.features.pairs.CACHED_NUMBERS", 100)
    monkeypatch.setattr("bncl_pyg.features.pairs.LEAST_ROWS", 3)
    assert len(list(row_blocks(logits))) == 4
    in_blocks = CollectiveProjection.fit(logits, torch.full((7,), 0.2), 1.4, 0.75)
    assert torch.allclose(in_blocks(logits), whole, atol=1e-4)


@pytest.mark.parametrize("competition", [0.0, 0.5, 1.0])
def test_prevalence_is_met_exactly_and_cardinality_as_far_as_it_competes(competition: float) -> None:
    logits = 2 * torch.randn(400, 12, generator=torch.Generator().manual_seed(1))
    prevalence = torch.linspace(0.01, 0.4, 12)
    cardinality = float(prevalence.sum())
    projection = CollectiveProjection.fit(logits, prevalence, cardinality, competition)
    probabilities = torch.sigmoid(projection(logits))
    assert torch.allclose(probabilities.mean(dim=0), prevalence, rtol=0.02)
    std = probabilities.sum(dim=1).std()
    independent = torch.sigmoid(CollectiveProjection.fit(logits, prevalence, cardinality, 0.0)(logits)).sum(dim=1).std()
    assert std <= independent * (1.001 - 0.5 * competition)
    if competition == 1:
        assert torch.allclose(probabilities.sum(dim=1), torch.tensor(cardinality), rtol=0.02)


def test_a_new_text_is_projected_alone() -> None:
    logits = torch.randn(100, 6, generator=torch.Generator().manual_seed(2))
    projection = CollectiveProjection.fit(logits, torch.full((6,), 0.2), 1.2, 0.75)
    assert torch.allclose(projection(logits)[7], projection(logits[7:8])[0], atol=1e-4)


def test_what_never_occurs_is_never_probable_and_too_many_labels_are_no_error() -> None:
    logits = torch.randn(50, 3, generator=torch.Generator().manual_seed(3))
    projection = CollectiveProjection.fit(logits, torch.tensor([0.0, 0.5, 1.0]), 3.0, 0.75)
    probabilities = torch.sigmoid(projection(logits))
    assert bool(torch.isfinite(probabilities).all())
    assert probabilities[:, 0].max() < 0.01
    assert probabilities[:, 2].min() > 0.9


def test_it_is_the_least_change_that_meets_the_prevalence() -> None:
    """At the optimum of relative entropy under a sum, log-odds differ from the start by one number a label."""
    logits = torch.randn(30, 2, generator=torch.Generator().manual_seed(4)).double()
    projection = CollectiveProjection.fit(logits.float(), torch.tensor([0.3, 0.6]), 0.9, 0.0)
    moved = projection(logits.float()).double() - logits
    assert np.allclose(moved.std(dim=0).numpy(), 0, atol=1e-5)


def test_the_further_it_is_solved_the_nearer_the_totals() -> None:
    logits = 3 * torch.randn(200, 8, generator=torch.Generator().manual_seed(6))
    prevalence = torch.linspace(0.02, 0.4, 8)

    def error(steps: ProjectionSteps) -> float:
        projection = CollectiveProjection.fit(logits, prevalence, float(prevalence.sum()), 0.75, steps=steps)
        assert projection.steps is steps
        return float((torch.sigmoid(projection(logits)).mean(dim=0) - prevalence).abs().max())

    assert error(ProjectionSteps()) < 0.2 * error(ProjectionSteps(turns=1, first=1))


def test_its_config_makes_it_again() -> None:
    logits = torch.randn(30, 3, generator=torch.Generator().manual_seed(8))
    projection = CollectiveProjection.fit(logits, torch.full((3,), 0.3), 0.9, 0.5)
    again = CollectiveProjection(projection.offsets, **projection.config())
    assert torch.equal(again(logits), projection(logits))
