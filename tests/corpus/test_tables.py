"""Every format gives the same rows, in and out."""

import gzip
import io
import json
import os
import sys
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from bncl_pyg.corpus import Columns, Corpus, Format, LabelSet, Table, TextTable, check_new_table, write_table
from bncl_pyg.errors import InputError

Write = Callable[..., Path]

ROWS: list[dict[str, Any]] = [
    {"id": "a", "text": 'Bars "and"\ncoins, mostly; ja', "labels": ["gold", "silver"]},
    {"id": "b", "text": "Größe | weiß", "labels": []},
]
ENDINGS = [
    *(f".{name}{packed}" for name in ("csv", "tsv", "jsonl", "json") for packed in ("", ".gz", ".zst")),
    ".parquet",
    ".xlsx",
]


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_is_written_is_read(tmp_path: Path, labels: LabelSet, ending: str) -> None:
    path = tmp_path / f"t{ending}"
    write_table(path, ("id", "text", "labels"), iter(ROWS))
    corpus = Corpus.read(path, labels)
    assert corpus.ids == ("a", "b")
    assert corpus.texts == (ROWS[0]["text"], ROWS[1]["text"])
    assert corpus.annotations is not None
    assert corpus.annotations.toarray().sum(axis=1).tolist() == [2, 0]
    assert Table(path).columns == ("id", "text", "labels")
    assert list(tmp_path.iterdir()) == [path]


def test_the_same_table_gives_the_same_bytes(tmp_path: Path) -> None:
    for ending in (".csv.gz", ".jsonl.zst", ".json"):
        for name in ("one", "two"):
            write_table(tmp_path / f"{name}{ending}", ("id", "text", "labels"), ROWS)
        assert (tmp_path / f"one{ending}").read_bytes() == (tmp_path / f"two{ending}").read_bytes()


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252", "latin-1"])
def test_delimiter_and_encoding_are_detected(tmp_path: Path, delimiter: str, encoding: str) -> None:
    lines = [["nr", "text"], ["1", "Größe, Länge; usw."], ["2", '"quoted\nline | \t"'], ["3", "naïve"]]
    quoted = [[cell if cell.startswith('"') else f'"{cell}"' for cell in line] for line in lines]
    path = tmp_path / "t.csv"
    path.write_bytes("".join(delimiter.join(line) + "\r\n" for line in quoted).encode(encoding))
    corpus = Corpus.read(path, columns=Columns(id="nr"))
    assert corpus.texts == ("Größe, Länge; usw.", "quoted\nline | \t", "naïve")


def test_bytes_outside_of_windows_1252_are_latin_1(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    (tmp_path / "t.csv").write_bytes(b"text\n\xfcber\n")
    assert Corpus.read(tmp_path / "t.csv").texts == ("über",)
    assert "t.csv is not UTF-8 text; it is read as Windows-1252" in caplog.text
    (tmp_path / "t.csv").write_bytes(b"text\n\xfc\x81ber\n")
    assert Corpus.read(tmp_path / "t.csv").texts == ("ü\x81ber",)
    assert "read as Latin-1" in caplog.text


def test_utf8_with_a_broken_letter_is_damaged_not_latin_1(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(("text\n" + "Größe\n" * 20).encode() + b"\xff\n" + "Größe\n".encode())
    with pytest.raises(InputError, match="line 22: not UTF-8 text, though the rest of the file is"):
        Corpus.read(path)


def test_a_letter_may_lie_across_two_pieces(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"text\n" + b"x" * (2**20 - 6) + "ü\n".encode())
    assert Corpus.read(path).texts[0].endswith("xü")


def test_a_cell_may_be_very_long_and_a_column_nameless(write: Write) -> None:
    path = write("t.csv", f",text,,\n0,{'long ' * 40_000},,x\n")
    table = Table(path)
    assert table.columns == ("", "text", "column 3", "column 4")
    assert len(Corpus.read(path).texts[0]) == 200_000


def test_excels_hint_of_the_delimiter(write: Write) -> None:
    path = write("t.csv", "sep=;\nid;text\na;one, two\n")
    assert Corpus.read(path) == Corpus(("a",), ("one, two",))
    with pytest.raises(InputError, match="line 3: field 'text' is empty"):
        Corpus.read(write("u.csv", "sep=;\nid;text\na;\n"))


def test_json_arrays_are_read_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"id": number, "text": "word " * (number % 50 + 1)} for number in range(500)]
    path = tmp_path / "t.json"
    for indent in (None, 2):
        path.write_text(json.dumps(rows, indent=indent))
        monkeypatch.setattr("bncl_pyg.corpus.tables.json_rows.PIECE", 37)
        read = list(Table(path))
        assert [row.fields for row in read] == rows
        assert read[3].line == (1 if indent is None else 2 + 3 * 4)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [row.fields for row in Table(path)] == rows  # JSON lines, as pandas names them


