import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.metrics import (
    accuracy_score,
    coverage_error,
    f1_score,
    hamming_loss,
    precision_recall_fscore_support,
    top_k_accuracy_score,
)

from bncl_pyg.corpus import LabelSet
from bncl_pyg.evaluation import (
    LabelPair,
    confused_pairs,
    cooccurring_pairs,
    coverage,
    evaluate,
    label_table,
    precision_at,
    reliability,
)


@st.composite
def decisions(draw: st.DrawFn) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.float64]]:
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = draw(st.integers(1, 12)), draw(st.integers(2, 8))
    truth = generator.random(shape) < draw(st.floats(0, 1))
    predicted = generator.random(shape) < draw(st.floats(0, 1))
    scores = generator.integers(0, 5, shape) / 4  # with ties
    return truth, predicted, scores


@settings(max_examples=150, deadline=None)
@given(decisions())
def test_figures_equal_scikit_learns(
    case: tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.float64]],
) -> None:
    truth, predicted, scores = case
    found = evaluate(csr_array(truth), predicted)
    y, z = truth.astype(int), predicted.astype(int)
    assert pytest.approx(accuracy_score(y, z)) == found.ACC
    assert pytest.approx(1 - hamming_loss(y, z)) == found.HA
    for name, average in (("ebF1", "samples"), ("miF1", "micro"), ("maF1", "macro")):
        assert getattr(found, name) == pytest.approx(f1_score(y, z, average=average, zero_division=0)), name
    assert coverage(truth, scores) == pytest.approx(coverage_error(y, scores))

    names = tuple(map(str, range(truth.shape[1])))
    rows = label_table(truth, predicted, LabelSet(names, names))
    columns = precision_recall_fscore_support(y, z, zero_division=0)
    for place, row in enumerate(rows):
        assert row[1:5] == pytest.approx([column[place] for column in columns])
        assert row.predicted == z[:, place].sum()


def test_precision_at_one_is_top_one_accuracy_for_single_labels() -> None:
    generator = np.random.default_rng(0)
    classes, scores = generator.integers(0, 5, 40), generator.random((40, 5))
    truth = np.eye(5, dtype=bool)[classes]
    assert precision_at(truth, scores, 1) == pytest.approx(top_k_accuracy_score(classes, scores, k=1))
    assert precision_at(truth, scores, 3) == pytest.approx(top_k_accuracy_score(classes, scores, k=3) / 3)
    assert precision_at(truth, scores, 5) == pytest.approx(1 / 5)


def test_a_case_by_hand() -> None:
    truth = np.array([[1, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=bool)
    predicted = np.array([[1, 0, 0], [0, 0, 1], [0, 1, 0]], dtype=bool)
    found = evaluate(truth, predicted)
    assert found == pytest.approx((1 / 3, 7 / 9, (2 / 3 + 1 + 0) / 3, 4 / 6, 2 / 3))
    scores = np.array([[0.9, 0.1, 0.5], [0.2, 0.3, 0.4], [0.5, 0.5, 0.5]])
    assert precision_at(truth, scores, 2) == pytest.approx((1 + 1 + 0) / 6)
    assert coverage(truth, scores) == pytest.approx((3 + 1 + 0) / 3)


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match=r"truth has shape \(1, 2\)"):
        evaluate(np.ones((1, 2), dtype=bool), np.ones((1, 3), dtype=bool))
    with pytest.raises(ValueError, match="k must be between 1 and 2"):
        precision_at(np.ones((1, 2), dtype=bool), np.ones((1, 2)), 3)


def test_reliability_of_probabilities() -> None:
    truth = np.array([[True, False], [True, False], [False, False], [False, True]])
    likely = np.array([[0.95, 0.05], [0.95, 0.05], [0.95, 0.05], [0.5, 1.0]])
    found = reliability(truth, likely, bins=10)
    assert found.pairs.tolist() == [3, 0, 0, 0, 0, 1, 0, 0, 0, 4]
    assert found.predicted[9] == pytest.approx((3 * 0.95 + 1) / 4)
    assert found.true[9] == pytest.approx(0.75)
    assert found.error() == pytest.approx((3 * 0.05 + 0.5 + 4 * (0.9625 - 0.75)) / 8)
    assert reliability(truth, truth.astype(float)).error() == 0


@given(st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_sparse_scores_are_ranked_as_if_the_rest_stood_last(seed: int) -> None:
    draw = np.random.default_rng(seed)
    truth = draw.random((12, 9)) < 0.25
    scores = np.where(draw.random((12, 9)) < 0.5, draw.integers(1, 6, (12, 9)) / 6, 0.0)
    # As many labels as are wanted have a score, or the dense ranking would fill up with others.
    for row in range(12):
        scores[row, :2] = np.maximum(scores[row, :2], 0.1)
    sparse = csr_array(scores)
    assert precision_at(truth, sparse, 2) == pytest.approx(precision_at(truth, scores, 2))
    assert coverage(truth, sparse) == pytest.approx(coverage(truth, scores))
    one, other = reliability(truth, sparse, 5), reliability(truth, scores, 5)
    assert all(np.allclose(first, second) for first, second in zip(one, other, strict=True))


def test_a_label_without_a_score_is_no_best_label() -> None:
    truth = np.array([[True, True, False]])
    assert precision_at(truth, csr_array(np.array([[0.0, 0.3, 0.0]])), 2) == 0.5
    assert coverage(truth, csr_array((1, 3))) == 3
    assert reliability(truth, csr_array((1, 3))).true[0] == pytest.approx(2 / 3)


def test_pairs_of_labels_are_counted() -> None:
    truth = np.array([[1, 0, 0], [1, 0, 0], [1, 1, 0], [0, 0, 1]], dtype=bool)
    given = np.array([[0, 1, 0], [0, 1, 1], [1, 1, 0], [0, 0, 1]], dtype=bool)
    assert confused_pairs(truth, given, 9) == [LabelPair(0, 1, 2), LabelPair(0, 2, 1)]
    assert confused_pairs(truth, csr_array(given), 1) == [LabelPair(0, 1, 2)]
    assert cooccurring_pairs(given, 9) == [LabelPair(0, 1, 1), LabelPair(1, 2, 1)]
    assert confused_pairs(truth, truth, 9) == []
