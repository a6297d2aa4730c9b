from typing import Any

import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array, csr_matrix

from bncl_pyg.corpus import Corpus, LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.training import Annotated, draw, indicator_of

LABELS = LabelSet(("gold", "silver", "wheat"), ("gold", "silver", "wheat"))
TRUTH = [[True, False, True], [False, False, False], [False, True, False]]
INDICATOR = np.array(TRUTH).astype(int)


def annotated(y: Any, texts: int) -> Annotated:
    made = Annotated.from_target(y, texts, LABELS)
    assert made is not None
    return made


@pytest.mark.parametrize(
    "y",
    [
        [["gold", "wheat"], [], ["silver"]],
        [("wheat", "gold", "gold"), (), {"silver"}],
        [np.array(["gold", "wheat"]), [], ["silver"]],
        np.array(TRUTH),
        INDICATOR,
        INDICATOR.astype(float),
        INDICATOR.astype(np.uint8),
        INDICATOR.tolist(),
        list(INDICATOR),
        csr_array((np.array([1, 1, 1, 0]), ([0, 0, 2, 1], [0, 2, 1, 1])), shape=(3, 3)),
        csr_array(INDICATOR),
        csr_matrix(INDICATOR),
        coo_array(np.array(TRUTH)),
    ],
    ids=lambda y: type(y).__name__,
)
def test_every_way_to_give_a_target_is_the_same(y: Any) -> None:
    made = annotated(y, 3)
    assert made.rows.tolist() == [0, 1, 2]
    assert made.labels.dtype == bool
    assert made.labels.toarray().tolist() == TRUTH
    assert len(made) == 3
    assert made.labels.nnz == 3


def test_an_array_of_names_is_a_list_of_names() -> None:
    assert annotated(np.array([["gold"], ["wheat"]]), 2).labels.toarray().tolist() == [[1, 0, 0], [0, 0, 1]]


def test_a_sparse_target_stays_as_it_was() -> None:
    y = csr_array((np.array([1, 0, 1]), ([0, 0, 1], [0, 1, 2])), shape=(2, 3))
    annotated(y, 2)
    assert y.nnz == 3


UNKNOWN = np.vstack([INDICATOR[0], [-1, -1, -1], INDICATOR[1], [-1, -1, -1], INDICATOR[2]])


@pytest.mark.parametrize(
    "y",
    [
        [["gold", "wheat"], None, [], None, ["silver"]],
        UNKNOWN,
        UNKNOWN.tolist(),
        UNKNOWN.astype(float),
        csr_array(UNKNOWN),
    ],
    ids=["names", "matrix", "lists", "floats", "sparse"],
)
def test_a_text_that_nobody_annotated_is_left_out(y: Any) -> None:
    made = annotated(y, 5)
    assert made.rows.tolist() == [0, 2, 4]
    assert made.labels.toarray().tolist() == TRUTH