def test_excel_keeps_numbers_and_dates(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(["nr", "text", "when", None])
    book.active.append([7, 500, datetime(2026, 1, 2, 3, 4), None])
    book.active.append([None, None, None, None])
    book.active.append([8.0, "=1+1", None, None])
    book.active["B4"].data_type = "s"
    path = tmp_path / "t.xlsx"
    book.save(path)
    assert Corpus.read(path, columns=Columns(id="nr")) == Corpus(("7", "8"), ("500", "=1+1"))
    table = Table(path)
    write_table(tmp_path / "o.xlsx", table.columns, (row.fields for row in table), like=table)
    sheet = openpyxl.load_workbook(tmp_path / "o.xlsx").worksheets[0]
    assert [cell.value for cell in sheet[2]][:3] == [7, 500, datetime(2026, 1, 2, 3, 4)]
    assert (sheet["B3"].value, sheet["B3"].data_type) == ("=1+1", "s")
    write_table(tmp_path / "o.jsonl", table.columns, (row.fields for row in table), like=table)
    assert json.loads((tmp_path / "o.jsonl").read_text().splitlines()[0])["when"] == "2026-01-02T03:04:00"


def test_what_a_sheet_cannot_hold_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Row 2 has a cell of 40000 letters"):
        write_table(tmp_path / "t.xlsx", ("text",), [{"text": "x" * 40_000}])
    assert not list(tmp_path.iterdir())


def test_parquet_keeps_its_types(tmp_path: Path) -> None:
    given = pa.table({"id": pa.array([1], pa.int32()), "text": ["x"], "when": pa.array([1], pa.timestamp("us", "UTC"))})
    pq.write_table(given, tmp_path / "t.parquet")
    table = Table(tmp_path / "t.parquet")
    rows = ({**row.fields, "labels": ["gold"]} for row in table)
    write_table(tmp_path / "o.parquet", (*table.columns, "labels"), rows, like=table)
    written = pq.read_table(tmp_path / "o.parquet")
    assert written.drop(["labels"]).schema.equals(given.schema)
    assert written["labels"].to_pylist() == [["gold"]]
    with pytest.raises(InputError, match="Column 'x' does not fit into Parquet: its values are of several types"):
        write_table(tmp_path / "p.parquet", ("x",), [{"x": 1}, {"x": "a"}])


def test_a_parquet_row_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["x", None]}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="row 2: field 'text' is missing"):
        Corpus.read(tmp_path / "t.parquet")


def test_columns_are_joined_and_rows_numbered(write: Write) -> None:
    path = write("t.csv", "subject,body\nHello,World\n,Only a body\nOnly a subject,\n")
    assert Corpus.read(path, columns=Columns.of("subject, body")) == Corpus(
        ("1", "2", "3"), ("Hello\nWorld", "Only a body", "Only a subject")
    )


def test_empty_rows_are_errors_or_counted(write: Write) -> None:
    path = write("t.csv", "subject,body\na,b\n,\nc,\n")
    table = TextTable(path, Columns.of("subject,body"), skip_empty=True)
    assert [text for _, text in table] == ["a\nb", None, "c"]
    assert table.skipped == 1
    # The rows that stay keep their numbers.
    assert [identifier for identifier, _, _ in table.unique()] == ["1", "3"]
    with pytest.raises(InputError, match="line 3: there is no text in subject, body"):
        Corpus.read(path, columns=Columns.of("subject,body"))


def test_a_wrong_column_is_told_with_those_that_there_are(write: Write) -> None:
    path = write("t.csv", "subject,body\na,b\n")
    with pytest.raises(InputError, match=r"has no column 'text'; its columns are: subject, body\. Say .* text="):
        Corpus.read(path)
    with pytest.raises(InputError, match=r"has no column 'Body'; its columns are: subject, body\.$"):
        Corpus.read(path, columns=Columns.of("subject,Body"))
    with pytest.raises(InputError, match="has no column 'nr'"):
        Corpus.read(path, columns=Columns.of("body", id="nr"))


def test_lines_of_json_may_lack_what_others_have(write: Write) -> None:
    path = write("t.jsonl", [{"id": 1, "body": "x"}, {"id": 2, "subject": "y"}])
    assert Corpus.read(path, columns=Columns.of("subject,body")).texts == ("x", "y")


