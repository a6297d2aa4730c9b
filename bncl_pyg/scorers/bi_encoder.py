"""The bi-encoder: texts and hypotheses are encoded independently, N + L encodings instead of N × L."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import normalize

from bncl_pyg.scorers.head import Head
from bncl_pyg.scorers.scorer import Hypothesis, LabelTensors, average_wordings, best_candidates, wordings_of
from bncl_pyg.scorers.tokens import Reading

COSINES_AT_ONCE = 1 << 24
"""It bounds the memory that choosing candidates takes."""


class TextEncoder(Protocol):
    """What makes unit vectors of texts: `SentenceEncoder`, `StaticEncoder`."""

    tokenizer: Any

    def config(self) -> dict[str, Any]:
        """Return what decides the vectors."""
        ...

    def encode(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> Tensor:
        """Return unit vectors, (texts, dimensions)."""
        ...


class BiEncoderScorer:
    """A sentence encoder and a head that turns two vectors into entailment and contradiction.

    Args:
        encoder: of texts and of hypotheses.
        head: from their vectors to probabilities.
        name: what to call it in a manifest.
    """

    block_texts = 1024

    def __init__(self, encoder: TextEncoder, head: Head, name: str) -> None:
        self.encoder, self.head, self.name = encoder, head, name
        self._hypotheses: tuple[tuple[Hypothesis, ...], Tensor] | None = None
        self._last: tuple[dict[str, int], Tensor] = ({}, torch.empty(0, 0))

    def config(self) -> dict[str, Any]:
        """Return what decides the scores."""
        return {"name": self.name, **self.encoder.config(), **self.head.config()}

    def score(self, texts: Sequence[str], hypotheses: Sequence[Hypothesis], pairs: Tensor | None = None) -> Tensor:
        """Return entailment and contradiction; see `Scorer`."""
        vectors = self.vectors(texts)
        against = self.label_vectors(hypotheses)
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

    def cosines(self, texts: Sequence[str], hypotheses: Sequence[Hypothesis]) -> Tensor:
        """Return the cosine of every pair, (texts, hypotheses)."""
        return self.vectors(texts) @ self.label_vectors(hypotheses).t()

    def top_labels(self, texts: Sequence[str], hypotheses: Sequence[Hypothesis], k: int) -> Tensor:
        """Return the k hypotheses with the highest cosine; see `Scorer`."""
        self.vectors(texts)
        rows = max(COSINES_AT_ONCE // max(len(hypotheses), 1), 1)
        blocks = [texts[start : start + rows] for start in range(0, len(texts), rows)]
        parts = [best_candidates(self.remembered(block) @ self.label_vectors(hypotheses).t(), k) for block in blocks]
        return torch.cat(parts) if parts else torch.zeros(0, k, dtype=torch.int64)

    def encode_labels(self, hypotheses: Sequence[Hypothesis]) -> LabelTensors:
        """Return the hypotheses' vectors; see `Scorer`."""
        wordings = [wording for one in hypotheses for wording in wordings_of(one)]
        return {"vectors": normalize(average_wordings(self.encoder.encode(wordings), hypotheses))}

    def use_labels(self, hypotheses: Sequence[Hypothesis], tensors: Mapping[str, Tensor]) -> None:
        """Take hypotheses' vectors; see `Scorer`."""
        self._hypotheses = tuple(hypotheses), tensors["vectors"].float()

    def label_vectors(self, hypotheses: Sequence[Hypothesis]) -> Tensor:
        """Return the hypotheses' vectors, (hypotheses, dimensions); those of the last call are remembered."""
        key = tuple(hypotheses)
        if self._hypotheses is None or self._hypotheses[0] != key:
            self._hypotheses = key, self.encode_labels(key)["vectors"]
        return self._hypotheses[1]

    def reading(self, texts: Sequence[str]) -> Reading | None:
        """Return how texts would be read; see `Scorer`."""
        reading: Reading | None = self.encoder.tokenizer.reading(texts)
        return reading

    def pieces(self, text: str) -> list[str]:
        """Return the word pieces that the encoder sees of a text."""
        pieces: list[str] = self.encoder.tokenizer.pieces(text)
        return pieces

    def forget(self) -> None:
        """Forget the vectors of the last texts."""
        self._last = ({}, torch.empty(0, 0))

    def remembered(self, texts: Sequence[str]) -> Tensor:
        """Return the vectors of texts that `vectors` was asked for last, (texts, dimensions)."""
        place, vectors = self._last
        return vectors[[place[text] for text in texts]]
