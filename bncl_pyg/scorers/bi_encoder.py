"""The bi-encoder: texts and hypotheses are encoded independently, N + L encodings instead of N × L."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import normalize

from bncl_pyg.scorers.encoder import mean_of_windows
from bncl_pyg.scorers.head import Head
from bncl_pyg.scorers.label_search import COSINES_AT_ONCE, NearestLabels, search_labels
from bncl_pyg.scorers.scorer import (
    Hypothesis,
    LabelTensors,
    average_wordings,
    best_candidates,
    best_windows,
    wordings_of,
)
from bncl_pyg.scorers.tokens import Reading


class TextEncoder(Protocol):
    """What makes unit vectors of texts: `SentenceEncoder`, `StaticEncoder`."""

    tokenizer: Any

    def config(self) -> dict[str, Any]:
        """Return what decides the vectors."""
        ...

    def encode(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> Tensor:
        """Return unit vectors, (texts, dimensions)."""
        ...

    def encode_windows(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return unit vectors of all windows, text by text, (windows, dimensions), and how many each text has."""
        ...


class BiEncoderScorer:
    """A sentence encoder and a head that turns two vectors into entailment and contradiction.

    Of a text that is read in several windows, the one that speaks most for a label is scored; the text's own vector is
    the mean of theirs.

    Args:
        encoder: of texts and of hypotheses.
        head: from their vectors to probabilities.
        name: what to call it in a manifest.
    """

    block_texts = 1024

    def __init__(self, encoder: TextEncoder, head: Head, name: str) -> None:
        self.encoder, self.head, self.name = encoder, head, name
        self._hypotheses: tuple[tuple[Hypothesis, ...], Tensor] | None = None
        self._last = _NOTHING

    def config(self) -> dict[str, Any]:
        """Return what decides the scores."""
        return {"name": self.name, **self.encoder.config(), **self.head.config()}

    def score(self, texts: Sequence[str], hypotheses: Sequence[Hypothesis], pairs: Tensor | None = None) -> Tensor:
        """Return entailment and contradiction; see `Scorer`."""
        windows, counts = self.windows(texts)
        against = self.label_vectors(hypotheses)
        if pairs is None:
            scores: Tensor = self.head(windows, against)
        else:
            own = pairs.repeat_interleave(counts, dim=0) if len(pairs) == len(counts) else pairs
            scores = self.head.pairs(windows, against, own)
        return best_windows(scores, counts)

    def vectors(self, texts: Sequence[str]) -> Tensor:
        """Return unit vectors, (texts, dimensions); those of the last call are remembered."""
        return mean_of_windows(*self.windows(texts))

    def cosines(self, texts: Sequence[str], hypotheses: Sequence[Hypothesis]) -> Tensor:
        """Return the cosine of every pair, of the nearest window of each text, (texts, hypotheses)."""
        windows, counts = self.windows(texts)
        cosines = windows @ self.label_vectors(hypotheses).t()
        if len(cosines) == len(counts):
            return cosines
        owners = torch.repeat_interleave(torch.arange(len(counts)), counts)[:, None].expand_as(cosines)
        return torch.full((len(counts), len(hypotheses)), -1.0).scatter_reduce_(0, owners, cosines, "amax")

    def top_labels(
        self,
        texts: Sequence[str],
        hypotheses: Sequence[Hypothesis],
        k: int,
        *,
        nearest: NearestLabels | None = None,
    ) -> Tensor:
        """Return the k hypotheses with the highest cosine; see `Scorer`, and for `nearest` `search_labels`."""
        chosen = search_labels([self], texts, hypotheses, k, nearest)
        if chosen is not None:
            return chosen
        rows = max(COSINES_AT_ONCE // max(len(hypotheses), 1), 1)
        blocks = [texts[start : start + rows] for start in range(0, len(texts), rows)]
        parts = [best_candidates(self.cosines(block, hypotheses), k) for block in blocks]
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
        self._last = _NOTHING

    def windows(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return the vectors of texts' windows, and how many each has; of texts read last, none is encoded again."""
        if not texts:
            return self.encoder.encode_windows(texts)
        last = self._last
        new = [text for text in dict.fromkeys(texts) if text not in last.places]
        if new:
            kept = last.only([text for text in dict.fromkeys(texts) if text in last.places])
            self._last = last = kept.joined(_Windows(_places(new), *self.encoder.encode_windows(new)))
        return last.of(texts)


class _Windows(NamedTuple):
    """Texts that were read: where each stands, the vectors of their windows in that order, and how many each has."""

    places: dict[str, int]
    vectors: Tensor
    counts: Tensor

    def of(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return the vectors of the windows of texts, in the order of the texts, and how many each has."""
        rows = torch.tensor([self.places[text] for text in texts], dtype=torch.int64)
        counts = self.counts[rows]
        if len(self.vectors) == len(self.counts):
            return self.vectors[rows], counts
        starts = (self.counts.cumsum(0) - self.counts)[rows]
        inside = torch.arange(int(counts.sum())) - torch.repeat_interleave(counts.cumsum(0) - counts, counts)
        return self.vectors[torch.repeat_interleave(starts, counts) + inside], counts

    def only(self, texts: Sequence[str]) -> "_Windows":
        """Return some of the texts."""
        return _Windows(_places(texts), *self.of(texts)) if texts else _NOTHING

    def joined(self, other: "_Windows") -> "_Windows":
        """Return these texts and then others."""
        if not self.places:
            return other
        places = self.places | {text: len(self.places) + row for text, row in other.places.items()}
        return _Windows(places, torch.cat([self.vectors, other.vectors]), torch.cat([self.counts, other.counts]))


_NOTHING = _Windows({}, torch.empty(0, 0), torch.zeros(0, dtype=torch.int64))


def _places(texts: Sequence[str]) -> dict[str, int]:
    return {text: row for row, text in enumerate(texts)}
