"""From what is known of a text besides its scores, an encoder's vector and its words, to the inputs of a regression."""

import numpy as np
import torch
from scipy.sparse import csr_array, diags_array
from sklearn.utils.extmath import randomized_svd
from torch import Tensor

RANK = 400
"""Into how many dimensions the words are pressed."""
WEIGHT = 2.0
"""Of the words beside the encoder's vector, which has length 1."""
LEAST_TEXTS = 2
"""A bucket of words counts from so many texts on."""


class WordAxes:
    """The main axes of TF-IDF vectors (latent semantic analysis).

    Args:
        buckets: which buckets of words count, ascending, (kept,).
        rarity: the inverse document frequency of each, (kept,).
        axes: (kept, rank).
    """

    def __init__(self, buckets: Tensor, rarity: Tensor, axes: Tensor) -> None:
        self.buckets, self.rarity, self.axes = buckets, rarity, axes

    @classmethod
    def fit(cls, counts: csr_array) -> "WordAxes | None":
        """Find the axes of texts, (texts, buckets); `None` where there are too few texts or words for any."""
        texts = counts.shape[0]
        frequency = np.bincount(counts.indices, minlength=counts.shape[1])
        buckets = np.flatnonzero(frequency >= LEAST_TEXTS)
        rank = min(RANK, texts - 1, len(buckets) - 1)
        if rank < 1:
            return None
        rarity = np.log((1 + texts) / (1 + frequency[buckets])) + 1
        found = cls(torch.from_numpy(buckets), torch.from_numpy(rarity).float(), torch.zeros(0))
        _, _, axes = randomized_svd(found._weighed(counts), rank, n_iter=3, random_state=0)
        # Half precision halves the model's size; training must see what prediction will see.
        found.axes = torch.from_numpy(np.ascontiguousarray(axes.T)).half().float()
        return found

    def place(self, counts: csr_array) -> Tensor:
        """Return each text's place along the axes; (texts, rank)."""
        return torch.from_numpy(np.asarray(self._weighed(counts) @ self.axes.numpy(), dtype=np.float32))

    def _weighed(self, counts: csr_array) -> csr_array:
        """Return TF-IDF vectors of length 1; (texts, kept)."""
        kept = csr_array(counts[:, self.buckets.numpy()], dtype=np.float32)
        kept.data = np.log(kept.data) + 1
        kept = kept @ diags_array(self.rarity.numpy())
        length = np.sqrt(np.asarray(kept.multiply(kept).sum(axis=1)).ravel())
        return csr_array(diags_array(1 / np.maximum(length, 1e-12).astype(np.float32)) @ kept)


def text_inputs(vectors: Tensor | None, counts: csr_array | None, axes: WordAxes | None, texts: int) -> Tensor:
    """Return encoder's vectors and words beside each other, as far as they are known; (texts, dimensions)."""
    parts = [torch.zeros(texts, 0)]
    if vectors is not None:
        parts.append(vectors)
    if counts is not None and axes is not None:
        parts.append(WEIGHT * axes.place(counts))
    return torch.cat(parts, dim=1)
