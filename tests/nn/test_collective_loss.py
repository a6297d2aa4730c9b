import math
from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bncl_pyg.features import Candidates
from bncl_pyg.nn import CollectiveLoss, choose_sharpness


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 2**32 - 1), st.data())
def test_parts_equal_a_plain_transcription(texts: int, labels: int, seed: int, data: st.DataObject) -> None:
    generator = np.random.default_rng(seed)
    p, against = generator.random((2, texts, labels)) * 1.6
    prevalence, cardinality, sharpness = generator.random(labels), generator.random() * labels, 7.0
    annotated = sorted(data.draw(st.sets(st.integers(0, texts - 1))))
    truth = generator.integers(0, 2, (len(annotated), labels)).astype(float)

    indicator = 1 / (1 + np.exp(-sharpness * (p - against)))
    norms = [math.sqrt(sum((p[i, k] + against[i, k] - 1) ** 2 for k in range(labels))) for i in range(texts)]
    counts = [(texts * prevalence[k] - sum(indicator[i, k] for i in range(texts))) ** 2 for k in range(labels)]
    sizes = [(cardinality - sum(indicator[i, k] for k in range(labels))) ** 2 for i in range(texts)]
    likelihood = literal = sharpened = 0.0
    for row, i in enumerate(annotated):
        for k in range(labels):
            y, yes, no = truth[row, k], max(p[i, k], 1e-6), max(against[i, k], 1e-6)
            literal -= y * math.log(yes) + (1 - y) * math.log(no)
            likelihood -= y * math.log(min(yes, 1)) + (1 - y) * math.log(min(no, 1))
            sharpened -= y * math.log(indicator[i, k]) + (1 - y) * math.log(1 - indicator[i, k])

    inputs = [torch.tensor(part, dtype=torch.float64) for part in (p, against, truth)]
    rows = torch.tensor(annotated, dtype=torch.int64)
    for annotation, expected in (("likelihood", likelihood), ("literal", literal), ("sharpened", sharpened)):
        torch.set_default_dtype(torch.float64)
        try:
            loss = CollectiveLoss(
                cardinality,
                torch.tensor(prevalence),
                sharpness=sharpness,
                annotation=annotation,  # type: ignore[arg-type]
            )
        finally:
            torch.set_default_dtype(torch.float32)
        parts, predicted = loss(*inputs, rows)
        assert np.allclose(predicted, indicator)
        assert parts.tolist() == pytest.approx([sum(norms), sum(counts), sum(sizes), expected])
        total = sum(norms) + 0.1 * sum(counts) + 0.5 * sum(sizes) + 100 * expected
        assert loss.total(parts).item() == pytest.approx(total)
    squares = CollectiveLoss(cardinality, torch.tensor(prevalence), hesitation="squares")
    assert squares(*inputs[:2])[0][0].item() == pytest.approx(sum(norm**2 for norm in norms))


def test_a_batch_with_the_others_counts_like_the_whole() -> None:
    p, against = torch.rand(2, 10, 4, generator=torch.Generator().manual_seed(0))
    loss = CollectiveLoss(1.5, torch.tensor([0.1, 0.2, 0.3, 0.4]))
    whole, _ = loss(p, against)
    others = loss.indicator(p[3:], against[3:]).sum(dim=0)
    batch, _ = loss(p[:3], against[:3], others=others, texts=10)
    assert batch[1].item() == pytest.approx(whole[1].item(), rel=1e-5)
    assert batch[2].item() == pytest.approx(loss(p[:3], against[:3])[0][2].item())


def test_states_at_zero_give_a_finite_loss_and_gradient() -> None:
    p = torch.zeros(2, 3, requires_grad=True)
    parts, _ = CollectiveLoss(1.0, torch.full((3,), 0.3))(p, torch.zeros(2, 3), torch.ones(1, 3), torch.tensor([0]))
    parts.sum().backward()
    assert p.grad is not None
    assert bool(p.grad.isfinite().all())


