import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from bncl_pyg.corpus import LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.priors import Prevalence, Priors

Write = Callable[..., Path]
EVERY_KIND: tuple[Prevalence, ...] = (0.3, (0.1, 0.4), "common", None, 0.0, (0.2, 0.2))


def test_means_over_annotated_texts() -> None:
    priors = Priors.from_annotations(csr_array(np.array([[1, 0, 1], [0, 0, 1], [0, 0, 1], [0, 0, 0]], dtype=bool)))
    assert priors == Priors(1.0, (0.25, 0.0, 0.75), at_least_one=False)
    assert Priors.from_annotations(csr_array(np.array([[1, 0], [0, 1]], dtype=bool))).at_least_one
    with pytest.raises(InputError, match="None of the annotated texts has a label"):
        Priors.from_annotations(csr_array((3, 3), dtype=bool))


@pytest.mark.parametrize(
    "priors",
    [
        Priors(1.2, (0.1, 0.2, 0.3, 0.0, 1.0, 1 / 3)),
        Priors(1.5, EVERY_KIND),
        Priors(None, EVERY_KIND),
        Priors(1.5, (None,) * 6),
        Priors.nothing(6),
    ],
    ids=["numbers", "every kind", "without κ", "only κ", "nothing"],
)
def test_priors_round_trip(priors: Priors, labels: LabelSet, tmp_path: Path) -> None:
    priors.write(tmp_path / "p.json", labels)
    assert Priors.read(tmp_path / "p.json", labels) == priors


def test_the_file_holds_what_is_known_as_json_has_it(labels: LabelSet, tmp_path: Path) -> None:
    Priors(1.5, EVERY_KIND).write(tmp_path / "p.json", labels)
    values = [0.3, [0.1, 0.4], "common", None, 0.0, [0.2, 0.2]]
    expected = {"cardinality": 1.5, "prevalence": dict(zip(labels.names, values, strict=True))}
    assert json.loads((tmp_path / "p.json").read_text()) == expected
    Priors(1.5, (None,) * 6).write(tmp_path / "p.json", labels)
    assert json.loads((tmp_path / "p.json").read_text()) == {"cardinality": 1.5}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cardinality": 0}, "'cardinality' must be above 0 and at most 6"),
        ({"cardinality": 6.5}, "'cardinality' must be above 0 and at most 6"),
        ({"cardinality": "many"}, "'cardinality' must be a number, but is 'many'"),
        ({"cardinality": None}, "'cardinality' must be a number"),
        ({"prevalence": [0.1]}, "'prevalence' must be an object"),
        ({"gold": 1.5}, "the prevalence of 'gold' must be between 0 and 1, but is 1.5"),
        ({"gold": -0.1}, "the prevalence of 'gold' must be between 0 and 1"),
        ({"gold": float("nan")}, "the prevalence of 'gold' must be a number"),
        ({"glod": 0.1}, "unknown label 'glod' (did you mean 'gold'?)"),
        (
            {"gold": "rare"},
            "the prevalence of 'gold' must be a number, an interval or one of 'almost unseen', 'uncommon'",
        ),
        ({"gold": True}, "the prevalence of 'gold' must be a number"),
        ({"gold": {"low": 0.1}}, "the prevalence of 'gold' must be a number"),
        ({"gold": [0.1]}, "the prevalence of 'gold' must be a number or an interval of two numbers, but has 1"),
        (
            {"gold": [0.1, 0.2, 0.3]},
            "the prevalence of 'gold' must be a number or an interval of two numbers, but has 3",
        ),
        (
            {"gold": [0.4, 0.1]},
            "the prevalence of 'gold' is an interval from 0.4 to 0.1, but must begin with the lower",
        ),
        ({"gold": [0.1, 1.5]}, "the prevalence of 'gold' must be between 0 and 1, but is 1.5"),
        ({"gold": [None, 0.5]}, "the prevalence of 'gold' must be a number, but is None"),
        ({"wheat": "comon", "gold": "drop"}, "the prevalence of 'wheat' must be a number, an interval or one of"),
    ],
)
def test_bad_priors_are_named(write: Write, labels: LabelSet, change: dict[str, object], message: str) -> None:
    content: dict[str, Any] = {"cardinality": 1.2, "prevalence": dict.fromkeys(labels.names, 0.2)}
    for key, value in change.items():
        if key in content:
            content[key] = value
        elif value == "drop":
            del content["prevalence"][key]
        else:
            content["prevalence"][key] = value
    path = write("p.json", json.dumps(content))
    with pytest.raises(InputError) as error:
        Priors.read(path, labels)
    assert str(error.value).startswith(str(path))
    assert message in str(error.value)


