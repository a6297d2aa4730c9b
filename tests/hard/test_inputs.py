"""Bad input: a right result, or exit code 2 and one sentence that names the place."""

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from bncl_pyg import BNCLClassifier
from bncl_pyg.corpus import Corpus, LabelSet, read_rows
from bncl_pyg.errors import InputError
from bncl_pyg.persistence import parse_json, read_json
from bncl_pyg.priors import Priors
from tests.hard.attacks import LONG, TRIED, Bncl, refused, sentence

DEEP, DIGITS, HALF = "[" * 100_000, "9" * 5000, r'"\ud800"'
LABELS = ("gold", "silver", "wheat")
BAD_TABLES: dict[str, tuple[str, bytes, str]] = {
    "deep line": ("t.jsonl", b'{"id": 1, "text": "x"}\n{"id": 2, "text": ' + DEEP.encode() + b"}\n", "line 2"),
    "deep but closed": ("t.jsonl", b'{"text": ' + b"[" * 200 + b"]" * 200 + b"}\n", "line 1: not valid JSON (Nested"),
    "deep in another field": ("t.jsonl", b'{"text": "x", "y": ' + b'{"a":' * 150 + b"1" + b"}" * 151 + b"\n", "Nested"),
    "deep array": ("t.json", DEEP.encode(), "line 1: not valid JSON"),
    "deep element": ("t.json", b'[{"text": "x"},\n {"text": ' + DEEP.encode(), "line 2"),
    "digits": ("t.jsonl", b'{"id": ' + DIGITS.encode() + b', "text": "x"}\n', "line 1: not valid JSON (A number has"),
    "digits in an array": ("t.json", b'[{"id": ' + DIGITS.encode() + b', "text": "x"}]', "too many digits"),
    "digits elsewhere": ("t.jsonl", b'{"text": "x", "y": -' + DIGITS.encode() + b"}\n", "too many digits"),
    "half a pair": ("t.jsonl", b'{"id": 1, "text": "a \\ud83d b"}\n', "line 1: not valid JSON (Half of a surrogate"),
    "half a pair as a key": ("t.jsonl", b'{"\\udc00": 1, "text": "x"}\n', "Half of a surrogate pair"),
    "half a pair deeper": ("t.json", b'[{"text": "x", "y": [["\\uD800\\u0041"]]}]', "Half of a surrogate pair"),
    "half a pair as bytes": ("t.jsonl", b'{"text": "\xed\xa0\x80"}\n', "not UTF-8 text"),
    "no UTF-8": ("t.jsonl", b'{"text": "\xff"}\n', "not UTF-8 text"),
    "no JSON": ("t.jsonl", b"text\n", "line 1: not valid JSON"),
    "single quotes": ("t.jsonl", b"{'text': 'x'}\n", "line 1: not valid JSON"),
    "two objects": ("t.jsonl", b'{"text": "x"} {"text": "y"}\n', "line 1: not valid JSON (Extra data"),
    "a list": ("t.jsonl", b'["x"]\n', "line 1: must be a JSON object, but is a list"),
    "null": ("t.jsonl", b"null\n", "line 1: must be a JSON object, but is null"),
    "an unclosed string": ("t.jsonl", b'{"text": "x\n', "line 1: not valid JSON"),
    "a text of numbers": ("t.jsonl", b'{"text": 7}\n', "must be a string, but is a number"),
    "a text of lists": ("t.jsonl", b'{"text": ["x"]}\n', "must be a string, but is a list"),
    "a text of nothing": ("t.jsonl", b'{"text": null}\n', "field 'text' is missing"),
    "a blank text": ("t.jsonl", '{"text": "\u2003\\t "}\n'.encode(), "field 'text' is empty"),
    "an id of lists": ("t.jsonl", b'{"id": [1], "text": "x"}\n', "field 'id'"),
    "an id of fractions": ("t.jsonl", b'{"id": 1.5, "text": "x"}\n', "field 'id'"),
    "an id twice": ("t.jsonl", b'{"id": 1, "text": "x"}\n{"id": "1", "text": "y"}\n', "line 2: id '1' is given twice"),
    "no text column": ("t.jsonl", b'{"id": 1}\n', "has no column 'text'"),
    "empty": ("t.jsonl", b"", "holds no text"),
    "only blank lines": ("t.jsonl", b"\n \n\t\n", "holds no text"),
    "an empty array": ("t.json", b"[]", "holds no text"),
    "an array of arrays": ("t.json", b"[[]]", "line 1: must be a JSON object"),
    "an open array": ("t.json", b'[{"text": "x"}', "the array is not closed"),
    "an array and more": ("t.json", b'[{"text": "x"}] []', "there is more after the end"),
    "JSON that is a number": ("t.json", b"7", "must hold a JSON array"),
    "an open quote": ("t.csv", b'text\n"x\ny\n', "line 2: a quote is opened and never closed"),
    "a quote inside": ("t.csv", b'text\n"x"y\n', "line 2: not valid CSV"),
    "too many cells": ("t.csv", b"id,text\n1,x,y\n", "line 2: has more cells"),
    "two columns": ("t.csv", b"text,text\nx,y\n", "has two columns 'text'"),
    "only a header": ("t.csv", b"id,text\n", "holds no text"),
    "an empty cell": ("t.csv", b"id,text\n1,\n", "line 2: field 'text' is empty"),
    "empty CSV": ("t.csv", b"", "is empty"),
    "only a mark": ("t.csv", b"\xef\xbb\xbf", "is empty"),
    "JSON under another name": ("t.csv", b'{"text": "x"}\n', "holds JSON lines, not CSV"),
    "broken UTF-8": ("t.csv", b"text\n" + "é".encode() * 50 + b"\xff\n", "line 2: not UTF-8 text"),
    "broken UTF-16": ("t.csv", b"\xff\xfet\x00e\x00x\x00t\x00\n\x00\x00\xd8", "not text"),
    "no gzip": ("t.csv.gz", b"text\nx\n", "is not a whole gzip file"),
    "half a gzip": ("t.csv.gz", gzip.compress(b"text\n" + b"x" * 9999)[:40], "is not a whole gzip file"),
    "no zst": ("t.jsonl.zst", b"\x28\xb5\x2f\xfd", "is not a whole zst file"),
    "no Parquet": ("t.parquet", b"PAR1" + b"\0" * 40 + b"PAR1", "is not a readable Parquet file"),
    "no workbook": ("t.xlsx", b"PK\x03\x04nonsense", "is not a readable Excel workbook"),
    "a pickle as a table": (
        "t.csv",
        b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00cos\nsystem\n",
        "has no column 'text'",
    ),
    "a pickle as Parquet": ("t.parquet", b"\x80\x04cos\nsystem\n", "is not a readable Parquet file"),
    "an unknown format": ("t.doc", b"x", "cannot tell the format"),
    "labels that are unknown": ("t.jsonl", b'{"text": "x", "labels": ["gelt"]}\n', "unknown label 'gelt'"),
    "labels that are one string": ("t.jsonl", b'{"text": "x", "labels": "gold"}\n', "must be a list of strings"),
}
BAD_LABELS: dict[str, tuple[str, bytes, str]] = {
    "deep": ("l.json", DEEP.encode(), "line 1: not valid JSON"),
    "digits": ("l.json", b"[" + DIGITS.encode() + b"]", "too many digits"),
    "half a pair": ("l.json", f'["a", {HALF}]'.encode(), "Half of a surrogate pair"),
    "twice": ("l.txt", b"gold\ngold\n", "line 2: label 'gold' is given twice (first on line 1)"),
    "twice in an object": ("l.json", b'["gold", "gold"]', "given twice"),
    "blank": ("l.json", b'["gold", " "]', "is empty"),
    "none": ("l.txt", b"\n\n", "holds no label"),
    "none in JSON": ("l.json", b"[]", "holds no"),
    "a number": ("l.json", b'{"gold": 7}', "must be a string"),
    "an unknown field": ("l.json", b'{"gold": {"meaning": "x"}}', "has the field 'meaning'"),
    "synonyms that are a string": ("l.jsonl", b'{"label": "gold", "synonyms": "x"}\n', "must be a list of strings"),
    "no column": ("l.csv", b"name\ngold\n", "has no column 'label'"),
    "control characters": ("l.txt", b"go\x00ld\nsilver\n", "control character"),
    "no UTF-8": ("l.jsonl", b'{"label": "\xff"}\n', "not UTF-8 text"),
    "missing": ("none.txt", b"", "does not exist"),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_bad_tables_are_told(case: str, tmp_path: Path) -> None:
    name, content, told = BAD_TABLES[case]
    (tmp_path / name).write_bytes(content)
    labels = LabelSet.of(LABELS) if case.startswith("labels") else None
    said = refused(lambda: Corpus.read(tmp_path / name, labels))
    assert told in said
    assert said.startswith(str(tmp_path / name))


@pytest.mark.parametrize(
    "case", ["deep line", "digits", "half a pair", "no Parquet", "broken UTF-16", "a pickle as a table"]
)
@pytest.mark.parametrize("command", ["classify", "featurize", "predict", "data priors", "train"])
def test_so_are_they_by_commands(case: str, command: str, bncl: Bncl, tmp_path: Path, original: Any) -> None:
    name, content, told = BAD_TABLES[case]
    table, labels = tmp_path / name, tmp_path / "labels.txt"
    table.write_bytes(content)
    labels.write_text("gold\nsilver\n")
    out, made = tmp_path / "out.jsonl", original.folder
    words = {
        "classify": ["classify", table, "--labels", labels, "--scorer", "fast", "--out", out],
        "featurize": ["featurize", table, "--labels", labels, "--scorer", "fast", "--out", tmp_path / "f"],
        "predict": ["predict", made / "model", table, "--out", out],
        "data priors": ["data", "priors", table, "--labels", labels, "--out", out],
        "train": ["train", made / "features", "--annotated", table, "--priors", "auto", "--out", tmp_path / "m"],
    }[command]
    said = sentence(bncl(*words))
    assert name in said
    assert told in said or "has no column" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "labels.txt"])


