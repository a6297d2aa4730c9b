"""From a table and label names to labels in one go, and again with only what changed."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from bncl_pyg.classify import Classified, classify_table
from bncl_pyg.corpus import Columns, LabelSet, Table, TextTable
from bncl_pyg.errors import InputError
from bncl_pyg.features import Choice
from bncl_pyg.priors import Priors

LABELS = LabelSet.of(["password reset", "refund", "printer", "late delivery"])
TEXTS = {
    "password reset": "I forgot my password and cannot log in",
    "refund": "Please give me my money back",
    "printer": "The office printer does not print",
    "late delivery": "My parcel has not arrived for two weeks",
}


def write_tickets(path: Path, count: int = 40, **more: Any) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["nr", "text", *more])
        for number in range(count):
            text = f"{list(TEXTS.values())[number % 4]}, case {number}."
            writer.writerow([f"T{number}", text, *(function(number) for function in more.values())])
    return path


def classified(path: Path, work: Path, labels: LabelSet = LABELS, **more: Any) -> Classified:
    columns = Columns(id="nr", labels=more.get("labels_column") or "labels")
    table = TextTable(path, columns, skip_empty=more.pop("skip_empty", False))
    return classify_table(table, labels, work, scorer="fast", **more)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table that has been labelled once."""
    folder = tmp_path_factory.mktemp("tickets")
    done = classified(write_tickets(folder / "tickets.csv"), folder / "work")
    assert (done.scored, done.built_graph, done.trained_now) == (40, True, True)
    return folder