@pytest.mark.parametrize("hesitation", ["norm", "squares"])
def test_gradients_are_those_of_the_formulas(hesitation: Literal["norm", "squares"]) -> None:
    p, against = 1.2 * torch.rand(2, 5, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    others = torch.tensor([0.5, 1.0, 0.0, 2.0], dtype=torch.float64)
    loss = CollectiveLoss(1.5, torch.tensor([0.1, 0.2, 0.3, 0.4]), sharpness=3.0, hesitation=hesitation)
    candidates = Candidates(torch.tensor([[0, 1], [1, 2], [0, 2], [1, 2], [0, 1]]), 4)

    def everything(p: torch.Tensor, against: torch.Tensor, others: torch.Tensor) -> tuple[torch.Tensor, ...]:
        parts, predicted = loss(p, against, others=others, texts=9)
        return parts, predicted

    def of_candidates(p: torch.Tensor, against: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        parts: torch.Tensor = loss(p[:, :2], against[:, :2], others=others, texts=9, pairs=candidates)[0]
        return parts

    inputs = [part.requires_grad_() for part in (p.clone(), against.clone(), others)]
    assert torch.autograd.gradcheck(everything, inputs)
    assert torch.autograd.gradcheck(of_candidates, inputs)


@pytest.mark.parametrize("annotation", ["likelihood", "literal", "sharpened"])
@pytest.mark.parametrize("annotated", [[], [0, 3], [4, 1, 0, 2, 3]])
def test_gradients_without_autograd_are_those_with_it(
    annotation: Literal["likelihood", "literal", "sharpened"], annotated: list[int]
) -> None:
    generator = torch.Generator().manual_seed(2)
    # Some states are above 1, one is 0: the caps of the likelihood matter.
    p, against = 1.5 * torch.rand(2, 5, 4, generator=generator, dtype=torch.float64)
    p[0, 0] = against[3, 1] = 0.0
    truth = torch.randint(0, 2, (len(annotated), 4), generator=generator).double()
    loss = CollectiveLoss(1.5, torch.tensor([0.1, 0.2, 0.3, 0.4]), sharpness=3.0, annotation=annotation)
    others = torch.tensor([0.5, 1.0, 0.0, 2.0], dtype=torch.float64)
    given = {"truth": truth, "annotated": torch.tensor(annotated, dtype=torch.int64), "others": others, "texts": 9}
    states = p.clone().requires_grad_(), against.clone().requires_grad_()
    parts, predicted = loss(*states, **given)
    loss.total(parts).backward()
    own_parts, own_predicted, gradients = loss.with_gradients(p, against, **given)  # type: ignore[arg-type]
    assert torch.allclose(own_parts, parts)
    assert torch.allclose(own_predicted, predicted)
    for state, gradient in zip(states, gradients, strict=True):
        assert state.grad is not None
        assert torch.allclose(gradient, state.grad)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=8))
def test_sharpness_is_the_smallest_that_is_certain(margins: list[float]) -> None:
    entailment = torch.tensor([margins])
    sharpness = choose_sharpness(entailment, torch.zeros_like(entailment))
    exact = entailment.double()
    assert bool((torch.sigmoid(sharpness * exact) > 0.9999).all())
    assert sharpness == 1 or not bool((torch.sigmoid((sharpness - 1) * exact) > 0.9999).all())


def test_sharpness_needs_a_prediction() -> None:
    assert choose_sharpness(torch.tensor([[0.99]]), torch.tensor([[0.0]])) == 10  # the paper's value
    with pytest.raises(ValueError, match="No label is predicted"):
        choose_sharpness(torch.tensor([[0.1]]), torch.tensor([[0.2]]))


@pytest.mark.parametrize("annotation", ["likelihood", "literal", "sharpened"])
def test_what_is_not_known_of_a_text_is_not_learned(annotation: Literal["likelihood", "literal", "sharpened"]) -> None:
    generator = torch.Generator().manual_seed(0)
    p, against = torch.rand(2, 4, 5, generator=generator)
    loss = CollectiveLoss(1.0, torch.full((5,), 0.2), annotation=annotation)
    rows, truth = torch.tensor([1, 3]), torch.tensor([[1.0, 0, 0, 1, 0], [0, 1, 0, 0, 0]])
    known = torch.tensor([[1.0, 1, 0, 0, 0], [0, 0, 0, 0, 1]])
    parts = loss(p, against, truth, rows, known=known)[0]
    each = [
        loss(p[:, [column]], against[:, [column]], truth[[row], column][:, None], rows[[row]])[0][3]
        for row, column in known.nonzero().tolist()
        for loss in [CollectiveLoss(1.0, torch.full((1,), 0.2), annotation=annotation)]
    ]
    assert parts[3] == pytest.approx(float(sum(each)), rel=1e-5)
    everything = loss(p, against, truth, rows, known=torch.ones(2, 5))[0]
    assert torch.equal(everything, loss(p, against, truth, rows)[0])
