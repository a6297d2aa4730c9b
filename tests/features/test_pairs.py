import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from bncl_pyg.features import AllPairs, Candidates
from bncl_pyg.features.pairs import BLOCK_LABELS
from bncl_pyg.nn import CollectiveProjection, ScoreStandardizer
from bncl_pyg.training import PCAInputs, fit_logistic

TEXTS, LABELS, WIDTH = 60, 9, 4


def some(seed: int = 0, texts: int = TEXTS, labels: int = LABELS, width: int = WIDTH) -> Candidates:
    scores = torch.rand(texts, labels, generator=torch.Generator().manual_seed(seed))
    return Candidates(scores.topk(width, dim=1).indices.sort(dim=1).values, labels)


def every(texts: int = TEXTS, labels: int = LABELS) -> Candidates:
    return Candidates(torch.arange(labels).expand(texts, labels), labels)


def whole(values: torch.Tensor, pairs: Candidates, fill: float = 0.0) -> torch.Tensor:
    return torch.full((pairs.texts, pairs.labels), fill).scatter(1, pairs.candidates, values)


@given(st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_sums_and_products_are_those_of_the_whole_matrix_at_the_candidates(seed: int) -> None:
    pairs = some(seed)
    values, inputs, weights = torch.randn(TEXTS, WIDTH), torch.randn(TEXTS, 5), torch.randn(5, LABELS)
    assert torch.allclose(pairs.sums(values), whole(values, pairs).sum(dim=0), atol=1e-5)
    assert torch.equal(pairs.lowest(values), whole(values, pairs, torch.inf).min(dim=0).values)
    assert torch.allclose(pairs.linear(inputs, weights), (inputs @ weights).gather(1, pairs.candidates), atol=1e-5)
    numbers = torch.randn(LABELS)
    assert torch.equal(pairs.broadcast_to_pairs(numbers), numbers.expand(TEXTS, LABELS).gather(1, pairs.candidates))
    assert torch.equal(pairs.counts, whole(torch.ones(TEXTS, WIDTH), pairs).sum(dim=0))


def test_few_texts_look_at_few_labels() -> None:
    pairs = some(2, texts=2, labels=50, width=3)
    inputs, weights = torch.randn(2, 5), torch.randn(5, 50)
    assert torch.allclose(pairs.linear(inputs, weights), (inputs @ weights).gather(1, pairs.candidates), atol=1e-5)


def test_what_is_true_of_other_labels_is_left_out() -> None:
    pairs = some()
    truth = torch.rand(TEXTS, LABELS) > 0.5
    assert torch.equal(pairs.select(csr_array(truth.numpy())), truth.gather(1, pairs.candidates).float())


def test_with_every_label_a_candidate_all_is_as_with_all_pairs() -> None:
    generator = torch.Generator().manual_seed(2)
    entailment = torch.rand(TEXTS, LABELS, generator=generator)
    contradiction = (1 - entailment) * torch.rand(TEXTS, LABELS, generator=generator)
    inputs = torch.randn(TEXTS, 5, generator=generator)
    prevalence = torch.linspace(0.02, 0.5, LABELS)
    fitted = []
    for pairs in (AllPairs(TEXTS, LABELS), every()):
        standardizer = ScoreStandardizer.fit(entailment, contradiction, pairs)
        scores = standardizer(entailment, contradiction, pairs)
        projection = CollectiveProjection.fit(2 * scores, prevalence, 2.0, 0.75, pairs)
        probabilities = torch.sigmoid(projection(2 * scores, pairs))
        learned = fit_logistic(
            PCAInputs.fit(inputs), probabilities, torch.zeros(LABELS), 2.0, steps=60, scores=scores, pairs=pairs
        )
        fitted.append([scores, standardizer.lowest, projection.offsets, probabilities, *learned])
    for one, other in zip(*fitted, strict=True):
        assert torch.allclose(one, other, atol=2e-3)


def test_labels_fitted_some_at_a_time_are_fitted_as_all_together(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, pairs = torch.randn(TEXTS, 3), some(1)
    targets = torch.rand(TEXTS, WIDTH)
    together = fit_logistic(PCAInputs.fit(inputs), targets, torch.zeros(LABELS), 2.0, steps=100, pairs=pairs)
    monkeypatch.setattr("bncl_pyg.features.pairs.BLOCK_LABELS", 2)
    separately = fit_logistic(PCAInputs.fit(inputs), targets, torch.zeros(LABELS), 2.0, steps=100, pairs=pairs)
    assert torch.allclose(together.weights, separately.weights, atol=1e-2)


def test_an_unknown_pair_is_not_false() -> None:
    # Each label is scored for the texts that have it and for as many others; the rest is unknown.
    pairs = some(5, texts=400)
    targets = (torch.rand(400, WIDTH) > 0.5).float()
    none = PCAInputs.fit(torch.zeros(400, 0))
    learned = fit_logistic(none, targets, torch.zeros(LABELS), 1.0, steps=60, pairs=pairs)
    assert torch.allclose(torch.sigmoid(learned.intercepts), pairs.sums(targets) / pairs.counts, atol=1e-3)


def test_a_label_is_asked_of_half_its_few_candidates_at_most() -> None:
    candidates = torch.tensor([[0, 1], [1, 2], [1, 2], [1, 3]])
    pairs = Candidates(candidates, 5)
    logits = torch.zeros(4, 2)
    projection = CollectiveProjection.fit(logits, torch.tensor([1.0, 0.25, 0.0, 0.1, 0.5]), 1.0, 0.0, pairs)
    totals = pairs.sums(torch.sigmoid(projection(logits, pairs)))
    assert abs(float(totals[0]) - 0.625) < 1e-3
    assert abs(float(totals[1]) - 1.0) < 1e-3
    assert float(totals[2]) < 2e-3
    # Nobody's candidate: what its prevalence alone suggests.
    assert float(projection.offsets[4]) == 0.0
    always = CollectiveProjection.fit(logits, torch.tensor([0.5, 0.25, 0.1, 0.1, 1.0]), 1.0, 0.0, pairs)
    assert bool(always.offsets.isfinite().all())


def test_very_many_pairs_are_cut_where_labels_end() -> None:
    texts, labels = 170_000, 9000
    candidates = (torch.arange(texts)[:, None] * 7 + torch.arange(0, 8900, 89)) % labels
    pairs = Candidates(candidates.sort(dim=1).values, labels)
    counts = pairs.counts.long()
    assert [int(block.counts.sum()) for block in pairs.blocks()] == [
        int(part.sum()) for part in counts.split(BLOCK_LABELS)
    ]
    for block in pairs.blocks():
        assert len(block.take(torch.zeros(texts, 100, dtype=torch.int8))) == int(block.counts.sum())