@pytest.mark.parametrize("case", BAD_LABELS)
def test_bad_labels_are_told(case: str, bncl: Bncl, tmp_path: Path) -> None:
    name, content, told = BAD_LABELS[case]
    if case != "missing":
        (tmp_path / name).write_bytes(content)
    assert told in refused(lambda: LabelSet.read(tmp_path / name))
    (tmp_path / "t.csv").write_text("text\nx\n")
    words = ["classify", tmp_path / "t.csv", "--labels", tmp_path / name, "--out", tmp_path / "o.csv"]
    assert told in sentence(bncl(*words))


GOOD: dict[str, tuple[str, bytes, tuple[str, ...]]] = {
    "a whole pair": ("t.jsonl", b'{"text": "\\ud83d\\ude00"}\n', ("😀",)),
    "a mark": ("t.jsonl", b'\xef\xbb\xbf{"text": "x"}\n', ("x",)),
    "a mark in CSV": ("t.csv", b"\xef\xbb\xbftext\nx\n", ("x",)),
    "UTF-16": ("t.csv", "text\nñ\n".encode("utf-16"), ("ñ",)),
    "Windows": ("t.csv", b"text\r\ncaf\xe9\r\n", ("café",)),
    "NUL": ("t.jsonl", b'{"text": "a\\u0000b"}\n', ("a\0b",)),
    "NUL in CSV": ("t.csv", b"text\na\x00b\n", ("a\0b",)),
    "right to left": ("t.csv", "text\nשלום עולם\n".encode(), ("שלום עולם",)),
    "CJK": ("t.csv", "text\n黄金价格上涨\n".encode(), ("黄金价格上涨",)),
    "a quoted line": ("t.csv", b'text\n"a\nb"\n', ("a\nb",)),
    "semicolons": ("t.csv", b"id;text\n1;x\n2;y\n", ("x", "y")),
    "many digits": ("t.jsonl", b'{"id": ' + b"9" * 4000 + b', "text": "x"}\n', ("x",)),
    "a hundred deep": ("t.jsonl", b'{"text": "x", "y": ' + b"[" * 98 + b"]" * 98 + b"}\n", ("x",)),
    "a long line": ("t.jsonl", json.dumps({"text": "gold " * 200_000}).encode() + b"\n", ("gold " * 200_000,)),
    "escapes": ("t.jsonl", b'{"text": "\\u001b[31m"}\n', ("\x1b[31m",)),
}


