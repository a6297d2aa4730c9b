"""Latent semantic analysis: the truncated SVD of TF-IDF vectors of the texts' words.

The axes are found by subspace iteration, a randomised SVD whose only look at the texts is the product AᵀAQ, a sum over
texts: with A in several processes, it is the sum of theirs.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array
from torch import Tensor

from bncl_pyg.ranks import ALONE, Ranks

ITERATIONS, OVERSAMPLES = 4, 10
"""Tolerances of the solver: how often the subspace is multiplied, and how many axes more than wanted it has."""
WORD_SUMS = "words"
RANK = 400
"""A tolerance: how many axes."""
MIN_TEXTS = 2
"""A word of a single text says nothing of any other."""


class LSA(torch.nn.Module):
    """From word counts to their coordinates along the main axes of TF-IDF vectors.

    Args:
        buckets: which buckets of words count, ascending, (kept,).
        idf: the inverse document frequency of each, (kept,).
        components: the axes, (kept, rank).

    Shapes:
        - **input:** word counts (texts, buckets), sparse
        - **output:** coordinates (texts, rank)
    """

    def __init__(self, buckets: Tensor, idf: Tensor, components: Tensor) -> None:
        super().__init__()
        self.register_buffer("buckets", buckets)
        self.register_buffer("idf", idf)
        self.register_buffer("components", components)
        self.buckets: Tensor
        self.idf: Tensor
        self.components: Tensor

    @classmethod
    def fit(cls, counts: csr_array, rank: int = RANK, ranks: Ranks = ALONE) -> "LSA | None":
        """Find the main axes of texts; `None` where there are too few texts or words for any.

        Args:
            counts: how often each text has a word of each bucket, (texts, buckets).
            rank: how many axes, at most.
            ranks: who holds the other texts.
        """
        texts = int(ranks.total(counts.shape[0])[0])
        frequency = ranks.sum(torch.from_numpy(np.bincount(counts.indices, minlength=counts.shape[1])), WORD_SUMS)
        buckets = (frequency >= MIN_TEXTS).nonzero()[:, 0]
        rank = min(rank, texts - 1, len(buckets) - 1)
        if rank < 1:
            return None
        idf = np.log((1 + texts) / (1 + frequency[buckets].numpy())) + 1
        weighting = cls(buckets, torch.from_numpy(idf).float(), torch.zeros(0))
        axes = _main_axes(weighting.tf_idf(counts), rank, ranks)
        # Half precision halves the model's size; training must see what prediction will see.
        return cls(weighting.buckets, weighting.idf, axes.half().float())

    def forward(self, counts: csr_array) -> Tensor:
        """Return each text's coordinates along the axes; (texts, rank)."""
        coordinates = self.tf_idf(counts) @ self.components.cpu().numpy()
        return torch.from_numpy(np.asarray(coordinates, dtype=np.float32)).to(self.components.device)

    def tf_idf(self, counts: csr_array) -> csr_array:
        """Return TF-IDF vectors of length 1; (texts, kept)."""
        kept = csr_array(counts[:, self.buckets.cpu().numpy()], dtype=np.float32)
        kept.data = np.log(kept.data) + 1
        kept = kept @ diags_array(self.idf.cpu().numpy())
        length = np.sqrt(np.asarray(kept.multiply(kept).sum(axis=1)).ravel())
        return csr_array(diags_array(1 / np.maximum(length, 1e-12).astype(np.float32)) @ kept)


def _main_axes(texts: csr_array, rank: int, ranks: Ranks) -> Tensor:
    """Return the axes along which texts, (texts, words), vary most, the first most of all; (words, rank)."""
    words = texts.shape[1]
    size = min(rank + OVERSAMPLES, words)
    wide = csr_array(texts, dtype=np.float64)
    basis = torch.from_numpy(np.random.default_rng(0).standard_normal((words, size), dtype=np.float32))

    def coordinates() -> NDArray[np.float64]:
        # A text's own: the same whoever holds it. What is summed over texts needs more digits than what is summed
        # in a text, so that the sum is the same however the texts are shared out.
        return np.asarray(texts @ basis.numpy(), dtype=np.float64)

    for iteration in range(1, ITERATIONS + 1):
        product = ranks.sum(torch.from_numpy(wide.T @ coordinates()), WORD_SUMS).float()
        basis = torch.linalg.qr(product).Q if iteration == ITERATIONS else _lower_factor(product)
        basis = ranks.of_first(basis, WORD_SUMS)
    along = torch.from_numpy(coordinates())
    _, vectors = torch.linalg.eigh(ranks.sum(along.T @ along, WORD_SUMS))
    axes = basis @ vectors.flip(1)[:, :rank].float()
    # A sign that does not depend on the solver: the largest number of an axis is positive.
    signs = axes.gather(0, axes.abs().argmax(dim=0, keepdim=True)).sign()
    return ranks.of_first(axes * signs, WORD_SUMS)


def _lower_factor(matrix: Tensor) -> Tensor:
    """Return PL of the decomposition PLU, a well-conditioned basis of the columns' space, sooner than QR does."""
    # Texts that are alike span fewer axes than are looked for: L is there all the same.
    factors, pivots, _ = torch.linalg.lu_factor_ex(matrix)
    order = list(range(len(matrix)))
    for place, other in enumerate((pivots - 1).tolist()):
        order[place], order[other] = order[other], order[place]
    lower = factors.tril(-1)
    lower.diagonal().fill_(1)
    return torch.empty_like(matrix).index_copy_(0, torch.tensor(order), lower)


class TextInputs(torch.nn.Module):
    """What a linear model sees of a text besides its scores: the encoder's vector and, beside it, LSA of its words.

    Args:
        uses_vectors: whether the encoder's vectors are used.
        lsa: of the words, if they are used.
        lsa_weight: of the words beside the encoder's vector, which has length 1.

    Shapes:
        - **input:** vectors (texts, dimensions), word counts (texts, buckets)
        - **output:** (texts, dimensions + rank)
    """

    def __init__(self, lsa: LSA | None, lsa_weight: float, *, uses_vectors: bool) -> None:
        super().__init__()
        self.lsa, self.lsa_weight, self.uses_vectors = lsa, lsa_weight, uses_vectors

    def forward(self, vectors: Tensor | None, words: csr_array | None, like: Tensor) -> Tensor:
        """Return both beside each other, as far as they are used; `like` has a row a text."""
        parts = [like.new_zeros(len(like), 0)]
        if self.uses_vectors and vectors is not None:
            parts.append(vectors.to(like))
        if self.lsa is not None and words is not None:
            parts.append(self.lsa_weight * self.lsa(words).to(like))
        return torch.cat(parts, dim=1)
