"""A text's best labels by the cosines of vectors, the same whoever searches: in one product, or in shards of labels.

A quick search in 32 bits returns some more labels than are wanted; their sums are computed again in 64 bits, and these
decide. A text for which that is not certain, because too many labels are as near, is searched with more.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from bncl_pyg.scorers.scorer import Hypothesis

COSINES_AT_ONCE = 1 << 24
"""It bounds the memory that choosing candidates takes."""
PAIRS_AT_ONCE = 1 << 14
"""Of so many pairs at once, sums are computed again."""
MORE = 32
"""So many more labels than wanted are searched for at first."""
DECIMALS = 9
"""Labels whose sums agree so far are equal: the first ones are taken."""
SAMPLE = 2048
"""On so many labels, the first, each encoder's standard deviation is measured."""
TINY = 1e-6
"""A tolerance: what keeps a quotient finite."""

NearestLabels = Callable[[Tensor, int], tuple[Tensor, Tensor]]
"""From queries, (texts, dimensions), and how many are wanted, to the labels with the highest products in 32 bits:
these, highest first, and their places, (texts, count) each."""


class VectorRanker(Protocol):
    """What has vectors of texts and labels."""

    def windows(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return unit vectors of all windows, text by text, (windows, dimensions), and how many each text has."""
        ...

    def label_vectors(self, hypotheses: Sequence[Hypothesis]) -> Tensor:
        """Return unit vectors of hypotheses, (hypotheses, dimensions)."""
        ...


def search_labels(
    rankers: Sequence[VectorRanker],
    texts: Sequence[str],
    hypotheses: Sequence[Hypothesis],
    count: int,
    nearest: NearestLabels | None = None,
) -> Tensor | None:
    """Return the labels with the highest cosine or, of several encoders, sum of cosines in standard deviations.

    Args:
        rankers: the encoders.
        texts: the texts.
        hypotheses: of the labels.
        count: how many labels are wanted, at most as many as there are.
        nearest: searches among vectors of labels that are those of all encoders beside each other; if not given, all
            products are computed here.

    Returns:
        int64, (texts, count), in the order of their places; nothing, if texts have several windows.
    """
    read = [ranker.windows(texts) for ranker in rankers]
    if any(len(vectors) != len(texts) for vectors, _ in read):
        return None
    vectors, labels = [part for part, _ in read], [ranker.label_vectors(hypotheses) for ranker in rankers]
    if not len(texts):
        return torch.zeros(0, count, dtype=torch.int64)
    if len(rankers) > 1:
        vectors = [own / _standard_deviation(own, other) for own, other in zip(vectors, labels, strict=True)]
    return _Search(vectors, labels, nearest).best(count)


def _standard_deviation(vectors: Tensor, labels: Tensor) -> float:
    """Return that of the cosines with the first labels, to six digits, which no order of a sum changes."""
    cosines = vectors.double() @ labels[:SAMPLE].double().t()
    return max(float(f"{float(cosines.std(correction=0)):.5e}"), TINY)


class _Search:
    def __init__(self, vectors: list[Tensor], labels: list[Tensor], nearest: NearestLabels | None) -> None:
        self.vectors, self.labels, self.nearest = vectors, labels, nearest
        self.queries = torch.cat(vectors, dim=1) if len(vectors) > 1 else vectors[0]
        self.size = len(labels[0])
        # A product of so many numbers in 32 bits is off by this at the most; vectors of labels have length 1.
        lengths = self.queries.double().norm(dim=1) * len(labels) ** 0.5
        self.error = lengths * self.queries.shape[1] * 2.0**-23 + 10.0**-DECIMALS

    def best(self, count: int) -> Tensor:
        """Return the best labels of all texts."""
        rows, asked = torch.arange(len(self.queries)), min(count + MORE, self.size)
        chosen = torch.empty(len(rows), count, dtype=torch.int64)
        while len(rows):
            lowest, places = self._candidates(rows, asked)
            places = places.sort(dim=1).values
            sums, order = self._sums(rows, places).sort(dim=1, descending=True, stable=True)
            chosen[rows] = places.gather(1, order[:, :count])
            if asked == self.size:
                break
            # Whoever was not returned may be as good as the last that is chosen.
            rows = rows[lowest.double() + self.error[rows] >= sums[:, count - 1]]
            asked = min(4 * asked, self.size)
        return chosen.sort(dim=1).values

    def _candidates(self, rows: Tensor, asked: int) -> tuple[Tensor, Tensor]:
        """Return the lowest product, (texts,), and the places, (texts, asked), of what the quick search returns."""
        if asked == self.size:
            return torch.zeros(len(rows)), torch.arange(self.size).expand(len(rows), -1)
        if self.nearest is not None:
            products, places = self.nearest(self.queries[rows], asked)
            return products[:, -1], places
        parts = []
        for some in rows.split(max(COSINES_AT_ONCE // self.size, 1)):
            products = self.vectors[0][some] @ self.labels[0].t()
            for vectors, labels in zip(self.vectors[1:], self.labels[1:], strict=True):
                products.addmm_(vectors[some], labels.t())
            parts.append(products.topk(asked, dim=1))
        return torch.cat([part.values[:, -1] for part in parts]), torch.cat([part.indices for part in parts])

    def _sums(self, rows: Tensor, places: Tensor) -> Tensor:
        """Return the products of texts with some labels each, in 64 bits, rounded; (texts, labels of each)."""
        owners, chosen = rows.repeat_interleave(places.shape[1]), places.flatten()
        sums = torch.zeros(len(chosen), dtype=torch.float64)
        for start in range(0, len(chosen), PAIRS_AT_ONCE):
            here = slice(start, start + PAIRS_AT_ONCE)
            for vectors, labels in zip(self.vectors, self.labels, strict=True):
                sums[here] += (vectors[owners[here]].double() * labels[chosen[here]].double()).sum(dim=1)
        return sums.round_(decimals=DECIMALS).view_as(places)
