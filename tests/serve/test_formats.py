"""Answers go out and come back the same, in four formats; what cannot be used is named."""

import json

import pytest

from bncl_pyg.corpus import LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.serve.answers import Answer
from bncl_pyg.serve.formats import FORMATS, export_answers, import_answers

LABELS = LabelSet.of({"gold": "the metal", "silver": "another", '"wheat"': "corn, too"})
TEXTS = {"1": "Gold rose.", "2": 'Said "he", they\nfell', "3": "\u202eسعر", "4": "=1+1", "5": "five", "6": "six"}
ANSWERS = [
    Answer("1", ("gold",)),
    Answer("2", ("silver", '"wheat"')),
    Answer("3", ("gold",), ("silver",), is_whole=False),
    Answer("4"),
    Answer("5", is_whole=False, kind="unsure"),
    Answer("6", is_whole=False, kind="skip"),
]


@pytest.mark.parametrize("name", FORMATS)
def test_there_and_back(name: str) -> None:
    content = export_answers(name, [*ANSWERS, Answer("gone")], TEXTS, LABELS)
    read = import_answers(name, content, TEXTS, LABELS)
    assert sorted((one for one, _ in read), key=lambda one: one.text) == ANSWERS
    assert import_answers(name, "\ufeff" + content, TEXTS, LABELS) == read, "the same file has the same keys"
    assert len({key for _, key in read}) == len(read)


def test_only_no_is_partial_too() -> None:
    answers = [Answer("1", (), ("gold",), is_whole=False)]
    for name in FORMATS:
        content = export_answers(name, answers, TEXTS, LABELS)
        assert [one for one, _ in import_answers(name, content, TEXTS, LABELS)] == answers, name


def test_label_studio_as_it_exports() -> None:
    result = {"from_name": "topic", "to_name": "text", "type": "choices", "value": {"choices": ["gold", "silver"]}}
    tasks = [
        {"id": 7, "data": {"text": "Gold rose."}, "annotations": [{"result": []}, {"result": [result]}]},
        {"id": 8, "data": {"text": "five"}, "annotations": []},
        {"id": 9, "data": {"text": "six"}, "annotations": [{"was_cancelled": True, "result": []}]},
    ]
    read = [one for one, _ in import_answers("label-studio", json.dumps(tasks), TEXTS, LABELS)]
    assert read == [Answer("1", ("gold", "silver")), Answer("6", is_whole=False, kind="skip")]


def test_prodigy_one_label_at_a_time() -> None:
    rows = [
        {"text": "Gold rose.", "label": "gold", "answer": "accept"},
        {"text": "Gold rose.", "label": "silver", "answer": "reject"},
        {"text": "five", "label": "gold", "answer": "ignore"},
        {"text": "six", "options": [{"id": "gold"}, {"id": "silver"}], "accept": ["silver"], "answer": "accept"},
    ]
    read = [one for one, _ in import_answers("prodigy", "\n".join(map(json.dumps, rows)), TEXTS, LABELS)]
    assert sorted(read, key=lambda one: one.text) == [
        Answer("1", ("gold",), ("silver",), is_whole=False),
        Answer("5", is_whole=False, kind="unsure"),
        Answer("6", ("silver",), ("gold",), is_whole=False),
    ]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("jsonl", '{"id": "1", "labels": []}\n{', "Line 2 is no JSON"),
        ("jsonl", "[]", "Line 1 is no JSON object"),
        ("jsonl", '{"id": "9", "labels": []}', "Line 1: there is no text with id '9'"),
        ("jsonl", '{"text": "unknown", "labels": []}', "Line 1: there is no such text"),
        ("jsonl", '{"id": "1", "labels": "gold"}', "Line 1: labels must be a list of names"),
        ("jsonl", '{"id": "1"}', "Line 1: labels must be a list of names"),
        ("jsonl", '{"id": "1", "labels": ["golf"]}', r"unknown label 'golf' \(did you mean 'gold'"),
        ("jsonl", '{"id": "1", "labels": ["gold"], "not_labels": ["gold"]}', "answered with yes and with no"),
        ("csv", "id,text\n1,a\n", "no column 'labels'"),
        ("csv", "id,labels\n1,gold;tin\n", "Line 2: .*unknown label 'tin'"),
        ("label-studio", "{}", "a list of tasks"),
        ("label-studio", "nothing", "The file is no JSON"),
        ("prodigy", '{"meta": {"id": "1"}, "answer": "accept"}', "neither options nor a label"),
        ("prodigy", '{"meta": "1"}', "'meta' must be an object"),
        ("prodigy", '{"meta": {"id": "1"}, "options": 3, "answer": "accept"}', "'options' must be a list"),
        ("prodigy", '{"meta": {"id": "1"}, "label": 3, "answer": "accept"}', "must be a list of names"),
        ("label-studio", '[{"data": []}]', "Task 1: 'data' must be an object"),
        ("label-studio", '[{"data": {"id": "1"}, "annotations": ["x"]}]', "'annotation' must be an object"),
        ("label-studio", "[" * 100_000, "nested too deeply"),
        ("excel", "", "There is no format 'excel'; there are: jsonl, csv, label-studio, prodigy"),
    ],
)
def test_what_cannot_be_used_is_named(name: str, content: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        import_answers(name, content, TEXTS, LABELS)


def test_csv_cannot_hold_every_name() -> None:
    with pytest.raises(InputError, match="take JSONL"):
        export_answers("csv", [], TEXTS, LabelSet.of(["a;b"]))
