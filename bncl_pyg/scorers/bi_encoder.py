"""The bi-encoder, the default: texts and hypotheses are encoded independently, N + L encodings instead of N × L."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from bncl_pyg.scorers.encoder import SentenceEncoder
from bncl_pyg.scorers.head import Head
from bncl_pyg.scorers.scorer import best_candidates

COSINES_AT_ONCE = 1 << 24
"""It bounds the memory that choosing candidates takes."""


class BiEncoderScorer:
    """A sentence encoder and a head that turns two vectors into entailment and contradiction.

    Args:
        encoder: of texts and of hypotheses.
        head: from their vectors to probabilities.
        name: what to call it in a manifest.
    """

    block_texts = 1024

    def __init__(self, encoder: SentenceEncoder, head: Head, name: str) -> None:
        self.encoder, self.head, self.name = encoder, head, name
        self._hypotheses: tuple[tuple[str, ...], Tensor] | None = None
        self._last: tuple[dict[str, int], Tensor] = ({}, torch.empty(0, 0))

    def config(self) -> dict[str, Any]:
        """Return what decides the scores."""
        return {"name": self.name, **self.encoder.config(), **self.head.config()}

    def score(self, texts: Sequence[str], hypotheses: Sequence[str], pairs: Tensor | None = None) -> Tensor:
        """Return entailment and contradiction; see `Scorer`."""
        vectors = self.vectors(texts)
        against = self._encoded(hypotheses)
        if pairs is not None:
            return self.head.pairs(vectors, against, pairs)
        scores: Tensor = self.head(vectors, against)
        return scores

    def vectors(self, texts: Sequence[str]) -> Tensor:
        """Return unit vectors, (texts, dimensions); those of the last call are remembered."""
        if not texts:
            return self.encoder.encode(texts)
        place, vectors = self._last
        new = [text for text in dict.fromkeys(texts) if text not in place]
        if new:
            there = {text: row for row, text in enumerate(new, start=len(vectors))}
            encoded = self.encoder.encode(new)
            vectors = torch.cat([vectors, encoded]) if len(vectors) else encoded
            place = {text: place[text] if text in place else there[text] for text in texts}
            rows = list(place.values())
            self._last = dict(zip(place, range(len(rows)), strict=True)), vectors[rows]
            place, vectors = self._last
        return vectors[[place[text] for text in texts]]

    def top_labels(self, texts: Sequence[str], hypotheses: Sequence[str], k: int) -> Tensor:
        """Return the k hypotheses with the highest cosine; see `Scorer`."""
        vectors, against = self.vectors(texts), self._encoded(hypotheses).t()
        rows = max(COSINES_AT_ONCE // max(len(hypotheses), 1), 1)
        parts = [best_candidates(part @ against, k) for part in vectors.split(rows) if len(part)]
        return torch.cat(parts) if parts else torch.zeros(0, k, dtype=torch.int64)

    def cache_label_vectors(self, hypotheses: Sequence[str], vectors: Tensor) -> None:
        """Take hypotheses' vectors; see `Scorer`."""
        self._hypotheses = tuple(hypotheses), vectors.float()

    def _encoded(self, hypotheses: Sequence[str]) -> Tensor:
        key = tuple(hypotheses)
        if self._hypotheses is None or self._hypotheses[0] != key:
            self._hypotheses = key, self.encoder.encode(key)
        return self._hypotheses[1]
