import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bncl_pyg.errors import InputError
from bncl_pyg.graph import edges, percentiles
from bncl_pyg.graph.blocks import Work
from bncl_pyg.graph.percentiles import check_percentiles, percentile_edges


@st.composite
def unit_vectors(draw: st.DrawFn) -> NDArray[np.float32]:
    """Vectors with many equal cosines, some exactly 0, or hardly any."""
    generator = np.random.default_rng(draw(st.integers(0, 10_000)))
    shape = (draw(st.integers(3, 40)), draw(st.integers(2, 6)))
    drawn = generator.integers(-1, 2, shape) if draw(st.booleans()) else generator.normal(size=shape)
    drawn[(drawn == 0).all(axis=1), 0] = 1
    return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)


def in_blocks_of(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edges, "MOST_ROWS", rows)


def cosines_of(units: NDArray[np.float32], rows: int) -> NDArray[np.float32]:
    """All cosines above the diagonal, from the same products, as the last bit depends on a product's shape."""
    import torch

    whole = percentiles._AllPairs(torch.from_numpy(units), rows, Work())
    square = np.full((len(units), len(units)), np.nan, dtype=np.float32)
    for number in range(whole.blocks):
        for block, row, column in whole._upper(number):
            square[row : row + block.shape[0], column : column + block.shape[1]] = block
    return square


@settings(max_examples=100, deadline=None)
@given(
    unit_vectors(), st.sampled_from([(5.0, 95.0), (0.0, 100.0), (10.0, 90.0), (33.3, 50.1), (30.0, 70.0)]), st.data()
)
def test_the_same_as_numpy_on_all_pairs(
    units: NDArray[np.float32], wanted: tuple[float, float], data: st.DataObject
) -> None:
    rows = data.draw(st.sampled_from([1, 3, 7, 1024]))
    square = cosines_of(units, rows)
    assert np.allclose(np.triu(square, 1), np.triu(units @ units.T, 1), atol=1e-6)
    upper = np.triu_indices(len(units), k=1)
    low, high = np.percentile(square[upper], wanted)
    with pytest.MonkeyPatch.context() as monkeypatch:
        in_blocks_of(rows, monkeypatch)
        if low == high:
            with pytest.raises(InputError, match="cannot be told apart"):
                percentile_edges(units, wanted, 8, Work())
            return
        found, thresholds = percentile_edges(units, wanted, 8, Work())
    assert thresholds == (low, high)
    signs = np.zeros((len(units), len(units)), dtype=int)
    signs[tuple(found.pairs)] = found.signs
    expected = np.where(square >= high, 1, np.where(square <= low, -1, 0))
    assert (signs[upper] == expected[upper]).all()
    assert len(found.signs) == (expected[upper] != 0).sum()
    assert (found.weights == square[tuple(found.pairs)]).all()


def test_more_pairs_than_fit_are_refused_before_anything_is_computed() -> None:
    with pytest.raises(InputError) as refused:
        check_percentiles(100_000, (5, 95), 8)
    assert str(refused.value) == (
        "These percentiles connect 499,995,000 pairs of 100,000 labels, which takes 42.5 GB, but the memory budget is "
        "8 GB: use --neighbours 10 instead, percentiles further out, or more --memory."
    )
    check_percentiles(100_000, (0.9, 99.1), 8)


def test_pairs_at_a_threshold_that_very_many_share_are_refused_too() -> None:
    """Of 300 one-hot vectors, a hundredth of the pairs is wanted, but nearly all have the lowest cosine."""
    units = np.eye(300, dtype=np.float32)
    units[1] = units[0]
    with pytest.raises(InputError, match="connect 44,850 pairs of 300 labels"):
        percentile_edges(units, (0.5, 100), 0.001, Work())