def test_priors_that_are_no_json_are_named(write: Write, labels: LabelSet) -> None:
    with pytest.raises(InputError, match="line 2: not valid JSON"):
        Priors.read(write("p.json", "{\nnot json}"), labels)
    with pytest.raises(InputError, match="says neither 'cardinality' nor 'prevalence'"):
        Priors.read(write("p.json", "{}"), labels)
    with pytest.raises(InputError, match="there is no 'kappa' in priors; there are: cardinality, prevalence"):
        Priors.read(write("p.json", '{"kappa": 1}'), labels)
    nothing = json.dumps({"prevalence": dict.fromkeys(labels.names, 0)})
    with pytest.raises(InputError, match="all prevalences are 0, and there is no 'cardinality'"):
        Priors.read(write("p.json", nothing), labels)


def test_priors_may_be_rough(write: Write, labels: LabelSet) -> None:
    only = Priors.read(write("p.json", '{"cardinality": 1.5}'), labels)
    assert only == Priors(1.5, (None,) * 6)
    assert np.isnan(only.shares).all()
    assert (only.words == -1).all()
    assert not only.knows_labels
    given = dict(zip(labels.names, ["common", "standard", "uncommon", "almost unseen", 0.3, None], strict=True))
    mixed = Priors.read(write("p.json", json.dumps({"prevalence": given})), labels)
    assert mixed.cardinality is None
    assert mixed.words.tolist() == [3, 2, 1, 0, -1, -1]
    assert mixed.has_share.tolist() == [False, False, False, False, True, False]
    assert mixed.shares[4] == 0.3
    assert mixed.knows_labels
    assert not mixed.is_exact


def test_the_cardinality_is_the_sum_where_all_prevalences_are_numbers(write: Write, labels: LabelSet) -> None:
    numbers = dict.fromkeys(labels.names, 0.2)
    whole = Priors.read(write("p.json", json.dumps({"prevalence": numbers})), labels)
    assert whole.cardinality == pytest.approx(1.2)
    assert whole.is_exact
    intervals = Priors.of(labels, {**numbers, "gold": (0.1, 0.9)})
    assert intervals.cardinality == pytest.approx(1.3)
    assert Priors.of(labels, numbers, 2.5).cardinality == 2.5
    for rough in ("common", None):
        assert Priors.of(labels, {**numbers, "gold": rough}).cardinality is None


def test_numbers_that_may_be_off_by_a_factor_are_intervals(tmp_path: Path) -> None:
    labels = LabelSet(("a", "b", "c"), ("a", "b", "c"))
    file = tmp_path / "priors.json"
    shares = {"a": 0.2, "b": 0.8, "c": "common"}
    file.write_text(json.dumps({"cardinality": 1.2, "prevalence": shares, "precision": "factor 2"}))
    read = Priors.read(file, labels)
    assert read.prevalence == ((0.1, 0.4), (0.4, 1.0), "common")
    for wrong in ("2", 2, "factor", "factor x", "factor 0.5", "factor nan"):
        file.write_text(json.dumps({"prevalence": shares, "precision": wrong}))
        with pytest.raises(InputError, match="'precision' must be \"factor\" and a number of at least 1, but is"):
            Priors.read(file, labels)


def test_an_interval_counts_as_its_geometric_middle() -> None:
    priors = Priors(1.0, ((0.04, 0.25), (0.3, 0.3), (0.0, 0.2), "common"))
    assert priors.shares[:3].tolist() == pytest.approx([0.1, 0.3, 0.1])
    assert math.isnan(priors.shares[3])
    assert priors.has_share.tolist() == [True, True, True, False]
    assert priors.words.tolist() == [-1, -1, -1, 3]
    assert priors.stds[:3].tolist() == pytest.approx([math.log(2.5), 0.0, math.log(2)])
    assert math.isnan(priors.stds[3])
    assert not Priors(1.0, priors.prevalence[:3]).is_exact
    assert Priors(1.0, (0.5, (0.3, 0.3), 0.2)).is_exact


def test_bounds_hold_without_a_file_too() -> None:
    with pytest.raises(InputError, match="label number 2 must be between 0 and 1"):
        Priors(1.0, (0.5, 1.1))
    with pytest.raises(InputError, match=r"label number 1 is an interval from 0\.5 to 0\.1"):
        Priors(1.0, ((0.5, 0.1), 0.5))
    with pytest.raises(InputError, match="at most 2"):
        Priors.exact(2.5, np.array([0.5, 0.5]))
    with pytest.raises(InputError, match="The cardinality must be a number, but is True"):
        Priors(True, (0.5, 0.5))


