"""Latent semantic analysis: the truncated SVD of TF-IDF vectors of the texts' words."""

import numpy as np
import torch
from scipy.sparse import csr_array, diags_array
from torch import Tensor

ITERATIONS = 3
"""Power iterations of the randomised SVD, a tolerance of the solver."""
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
    def fit(cls, counts: csr_array, rank: int) -> "LSA | None":
        """Find the main axes of texts; `None` where there are too few texts or words for any.

        Args:
            counts: how often each text has a word of each bucket, (texts, buckets).
            rank: how many axes, at most.
        """
        # scikit-learn takes seconds to import, and a prediction does not need it.
        from sklearn.utils.extmath import randomized_svd

        texts = counts.shape[0]
        frequency = np.bincount(counts.indices, minlength=counts.shape[1])
        buckets = np.flatnonzero(frequency >= MIN_TEXTS)
        rank = min(rank, texts - 1, len(buckets) - 1)
        if rank < 1:
            return None
        idf = np.log((1 + texts) / (1 + frequency[buckets])) + 1
        weighting = cls(torch.from_numpy(buckets), torch.from_numpy(idf).float(), torch.zeros(0))
        _, _, axes = randomized_svd(weighting.tf_idf(counts), rank, n_iter=ITERATIONS, random_state=0)
        # Half precision halves the model's size; training must see what prediction will see.
        components = torch.from_numpy(np.ascontiguousarray(axes.T)).half().float()
        return cls(weighting.buckets, weighting.idf, components)

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
