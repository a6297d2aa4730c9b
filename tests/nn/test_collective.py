import numpy as np
import pytest
import torch
from bncl_pyg.features.text_inputs import RANK
from scipy.sparse import csr_array

from bncl_pyg.features import WordAxes, text_inputs
from bncl_pyg.nn import ScoreScale, decided


def test_scores_are_standardised_label_by_label() -> None:
    generator = torch.Generator().manual_seed(0)
    entailment = torch.rand(200, 4, generator=generator) * torch.tensor([0.01, 0.1, 0.5, 0.9])
    contradiction = (1 - entailment) * torch.rand(200, 4, generator=generator)
    scale = ScoreScale.fit(entailment, contradiction)
    scores = scale(entailment, contradiction)
    assert torch.allclose(scores.mean(dim=0), torch.zeros(4), atol=1e-4)
    assert torch.allclose(scores.std(dim=0), torch.ones(4), atol=1e-2)
    more = scale((entailment + 0.01).clamp(max=1), contradiction)
    assert bool((more >= scores).all())


def test_a_pair_that_was_not_scored_is_the_labels_lowest_and_moves_no_mean() -> None:
    generator = torch.Generator().manual_seed(0)
    entailment = 0.1 + 0.5 * torch.rand(50, 2, generator=generator)
    contradiction = 0.9 - entailment
    scale = ScoreScale.fit(entailment, contradiction)
    some = torch.cat([entailment, torch.zeros(30, 2)]), torch.cat([contradiction, torch.zeros(30, 2)])
    again = ScoreScale.fit(*some)
    assert torch.allclose(again.means, scale.means, atol=1e-5)
    scores = again(*some)
    assert torch.allclose(scores[50:], scores[:50].min(dim=0).values.expand(30, 2))


def test_scores_that_are_all_alike_are_no_division_by_zero() -> None:
    same = torch.full((10, 3), 0.4)
    scores = ScoreScale.fit(same, same)(same, same)
    assert bool(torch.isfinite(scores).all())


def test_a_text_without_a_label_may_get_its_best() -> None:
    logits = torch.tensor([[-1.0, -2.0], [0.5, -1.0]])
    assert decided(logits, at_least_one=False).tolist() == [[False, False], [True, False]]
    assert decided(logits, at_least_one=True).tolist() == [[True, False], [True, False]]


def counts_of(*texts: str) -> csr_array:
    words = sorted({word for text in texts for word in text.split()})
    return csr_array(np.array([[text.split().count(word) for word in words] for text in texts], dtype=np.float32))


def test_texts_with_the_same_words_are_near() -> None:
    texts = ["gold mine", "gold ore", "gold mine ore", "wheat corn", "wheat field", "corn field"] * 3
    counts = counts_of(*texts)
    axes = WordAxes.fit(counts)
    assert axes is not None
    places = axes.place(counts)
    assert places.shape[1] <= RANK
    gram = places @ places.T
    assert gram[0, 1] > gram[0, 3] + 0.2
    assert torch.allclose(gram.diagonal(), torch.ones(len(texts)), atol=0.05)
    again = WordAxes.fit(counts)
    assert again is not None
    assert torch.equal(again.place(counts), places)


def test_too_few_words_for_axes() -> None:
    assert WordAxes.fit(counts_of("one", "two")) is None
    axes = WordAxes.fit(counts_of(*["a b", "a c", "b c"] * 4))
    assert axes is not None
    empty = axes.place(csr_array((2, 3), dtype=np.float32))
    assert not empty.any()


@pytest.mark.parametrize("vectors", [None, torch.ones(3, 2)])
def test_inputs_are_what_is_known(vectors: torch.Tensor | None) -> None:
    found = text_inputs(vectors, None, None, 3)
    assert found.shape == (3, 0 if vectors is None else 2)