def test_numbers_and_intervals_are_kept_in_one_form() -> None:
    """Also where NumPy made them, or where an interval is a list."""
    given: Any = [np.float32(0.5), [np.float64(0.25), 1], "common", None]
    priors = Priors(np.float32(1.5), given)  # type: ignore[arg-type]
    assert priors == Priors(1.5, (0.5, (0.25, 1.0), "common", None))
    assert {type(value) for value in (priors.cardinality, priors.prevalence[0])} == {float}
    assert priors.shares[:2].tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("cardinality", "apart"), [(1.0, False), (1.2, False), (0.84, False), (1.3, True), (0.8, True)]
)
def test_a_disagreement_of_a_fifth_is_logged(cardinality: float, apart: bool, caplog: pytest.LogCaptureFixture) -> None:
    priors = Priors(cardinality, (0.5, 0.5))
    priors.warn_if_they_disagree()
    assert (priors.disagreement() is not None) == apart
    assert ("The prevalences add up to 1 labels a text" in caplog.text) == apart


def test_what_is_not_known_cannot_disagree() -> None:
    assert Priors(2.0, (0.1, None)).disagreement() is None
    assert Priors(None, (0.1, 0.1)).disagreement() is None


NUMBERS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]


def test_priors_are_made_from_what_somebody_has_in_python(labels: LabelSet) -> None:
    expected = Priors(1.5, tuple(NUMBERS))
    mapping = dict(zip(labels.names, NUMBERS, strict=True))
    backwards = dict(reversed(mapping.items()))
    for given in (mapping, backwards, NUMBERS, tuple(NUMBERS), np.array(NUMBERS)):
        assert Priors.of(labels, given, 1.5) == expected
    assert Priors.of(labels, expected) is expected
    assert Priors.of(labels, list(EVERY_KIND), 1.5) == Priors(1.5, EVERY_KIND)
    assert Priors.of(labels) == Priors.nothing(6)
    assert Priors.of(labels, cardinality=2) == Priors(2.0, (None,) * 6)


def test_what_cannot_be_priors_is_named(labels: LabelSet) -> None:
    named = dict(zip(labels.names, NUMBERS, strict=True))
    for given, message in (
        ({**named, "glod": 0.1}, r"prevalence: unknown label 'glod' \(did you mean 'gold'\?\)"),
        ({**named, "gold": 1.5}, "The prevalence of 'gold' must be between 0 and 1, but is 1.5"),
        ([0.1, 0.2], "There are 2 prevalences, but there are 6 labels"),
        (np.array([0.1] * 5 + [np.nan]), "The prevalence of 'rates' must be a number, but is"),
        ([0] * 6, "all prevalences are 0"),
        (Priors.nothing(2), "There are priors of 2 labels, but there are 6 labels"),
    ):
        with pytest.raises(InputError, match=message):
            Priors.of(labels, given)
    with pytest.raises(InputError, match="The cardinality is given twice"):
        Priors.of(labels, Priors(1.5, tuple(NUMBERS)), 1.5)
    for cardinality in (0, 7, math.inf):
        with pytest.raises(InputError, match="The cardinality must be"):
            Priors.of(labels, None, cardinality)


@pytest.mark.parametrize("given", ["common", 0.3, iter(NUMBERS), set(NUMBERS)])
def test_what_is_neither_mapping_nor_sequence_is_a_type_error(labels: LabelSet, given: Any) -> None:
    with pytest.raises(TypeError, match="prevalence must be a mapping or a sequence, but is"):
        Priors.of(labels, given)


def test_a_series_of_pandas_is_read_by_its_names() -> None:
    pandas = pytest.importorskip("pandas")
    labels = LabelSet.of(["a", "b"])
    assert Priors.of(labels, pandas.Series({"b": 0.2, "a": 0.6})).prevalence == (0.6, 0.2)
    assert Priors.of(labels, pandas.Series([0.6, 0.2], index=[7, 8])).prevalence == (0.6, 0.2)
    with pytest.raises(InputError, match="unknown label 'c'"):
        Priors.of(labels, pandas.Series({"c": 0.2, "a": 0.6}))


def test_of_labels_that_are_not_named_nothing_is_known(labels: LabelSet, tmp_path: Path) -> None:
    assert Priors.of(labels, {"gold": 0.1}).prevalence == (0.1, None, None, None, None, None)
    (tmp_path / "priors.json").write_text('{"prevalence": {"silver": "common"}, "at_least_one": false}')
    read = Priors.read(tmp_path / "priors.json", labels)
    assert read == Priors(None, (None, "common", None, None, None, None), at_least_one=False)
    read.write(tmp_path / "again.json", labels)
    assert Priors.read(tmp_path / "again.json", labels) == read
    (tmp_path / "priors.json").write_text('{"cardinality": 1.0, "at_least_one": "yes"}')
    with pytest.raises(InputError, match="'at_least_one' must be true, false or null, but is 'yes'"):
        Priors.read(tmp_path / "priors.json", labels)


def test_whether_every_text_has_a_label_can_be_said(labels: LabelSet) -> None:
    assert Priors.of(labels, None, 1.2, at_least_one=False) == Priors(1.2, (None,) * 6, at_least_one=False)
    said = Priors.of(labels, Priors(1.2, (None,) * 6), at_least_one=True)
    assert said.at_least_one is True
