"""Own thresholds: the lowest one with an expected precision, by brute force and group by group."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bncl_pyg.errors import InputError
from bncl_pyg.features.choice import GRID, Choice, ExpectedPrecision, top_places
from bncl_pyg.features.predictions import Predictions

PROBABILITIES = torch.tensor([[0.9, 0.6, 0.1], [0.8, 0.2, 0.3], [0.05, 0.04, 0.03]])


def chosen(**arguments: float) -> list[list[int]]:
    decisions = Choice(**arguments).decisions(PROBABILITIES)  # type: ignore[arg-type]
    return [row.nonzero()[:, 0].tolist() for row in decisions]


def test_threshold_and_top_k() -> None:
    assert chosen(threshold=0.3) == [[0, 1], [0, 2], []]
    assert chosen(top_k=1) == [[0], [0], [0]]
    assert chosen(top_k=2, threshold=0.3) == [[0, 1], [0, 2], []]
    assert chosen(top_k=1, threshold=0.3) == [[0], [0], []]
    assert chosen(top_k=9) == [[0, 1, 2]] * 3


def test_precision_takes_as_many_as_it_can() -> None:
    # .9; .9 and .8 are right to 85 %; with .6 to 77 %; with .3 to 65 %.
    assert chosen(precision=0.9) == [[0], [], []]
    assert chosen(precision=0.8) == [[0], [0], []]
    assert chosen(precision=0.75) == [[0, 1], [0], []]
    assert chosen(precision=0.0) == [[0, 1, 2]] * 3
    assert chosen(precision=0.95) == [[], [], []]
    # Of each text's best label only: .9, .8 and .05 are right to 58 %.
    assert chosen(precision=0.58, top_k=1) == [[0], [0], [0]]
    assert chosen(precision=0.6, top_k=1) == [[0], [0], []]


@given(
    st.lists(st.lists(st.floats(0, 1, width=32), min_size=3, max_size=3), min_size=1, max_size=20),
    st.floats(0, 1),
)
def test_the_threshold_is_the_lowest_with_that_expected_precision(rows: list[list[float]], precision: float) -> None:
    values = torch.tensor(rows)
    counts = ExpectedPrecision()
    for row in values.split(2):
        counts.add(row)
    threshold = counts.threshold(precision)
    given_labels = values[values >= threshold].double()
    assert not len(given_labels) or given_labels.mean() >= precision - 1e-6
    if threshold >= 1 / GRID:
        lower = values[values >= threshold - 1 / GRID].double()
        assert not len(lower) or lower.mean() < precision + 1e-6


def test_of_equal_probabilities_the_first_are_taken() -> None:
    assert top_places(torch.full((1, 4), 0.5), 2).tolist() == [[True, True, False, False]]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"threshold": 1.5}, "threshold must be between 0 and 1, but is 1.5"),
        ({"precision": -0.1}, "precision must be between 0 and 1"),
        ({"top_k": 0}, "top_k must be a whole number of at least 1, but is 0"),
        ({"top_k": 1.5}, "top_k must be a whole number"),
        ({"threshold": 0.5, "precision": 0.5}, "exclude each other"),
    ],
)
def test_bad_choices_are_named(arguments: dict[str, float], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Choice(**arguments)  # type: ignore[arg-type]


def test_predictions_by_another_rule() -> None:
    decisions = torch.tensor([[True, False], [False, False]])
    predicted = Predictions(decisions, torch.tensor([[0.2, 0.7], [0.1, 0.6]]), torch.zeros(2, 2), 2)
    assert predicted.chosen(Choice()) is predicted
    assert predicted.names(["a", "b"]) == [["a"], []]
    assert predicted.chosen(Choice(top_k=2)).names(["a", "b"]) == [["b", "a"], ["b", "a"]]
    few = Predictions(decisions, predicted.probabilities, predicted.scores, 9, torch.tensor([[3, 8], [0, 1]]))
    assert few.chosen(Choice(threshold=0.6)).names("abcdefghi") == [["i"], ["b"]]
