"""Where texts come from, without a cluster."""

import json
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bncl_cli.main import app
from typer.testing import CliRunner

from bncl_pyg.distributed.engine import ATTEMPTS, Attempts, RayOptions
from bncl_pyg.distributed.inputs import open_table, table_names
from bncl_pyg.distributed.spooled import InputOptions, InputTexts, read_table
from bncl_pyg.errors import InputError


def lines(*texts: str, first: int = 0) -> str:
    return "".join(json.dumps({"id": f"t{first + place}", "text": text}) + "\n" for place, text in enumerate(texts))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "tables"
    (path / "more").mkdir(parents=True)
    (path / "b.jsonl").write_text(lines("three", "four", first=2))
    (path / "a.csv").write_text("id,text\nt0,one\nt1,<p>two</p>\n")
    pq.write_table(pa.table({"id": ["t4"], "text": ["five"]}), path / "more" / "c.parquet")
    (path / "_SUCCESS").write_text("")
    (path / ".b.jsonl.crc").write_text("")
    (path / "notes.txt").write_text("no table")
    return path


def spooled(names: list[str], tmp_path: Path, options: InputOptions | None = None) -> InputTexts:
    where = tmp_path / "input"
    where.mkdir(exist_ok=True)
    for number, name in enumerate(names):
        read_table(name, number, where, options or InputOptions())
    return InputTexts(where, len(names))


def test_a_folder_of_tables_of_several_formats(folder: Path, tmp_path: Path) -> None:
    names = table_names(str(folder))
    assert [Path(name).name for name in names] == ["a.csv", "b.jsonl", "c.parquet"]
    texts = spooled(names, tmp_path)
    assert list(texts) == [("t0", "one"), ("t1", "two"), ("t2", "three"), ("t3", "four"), ("t4", "five")]
    assert texts.line(1) == f"{folder / 'a.csv'}, line 3"
    assert texts.line(4) == f"{folder / 'more' / 'c.parquet'}, row 1"
    assert (texts.total("stripped"), texts.rows) == (1, 5)
    assert table_names(str(folder / "a.csv")) == [str(folder / "a.csv")]


def test_tables_in_memory_are_read_as_those_on_disk(folder: Path, tmp_path: Path) -> None:
    system = fsspec.filesystem("memory")
    try:
        system.put(str(folder), "/bucket/tables", recursive=True)
        names = table_names("memory://bucket/tables")
        assert [name.split("/")[-1] for name in names] == ["a.csv", "b.jsonl", "c.parquet"]
        assert list(spooled(names, tmp_path)) == list(spooled(table_names(str(folder)), tmp_path / "tables"))
        with open_table(names[1]) as table:
            assert (table.name, table.columns) == (names[1], ("id", "text"))
        with pytest.raises(InputError, match=r"memory://bucket/none.jsonl does not exist"):
            table_names("memory://bucket/none.jsonl")
        with system.open("/bucket/bad.jsonl", "w") as file:
            file.write(lines("one") + "{")
        with pytest.raises(InputError, match=r"memory://bucket/bad.jsonl, line 2: not valid JSON"):
            spooled(["memory://bucket/bad.jsonl"], tmp_path)
    finally:
        system.rm("/bucket", recursive=True)


def test_rows_without_ids_are_numbered_over_all_tables(tmp_path: Path) -> None:
    for name, rows in (("a", ["one", "", "three"]), ("b", ["four"])):
        (tmp_path / f"{name}.csv").write_text("text,other\n" + "".join(f"{text},x\n" for text in rows))
    names = [str(tmp_path / "a.csv"), str(tmp_path / "b.csv")]
    texts = spooled(names, tmp_path, InputOptions(skip_empty=True))
    assert list(texts) == [("1", "one"), ("3", "three"), ("4", "four")]
    assert (texts.row_texts(0, 9), texts.row_texts(1, 3)) == (["one", None, "three", "four"], [None, "three"])
    assert texts.row_line(3) == f"{names[1]}, line 2"
    with pytest.raises(InputError, match=r"a.csv, line 3"):
        spooled(names, tmp_path, InputOptions())


def test_tables_with_and_without_ids_are_not_mixed(folder: Path, tmp_path: Path) -> None:
    (folder / "d.csv").write_text("text,other\none,x\n")
    with pytest.raises(InputError, match=r"d.csv has no column of ids, but .*a.csv has"):
        spooled(table_names(str(folder)), tmp_path)


def test_a_table_is_read_again_only_if_it_changed(folder: Path, tmp_path: Path) -> None:
    name = str(folder / "b.jsonl")
    file = tmp_path / "input" / "00000000.safetensors"
    spooled([name], tmp_path)
    before = file.stat().st_ino
    spooled([name], tmp_path)
    assert file.stat().st_ino == before
    (folder / "b.jsonl").write_text(lines("another"))
    assert list(spooled([name], tmp_path)) == [("t0", "another")]
    file.write_bytes(b"")
    assert list(spooled([name], tmp_path)) == [("t0", "another")]


def test_attempts_are_counted_until_they_are_enough(tmp_path: Path) -> None:
    attempts = Attempts(tmp_path / "attempts")
    attempts.clear()
    assert [attempts.begin(7) for _ in range(ATTEMPTS + 1)] == [True] * ATTEMPTS + [False]
    assert attempts.begin(8)
    attempts.end(7)
    assert attempts.begin(7)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["featurize", "{t}", "--labels", "{l}", "--out", "{o}", "--workers", "2"], "are for --engine ray"),
        (["featurize", "s3://b/t.csv", "--labels", "{l}", "--out", "{o}"], "only --engine ray reads from there"),
        (["featurize", "{e}", "--labels", "{l}", "--out", "{o}", "--engine", "ray"], "holds no table"),
        (["featurize", "none://x", "--labels", "{l}", "--out", "{o}", "--engine", "ray"], "none://x cannot be read"),
        (
            ["featurize", "{t}", "--labels", "{l}", "--out", "{o}", "--engine", "ray", "--candidates", "1", "--rerank"],
            "not for --engine ray",
        ),
        (["predict", "{m}", "{t}", "--out", "{o}.csv", "--address", "auto"], "are for --engine ray"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_sentence(
    words: list[str], sentence: str, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "labels.txt").write_text("gold\nwheat\n")
    (tmp_path / "empty").mkdir()
    places = {"t": folder / "a.csv", "l": tmp_path / "labels.txt", "o": tmp_path / "o", "e": tmp_path / "empty"}
    done = CliRunner().invoke(app, [word.format(m=tmp_path / "m", **places) for word in words])
    assert done.exit_code == 2
    assert sentence in " ".join(done.output.split())
    assert not (tmp_path / "o").exists()


def test_workers_are_at_least_one() -> None:
    with pytest.raises(InputError, match="workers must be at least 1, but is 0"):
        RayOptions(workers=0)