@pytest.mark.parametrize("case", GOOD)
def test_odd_tables_are_read(case: str, tmp_path: Path) -> None:
    name, content, texts = GOOD[case]
    (tmp_path / name).write_bytes(content)
    assert Corpus.read(tmp_path / name).texts == texts


def test_odd_texts_are_labelled(bncl: Bncl, tmp_path: Path) -> None:
    """Empty of words, in any script, with control characters, very long: a probability between 0 and 1 for each."""
    texts = [text for case in GOOD.values() for text in case[2]] + ["?", "…", "\u200b x", "a" * 5000, "🥇" * 300]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    (tmp_path / "labels.txt").write_text("gold\nGold\nGOLD \n!!!\n黄金\nذهب\n")
    words = ["classify", tmp_path / "t.jsonl", "--labels", tmp_path / "labels.txt", "--scorer", "fast", "--wide"]
    done = bncl(*words, "--out", tmp_path / "o.jsonl")
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert [row["text"] for row in rows] == texts
    assert all(0 <= row[name] <= 1 for row in rows for name in ("gold", "Gold", "GOLD", "!!!", "黄金", "ذهب"))


@pytest.mark.parametrize("count", [1, 2])
def test_one_label_and_one_text(bncl: Bncl, tmp_path: Path, count: int) -> None:
    (tmp_path / "t.csv").write_text("text\nGold is up.\n")
    (tmp_path / "labels.txt").write_text("".join(f"{name}\n" for name in LABELS[:count]))
    done = bncl(
        *("classify", tmp_path / "t.csv", "--labels", tmp_path / "labels.txt", "--scorer", "fast"),
        *("--out", tmp_path / "o.jsonl"),
    )
    if done.exit_code == 0:
        assert all(0 <= share <= 1 for share in json.loads((tmp_path / "o.jsonl").read_text())["probabilities"])
    else:
        assert "at least 2" in sentence(done)


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom", "/dev/full"])
def test_a_device_without_an_end_is_no_table(device: str, bncl: Bncl, tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("gold\nsilver\n")
    (tmp_path / "link.csv").symlink_to(device)
    for path in (device, tmp_path / "link.csv"):
        words = ["classify", path, "--labels", tmp_path / "labels.txt", "--out", tmp_path / "o.csv"]
        assert "is a device, not a file" in sentence(bncl(*words))
    assert "is a device" in refused(lambda: Priors.read(Path(device), LabelSet.of(LABELS)))


def test_a_pipe_where_a_folder_of_ours_is_expected(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "manifest.json")
    from bncl_pyg.training import TrainedModel

    assert "has no manifest.json" in refused(lambda: TrainedModel.load(tmp_path))


@pytest.mark.parametrize(
    "call",
    [
        lambda: Corpus.of(["a", "b\ud800"]),
        lambda: Corpus.of(["a"], ids=["\udfff"]),
        lambda: LabelSet.of(["a\ud800", "b"]),
        lambda: LabelSet.of({"a": "\ud800", "b": "x"}),
        lambda: LabelSet.of({"a": {"synonyms": ["\ud800"]}, "b": None}),
        lambda: LabelSet.of([]),
        lambda: LabelSet.of(["a", "a"]),
        lambda: LabelSet.of(["a", ""]),
        lambda: Corpus.of(["a", "b"], ids=["1", "1"]),
        lambda: Corpus.of(["a"], ids=["1", "2"]),
        lambda: BNCLClassifier(labels=["a", "b"], seed=-1).fit(["x"]),
        lambda: BNCLClassifier(labels=["a", "b"], recipe="none").fit(["x"]),
        lambda: BNCLClassifier(labels=["a", "b"], scorer="none").fit(["x"]),
        lambda: BNCLClassifier(labels=["a", "b"], scorer="fast", cardinality=3).fit(["x", "y"]),
        lambda: BNCLClassifier(labels=["a", "b"], scorer="fast", prevalence={"c": 1}).fit(["x", "y"]),
        lambda: BNCLClassifier(scorer="fast").fit(["x", "y"]),
    ],
)
def test_python_is_told_too(call: Callable[[], Any]) -> None:
    refused(call)


def test_json_that_is_fine_stays_fine() -> None:
    for text in ('{"a": [1, 2.5, null, "\\ud83d\\ude00"]}', " [] ", "1e999", '"\\\\ud800"'):
        assert parse_json(text) == json.loads(text)
    assert parse_json("[" * 100 + "]" * 100) == json.loads("[" * 100 + "]" * 100)
    for text in ("", "{", '{"a": 1,}', "[" * 101 + "]" * 101, DIGITS, HALF, "\ufeff{}", "1 2"):
        with pytest.raises(json.JSONDecodeError):
            parse_json(text)


MANY = settings(
    max_examples=5000 if LONG else 100,
    derandomize=True,
    deadline=None,
    database=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
PIECES = st.sampled_from(
    [
        *(b'{"text": "x"}', b"{", b"}", b"[", b"]", b'"', b",", b":", b";", b"\t", b"\n", b"\r", b"\0", b"text", b"id"),
        *(b"\\ud800", b"\\u0000", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", "é".encode(), b"nul", b"1e999", b"NaN"),
        *(b"9" * 4400, b"[" * 1200),
    ]
)
CONTENT = st.one_of(st.binary(max_size=80), st.lists(PIECES, max_size=12).map(b"".join))
ENDINGS = st.sampled_from(["csv", "tsv", "jsonl", "json", "parquet", "xlsx", "csv.gz", "jsonl.zst", "txt"])


@given(content=CONTENT, ending=ENDINGS)
@MANY
def test_anything_is_read_or_told(content: bytes, ending: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / f"anything.{ending}"
    path.write_bytes(content)
    TRIED["test_inputs"] += 1
    for read in (lambda: Corpus.read(path).texts, lambda: LabelSet.read(path).names, lambda: list(read_rows(path))):
        try:
            read()
        except InputError as error:
            assert str(path) in str(error) or "abel" in str(error)  # noqa: PT017 (either may happen)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
ROW = st.fixed_dictionaries({}, optional={"id": JSON, "text": JSON, "labels": JSON, "not_labels": JSON, "label": JSON})


@given(rows=st.lists(ROW | JSON, max_size=4))
@MANY
def test_rows_of_anything_are_read_or_told(rows: list[Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    TRIED["test_inputs"] += 1
    folder, labels = tmp_path_factory.getbasetemp(), LabelSet.of(LABELS)
    for path, text in (
        (folder / "rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows)),
        (folder / "rows.json", json.dumps(rows)),
    ):
        path.write_text(text)
        for read in (
            lambda path=path: Corpus.read(path, labels, partial=True),
            lambda path=path: LabelSet.read(path).names,
        ):
            try:
                read()
            except InputError as error:
                assert str(path) in str(error) or "abel" in str(error)  # noqa: PT017


@given(content=st.dictionaries(st.sampled_from(["cardinality", "prevalence", "at_least_one", "precision", "x"]), JSON))
@MANY
def test_priors_of_anything_are_read_or_told(content: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "anything-priors.json"
    path.write_text(json.dumps(content))
    TRIED["test_inputs"] += 1
    assert isinstance(read_json(path), dict)
    try:
        priors = Priors.read(path, LabelSet.of(LABELS))
    except InputError as error:
        assert str(path) in str(error) or "prevalence" in str(error)  # noqa: PT017
    else:
        assert priors.cardinality is None or 0 < priors.cardinality <= 3
