from typing import Any

import numpy as np
import pytest

from bncl_pyg.corpus import Corpus
from bncl_pyg.errors import InputError


class Series:
    """As much of a pandas Series as matters: values in order, one dimension, an index that is not their place."""

    ndim = 1

    def __init__(self, values: list[Any]) -> None:
        self.values = values
        self.index = list(range(10, 10 + len(values)))

    def __iter__(self) -> Any:
        return iter(self.values)

    def __getitem__(self, key: int) -> Any:
        return self.values[self.index.index(key)]


@pytest.mark.parametrize("kind", [list, tuple, np.array, Series, iter])
def test_texts_from_python(kind: Any) -> None:
    corpus = Corpus.of(kind(["one", "two"]))
    assert corpus == Corpus(("0", "1"), ("one", "two"))
    assert all(type(text) is str for text in corpus.texts)


def test_texts_from_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"id": [7, 8], "text": ["one", "two"]}, index=[3, 3])
    assert Corpus.of(table["text"], ids=table["id"]) == Corpus(("7", "8"), ("one", "two"))
    with pytest.raises(InputError, match=r"one dimension, but has shape \(2, 2\)"):
        Corpus.of(table)
    with pytest.raises(InputError, match=r"texts\[1\] is missing"):
        Corpus.of(pandas.Series(["one", pandas.NA]))


def test_none_and_a_corpus() -> None:
    empty = Corpus.of([])
    assert len(empty) == 0
    corpus = Corpus.of(["one"], ids=[5])
    assert corpus.ids == ("5",)
    assert Corpus.of(corpus) is corpus
    with pytest.raises(InputError, match="has ids already"):
        Corpus.of(corpus, ids=["a"])


@pytest.mark.parametrize("wrong", ["a text", b"a text", None, 3, {"a": "text"}, {"a text"}])
def test_what_is_no_list_of_texts_is_a_type_error(wrong: Any) -> None:
    with pytest.raises(TypeError, match="texts must be a list of strings, but is a"):
        Corpus.of(wrong)


@pytest.mark.parametrize("missing", [None, float("nan"), np.float64("nan")])
def test_a_missing_text_is_named(missing: Any) -> None:
    with pytest.raises(ValueError, match=r"texts\[1\] is missing"):
        Corpus.of(["one", missing])


@pytest.mark.parametrize("wrong", [3, 1.5, b"two", ["two"]])
def test_what_is_no_string_is_named(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"texts\[1\] must be a string, but is of type"):
        Corpus.of(["one", wrong])


def test_arrays_of_another_shape() -> None:
    with pytest.raises(ValueError, match=r"one dimension, but has shape \(1, 2\)"):
        Corpus.of(np.array([["one", "two"]]))


@pytest.mark.parametrize(
    ("ids", "error", "sentence"),
    [
        (["a"], InputError, "2 texts but 1 ids"),
        (["a", "a"], InputError, r"ids\[1\]: 'a' is given twice \(first at 0\)"),
        (["a", 1.5], TypeError, r"ids\[1\] must be a string or a whole number, but is of type float"),
        (["a", None], TypeError, r"ids\[1\] must be a string or a whole number, but is missing"),
        (["a", True], TypeError, r"ids\[1\] .* is of type bool"),
        ("ab", TypeError, "ids must be a list of strings"),
    ],
)
def test_ids_that_cannot_be_used_are_named(ids: Any, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        Corpus.of(["one", "two"], ids=ids)
