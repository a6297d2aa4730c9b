"""One process alone; two of them are in tests/distributed."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from bncl_pyg.errors import InputError
from bncl_pyg.features import Features, StoredFeatures, read_features, write_features
from bncl_pyg.ranks import ALONE, Alone, Traffic


class OneOf(Alone):
    """One of several processes that never meets the others."""

    def __init__(self, rank: int, size: int) -> None:
        super().__init__()
        self.rank, self.size = rank, size


def test_whoever_is_alone_gets_back_what_it_gave() -> None:
    values = torch.rand(3, 2)
    for done in (ALONE.sum, ALONE.lowest, ALONE.of_first, ALONE.gather):
        assert done(values) is values
    assert ALONE.total(1.5, 2) == (1.5, 2)
    assert ALONE.span(7) == (0, 7)
    assert ALONE.traffic.total == 0


def test_traffic_is_counted_by_what_it_is() -> None:
    traffic = Traffic()
    for what, size in (("label sums", 80), ("label sums", 160), ("gradients", 800)):
        traffic.add(what, size)
    assert traffic.total == 1040
    assert traffic.figures()["label sums"] == {"calls": 2, "bytes": 240, "bytes_a_call": 120.0}


@pytest.fixture
def store(features: Features, tmp_path: Path) -> Path:
    many = Features.joined(
        [replace(features, ids=tuple(f"{part}-{name}" for name in features.ids)) for part in "abcde"]
    )
    write_features(many, tmp_path / "store")
    return tmp_path / "store"


@pytest.mark.parametrize(("size", "counts"), [(1, [300]), (2, [128, 172]), (3, [64, 128, 108]), (7, [])])
def test_processes_hold_all_texts_in_order(size: int, counts: list[int], store: Path) -> None:
    stored = StoredFeatures(store)
    parts = [stored.held_by(OneOf(rank, size)) for rank in range(size)]
    if counts:
        assert [len(part) for part in parts] == counts
    assert max(len(part) for part in parts) - min(len(part) for part in parts) <= 64
    whole, joined = read_features(store), Features.joined(parts)
    assert joined.ids == whole.ids
    assert torch.equal(joined.entailment, whole.entailment)
    for part in parts:
        assert (len(part.corpus_ids), part.corpus_ids[-1], tuple(part.corpus_ids)) == (300, "e-t59", whole.ids)
        assert part.corpus_ids[3:5] == whole.ids[3:5]


def test_fewer_texts_than_processes(store: Path) -> None:
    with pytest.raises(InputError, match=r"holds 300 texts, which is fewer than the 301 processes"):
        StoredFeatures(store).held_by(OneOf(0, 301))


def test_texts_are_found_by_id_without_reading_all_ids(store: Path) -> None:
    ids = StoredFeatures(store).ids
    assert np.array_equal(ids.places(["b-t0", "a-t59", "e-t1"]), [60, 59, 241])
    with pytest.raises(InputError, match="has no text with id 'x'"):
        ids.places(["a-t0", "x"])