def test_labels_are_good_and_the_table_comes_back(folder: Path) -> None:
    done = classified(folder / "tickets.csv", folder / "work")
    done.write(folder / "out.csv", overwrite=True)
    with (folder / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["nr", "text", "labels", "probabilities"]
    assert [row["nr"] for row in rows] == [f"T{number}" for number in range(40)]
    right = sum(list(TEXTS)[number % 4] in row["labels"] for number, row in enumerate(rows))
    assert right >= 30
    summary = done.summary()
    assert summary.texts == 40
    assert len(summary.examples) == 5
    assert [one.id for one in summary.examples] == ["T0", "T10", "T20", "T29", "T39"]
    assert sum(count for _, count in summary.most_given) == round(summary.labels_per_text * 40)
    assert summary.expected_precision is not None
    assert json.dumps(summary.as_dict())


def test_the_second_run_does_only_what_changed(folder: Path, tmp_path: Path) -> None:
    path, work = folder / "tickets.csv", folder / "work"
    again = classified(path, work)
    assert (again.scored, again.built_graph, again.trained_now) == (0, False, False)
    assert again.predictions.decisions.tolist() == classified(path, work).predictions.decisions.tolist()
    # Other rules for choosing labels need no training.
    assert not classified(path, work, choice=Choice(top_k=1)).trained_now
    # A row changes, one goes, one comes: two texts are new.
    lines = path.read_text().splitlines()
    lines[3] = "T2,The copier is out of toner."
    changed = tmp_path / "changed.csv"
    changed.write_text("\n".join([*lines[:-1], "T99,Where is my refund?"]) + "\n")
    done = classified(changed, work)
    assert (done.built_graph, done.trained_now) == (False, True)
    assert 0 < done.scored < 40
    assert done.ids[-1] == "T99"
    assert len(done.predictions) == 40
    # Back again: nothing is scored, but the model is another.
    back = classified(path, work)
    assert (back.scored, back.trained_now) == (0, True)
    assert back.predictions.decisions.tolist() == again.predictions.decisions.tolist()


def test_labels_come_go_and_change_order(folder: Path, tmp_path: Path) -> None:
    path, work = folder / "tickets.csv", tmp_path / "work"
    classified(path, work)
    more = LabelSet.of(["invoice", *reversed(LABELS.names)])
    done = classified(path, work, more)
    assert done.built_graph
    assert done.trained_now
    assert done.predictions.decisions.shape == (40, 5)
    alone = classified(path, tmp_path / "other", more)
    assert torch.allclose(done.predictions.probabilities, alone.predictions.probabilities, atol=1e-5)
    fewer = LabelSet.of(LABELS.names[:3])
    assert classified(path, work, fewer).predictions.decisions.shape == (40, 3)
    described = LabelSet.of({"password reset": "forgotten passwords", "refund": None, "printer": None})
    assert classified(path, work, described).trained.labels == described


def test_annotated_rows_of_the_table_itself(tmp_path: Path) -> None:
    path = write_tickets(tmp_path / "t.csv", tags=lambda number: list(TEXTS)[number % 4] if number < 12 else "")
    done = classified(path, tmp_path / "work", labels_column="tags")
    assert done.annotated == 12
    assert done.trained.setting == "scarce-annotation"
    done.write(tmp_path / "o.jsonl")
    first = json.loads((tmp_path / "o.jsonl").read_text().splitlines()[0])
    assert first["tags"] == "password reset"
    with pytest.raises(InputError, match="line 2: field 'nr': unknown label 'T0'"):
        classified(path, tmp_path / "work", labels_column="nr")
    empty = write_tickets(tmp_path / "e.csv", tags=lambda number: "")
    with pytest.raises(InputError, match="no row has anything in column 'tags'"):
        classified(empty, tmp_path / "work", labels_column="tags")


def test_annotated_rows_of_another_table(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "annotated.csv"
    other.write_text(
        'nr,text,labels\nT1,"Please give me my money back, case 1.",refund\nX1,Where is my parcel?,late delivery\n'
        'X2,"The office printer does not print, case 2.",printer\n'
    )
    known = TextTable(other, Columns(id="nr"), labels=True)
    done = classified(folder / "tickets.csv", tmp_path / "work", annotated=known)
    assert done.annotated == 3
    assert len(done.predictions) == 40
    assert done.scored == 41  # one text is only in the other table
    assert set(done.trained.annotated) == {"T1", "T2", "annotated X1"}
    other.write_text("nr,text,labels\nT1,Something else,refund\n")
    with pytest.raises(InputError, match="line 2: text 'T1' is another one than in the table"):
        classified(folder / "tickets.csv", tmp_path / "work", annotated=TextTable(other, Columns(id="nr")))


def test_without_ids_the_same_words_are_the_same_text(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("text\n" + "".join(f"{text} {n}\n" for n in range(6) for text in TEXTS.values()))
    (tmp_path / "a.csv").write_text(f"text,labels\n{TEXTS['printer']} 3,printer\n")
    done = classify_table(
        TextTable(tmp_path / "t.csv"),
        LABELS,
        tmp_path / "work",
        annotated=TextTable(tmp_path / "a.csv", labels=True),
        scorer="fast",
        priors=Priors.of(LABELS, None, 1.0),
    )
    assert (done.scored, done.annotated, done.trained.setting) == (24, 1, "domain-supervisor")
    assert list(done.trained.annotated) == ["15"]


def test_how_many_labels_a_text_has_is_known(folder: Path, tmp_path: Path) -> None:
    two = classified(folder / "tickets.csv", tmp_path / "work", priors=Priors.of(LABELS, None, 2.0))
    assert two.trained.model.priors.cardinality == pytest.approx(2.0)


def test_rows_without_a_text_keep_their_place(tmp_path: Path) -> None:
    path = write_tickets(tmp_path / "t.csv")
    lines = path.read_text().splitlines()
    lines[2] = "T1,"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError, match="line 3: field 'text' is empty"):
        classified(path, tmp_path / "work")
    done = classified(path, tmp_path / "work", skip_empty=True)
    done.write(tmp_path / "o.csv", wide=True)
    with (tmp_path / "o.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert (len(rows), done.skipped, rows[1]["labels"], rows[1]["refund"]) == (40, 1, "", "")
    assert rows[2]["refund"] != ""


def test_a_folder_of_something_else_is_not_touched(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="is not empty and is no bncl work folder"):
        classified(folder / "tickets.csv", tmp_path)
    with pytest.raises(InputError, match="is there and is no folder"):
        classified(folder / "tickets.csv", tmp_path / "notes.txt")


def test_answers_in_part_and_rows_nobody_annotated(folder: Path, tmp_path: Path) -> None:
    given = tmp_path / "given.csv"
    rows = ["T0,password reset,", "T1,refund,printer;late delivery", "T2,?,", "T3,,;", "T5,,"]
    lines = [f'{row.split(",")[0]},"{list(TEXTS.values())[int(row[1]) % 4]}, case {row[1]}.",{row[3:]}' for row in rows]
    given.write_text("\n".join(["nr,text,labels,not_labels", *lines]) + "\n")
    done = classified(folder / "tickets.csv", tmp_path / "work", annotated=TextTable(given, Columns(id="nr")))
    assert done.annotated == 3
    assert done.trained.annotated == {"T0": ("password reset",), "T1": ("refund",), "T5": ()}
    assert done.trained.not_labels == {"T1": ("printer", "late delivery")}


def test_what_was_written_to_be_annotated_is_taken_back_whatever_the_columns_were_called(tmp_path: Path) -> None:
    """`bncl suggest` writes `id` and `text`; the table itself has other names."""
    table = tmp_path / "t.csv"
    lines = write_tickets(tmp_path / "usual.csv").read_text().splitlines()
    table.write_text("\n".join(["nr,body", *lines[1:]]) + "\n")
    given = tmp_path / "given.csv"
    given.write_text("\n".join(["id,text,labels", f"{lines[1]},refund"]) + "\n")
    columns = Columns(("body",), id="nr")
    assert columns.or_usual(Table(table)) == columns
    assert columns.or_usual(Table(given)) == Columns()
    others = TextTable(given, columns.or_usual(Table(given)), labels=True)
    done = classify_table(TextTable(table, columns), LABELS, tmp_path / "work", scorer="fast", annotated=others)
    assert list(done.trained.annotated.values()) == [("refund",)]
