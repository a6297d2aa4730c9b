from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from bncl_pyg.features import Candidates
from bncl_pyg.nn import CollectiveModel, CollectiveProjection, ScoreStandardizer, decide


def test_scores_are_standardised_label_by_label() -> None:
    generator = torch.Generator().manual_seed(0)
    entailment = torch.rand(200, 4, generator=generator) * torch.tensor([0.01, 0.1, 0.5, 0.9])
    contradiction = (1 - entailment) * torch.rand(200, 4, generator=generator)
    standardizer = ScoreStandardizer.fit(entailment, contradiction)
    scores = standardizer(entailment, contradiction)
    assert torch.allclose(scores.mean(dim=0), torch.zeros(4), atol=1e-4)
    assert torch.allclose(scores.std(dim=0), torch.ones(4), atol=1e-2)
    more = standardizer((entailment + 0.01).clamp(max=1), contradiction)
    assert bool((more >= scores).all())


def test_a_pair_that_was_not_scored_is_the_labels_lowest_and_moves_no_mean() -> None:
    generator = torch.Generator().manual_seed(0)
    entailment = 0.1 + 0.5 * torch.rand(50, 2, generator=generator)
    contradiction = 0.9 - entailment
    standardizer = ScoreStandardizer.fit(entailment, contradiction)
    some = torch.cat([entailment, torch.zeros(30, 2)]), torch.cat([contradiction, torch.zeros(30, 2)])
    again = ScoreStandardizer.fit(*some)
    assert torch.allclose(again.means, standardizer.means, atol=1e-5)
    scores = again(*some)
    assert torch.allclose(scores[50:], scores[:50].min(dim=0).values.expand(30, 2))


def test_scores_that_are_all_alike_are_no_division_by_zero() -> None:
    same = torch.full((10, 3), 0.4)
    scores = ScoreStandardizer.fit(same, same)(same, same)
    assert bool(torch.isfinite(scores).all())


def test_a_text_without_a_label_may_get_its_best() -> None:
    margins = torch.tensor([[-1.0, -2.0], [0.5, -1.0]])
    assert decide(margins, at_least_one=False).tolist() == [[False, False], [True, False]]
    assert decide(margins, at_least_one=True).tolist() == [[True, False], [True, False]]


TEXTS, LABELS, DIMENSIONS = 20, 4, 3


@pytest.fixture
def scores() -> tuple[Tensor, Tensor, Tensor]:
    """Entailment, contradiction and inputs of texts."""
    generator = torch.Generator().manual_seed(1)
    entailment = torch.rand(TEXTS, LABELS, generator=generator)
    return entailment, 0.9 * (1 - entailment), torch.randn(TEXTS, DIMENSIONS, generator=generator)


def make(scores: tuple[Tensor, Tensor, Tensor], *, corrected: bool) -> CollectiveModel:
    draw = torch.Generator().manual_seed(2)
    tensors = {
        "score_weight": torch.tensor(2.0),
        "text_weights": torch.randn(DIMENSIONS, LABELS, generator=draw),
        "text_intercepts": torch.randn(LABELS, generator=draw),
        "thresholds": torch.tensor([0.0, 0.1, -0.2, 0.3]),
    }
    if corrected:
        tensors["slopes"] = torch.tensor([0.5, 1.0, 1.5, 2.0])
        tensors["intercepts"] = torch.randn(LABELS, generator=draw)
        tensors["weights"] = torch.randn(DIMENSIONS, LABELS, generator=draw)
    names = ("unsupervised", "calibration", "decision")
    offsets = torch.randn(3, LABELS, generator=draw)
    return CollectiveModel(
        ScoreStandardizer.fit(*scores[:2]),
        tensors=tensors,
        projections={name: CollectiveProjection(row, 1.2, 0.5) for name, row in zip(names, offsets, strict=True)},
        inverse_temperature=0.4,
        decision_inverse_temperature=1.5,
        max_logit=1.0,
        at_least_one=True,
    )


@pytest.mark.parametrize("corrected", [False, True])
def test_logits_are_those_of_the_formulas(scores: tuple[Tensor, Tensor, Tensor], corrected: bool) -> None:
    model, inputs = make(scores, corrected=corrected), scores[2]
    z = model.standardizer(*scores[:2])
    expected = 2 * z + inputs @ model.get_buffer("text_weights") + model.get_buffer("text_intercepts")
    assert model.is_corrected == corrected
    if corrected:
        bounded = model.projections["unsupervised"](expected).clamp(-1, 1)
        assert bool((bounded.abs() == 1).any())
        expected = model.get_buffer("slopes") * bounded + inputs @ model.get_buffer("weights")
        expected = expected + model.get_buffer("intercepts")
    logits = model(*scores)
    assert torch.allclose(logits, expected, atol=1e-5)
    probabilities = torch.sigmoid(model.projections["calibration"](0.4 * logits))
    assert torch.allclose(model.probabilities(logits), probabilities)
    margins = model.projections["decision"](1.5 * logits) - model.get_buffer("thresholds")
    assert torch.allclose(model.decision_function(logits), margins)
    decisions = model.decide(margins)
    assert bool((decisions >= (margins > 0)).all())
    assert bool(decisions.any(dim=1).all())


@pytest.mark.parametrize("corrected", [False, True])
def test_every_label_a_candidate_changes_nothing(scores: tuple[Tensor, Tensor, Tensor], corrected: bool) -> None:
    model, every = make(scores, corrected=corrected), Candidates(torch.arange(LABELS).expand(TEXTS, LABELS), LABELS)
    logits = model(*scores)
    assert torch.allclose(model(*scores, every), logits, atol=1e-5)
    assert torch.allclose(model.probabilities(logits, every), model.probabilities(logits), atol=1e-6)
    assert torch.allclose(model.decision_function(logits, every), model.decision_function(logits), atol=1e-6)


def test_it_moves_as_a_whole(
    scores: tuple[Tensor, Tensor, Tensor], tensors_in: Callable[[object], list[Tensor]]
) -> None:
    model = make(scores, corrected=True)
    model.to("meta")
    assert {tensor.device.type for tensor in tensors_in(model)} == {"meta"}
    logits = model(*(part.to("meta") for part in scores))
    assert model.probabilities(logits).device.type == model.decision_function(logits).device.type == "meta"
