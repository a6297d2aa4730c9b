import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bncl_pyg.features import AllPairs, pairs
from bncl_pyg.nn import CollectiveProjection, solve_text_offsets
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
    found = torch.sigmoid(logits.T + offsets[:, None]).sum(dim=1)
    assert torch.allclose(found, torch.full((5,), cardinality), rtol=1e-3)


def test_blocks_that_fit_the_cache_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = torch.randn(50, 7, generator=torch.Generator().manual_seed(5))
    solved = CollectiveProjection.solved(logits, torch.full((7,), 0.2), 1.4, 0.75)
    whole = solved(logits)
    monkeypatch.setattr(pairs, "CACHED_NUMBERS", 100)
    in_blocks = CollectiveProjection.solved(logits, torch.full((7,), 0.2), 1.4, 0.75)
    assert torch.allclose(in_blocks(logits), whole, atol=1e-4)


@pytest.mark.parametrize("competition", [0.0, 0.5, 1.0])
def test_prevalence_is_met_exactly_and_cardinality_as_far_as_it_competes(competition: float) -> None:
    logits = 2 * torch.randn(400, 12, generator=torch.Generator().manual_seed(1))
    prevalence = torch.linspace(0.01, 0.4, 12)
    cardinality = float(prevalence.sum())
    found = CollectiveProjection.solved(logits, prevalence, cardinality, competition)
    likely = torch.sigmoid(found(logits))
    assert torch.allclose(likely.mean(dim=0), prevalence, rtol=0.02)
    spread = likely.sum(dim=1).std()
    free = torch.sigmoid(CollectiveProjection.solved(logits, prevalence, cardinality, 0.0)(logits)).sum(dim=1).std()
    assert spread <= free * (1.001 - 0.5 * competition)
    if competition == 1:
        assert torch.allclose(likely.sum(dim=1), torch.tensor(cardinality), rtol=0.02)


def test_a_new_text_is_projected_alone() -> None:
    logits = torch.randn(100, 6, generator=torch.Generator().manual_seed(2))
    found = CollectiveProjection.solved(logits, torch.full((6,), 0.2), 1.2, 0.75)
    assert torch.allclose(found(logits)[7], found(logits[7:8])[0], atol=1e-4)


def test_what_never_occurs_is_never_likely_and_too_many_labels_are_no_error() -> None:
    logits = torch.randn(50, 3, generator=torch.Generator().manual_seed(3))
    found = CollectiveProjection.solved(logits, torch.tensor([0.0, 0.5, 1.0]), 3.0, 0.75)
    likely = torch.sigmoid(found(logits))
    assert bool(torch.isfinite(likely).all())
    assert likely[:, 0].max() < 0.01
    assert likely[:, 2].min() > 0.9


def test_it_is_the_least_change_that_meets_the_prevalence() -> None:
    """At the optimum of relative entropy under a sum, log-odds differ from the start by one number a label."""
    logits = torch.randn(30, 2, generator=torch.Generator().manual_seed(4)).double()
    found = CollectiveProjection.solved(logits.float(), torch.tensor([0.3, 0.6]), 0.9, 0.0)
    moved = found(logits.float()).double() - logits
    assert np.allclose(moved.std(dim=0).numpy(), 0, atol=1e-5)
