import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from bncl_pyg.corpus import LabelSet, RoughPriors, Supervision
from bncl_pyg.errors import InputError

Write = Callable[..., Path]


def test_means_over_annotated_texts() -> None:
    found = Supervision.from_annotations(csr_array(np.array([[1, 0, 1], [0, 0, 1], [0, 0, 1], [0, 0, 0]], dtype=bool)))
    assert found.cardinality == 1.0
    assert found.prevalence.tolist() == [0.25, 0.0, 0.75]
    with pytest.raises(InputError, match="None of the annotated texts has a label"):
        Supervision.from_annotations(csr_array((3, 3), dtype=bool))


def test_priors_round_trip(priors: Supervision, labels: LabelSet, tmp_path: Path) -> None:
    priors.write_priors(tmp_path / "p.json", labels)
    again = RoughPriors.read(tmp_path / "p.json", labels)
    assert isinstance(again, Supervision)
    assert again.cardinality == priors.cardinality
    assert again.prevalence.tolist() == priors.prevalence.tolist()


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
        ({"gold": "drop"}, "label 'gold' is missing"),
        ({"gold": "rare"}, "the prevalence of 'gold' must be a number or one of 'almost unseen', 'uncommon'"),
        ({"gold": True}, "the prevalence of 'gold' must be a number"),
        ({"wheat": "comon", "gold": "drop"}, "the prevalence of 'wheat' must be a number or one of"),
    ],
)
def test_bad_priors_are_named(write: Write, labels: LabelSet, change: dict[str, object], message: str) -> None:
    content: dict[str, object] = {"cardinality": 1.2, "prevalence": dict.fromkeys(labels.names, 0.2)}
    for key, value in change.items():
        if key in content:
            content[key] = value
        elif value == "drop":
            del content["prevalence"][key]  # type: ignore[attr-defined]
        else:
            content["prevalence"][key] = value  # type: ignore[index]
    path = write("p.json", json.dumps(content))
    with pytest.raises(InputError) as error:
        RoughPriors.read(path, labels)
    assert str(error.value).startswith(str(path))
    assert message in str(error.value)


def test_priors_that_are_no_json_are_named(write: Write, labels: LabelSet) -> None:
    with pytest.raises(InputError, match="line 2: not valid JSON"):
        RoughPriors.read(write("p.json", "{\nnot json}"), labels)
    with pytest.raises(InputError, match="says neither 'cardinality' nor 'prevalence'"):
        RoughPriors.read(write("p.json", "{}"), labels)
    with pytest.raises(InputError, match="there is no 'kappa' in priors; there are: cardinality, prevalence"):
        RoughPriors.read(write("p.json", '{"kappa": 1}'), labels)
    nothing = json.dumps({"prevalence": dict.fromkeys(labels.names, 0)})
    with pytest.raises(InputError, match="all prevalences are 0, and there is no 'cardinality'"):
        RoughPriors.read(write("p.json", nothing), labels)


def test_priors_may_be_rough(write: Write, labels: LabelSet) -> None:
    only = RoughPriors.read(write("p.json", '{"cardinality": 1.5}'), labels)
    assert isinstance(only, RoughPriors)
    assert only.cardinality == 1.5
    assert np.isnan(only.prevalence).all()
    assert (only.words == -1).all()
    given = dict(zip(labels.names, ["common", "standard", "uncommon", "almost unseen", 0.3, 0], strict=True))
    mixed = RoughPriors.read(write("p.json", json.dumps({"prevalence": given})), labels)
    assert isinstance(mixed, RoughPriors)
    assert mixed.cardinality is None
    assert mixed.words.tolist() == [3, 2, 1, 0, -1, -1]
    assert mixed.prevalence[4:].tolist() == [0.3, 0]
    numbers = RoughPriors.read(write("p.json", json.dumps({"prevalence": dict.fromkeys(labels.names, 0.2)})), labels)
    assert isinstance(numbers, Supervision)
    assert numbers.cardinality == pytest.approx(1.2)


def test_bounds_hold_without_a_file_too() -> None:
    with pytest.raises(InputError, match=r"label number 2 must be between 0 and 1"):
        Supervision(1.0, np.array([0.5, 1.1]))
    with pytest.raises(InputError, match="at most 2"):
        Supervision(2.5, np.array([0.5, 0.5]))
    with pytest.raises(InputError, match=r"annotations have shape \(3, 2\)"):
        Supervision(1.0, np.array([0.5, 0.5]), np.array([0, 1]), csr_array((3, 2), dtype=bool))


@pytest.mark.parametrize(
    ("cardinality", "apart"), [(1.0, False), (1.2, False), (0.84, False), (1.3, True), (0.8, True)]
)
def test_a_fifth_apart_is_said(cardinality: float, apart: bool, caplog: pytest.LogCaptureFixture) -> None:
    known = Supervision(cardinality, np.array([0.5, 0.5]))
    known.warn_if_apart()
    assert (known.disagreement() is not None) == apart
    assert ("The prevalences add up to 1 labels a text" in caplog.text) == apart
