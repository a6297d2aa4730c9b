from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import TfidfTransformer
from torch import Tensor

from bncl_pyg.features import LSA, TextInputs


def counts_of(*texts: str) -> csr_array:
    words = sorted({word for text in texts for word in text.split()})
    return csr_array(np.array([[text.split().count(word) for word in words] for text in texts], dtype=np.float32))


def fitted(counts: csr_array, rank: int = 400) -> LSA:
    lsa = LSA.fit(counts, rank)
    assert lsa is not None
    return lsa


GRAIN_AND_GOLD = ["gold mine", "gold ore", "gold mine ore", "wheat corn", "wheat field", "corn field corn"] * 3


def test_texts_with_the_same_words_are_near() -> None:
    counts = counts_of(*GRAIN_AND_GOLD)
    coordinates = fitted(counts)(counts)
    gram = coordinates @ coordinates.T
    assert gram[0, 1] > gram[0, 3] + 0.2
    assert torch.allclose(gram.diagonal(), torch.ones(len(GRAIN_AND_GOLD)), atol=0.05)
    assert torch.equal(fitted(counts)(counts), coordinates)


def test_tf_idf_is_scikit_learns() -> None:
    counts = counts_of(*GRAIN_AND_GOLD)
    peer = TfidfTransformer(sublinear_tf=True).fit_transform(counts)
    assert np.allclose(fitted(counts).tf_idf(counts).toarray(), peer.toarray(), atol=1e-6)


def test_axes_are_those_of_the_truncated_svd() -> None:
    counts = counts_of(*GRAIN_AND_GOLD)
    lsa = fitted(counts, rank=2)
    _, _, axes = np.linalg.svd(lsa.tf_idf(counts).toarray())
    assert np.allclose(np.abs((axes[:2] @ lsa.components.numpy()).diagonal()), 1, atol=1e-3)


def test_rank_and_words_are_bounded() -> None:
    counts = counts_of(*GRAIN_AND_GOLD, "gold once")
    assert fitted(counts, rank=2)(counts).shape == (19, 2)
    # "once" is in one text only, and says nothing of any other.
    assert len(fitted(counts).buckets) == counts.shape[1] - 1
    # As many axes as there are words but one, where the rank allows more.
    assert fitted(counts).components.shape == (6, 5)


def test_too_few_words_for_axes() -> None:
    assert LSA.fit(counts_of("one", "two"), 400) is None
    lsa = fitted(counts_of(*["a b", "a c", "b c"] * 4))
    assert not lsa(csr_array((2, 3), dtype=np.float32)).any()


def test_texts_that_are_all_alike_have_axes_too() -> None:
    lsa = fitted(counts_of(*["gold rose"] * 9, *["oil fell"] * 9))
    assert lsa.components.isfinite().all()
    gram = lsa(counts_of(*["gold rose"] * 9, *["oil fell"] * 9))
    assert torch.allclose((gram @ gram.T)[0, [1, 9]], torch.tensor([1.0, 0.0]), atol=1e-2)


def test_training_sees_what_a_saved_model_will_see() -> None:
    """Axes are saved in half precision, and rounded to it when they are found."""
    components = fitted(counts_of(*GRAIN_AND_GOLD)).components
    assert torch.equal(components, components.half().float())


def test_inputs_are_vectors_and_weighted_words_beside_each_other() -> None:
    counts, vectors = counts_of(*GRAIN_AND_GOLD), torch.randn(18, 2, generator=torch.Generator().manual_seed(0))
    lsa, like = fitted(counts, rank=3), torch.zeros(18, 7)
    both = TextInputs(lsa, 2.0, uses_vectors=True)(vectors, counts, like)
    assert torch.equal(both, torch.cat([vectors, 2 * lsa(counts)], dim=1))
    assert torch.equal(TextInputs(lsa, 2.0, uses_vectors=False)(vectors, counts, like), 2 * lsa(counts))
    assert torch.equal(TextInputs(None, 2.0, uses_vectors=True)(vectors, counts, like), vectors)


@pytest.mark.parametrize("vectors", [None, torch.ones(3, 2)])
def test_inputs_are_what_is_known(vectors: Tensor | None) -> None:
    inputs = TextInputs(None, 2.0, uses_vectors=True)(vectors, None, torch.zeros(3, 5))
    assert inputs.shape == (3, 0 if vectors is None else 2)


def test_they_move_as_a_whole(tensors_in: Callable[[object], list[Tensor]]) -> None:
    inputs = TextInputs(fitted(counts_of(*GRAIN_AND_GOLD)), 2.0, uses_vectors=True)
    inputs.to("meta")
    tensors = tensors_in(inputs)
    assert len(tensors) == 3
    assert {tensor.device.type for tensor in tensors} == {"meta"}
