"""A text's best labels are the same whoever searches, also where many are as near."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from bncl_pyg.scorers.label_search import NearestLabels, search_labels

TEXTS = [f"t{place}" for place in range(40)]


class Vectors:
    """An encoder with vectors by chance; every third label means what the one before means."""

    def __init__(self, labels: int, dimensions: int, seed: int, windows: int = 1) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.texts = normalize(torch.randn(len(TEXTS) * windows, dimensions, generator=generator))
        self.labels = normalize(torch.randn(labels, dimensions, generator=generator))
        self.labels[2::3] = self.labels[1::3][: len(self.labels[2::3])]
        self.counts = torch.full((len(TEXTS),), windows)

    def windows(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        return (self.texts, self.counts) if texts else (self.texts[:0], self.counts[:0])

    def label_vectors(self, hypotheses: Sequence[object]) -> Tensor:
        return self.labels


def by_hand(encoders: list[Vectors], count: int) -> list[list[int]]:
    """Sort all labels by the sum of standardised cosines in 64 bits, equal ones by place."""
    total = torch.zeros(len(TEXTS), len(encoders[0].labels), dtype=torch.float64)
    for encoder in encoders:
        cosines = encoder.texts.double() @ encoder.labels.double().t()
        total += cosines / (cosines.std(correction=0) if len(encoders) > 1 else 1)
    rows = total.round(decimals=7).tolist()
    return [sorted(sorted(range(len(row)), key=lambda place: (-row[place], place))[:count]) for row in rows]


def in_shards(encoders: list[Vectors], parts: int) -> NearestLabels:
    """Search parts of the labels one by one, in another order of sums."""
    vectors = torch.cat([encoder.labels for encoder in encoders], dim=1)
    shards = vectors.chunk(parts)

    def nearest(queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
        values, places, begin = [], [], 0
        for shard in shards:
            products = (queries.flip(1) @ shard.flip(1).t()).flip(1)
            best = products.topk(min(count, len(shard)), dim=1)
            values.append(best.values)
            places.append(begin + len(shard) - 1 - best.indices)
            begin += len(shard)
        best = torch.cat(values, dim=1).topk(count, dim=1)
        return best.values, torch.cat(places, dim=1).gather(1, best.indices)

    return nearest


@pytest.mark.parametrize(("labels", "count"), [(30, 30), (100, 1), (500, 20), (1500, 7)])
@pytest.mark.parametrize("encoders", [1, 2])
@pytest.mark.parametrize("parts", [0, 1, 4])
def test_the_best_labels_are_the_same_whoever_searches(labels: int, count: int, encoders: int, parts: int) -> None:
    both = [Vectors(labels, 32, seed) for seed in range(encoders)]
    nearest = in_shards(both, parts) if parts else None
    chosen = search_labels(both, TEXTS, ["h"] * labels, count, nearest)
    assert chosen is not None
    assert chosen.tolist() == by_hand(both, count)


@pytest.mark.parametrize("parts", [0, 3])
def test_of_very_many_equal_labels_the_first_are_taken(parts: int) -> None:
    """Half of the labels mean the same, and a text of unknown words is as near to all: more are searched for."""
    encoder = Vectors(900, 16, 0)
    encoder.labels[100:600] = encoder.labels[100]
    encoder.texts[5] = 0
    encoder.texts[6] = encoder.labels[100]
    chosen = search_labels([encoder], TEXTS, ["h"] * 900, 3, in_shards([encoder], parts) if parts else None)
    assert chosen is not None
    assert chosen[5].tolist() == [0, 1, 2]
    assert chosen[6].tolist() == [100, 101, 102]
    assert chosen.tolist() == by_hand([encoder], 3)


def test_texts_of_several_windows_are_left_to_others() -> None:
    assert search_labels([Vectors(50, 8, 0, windows=2)], TEXTS, ["h"] * 50, 3) is None
    none = search_labels([Vectors(50, 8, 0)], [], ["h"] * 50, 3)
    assert none is not None
    assert none.shape == (0, 3)
