"""A table of any length through a model: every row in its place, whatever stops the run."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from bncl_pyg.classify import check_unfinished, predict_table
from bncl_pyg.classify import streaming as module
from bncl_pyg.corpus import Columns, LabelSet, TextCleaner, TextTable
from bncl_pyg.errors import InputError
from bncl_pyg.estimator import BNCLClassifier
from bncl_pyg.features import Choice
from bncl_pyg.predictor import Predictor

LABELS = LabelSet.of({"gold": "gold and silver", "wheat": "wheat and corn", "money": "interest rates"})
WORDS = ["The gold price rose.", "A poor wheat harvest.", "The bank raised interest rates.", "Corn and grain exports."]


@pytest.fixture(scope="module")
def predictor(tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    texts = [f"{WORDS[number % 4]} Number {number}." for number in range(60)]
    folder = tmp_path_factory.mktemp("models") / "model"
    BNCLClassifier(LABELS, scorer="fast").fit(texts).save_pretrained(folder)
    return Predictor.load(folder)


def write_rows(path: Path, count: int, empty: int | None = None) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["nr", "text", "note"])
        for number in range(count):
            writer.writerow([number, "" if number == empty else f"{WORDS[number % 4]} Row {number}.", "a\nb"])
    return path


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_rows_out_are_rows_in(predictor: Predictor, tmp_path: Path) -> None:
    table = TextTable(write_rows(tmp_path / "t.csv", 3000, empty=7), skip_empty=True)
    done = predict_table(predictor, table, tmp_path / "o.csv")
    rows = rows_of(tmp_path / "o.csv")
    assert [row["nr"] for row in rows] == [str(number) for number in range(3000)]
    assert list(rows[0]) == ["nr", "text", "note", "labels", "probabilities"]
    assert (rows[7]["labels"], rows[7]["note"]) == ("", "a\nb")
    assert (done.rows, done.skipped, done.resumed) == (3000, 1, 0)
    assert done.labels == sum(len(row["labels"].split("; ")) for row in rows if row["labels"])
    # Group by group is the same as all at once.
    texts = [row["text"] for row in rows if row["text"]]
    assert [row["labels"].split("; ") if row["labels"] else [] for row in rows if row["text"]] == (
        predictor.predict_labels(texts)
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["o.csv", "t.csv"]


def test_a_stopped_run_goes_on(predictor: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = TextTable(write_rows(tmp_path / "t.csv", 50))
    predict_table(predictor, table, tmp_path / "whole.csv")
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 10)
    real, calls = Predictor.predictions, []

    def stopped(self: Predictor, texts: Any) -> Any:
        calls.append(len(texts))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return real(self, texts)

    monkeypatch.setattr(Predictor, "predictions", stopped)
    out = tmp_path / "o.csv"
    with pytest.raises(KeyboardInterrupt):
        predict_table(predictor, table, out)
    assert not out.exists()
    with pytest.raises(InputError, match=r"o\.csv\.partial holds an unfinished run; go on with it with resume=True"):
        predict_table(predictor, table, out)
    with pytest.raises(InputError, match="was begun with another top_k"):
        predict_table(predictor, table, out, choice=Choice(top_k=1), resume=True)
    other = TextTable(write_rows(tmp_path / "u.csv", 51))
    with pytest.raises(InputError, match="was begun with another table"):
        predict_table(predictor, other, out, resume=True)
    calls.clear()
    monkeypatch.setattr(Predictor, "predictions", lambda self, texts: calls.append(len(texts)) or real(self, texts))
    done = predict_table(predictor, table, out, resume=True)
    assert (done.resumed, calls) == (30, [10, 10])
    assert out.read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert not (tmp_path / "o.csv.partial").exists()


def test_a_run_that_never_began_leaves_nothing(
    predictor: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Predictor, texts: Any) -> Any:
        raise InputError("The scorer is not here.")

    monkeypatch.setattr(Predictor, "predictions", refuse)
    with pytest.raises(InputError, match="not here"):
        predict_table(predictor, TextTable(write_rows(tmp_path / "t.csv", 5)), tmp_path / "o.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_an_unfinished_run_can_be_dropped(predictor: Predictor, tmp_path: Path) -> None:
    out = tmp_path / "o.csv"
    (tmp_path / "o.csv.partial").mkdir()
    with pytest.raises(InputError, match="is not a bncl partial folder"):
        check_unfinished(out, resume=False, overwrite=True)
    (tmp_path / "o.csv.partial").rmdir()
    check_unfinished(out, resume=True, overwrite=False)  # nothing was begun: it simply starts
    with pytest.raises(InputError, match="goes to a stream"):
        check_unfinished(Path("-"), resume=True, overwrite=False)


def test_own_rules_hold_over_all_groups(predictor: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = TextTable(write_rows(tmp_path / "t.csv", 40))
    texts = [text for _, text in table]
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 7)

    def names(**arguments: Any) -> list[list[str]]:
        predict_table(predictor, table, tmp_path / "o.jsonl", choice=Choice(**arguments), overwrite=True)
        lines = (tmp_path / "o.jsonl").read_text().splitlines()
        return [json.loads(line)["labels"] for line in lines]

    for arguments in ({"threshold": 0.3}, {"top_k": 2}, {"precision": 0.7}, {"precision": 0.7, "top_k": 1}):
        assert names(**arguments) == predictor.predict_labels(texts, **arguments)
    done = predict_table(predictor, table, tmp_path / "p.jsonl", choice=Choice(precision=0.7))
    assert done.expected_precision is not None
    assert done.expected_precision >= 0.7
    assert done.threshold is not None


def test_a_column_a_label(predictor: Predictor, tmp_path: Path) -> None:
    table = TextTable(write_rows(tmp_path / "t.csv", 5, empty=2), skip_empty=True)
    predict_table(predictor, table, tmp_path / "o.parquet", wide=True)
    read = pq.read_table(tmp_path / "o.parquet")
    assert read.column_names == ["nr", "text", "note", "labels", "gold", "wheat", "money"]
    rows = read.to_pylist()
    assert rows[2]["labels"] == []
    assert rows[2]["gold"] is None
    assert rows[0]["gold"] == pytest.approx(max(rows[0][name] for name in LABELS.names))


def test_columns_that_are_there_are_kept(predictor: Predictor, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"text": "Gold.", "labels": ["x"]}\n{"text": "Wheat.", "late": 1}\n')
    predict_table(predictor, TextTable(path), tmp_path / "o.csv")
    assert list(rows_of(tmp_path / "o.csv")[0]) == [
        "text",
        "labels",
        "late",
        "predicted_labels",
        "predicted_probabilities",
    ]
    with pytest.raises(InputError, match="The table has a column 'predicted_labels' already"):
        predict_table(predictor, TextTable(tmp_path / "o.csv"), tmp_path / "p.csv")
    (tmp_path / "g.csv").write_text("text,gold\nx,1\n")
    with pytest.raises(InputError, match="a column 'gold' already, which is a label's name, too"):
        predict_table(predictor, TextTable(tmp_path / "g.csv"), tmp_path / "p.csv", wide=True)


def test_html_is_stripped_as_in_training(predictor: Predictor, tmp_path: Path) -> None:
    html = "<html><body><p>The <b>gold</b> price rose.</p></body></html>"
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps({"body": html}) + "\n" + json.dumps({"body": "The gold price rose."}) + "\n")
    table = TextTable(path, Columns.of("body"))
    predict_table(predictor, table, tmp_path / "o.jsonl", cleaner=TextCleaner("strip"))
    first, second = (json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines())
    assert first["probabilities"] == second["probabilities"]
    assert first["body"] == html


def test_a_label_with_a_semicolon_needs_lists(tmp_path: Path) -> None:
    from bncl_pyg.classify import AddedColumns
    from bncl_pyg.corpus import Format

    labels = LabelSet.of(["a;b", "c"])
    with pytest.raises(InputError, match="Label 'a;b' has a semicolon"):
        AddedColumns(("text",), labels, Format.CSV)
    assert AddedColumns(("text",), labels, Format.JSONL).names == ("labels", "probabilities")


def test_memory_does_not_grow_with_the_table(
    predictor: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No more rows are held than a group has: counted, not timed."""
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 16)
    table = TextTable(write_rows(tmp_path / "t.csv", 400))
    alive, most = 0, 0

    class Counted(str):
        __slots__ = ()

        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    real = TextTable.__iter__

    def counting(self: TextTable) -> Iterator[Any]:
        nonlocal alive, most
        for row, text in real(self):
            alive += 1
            most = max(most, alive)
            yield row, Counted(text)

    monkeypatch.setattr(TextTable, "__iter__", counting)
    predict_table(predictor, table, tmp_path / "o.csv")
    assert most <= 4 * 16