@pytest.mark.parametrize("kind", ["csv", "jsonl", "json", "parquet", "xlsx", "csv.gz", "jsonl.zst"])
def test_standard_input_tells_its_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    write_table(tmp_path / f"t.{kind}", ("id", "text"), [{"id": "a", "text": "über"}])
    content = (tmp_path / f"t.{kind}").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    table = Table(Path("-"))
    assert table.format == kind.split(".")[0]
    for _ in range(2):
        assert [row.string("text") for row in table] == ["über"]


def test_errors_of_standard_input_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"id,text\na,\n")))
    with pytest.raises(InputError, match="standard input, line 2: field 'text' is empty"):
        Corpus.read(Path("-"))


def test_a_pipe_is_read_and_written(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"text\none\n",))
    writer.start()
    table = Table(pipe)
    writer.join()
    assert [row.string("text") for row in table] == ["one"]
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_table(pipe, ("text",), (row.fields for row in table), like=table)
    assert os.read(reader, 100) == b"text\none\n"
    os.close(reader)
    assert pipe.is_fifo()


def test_a_csv_comes_back_as_it_was(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    given = tmp_path / "t.csv"
    given.write_bytes("nr;text\n1;Größe\n".encode("latin-1"))
    table = Table(given)
    write_table(tmp_path / "o.csv", table.columns, (row.fields for row in table), like=table)
    # A spreadsheet that wrote no UTF-8 needs the mark to read it.
    assert (tmp_path / "o.csv").read_bytes() == "\ufeffnr;text\n1;Größe\n".encode()
    write_table(Path("-"), table.columns, (row.fields for row in table), like=table)
    assert capsysbinary.readouterr().out == "\ufeffnr;text\n1;Größe\n".encode()
    write_table(tmp_path / "o.tsv", table.columns, (row.fields for row in table), like=table)
    assert "nr\ttext" in (tmp_path / "o.tsv").read_text(encoding="utf-8-sig")


def test_nothing_is_replaced_unasked(write: Write, tmp_path: Path) -> None:
    path = write("t.csv", "text\nold\n")
    with pytest.raises(InputError, match=r"t\.csv already exists; choose another name, or replace it with overwrite"):
        write_table(path, ("text",), [{"text": "new"}])
    write_table(path, ("text",), [{"text": "new"}], overwrite=True)
    assert path.read_text() == "text\nnew\n"
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match="is a folder, but a file is to be written"):
        check_new_table(tmp_path / "folder.csv", overwrite=True)
    with pytest.raises(InputError, match="cannot tell the format"):
        check_new_table(tmp_path / "t.doc")


def test_deep_and_missing_values_in_cells(tmp_path: Path) -> None:
    rows = [{"x": {"a": [1]}, "y": None, "z": True}, {"x": [[1]], "y": float("nan"), "z": 0.5}]
    write_table(tmp_path / "t.csv", ("x", "y", "z"), rows)
    assert (tmp_path / "t.csv").read_text() == 'x,y,z\n"{""a"": [1]}",,true\n[[1]],,0.5\n'
    write_table(tmp_path / "t.jsonl", ("x", "y", "z"), rows)
    assert json.loads((tmp_path / "t.jsonl").read_text().splitlines()[1])["y"] is None


def test_zst_of_several_frames_and_of_half_a_frame(tmp_path: Path) -> None:
    frames = [zstandard.compress(part) for part in (b"text\none\n", b"two\n")]
    path = tmp_path / "t.csv.zst"
    path.write_bytes(b"".join(frames))
    assert Corpus.read(path).texts == ("one", "two")
    path.write_bytes(b"".join(frames)[:-3])
    with pytest.raises(InputError, match=r"t\.csv\.zst is not a whole zst file"):
        Corpus.read(path)
    gz = tmp_path / "t.csv.gz"
    gz.write_bytes(gzip.compress(b"text\none\n")[:-3])
    with pytest.raises(InputError, match=r"t\.csv\.gz is not a whole gzip file"):
        Corpus.read(gz)


@pytest.mark.parametrize(
    ("package", "name", "extra"), [("openpyxl", "t.xlsx", "excel"), ("zstandard", "t.csv.zst", "zst")]
)
def test_a_missing_package_is_named(
    monkeypatch: pytest.MonkeyPatch, write: Write, tmp_path: Path, package: str, name: str, extra: str
) -> None:
    path = write(name, "x")
    monkeypatch.setitem(sys.modules, package, None)
    sentence = rf'needs the package {package}, which is not installed; run: pip install "bncl-pyg\[{extra}\]"'
    with pytest.raises(InputError, match=sentence):
        Corpus.read(path)
    with pytest.raises(InputError, match=sentence):
        check_new_table(tmp_path / f"new-{name}")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("l.txt", "Gold\n\nSilver\n"),
        ("l.csv", "label,description\nGold,\nSilver,\n"),
        ("l.tsv", "label\nGold\nSilver\n"),
        ("l.jsonl", '{"label": "Gold"}\n{"label": "Silver"}\n'),
        ("l.json", '["Gold", "Silver"]'),
        ("l.json", '{"Gold": null, "Silver": "Silver"}'),
        ("l.json", '[{"label": "Gold"}, {"label": "Silver"}]'),
    ],
)
def test_labels_of_every_format(write: Write, name: str, content: str) -> None:
    assert LabelSet.read(write(name, content)) == LabelSet.of(["Gold", "Silver"])


