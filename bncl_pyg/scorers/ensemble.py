"""Several scorers as one: their standardised scores are averaged."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from bncl_pyg.errors import InputError
from bncl_pyg.scorers.bi_encoder import BiEncoderScorer
from bncl_pyg.scorers.label_search import COSINES_AT_ONCE, NearestLabels, search_labels
from bncl_pyg.scorers.scorer import Hypothesis, LabelTensors, Scorer, best_candidates
from bncl_pyg.scorers.tokens import Reading

TINY = 1e-6
"""A tolerance: what keeps the logarithm of a score finite."""


def join_scores(parts: Sequence[Tensor]) -> Tensor:
    r"""Average scorers' opinions: the mean of the logits of entailment, neutral and contradiction.

    Each part's head standardises its score: what is one unit of log-odds means the same in all of them. The mean of
    logits is the normalised geometric mean of the probabilities.

    Args:
        parts: entailment and contradiction of each scorer, (2, …).

    Returns:
        (2, …) likewise.
    """
    if len(parts) == 1:
        return parts[0]
    total = torch.zeros(3, *parts[0].shape[1:])
    for entailment, contradiction in parts:
        neutral = 1 - entailment - contradiction
        for row, share in enumerate((entailment, neutral, contradiction)):
            total[row] += share.clamp_min(TINY).log()
    shares = torch.softmax(total / len(parts), dim=0)
    return torch.stack([shares[0], shares[2]])


class EnsembleScorer:
    """Joins scorers; what each says stays apart until it is asked for.

    Args:
        parts: the scorers by name.
        name: what to call the ensemble in a manifest.
    """

    def __init__(self, parts: Mapping[str, Scorer], name: str) -> None:
        if len(parts) < 2:
            raise InputError("An ensemble needs at least two scorers.")
        self.parts, self.name = dict(parts), name
        self.block_texts = min(part.block_texts for part in self.parts.values())

    def config(self) -> dict[str, Any]:
        """Return what decides the scores: of each part."""
        return {"name": self.name, "parts": {name: part.config() for name, part in self.parts.items()}}

    def score(self, texts: Sequence[str], hypotheses: Sequence[Hypothesis], pairs: Tensor | None = None) -> Tensor:
        """Return the joint entailment and contradiction; see `Scorer`."""
        return join_scores([part.score(texts, hypotheses, pairs) for part in self.parts.values()])

    def vectors(self, texts: Sequence[str]) -> Tensor | None:
        """Return the vectors of all parts that have any beside each other, each of length 1; see `Scorer`."""
        return join_vectors([part.vectors(texts) for part in self.parts.values()])

    def top_labels(
        self,
        texts: Sequence[str],
        hypotheses: Sequence[Hypothesis],
        k: int,
        *,
        nearest: NearestLabels | None = None,
    ) -> Tensor:
        """Return the k hypotheses with the highest mean of standardised cosines; see `Scorer`.

        Only bi-encoders choose, which need N + L encodings and one product of matrices. For `nearest`, see
        `search_labels`.
        """
        rankers = vector_rankers(self)
        if not rankers:
            return next(iter(self.parts.values())).top_labels(texts, hypotheses, k)
        chosen = search_labels(rankers, texts, hypotheses, k, nearest)
        if chosen is not None:
            return chosen
        rows = max(COSINES_AT_ONCE // max(len(hypotheses), 1), 1)
        best = []
        for start in range(0, len(texts), rows):
            block = texts[start : start + rows]
            total = torch.zeros(len(block), len(hypotheses))
            for ranker in rankers:
                cosines = ranker.cosines(block, hypotheses)
                total += (cosines - cosines.mean()) / cosines.std(correction=0).clamp_min(TINY)
            best.append(best_candidates(total, k))
        return torch.cat(best) if best else torch.zeros(0, k, dtype=torch.int64)

    def encode_labels(self, hypotheses: Sequence[Hypothesis]) -> LabelTensors:
        """Return what each part computes of hypotheses, by `part/name`; see `Scorer`."""
        return {
            f"{name}/{key}": tensor
            for name, part in self.parts.items()
            for key, tensor in part.encode_labels(hypotheses).items()
        }

    def use_labels(self, hypotheses: Sequence[Hypothesis], tensors: Mapping[str, Tensor]) -> None:
        """Give each part what it computed earlier; see `Scorer`."""
        for name, part in self.parts.items():
            own = {key.removeprefix(f"{name}/"): value for key, value in tensors.items() if key.startswith(f"{name}/")}
            if own:
                part.use_labels(hypotheses, own)

    def reading(self, texts: Sequence[str]) -> Reading | None:
        """Return how texts would be read by the first part that cares; see `Scorer`."""
        return next((reading for part in self.parts.values() if (reading := part.reading(texts)) is not None), None)

    def pieces(self, text: str) -> list[str]:
        """Return the word pieces that the first part with an encoder sees of a text."""
        for part in self.parts.values():
            if isinstance(part, BiEncoderScorer):
                return part.pieces(text)
        return text.split()


def vector_rankers(scorer: Scorer) -> list[BiEncoderScorer]:
    """Return the encoders that choose a scorer's candidates by their vectors; none, if it does not do it so."""
    parts = scorer.parts.values() if isinstance(scorer, EnsembleScorer) else [scorer]
    return [part for part in parts if isinstance(part, BiEncoderScorer)]


def join_vectors(vectors: Sequence[Tensor | None]) -> Tensor | None:
    """Return vectors of several encoders beside each other, (texts, dimensions), of length 1 together."""
    there = [part for part in vectors if part is not None]
    return torch.cat(there, dim=1) / len(there) ** 0.5 if there else None
