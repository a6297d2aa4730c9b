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
    with pytest.raises(InputError, match=r"l\.doc: .* must end in \.txt, \.csv, \.tsv, \.jsonl, \.json \(each"):
        LabelSet.read(write("l.doc", "acq"))
    with pytest.raises(InputError, match=r"l\.csv has no column 'label'; its columns are: acq"):
        LabelSet.read(write("l.csv", "acq"))


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
        ([{"description": "x"}], "has no column 'label'; its columns are: "),
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


SYNONYMS = LabelSet(("acq", "earn"), ("Acquisitions", "earn"), (("takeover", "buyout"), ()))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (
            "l.jsonl",
            [
                {"label": "acq", "description": "Acquisitions", "synonyms": ["takeover", " buyout ", "takeover"]},
                {"label": "earn", "synonyms": []},
            ],
        ),
        ("l.csv", "label,description,synonyms\nacq,Acquisitions,takeover; buyout;;takeover\nearn,,\n"),
    ],
)
def test_synonyms_are_read(write: Write, name: str, content: Any) -> None:
    assert LabelSet.read(write(name, content)) == SYNONYMS


def test_synonyms_out_of_parquet(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    names, descriptions = ["acq", "earn"], ["Acquisitions", None]
    synonyms = [["takeover", "buyout"], None]
    pq.write_table(
        pa.table({"label": names, "description": descriptions, "synonyms": synonyms}), tmp_path / "l.parquet"
    )
    assert LabelSet.read(tmp_path / "l.parquet") == SYNONYMS


@pytest.mark.parametrize(
    ("synonyms", "message"),
    [
        ("takeover", "line 2: field 'synonyms' must be a list of strings, but is a string"),
        (["takeover", " "], "line 2: field 'synonyms' holds an empty string"),
        (["takeover", 3], "line 2: field 'synonyms' must hold strings only, but holds a number"),
    ],
)
def test_bad_synonyms_are_named(write: Write, synonyms: object, message: str) -> None:
    with pytest.raises(InputError) as error:
        LabelSet.read(write("l.jsonl", [{"label": "earn"}, {"label": "acq", "synonyms": synonyms}]))
    assert message in str(error.value)


def test_synonyms_from_python() -> None:
    given = {"acq": {"description": "Acquisitions", "synonyms": ["takeover", "buyout", "takeover"]}, "earn": {}}
    assert LabelSet.of(given) == SYNONYMS
    assert LabelSet.of({"acq": {"synonyms": ()}, "earn": None}) == LabelSet.of(["acq", "earn"])
    assert LabelSet(("a", "b"), ("a", "b"), ((), ())).synonyms == ()


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"acq": {"synonyms": "takeover"}}, "synonyms of label 'acq' must be a list of strings, but are of type str"),
        ({"acq": {"synonyms": [3]}}, "A synonym of label 'acq' must be a string, but is of type int"),
        ({"acq": {"synonyms": [" "]}}, "A synonym of label 'acq' is empty"),
        ({"acq": {"synonym": ["takeover"]}}, "Label 'acq' has the field 'synonym', but can only have"),
    ],
)
def test_synonyms_that_cannot_be_used_are_named(wrong: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        LabelSet.of(wrong)
    with pytest.raises(InputError, match="2 label names but synonyms of 1"):
        LabelSet(("a", "b"), ("a", "b"), (("x",),))
    with pytest.raises(InputError, match="must be several strings, but are the one 'xyz'"):
        LabelSet(("a",), ("a",), ("xyz",))  # type: ignore[arg-type]


def test_synonyms_are_written_extended_and_hashed(tmp_path: Path) -> None:
    SYNONYMS.write(tmp_path / "l.jsonl")
    assert LabelSet.read(tmp_path / "l.jsonl") == SYNONYMS
    assert '"earn", "description": "earn"}' in (tmp_path / "l.jsonl").read_text()
    more = LabelSet.of(["oil"]).extended(SYNONYMS)
    assert more.synonyms == ((), ("takeover", "buyout"), ())
    assert LabelSet.of(["oil"]).extended(LabelSet.of(["gold"])).synonyms == ()
    plain = LabelSet(SYNONYMS.names, SYNONYMS.descriptions)
    elsewhere = LabelSet(SYNONYMS.names, SYNONYMS.descriptions, (("takeover",), ("buyout",)))
    assert len({plain.digest(), SYNONYMS.digest(), elsewhere.digest()}) == 3


def test_the_digest_without_synonyms_is_what_it_ever_was() -> None:
    known = "f238ecb290f531ab8aa9880b0cd80de57373526eb5c5c90588767da22b4c5feb"
    assert LabelSet(("acq", "earn"), ("Acquisitions", "earn")).digest() == known


def test_meanings_differ_where_description_or_synonyms_do() -> None:
    sets = [
        LabelSet.of({"a": meaning})
        for meaning in (
            "x",
            "x; y",
            {"description": "x", "synonyms": ["y"]},
            {"description": "x", "synonyms": ["y", "z"]},
            {"description": "x", "synonyms": ["y, z"]},
            {"description": "x", "synonyms": ['y", "z']},
        )
    ]
    assert len({labels.meanings()["a"] for labels in sets}) == len(sets)
    assert LabelSet.of({"a": "x"}).meanings() == LabelSet.of({"a": {"description": "x", "synonyms": []}}).meanings()


@pytest.mark.parametrize(
    ("description", "phrases"),
    [
        ("Mergers and acquisitions", ("Mergers and acquisitions",)),
        ("Takeovers, bids. ", ("Takeovers, bids. ",)),
        ("Buying a company. Selling one.", ("Buying a company", "Selling one")),
        ("Is it sold? It is! Who paid?", ("Is it sold?", "It is!", "Who paid?")),
        ("Metals, e.g. Gold or i.e. Silver.", ("Metals, e.g. Gold or i.e. Silver.",)),
        ("Trade of the U.S. Government.", ("Trade of the U.S. Government.",)),
        ("Reports by Dr. J. R. Smith vs. Jones", ("Reports by Dr. J. R. Smith vs. Jones",)),
        ("Rule No. 5 of St. Louis. Say no. Then go.", ("Rule No. 5 of St. Louis", "Say no", "Then go")),
        ("Version 2.0 of it. 3 more follow.", ("Version 2.0 of it", "3 more follow")),
        ('He "left." (She stayed.) Nobody came', ('He "left."', "(She stayed.)", "Nobody came")),
        ("all lower case. no capital follows", ("all lower case. no capital follows",)),
        ("Cars, lorries, etc. Bicycles count too.", ("Cars, lorries, etc", "Bicycles count too")),
        ("Works of art. Figs. No fig.", ("Works of art", "Figs", "No fig")),
        ("Same. Same.", ("Same",)),
        ("Made in China. Sold in the U.S.", ("Made in China", "Sold in the U.S.")),
        ("And so on… Über alles... Ende.\nÖl.", ("And so on… Über alles...", "Ende", "Öl")),
    ],
)
def test_a_description_is_read_sentence_by_sentence(description: str, phrases: tuple[str, ...]) -> None:
    assert LabelSet(("a",), (description,)).phrases() == (phrases,)


def test_synonyms_are_phrases_too_and_none_comes_twice() -> None:
    labels = LabelSet.of({"acq": {"description": "Mergers. Bids.", "synonyms": ["takeover", "Bids"]}, "earn": None})
    assert labels.phrases() == (("Mergers", "Bids", "takeover"), ("earn",))
    assert LabelSet(("a",), ("",)).phrases() == (("a",),)


def test_sets_with_other_meanings_are_told_where() -> None:
    SYNONYMS.check_same_meaning(SYNONYMS, "the model", "the features")
    with pytest.raises(InputError, match="Label 'oil' of the features is not in the model"):
        SYNONYMS.check_same_meaning(SYNONYMS.extended(LabelSet.of(["oil"])), "the model", "the features")
    other = LabelSet(SYNONYMS.names, ("Acquisitions", "Earnings"), SYNONYMS.synonyms)
    with pytest.raises(
        InputError, match="Label 'earn' has another description in the model than in the features: 'earn' and 'Earn"
    ):
        SYNONYMS.check_same_meaning(other, "the model", "the features")
    plain = LabelSet(SYNONYMS.names, SYNONYMS.descriptions)
    with pytest.raises(
        InputError, match="'acq' has other synonyms in the model than in the features: 'takeover; buyout' and none"
    ):
        SYNONYMS.check_same_meaning(plain, "the model", "the features")


def test_long_meanings_are_cut_where_they_differ() -> None:
    first, second = (LabelSet.of({"a": "word " * 100 + end + " more" * 100}) for end in ("this", "that"))
    with pytest.raises(InputError) as error:
        first.check_same_meaning(second, "A", "B")
    assert "this more" in str(error.value)
    assert "that more" in str(error.value)
    assert len(str(error.value)) < 250
