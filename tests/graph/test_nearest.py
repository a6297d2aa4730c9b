import importlib.util
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bncl_pyg.errors import InputError
from bncl_pyg.graph import edges, nearest
from bncl_pyg.graph.blocks import Work
from bncl_pyg.graph.nearest import largest, neighbour_edges


def clustered(labels: int, dimensions: int = 16, seed: int = 0) -> NDArray[np.float32]:
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(20, dimensions)) + 0.5
    drawn = centres[generator.integers(0, 20, labels)] + 0.5 * generator.normal(size=(labels, dimensions))
    return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)


def by_hand(units: NDArray[np.float32], count: int) -> dict[tuple[int, int], int]:
    """Each label's best by sorting everything; a friend is written over an enemy."""
    cosines = units @ units.T
    signs: dict[tuple[int, int], int] = {}
    for sign in (-1, 1):
        for label, row in enumerate(cosines):
            others = sorted((other for other in range(len(units)) if other != label), key=lambda o: (-sign * row[o], o))
            signs.update({(min(label, other), max(label, other)): sign for other in others[:count]})
    return signs


def signs_of(found: edges.Edges) -> dict[tuple[int, int], int]:
    pairs = [(int(first), int(second)) for first, second in found.pairs.T]
    assert len(set(pairs)) == len(pairs)
    return dict(zip(pairs, found.signs.tolist(), strict=True))


@pytest.mark.parametrize(("labels", "count"), [(3, 1), (40, 3), (40, 19), (500, 4)])
@pytest.mark.parametrize("rows", [7, 1024])
def test_every_label_gets_its_nearest_and_farthest(
    labels: int, count: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edges, "MOST_ROWS", rows)
    units = clustered(labels)
    found, about = neighbour_edges(units, count, 8, Work())
    assert about == {"search": "exact"}
    assert signs_of(found) == by_hand(units, count)
    assert found.weights == pytest.approx((units @ units.T)[tuple(found.pairs)], abs=1e-6)


def test_equal_cosines_go_by_the_labels_order() -> None:
    """Along the axes, both ways: every product is exactly 1, 0 or -1."""
    axes = np.concatenate([np.eye(4), -np.eye(4), np.eye(4)]).astype(np.float32)
    found, _ = neighbour_edges(axes, 2, 8, Work())
    assert signs_of(found) == by_hand(axes, 2)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.integers(1, 8), st.integers(1, 5), st.integers(0, 1000))
def test_the_largest_of_every_row(groups: int, count: int, different: int, seed: int) -> None:
    columns = groups * nearest._GROUP
    values = torch.from_numpy(np.random.default_rng(seed).integers(0, 10**different, (6, columns)).astype(np.float32))
    found, places = largest(values, count)
    expected = values.sort(dim=1, descending=True, stable=True)
    assert torch.equal(found, expected.values[:, :count])
    assert torch.equal(places, expected.indices[:, :count])


@pytest.mark.parametrize("neighbours", [0, 5])
def test_a_number_that_cannot_be_is_refused(neighbours: int) -> None:
    with pytest.raises(InputError, match=f"{neighbours} nearest and .* but each of 10 labels .* can have 1 to 4"):
        neighbour_edges(clustered(10), neighbours, 8, Work())
    with pytest.raises(InputError, match="3 labels are needed"):
        neighbour_edges(clustered(2), 1, 8, Work())


def test_faiss_finds_nearly_all_and_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("faiss")
    units = clustered(3000)
    exact, _ = neighbour_edges(units, 5, 8, Work())
    monkeypatch.setattr(nearest, "EXACT_LABELS", 1000)
    monkeypatch.setattr(nearest, "ROWS_A_SEARCH", 1000)
    found, about = neighbour_edges(units, 5, 8, Work())
    assert about["search"] == "faiss"
    assert about["recall"]["sample"] == 500
    true, mine = signs_of(exact), signs_of(found)
    for kind, sign in (("friends", 1), ("enemies", -1)):
        wanted = {pair for pair, found_sign in true.items() if found_sign == sign}
        share = len(wanted & {pair for pair, found_sign in mine.items() if found_sign == sign}) / len(wanted)
        assert about["recall"][kind] >= nearest.RECALL
        assert share == pytest.approx(about["recall"][kind], abs=0.03)
    again, _ = neighbour_edges(units, 5, 8, Work())
    assert all(np.array_equal(first, second) for first, second in zip(found, again, strict=True))


def test_faiss_in_all_clusters_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("faiss")
    monkeypatch.setattr(nearest, "EXACT_LABELS", 10)
    monkeypatch.setattr(nearest, "RECALL", math.inf)  # never enough, so that every cluster is searched
    units = clustered(200)
    found, about = neighbour_edges(units, 4, 8, Work())
    assert about["recall"]["friends"] == about["recall"]["enemies"] == 1
    assert about["probes"] == [about["clusters"]] * 2
    assert signs_of(found) == by_hand(units, 4)


def test_faiss_finds_as_many_as_asked_for_even_in_small_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("faiss")
    monkeypatch.setattr(nearest, "EXACT_LABELS", 10)
    monkeypatch.setattr(nearest, "RECALL", 0)  # one cluster is enough
    found, about = neighbour_edges(clustered(200), 8, 8, Work())
    assert about["probes"] == [1, 1]
    for sign in (1, -1):
        degrees = np.bincount(found.pairs[:, found.signs == sign].ravel(), minlength=200)
        assert degrees.min() >= (8 if sign > 0 else 1)


def test_without_faiss_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(nearest, "EXACT_LABELS", 10)
    with pytest.raises(InputError, match=r"of 20 labels need faiss: pip install 'bncl-pyg\[scale\]'"):
        neighbour_edges(clustered(20), 2, 8, Work())
