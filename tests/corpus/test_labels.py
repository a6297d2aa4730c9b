from collections.abc import Callable
from pathlib import Path

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
