import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from bncl_pyg.features import Predictions

DECISIONS = torch.tensor([[True, False, True], [False, True, False]])
PROBABILITIES = torch.tensor([[0.4, 0.1, 0.8], [0.2, 0.6, 0.0]])
SCORES = torch.tensor([[0.5, -2.0, 1.0], [-1.0, 0.3, -4.0]])
CANDIDATES = torch.tensor([[0, 2, 4], [1, 3, 4]])


@pytest.fixture(params=[None, CANDIDATES], ids=["all labels", "candidates"])
def predictions(request: pytest.FixtureRequest) -> Predictions:
    labels = 3 if request.param is None else 5
    return Predictions(DECISIONS, PROBABILITIES, SCORES, labels, request.param)


def test_matrices_have_a_column_a_label(predictions: Predictions) -> None:
    for matrix, values in (
        (predictions.indicator(), DECISIONS),
        (predictions.probability_matrix(), PROBABILITIES),
        (predictions.score_matrix(), SCORES),
    ):
        assert matrix.shape == (2, predictions.labels)
        assert matrix.dtype == values.numpy().dtype
        assert isinstance(matrix, np.ndarray if predictions.candidates is None else csr_array)
        whole = matrix if predictions.candidates is None else matrix.toarray()
        places = CANDIDATES if predictions.candidates is not None else torch.arange(3).expand(2, 3)
        assert (np.take_along_axis(whole, places.numpy(), axis=1) == values.numpy()).all()
        # What is no candidate is nothing at all.
        assert np.count_nonzero(whole) == int(values.count_nonzero())


def test_the_most_probable_label_is_first(predictions: Predictions) -> None:
    columns, probabilities = predictions.best_first(0)
    assert columns.tolist() == ([2, 0] if predictions.candidates is None else [4, 0])
    assert probabilities.tolist() == pytest.approx([0.8, 0.4])
    assert predictions.best_first(1)[0].tolist() == ([1] if predictions.candidates is None else [3])


def test_equally_probable_labels_keep_their_order() -> None:
    same = Predictions(torch.ones(1, 4).bool(), torch.full((1, 4), 0.5), torch.ones(1, 4), 4)
    assert same.best_first(0)[0].tolist() == [0, 1, 2, 3]


def test_groups_of_texts_are_joined_in_order(predictions: Predictions) -> None:
    assert Predictions.joined([predictions]) is predictions
    both = Predictions.joined([predictions, predictions])
    assert len(both) == 4
    assert both.labels == predictions.labels
    for name in ("indicator", "probability_matrix", "score_matrix"):
        one, two = (getattr(part, name)() for part in (predictions, both))
        for rows in (slice(0, 2), slice(2, 4)):
            assert not (two[rows] != one).sum()


@pytest.mark.parametrize("candidates", [None, 2])
def test_no_text_has_predictions_of_the_right_shape(candidates: int | None) -> None:
    none = Predictions.none(5, candidates)
    assert len(none) == 0
    for matrix in (none.indicator(), none.probability_matrix(), none.score_matrix()):
        assert matrix.shape == (0, 5)
    assert none.indicator().dtype == bool
    assert isinstance(none.indicator(), np.ndarray if candidates is None else csr_array)
