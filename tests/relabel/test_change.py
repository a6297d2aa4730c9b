"""Which labels there are after a change, and what bad input is told."""

import pytest

from bncl_pyg.corpus import LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.relabel.change import LabelChange


def test_added_labels_come_last(labels: LabelSet) -> None:
    change = LabelChange.adding(labels, {"oil": "Crude oil", "zinc": None})
    assert change.labels.names == (*labels.names, "oil", "zinc")
    assert change.labels.descriptions[-2:] == ("Crude oil", "zinc")
    assert change.added == ("oil", "zinc")
    assert change.kept_origins() == [*labels.names, None, None]
    assert not change.only_names


def test_renamed_labels_keep_place_and_description(labels: LabelSet) -> None:
    change = LabelChange.renaming(labels, {"gold": "Au", "corn": "gold"})
    assert change.labels.names == ("Au", "silver", "wheat", "gold", "money", "rates")
    assert change.labels.descriptions == labels.descriptions
    assert change.only_names
    assert change.renamed()["corn"] == "gold"


def test_merged_labels_mean_what_all_of_them_meant(labels: LabelSet) -> None:
    change = LabelChange.merging(labels, ["wheat", "corn"], "grain")
    assert change.labels.names == ("gold", "silver", "grain", "money", "rates")
    assert change.labels.phrases()[2] == ("Wheat", "Corn")
    assert change.origins[2] == ("wheat", "corn")
    described = LabelChange.merging(labels, ["corn", "gold"], "corn", "Corn and gold")
    assert described.labels.names == ("corn", "silver", "wheat", "money", "rates")
    assert described.labels.phrases()[0] == ("Corn and gold",)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda labels: LabelChange.adding(labels, ["gold"]), "There is a label 'gold' already."),
        (lambda labels: LabelChange.adding(labels, {"Au": "Gold"}), "'Au' is described just like 'gold'"),
        (lambda labels: LabelChange.adding(labels, []), "No label is given."),
        (lambda labels: LabelChange.removing(labels, ["glod"]), "Unknown label 'glod' .did you mean 'gold'"),
        (lambda labels: LabelChange.removing(labels, []), "No label is named."),
        (lambda labels: LabelChange.removing(labels, labels.names), "No label would be left"),
        (lambda labels: LabelChange.renaming(labels, {"tin": "iron"}), "Unknown label 'tin'"),
        (lambda labels: LabelChange.renaming(labels, {"gold": "corn"}), "There would be two labels 'corn'"),
        (lambda labels: LabelChange.renaming(labels, {"gold": " "}), "must be a string that is not blank"),
        (lambda labels: LabelChange.merging(labels, ["gold"], "x"), "At least two labels can be merged."),
        (lambda labels: LabelChange.merging(labels, ["gold", "corn"], "rates"), "There is a label 'rates' already."),
    ],
)
def test_bad_input_is_one_sentence(labels: LabelSet, make: object, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        make(labels)  # type: ignore[operator]
