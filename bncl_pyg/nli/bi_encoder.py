"""The embedded default: texts and hypotheses are encoded apart, N + L encodings instead of N × L."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from bncl_pyg.nli.encoder import SentenceEncoder
from bncl_pyg.nli.head import Head


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

    def about(self) -> dict[str, Any]:
        """Return what decides the scores."""
        return {"name": self.name, **self.encoder.about(), "head_sha256": self.head.digest()}

    def score(self, texts: Sequence[str], hypotheses: Sequence[str], pairs: Tensor | None = None) -> Tensor:
        """Return entailment and contradiction; see `Scorer`."""
        unique = list(dict.fromkeys(texts))
        place = {text: row for row, text in enumerate(unique)}
        vectors = self.encoder.encode(unique)[[place[text] for text in texts]]
        against = self._encoded(hypotheses)
        if pairs is not None:
            return self.head.pairs(vectors, against, pairs)
        scores: Tensor = self.head(vectors, against)
        return scores

    def _encoded(self, hypotheses: Sequence[str]) -> Tensor:
        key = tuple(hypotheses)
        if self._hypotheses is None or self._hypotheses[0] != key:
            self._hypotheses = key, self.encoder.encode(key)
        return self._hypotheses[1]