@pytest.mark.parametrize("y", [None, [None, None], np.full((2, 3), -1), csr_array(np.full((2, 3), -1))])
def test_where_nothing_is_annotated_there_is_nothing(y: Any) -> None:
    assert Annotated.from_target(y, 2, LABELS) is None


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([["gold"], ["silver"]], "y has 2 rows, but there are 3 texts"),
        (INDICATOR[:2], "y has 2 rows, but there are 3 texts"),
        (csr_array(INDICATOR[:2]), "y has 2 rows, but there are 3 texts"),
        ([["gold"], None, ["glod"]], r"y\[2\]: unknown label 'glod' \(did you mean 'gold'\?\)"),
        ([["gold"], [7], []], r"y\[1\]: unknown label '7'"),
        (INDICATOR[:, :2], r"y has shape \(3, 2\), but there are 3 labels"),
        (csr_array(INDICATOR[:, :2]), r"y has shape \(3, 2\), but there are 3 labels"),
        (INDICATOR * 2, r"must hold 0 and 1, and -1 where nothing is known, but y\[0\] does not"),
        (csr_array(INDICATOR * 2), r"must hold 0 and 1, and -1 where nothing is known, but y\[0\] does not"),
        (np.array([[0, 0, 1], [-1, -1, -1], [-1, -2, 1]]), r"-1 where nothing is known, but y\[2\] does not"),
        ([["gold"], {"glod": False}, []], r"y\[1\]: unknown label 'glod'"),
        (np.array([[0, 1, 0], [0, np.nan, 0], [0, 0, 0]]), r"must hold 0 and 1, .* but y\[1\] does not"),
        ([[1, 0, 1], [1, 0], [0, 0, 0]], r"y\[1\] has 2 columns, but there are 3 labels"),
    ],
)
def test_what_cannot_be_a_target_is_named_by_its_place(y: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Annotated.from_target(y, 3, LABELS)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ("gold", "y must be lists of label names or an indicator matrix, but is str"),
        (3, "y must be lists of label names or an indicator matrix, but is int"),
        (iter([["gold"]]), "y must be lists of label names"),
        ([["gold"], "gold", []], r"y\[1\] must be a list of label names or None, but is 'gold'"),
        ([["gold"], 1, []], r"y\[1\] must be a list of label names or None, but is 1"),
        (np.array([0, 1, 0]), r"y\[0\] must be a list of label names or None, but is"),
        ([["gold"], {"gold": 1}, []], r"y\[1\] must say True or False of 'gold', but says 1"),
    ],
)
def test_what_is_no_target_at_all_is_a_type_error(y: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Annotated.from_target(y, 3, LABELS)


def test_annotated_texts_are_matched_by_id(corpus: Corpus) -> None:
    assert corpus.annotations is not None
    backwards = Corpus(corpus.ids[::-1], corpus.texts[::-1], corpus.annotations[::-1])
    made = Annotated.among(backwards, corpus.ids)
    assert made.rows.tolist() == list(range(60))[::-1]
    assert (made.labels.toarray()[::-1] == corpus.annotations.toarray()).all()
    foreign = Corpus(("elsewhere",), ("x",), corpus.annotations[:1])
    with pytest.raises(InputError, match="The set of training texts has no text with id 'elsewhere'"):
        Annotated.among(foreign, corpus.ids)
    with pytest.raises(InputError, match="have no labels, so that they cannot be annotated texts"):
        Annotated.among(Corpus(corpus.ids, corpus.texts), corpus.ids)


def test_labels_and_texts_are_as_many() -> None:
    with pytest.raises(InputError, match="There are labels of 3 texts, but 2 annotated texts"):
        Annotated(np.array([0, 1]), csr_array((3, 2), dtype=bool))


def test_some_can_be_taken_also_twice() -> None:
    some = annotated([["gold", "wheat"], None, [], ["silver"]], 4).drawn(np.array([2, 0, 2]))
    assert some.rows.tolist() == [3, 0, 3]
    assert some.labels.toarray().tolist() == [TRUTH[2], TRUTH[0], TRUTH[2]]


def test_draws() -> None:
    def drawn(seed: int, count: int, *, replacement: bool = False) -> list[int]:
        places = draw(60, count, seed, replacement=replacement)
        assert 0 <= places.min() <= places.max() < 60
        return places.tolist()  # type: ignore[no-any-return]

    assert len(set(drawn(4, 10))) == 10
    assert drawn(0, 20) == drawn(0, 20)
    assert drawn(0, 20) != drawn(1, 20)
    assert sorted(drawn(0, 60)) == list(range(60))
    assert len(np.unique(drawn(0, 60, replacement=True))) < 60
    assert len(drawn(0, 61, replacement=True)) == 61
    for count in (0, 61):
        with pytest.raises(InputError, match=f"Between 1 and 60 annotated texts can be drawn, but {count}"):
            drawn(0, count)


PARTIAL = np.array([[1, 0, -1], [-1, -1, -1], [0, 0, 1], [-1, 0, -1]])


@pytest.mark.parametrize(
    "y",
    [
        [{"gold": True, "silver": False}, None, ["wheat"], {"silver": np.False_}],
        [{"gold": True, "silver": False}, {}, ["wheat"], {"silver": False}],
        PARTIAL,
        PARTIAL.tolist(),
        csr_array(PARTIAL),
        PARTIAL.astype(float),
    ],
    ids=["names", "nothing", "matrix", "lists", "sparse", "floats"],
)
def test_a_text_may_be_annotated_in_part(y: Any) -> None:
    made = annotated(y, 4)
    assert made.rows.tolist() == [0, 2, 3]
    assert made.labels.toarray().tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 0]]
    assert made.labels.nnz == 2
    assert made.known is not None
    assert made.known.toarray().tolist() == [[1, 1, 0], [1, 1, 1], [0, 1, 0]]
    assert made.is_whole.tolist() == [False, True, False]
    assert made.known_counts.tolist() == [2, 3, 1]
    assert made.known_of(0).tolist() == [0, 1]
    some = made.drawn(np.array([2, 0, 2]))
    assert some.known is not None
    assert some.known.toarray().tolist() == [[0, 1, 0], [1, 1, 0], [0, 1, 0]]


def test_where_all_is_known_nothing_is_kept_of_what_is() -> None:
    made = annotated([["gold"], None, []], 3)
    assert made.known is None
    assert made.is_whole.tolist() == [True, True]
    assert made.known_counts.tolist() == [2, 2, 2]
    assert made.known_of(1).tolist() == [0, 1, 2]


def test_what_needs_all_labels_refuses_some() -> None:
    with pytest.raises(InputError, match=r"y\[3\] is annotated in part, but all its labels are needed"):
        indicator_of([["gold"], None, [], {"wheat": True}], 4, LABELS)


def test_what_is_known_must_fit_the_labels() -> None:
    truth = csr_array(np.array(TRUTH))
    with pytest.raises(InputError, match=r"What is known has shape \(2, 3\), but the labels have shape \(3, 3\)"):
        Annotated(np.arange(3), truth, csr_array(np.ones((2, 3), dtype=bool)))
    with pytest.raises(InputError, match="has a label of which it is not known whether it has it"):
        Annotated(np.arange(3), truth, csr_array((3, 3), dtype=bool))


def test_texts_of_which_nothing_is_known_are_left_out(corpus: Corpus) -> None:
    assert corpus.annotations is not None
    known = np.ones((60, 6), dtype=bool)
    known[1:], truth = False, corpus.annotations.toarray()
    known[5, 2] = True
    some = Corpus(corpus.ids, corpus.texts, csr_array(truth & known), csr_array(known))
    made = Annotated.among(some, corpus.ids)
    assert made.rows.tolist() == [0, 5]
    assert made.known_counts.tolist() == [1, 1, 2, 1, 1, 1]
    with pytest.raises(InputError, match="None of these texts is annotated yet"):
        Annotated.among(some.rows(np.arange(1, 5)), corpus.ids)