def test_labels_in_latin_1_and_in_excel(tmp_path: Path) -> None:
    (tmp_path / "l.txt").write_bytes("Gebühr\nKündigung\n".encode("latin-1"))
    assert LabelSet.read(tmp_path / "l.txt").names == ("Gebühr", "Kündigung")
    write_table(tmp_path / "l.xlsx", ("label", "synonyms"), [{"label": "Fee", "synonyms": ["cost", "price"]}])
    assert LabelSet.read(tmp_path / "l.xlsx").synonyms == (("cost", "price"),)


def test_the_format_decides_what_it_can_hold() -> None:
    assert [known for known in Format if known.has_lists] == [Format.JSONL, Format.JSON, Format.PARQUET]
    assert [known for known in Format if not known.is_text] == [Format.PARQUET, Format.EXCEL]


PARTLY: list[dict[str, Any]] = [
    {"id": "a", "text": "Bars", "labels": ["gold"], "not_labels": ["silver", "wheat"]},
    {"id": "b", "text": "Coins", "labels": ["silver"]},
    {"id": "c", "text": "Mines", "labels": ["gold"], "not_labels": []},
    {"id": "d", "text": "Fields", "labels": ["?"], "not_labels": []},
    {"id": "e", "text": "Ships", "labels": [], "not_labels": ["corn"]},
]


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".json", ".parquet", ".xlsx"])
def test_texts_that_are_annotated_in_part_are_written_and_read(tmp_path: Path, labels: LabelSet, ending: str) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / f"second{ending}"
    write_table(first, (), PARTLY)
    corpus = Corpus.read(first, labels, partial=True)
    assert list(corpus.records(labels)) == PARTLY
    rows = corpus.records(labels, lists=ending not in (".csv", ".xlsx"))
    columns = ("id", "text", "labels", "not_labels")
    write_table(second, columns, rows, list_types={"labels": str, "not_labels": str})
    again = Corpus.read(second, labels, partial=True)
    for matrix, expected in ((again.annotations, corpus.annotations), (again.known, corpus.known)):
        assert matrix is not None
        assert expected is not None
        assert (matrix != expected).nnz == 0
    assert again.known is not None
    assert again.known.toarray().sum(axis=1).tolist() == [3, 6, 1, 0, 1]
    some = again.rows(np.array([4, 0]))
    assert some.known is not None
    assert some.known.toarray().sum(axis=1).tolist() == [1, 3]


def test_a_table_without_such_texts_is_known_wholly(tmp_path: Path, labels: LabelSet) -> None:
    write_table(tmp_path / "t.csv", ("id", "text", "labels", "not_labels"), [{**ROWS[0], "not_labels": ""}, ROWS[1]])
    assert Corpus.read(tmp_path / "t.csv", labels, partial=True).known is None
    assert Corpus.read(tmp_path / "t.csv", labels).known is None
    with pytest.raises(InputError, match="These texts have no labels to be written"):
        list(Corpus.read(tmp_path / "t.csv").records(labels))


@pytest.mark.parametrize(
    ("row", "partial", "message"),
    [
        ({"labels": ["gold"], "not_labels": ["gold"]}, True, "label 'gold' is in 'labels' and in 'not_labels'"),
        ({"labels": ["gold"], "not_labels": ["glod"]}, True, "field 'not_labels': unknown label 'glod'"),
        ({"labels": ["gold"], "not_labels": "corn"}, True, "field 'not_labels' must be a list of strings"),
        ({"labels": ["gold"], "not_labels": []}, False, "annotated in part, but all its labels are needed"),
        ({"labels": ["?"]}, False, "field 'labels': this text is not annotated yet"),
    ],
)
def test_what_is_wrong_with_a_text_annotated_in_part_is_named(
    tmp_path: Path, labels: LabelSet, row: dict[str, Any], partial: bool, message: str
) -> None:
    write_table(tmp_path / "t.jsonl", (), [{"id": "a", "text": "x", **row}])
    with pytest.raises(InputError, match=f"t.jsonl, line 1: .*{message}|t.jsonl, line 1: {message}"):
        Corpus.read(tmp_path / "t.jsonl", labels, partial=partial)
