from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bncl_pyg.corpus import LabelSet
from bncl_pyg.errors import InputError

Write = Callable[..., Path]


def test_rows_and_plain_names(write: Write) -> None:
    rows = write("l.jsonl", [{"label": "acq", "description": "Acquisitions"}, {"label": "earn"}])
    assert LabelSet.read(rows) == LabelSet(("acq", "earn"), ("Acquisitions", "earn"))
    assert LabelSet.read(write("l.txt", "acq\n\n earn \n")) == LabelSet(("acq", "earn"), ("acq", "earn"))
    assert LabelSet.read(write("l.csv", "label,description\nacq,Acquisitions\nearn,\n")).descriptions[1] == "earn"


def test_a_format_that_cannot_be_told_is_named_with_those_that_can(write: Write) -> None:
    with pytest.raises(InputError, match=r"l\.tsv: .* must end in \.txt, \.jsonl, \.jsonl\.gz, \.csv or \.parquet\."):
        LabelSet.read(write("l.tsv", "acq"))


def test_round_trip_and_digest(labels: LabelSet, tmp_path: Path) -> None:
    labels.write(tmp_path / "l.jsonl")
    again = LabelSet.read(tmp_path / "l.jsonl")
    assert again == labels
    assert again.digest() == labels.digest()
    assert LabelSet(("ab", "c"), ("x", "y")).digest() != LabelSet(("a", "bc"), ("x", "y")).digest()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([{"label": "a"}, {"label": "b"}, {"label": "a"}], "line 3: label 'a' is given twice (first on line 1)"),
        ([{"description": "x"}], "line 1: field 'label' is missing"),
        ([{"label": "a", "description": 3}], "line 1: field 'description' must be a string"),
        ([], "holds no label"),
    ],
)
def test_bad_labels_are_named(write: Write, content: list[object], message: str) -> None:
    with pytest.raises(InputError) as error:
        LabelSet.read(write("l.jsonl", content))
    assert message in str(error.value)


def test_sets_that_differ_are_told_how(labels: LabelSet) -> None:
    fewer = LabelSet(labels.names[:-1], labels.descriptions[:-1])
    with pytest.raises(InputError, match="Label 'rates' of the model is not in the features"):
        labels.check_same(fewer, "the model", "the features")
    with pytest.raises(InputError, match="Label 'rates' of the features is not in the model"):
        fewer.check_same(labels, "the model", "the features")
    turned = LabelSet(labels.names[::-1], labels.descriptions[::-1])
    with pytest.raises(InputError, match="in another order: number 1 is 'gold' in the first and 'rates'"):
        labels.check_same(turned, "the model", "the features")


def test_labels_from_python(labels: LabelSet) -> None:
    plain = LabelSet(("acq", "earn"), ("acq", "earn"))
    assert (
        LabelSet.of(["acq", "earn"]) == LabelSet.of(("acq", "earn")) == LabelSet.of(np.array(["acq", "earn"])) == plain
    )
    assert all(type(name) is str for name in LabelSet.of(np.array(["acq"])).names)
    described = LabelSet.of({"acq": "Acquisitions", "earn": "", "oil": None})
    assert described == LabelSet(("acq", "earn", "oil"), ("Acquisitions", "earn", "oil"))
    assert LabelSet.of(labels) is labels


@pytest.mark.parametrize("wrong", ["acq", b"acq", None, 3, {"acq", "earn"}])
def test_what_is_no_list_of_names_is_a_type_error(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"list of names or a dict \{name: description\}"):
        LabelSet.of(wrong)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ([], "No label is given"),
        (["acq", 3], "Label number 2 must be a string, but is of type int"),
        (["acq", " "], "Label number 2 is empty"),
        (["acq", "acq"], "'acq' is given twice"),
        ({"acq": 3}, "description of label 'acq' must be a string"),
    ],
)
def test_names_that_cannot_be_used_are_named(wrong: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        LabelSet.of(wrong)
