import gzip
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bncl_pyg.corpus import Corpus, LabelSet, read_rows
from bncl_pyg.errors import InputError

Write = Callable[..., Path]


def test_jsonl_csv_parquet_and_gzip_give_the_same_corpus(write: Write, tmp_path: Path, labels: LabelSet) -> None:
    rows = [
        {"id": 7, "text": "Bars\nand coins, mostly", "labels": ["gold", "silver"]},
        {"id": "b", "text": "Nothing", "labels": []},
    ]
    jsonl = write("texts.jsonl", rows)
    csv = write("texts.csv", 'id,text,labels\n7,"Bars\nand coins, mostly",gold; silver\nb,Nothing,\n')
    zipped = tmp_path / "texts.jsonl.gz"
    zipped.write_bytes(gzip.compress(jsonl.read_bytes()))
    parquet = tmp_path / "texts.parquet"
    pq.write_table(pa.Table.from_pylist([{**row, "id": str(row["id"])} for row in rows]), parquet)

    expected = Corpus.read(jsonl, labels)
    assert expected.ids == ("7", "b")
    for path in (csv, zipped, parquet):
        found = Corpus.read(path, labels)
        assert (found.ids, found.texts) == (expected.ids, expected.texts)
        assert found.annotations is not None
        assert expected.annotations is not None
        assert (found.annotations.toarray() == expected.annotations.toarray()).all()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.jsonl", '{"id": "a", "text": "x", "labels": []}\n{"id": ', "line 2: not valid JSON"),
        ("t.jsonl", "[1]\n", "line 1: must be a JSON object, but is a list"),
        ("t.jsonl", '{"id": "a", "labels": []}\n', "has no column 'text'; its columns are: id, labels. Say which"),
        ("t.jsonl", '{"id": "a", "text": "  ", "labels": []}\n', "line 1: field 'text' is empty"),
        ("t.jsonl", '{"id": "a", "text": 3, "labels": []}\n', "line 1: field 'text' must be a string, but is a number"),
        ("t.jsonl", '{"id": true, "text": "x", "labels": []}\n', "line 1: field 'id' must be a string or a whole"),
        ("t.jsonl", '{"id": "a", "text": "x", "labels": "gold"}\n', "line 1: field 'labels' must be a list of strings"),
        ("t.jsonl", '{"id": "a", "text": "x", "labels": [1]}\n', "line 1: field 'labels' must hold strings only"),
        ("t.jsonl", '{"id": "a", "text": "x"}\n', "has no column 'labels'; its columns are: id, text. Say which"),
        (
            "t.jsonl",
            '{"id": "a", "text": "x", "labels": ["glod"]}\n',
            "line 1: field 'labels': unknown label 'glod' (did you mean 'gold'?)",
        ),
        (
            "t.jsonl",
            '{"id": "a", "text": "x", "labels": []}\n\n{"id": "a", "text": "y", "labels": []}\n',
            "line 3: id 'a' is given twice (first on line 1)",
        ),
        ("t.jsonl", "\n\n", "holds no text"),
        (
            "t.csv",
            'id,text,labels\na,x,gold\nb,"y,gold\nc,z,gold\n',
            "line 3: a quote is opened and never closed",
        ),
        ("t.csv", "id,text,labels\na,x,gold,extra\n", "line 2: has more cells than the header"),
        ("t.csv", 'id,text,labels\na,"one\ntwo",gold\nb,x,lead\n', "line 4: field 'labels': unknown label 'lead'"),
        ("t.parquet", "nonsense", "is not a readable Parquet file"),
        ("t.jsonl.gz", "nonsense", "is not a whole gzip file"),
        ("t.xlsx", "nonsense", "is not a readable Excel workbook"),
        ("t.xls", "nonsense", "is a workbook of an old Excel"),
        ("t.doc", "nonsense", "cannot tell the format; the name must end in .csv, .tsv, .jsonl, .json"),
        ("t.parquet.gz", "nonsense", "is compressed already"),
        ("t.csv.zst", "nonsense", "is not a whole zst file"),
        ("t.csv", "", "is empty"),
        ("t.csv", "id,text,text\na,b,c\n", "has two columns 'text'"),
        ("t.csv", '{"id": "a", "text": "x"}\n', "holds JSON lines, not CSV"),
        ("t.csv", 'id,text,labels\na,"x" y,\n', "line 2: not valid CSV"),
        ("t.csv", "id,text,labels\na,x,\nb,,\n", "line 3: field 'text' is empty"),
        ("t.csv", "id,text,labels\na, ,\n", "line 2: field 'text' is empty"),
        ("t.csv", "id,text,labels\n", "holds no text"),
        ("t.json", '[{"id": 1, "text": "x", "labels": []},\n {"id": 2 "text"', "line 2: not valid JSON"),
        ("t.json", '[{"id": 1, "text": "x", "labels": []}\n {"id": 2}]', "line 2: not valid JSON (a comma is missing)"),
        ("t.json", '[{"id": 1, "text": "x", "labels": []},', "line 1: the array is not closed"),
        ("t.json", '[{"id": 1, "text": "x", "labels": []}]\n3', "line 1: there is more after the end"),
        ("t.json", "[\n1]", "line 2: must be a JSON object, but is a number"),
        ("t.json", "3", "must hold a JSON array of objects"),
    ],
)
def test_bad_rows_are_named(write: Write, labels: LabelSet, name: str, content: str, message: str) -> None:
    path = write(name, content)
    with pytest.raises(InputError) as error:
        Corpus.read(path, labels)
    assert str(error.value).startswith(str(path))
    assert message in str(error.value)


def test_bytes_that_are_no_text_are_named(tmp_path: Path, labels: LabelSet) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'{"id": "a", "text": "x", "labels": []}\n{"id": "b", "text": "\xff", "labels": []}\n')
    with pytest.raises(InputError, match="not UTF-8 text"):
        Corpus.read(path, labels)


def test_missing_file_and_folder_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.jsonl does not exist"):
        Corpus.read(tmp_path / "none.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(InputError, match="is a folder, not a file"):
        Corpus.read(tmp_path / "folder.jsonl")


def test_without_pyarrow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    sentence = r't\.parquet needs the package pyarrow, which is not installed; run: pip install "bncl-pyg\[parquet\]"'
    with pytest.raises(InputError, match=sentence):
        list(read_rows(tmp_path / "t.parquet"))
