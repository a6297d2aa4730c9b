import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bncl_pyg.errors import InputError
from bncl_pyg.graph import LabelVectors, SignedLabelGraph, build_graph, check_options


@st.composite
def unit_vectors(draw: st.DrawFn) -> NDArray[np.float32]:
    """Vectors whose cosines are exact in any order of summing, and often equal.

    Their entries are ±1/√dimensions, a power of 2; or they lie along the axes, so that cosines are 1, 0, -0 or -1.
    """
    generator = np.random.default_rng(draw(st.integers(0, 10_000)))
    labels, dimensions = draw(st.integers(3, 40)), draw(st.sampled_from([4, 16, 64, 1024]))
    signs = generator.choice([-1, 1], (labels, dimensions)).astype(np.float32)
    if draw(st.booleans()):
        return signs * np.eye(4, dimensions, dtype=np.float32)[generator.integers(0, 4, labels)]
    return signs / np.float32(math.sqrt(dimensions))


def percentile_graph(
    units: NDArray[np.float32], percentiles: tuple[float, float], memory: float = 8
) -> SignedLabelGraph:
    names = [str(place) for place in range(len(units))]
    return build_graph(names, LabelVectors(units, "x"), percentiles, memory=memory)


@settings(max_examples=100, deadline=None)
@given(
    unit_vectors(),
    st.sampled_from([(5.0, 95.0), (0.0, 100.0), (10.0, 90.0), (33.3, 50.1), (30.0, 70.0)]),
    st.sampled_from([1, 3, 7, 1024]),
)
def test_the_same_as_numpy_on_all_pairs(units: NDArray[np.float32], wanted: tuple[float, float], rows: int) -> None:
    cosines = units @ units.T
    upper = np.triu_indices(len(units), k=1)
    low, high = np.percentile(cosines[upper], wanted)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("bncl_pyg.graph.edges.MOST_ROWS", rows)
        if low == high:
            with pytest.raises(InputError, match="cannot be told apart"):
                percentile_graph(units, wanted)
            return
        graph = percentile_graph(units, wanted)
    assert graph.provenance["thresholds"] == [low, high]
    signs = np.zeros((len(units), len(units)), dtype=int)
    signs[tuple(graph.edge_index.numpy())] = graph.edge_sign.numpy()
    expected = np.where(cosines >= high, 1, np.where(cosines <= low, -1, 0))
    assert (signs[upper] == expected[upper]).all()
    assert (signs == signs.T).all()
    assert (graph.edge_weight.numpy() == cosines[tuple(graph.edge_index.numpy())]).all()


@pytest.mark.parametrize("rows", [5, 1024])
def test_the_same_as_numpy_where_all_cosines_differ(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bncl_pyg.graph.edges.MOST_ROWS", rows)
    vectors = np.random.default_rng(0).normal(size=(200, 8)).astype(np.float32)
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = (units @ units.T)[np.triu_indices(200, k=1)]
    low, high = np.percentile(cosines, (5, 95))
    graph = percentile_graph(vectors, (5, 95))
    assert graph.provenance["thresholds"] == pytest.approx([low, high], abs=1e-6)
    assert (graph.count(-1), graph.count(1)) == ((cosines <= low).sum(), (cosines >= high).sum())


def test_more_pairs_than_fit_are_refused_before_anything_is_computed() -> None:
    with pytest.raises(InputError) as refused:
        check_options(100_000, (5, 95), 2, None, None, 8)
    assert str(refused.value) == (
        "These percentiles connect 499,995,000 pairs of 100,000 labels, which takes 42.5 GB, but the memory budget is "
        "8 GB: use neighbours=10 instead, percentiles further out, or more memory."
    )
    check_options(100_000, (0.9, 99.1), 2, None, None, 8)


def test_pairs_at_a_threshold_that_very_many_share_are_refused_too() -> None:
    """Of 300 one-hot vectors, a hundredth of the pairs is wanted, but nearly all have the lowest cosine."""
    units = np.eye(300, dtype=np.float32)
    units[1] = units[0]
    with pytest.raises(InputError, match="connect 44,850 pairs of 300 labels"):
        percentile_graph(units, (0.5, 100), memory=0.001)
