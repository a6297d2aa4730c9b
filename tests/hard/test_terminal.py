"""What others wrote is shown by a terminal, a page or a spreadsheet, and never obeyed."""

import csv
import json
import logging
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import networkx as nx
import pytest
from bncl_cli.terminal import echo, plain, plain_letters

from bncl_pyg.corpus import LabelSet
from bncl_pyg.graph import SignedLabelGraph
from tests.hard.attacks import Bncl, refused, sentence

ESCAPES = "\x1b]0;owned\x07\x1b[31mred\x9b2J\u202eleft\x08\x0d"


def obeyed(text: str) -> list[str]:
    """Return what a terminal would obey in a text."""
    return [letter for letter in text if (letter < " " and letter not in "\n\t") or "\x7f" <= letter <= "\x9f"]


@pytest.mark.parametrize("letter", [*map(chr, range(32)), "\x7f", "\x80", "\x9b", "\x9f", "\ufffe", "\uffff"])
def test_no_label_has_a_control_character(letter: str) -> None:
    told = refused(lambda: LabelSet.of([f"go{letter}ld", "silver"]))
    assert "control character" in told
    assert not obeyed(told)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("l.jsonl", b'{"label": "go\\u001b[31mld"}\n{"label": "x"}\n'),
        ("l.json", b'["a\\u0000b", "c"]'),
        ("l.csv", b"label\n\x1b[2Jgold\n"),
        ("l.txt", b"gold\x07\nsilver\n"),
    ],
)
def test_nor_does_one_of_a_file(tmp_path: Path, bncl: Bncl, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    told = sentence(bncl("graph", "build", tmp_path / name, "--out", tmp_path / "g"))
    assert "control character" in told
    assert not obeyed(told)


def test_labels_in_any_script_are_fine() -> None:
    names = ["ذهب", "זהב", "黄金", "हिन्दी", "🥇", "a\u200db", "e\u0301", "<b>", "[red]x[/]", "=1+1", "'--"]
    assert LabelSet.of(names).names == tuple(names)


def test_graphml_is_well_formed_whatever_the_names_are(tmp_path: Path) -> None:
    graph = nx.Graph()
    names = ["a\x00b\x1b", "c<&>\"'", "e\ud800f", "g\ufffe", "h\n\t"]
    for one, two in pairwise(names):
        graph.add_edge(one, two, sign=1)
    SignedLabelGraph.from_networkx(graph).write_graphml(tmp_path / "g.graphml")
    nodes = [node for node in ElementTree.parse(tmp_path / "g.graphml").iter() if node.tag.endswith("}node")]
    assert len(nodes) == len(names)
    assert nodes[1].get("id") == names[1]


def test_what_is_shown_is_never_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    assert plain("a\tb\nc") == "a\tb\nc"
    assert plain("\x1b[31m") == "\\x1b[31m"
    assert plain("\udcff") == "\\udcff"
    assert not obeyed(plain(ESCAPES))
    assert len(plain_letters(ESCAPES)) == len(ESCAPES)
    assert not obeyed(plain_letters(ESCAPES))
    echo(ESCAPES)
    echo(ESCAPES, err=True)
    shown = capsys.readouterr()
    assert "owned" in shown.out
    assert "owned" in shown.err
    assert not obeyed(shown.out + shown.err)


def test_commands_show_texts_ids_and_columns_without_obeying(bncl: Bncl, tmp_path: Path) -> None:
    texts, labels = tmp_path / "t.jsonl", tmp_path / "labels.txt"
    rows = [{"id": f"{ESCAPES}{place}", "text": f"gold {ESCAPES} wheat {place}"} for place in range(5)]
    texts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    labels.write_text("gold\nwheat\n[bold red]corn[/]\n=SUM(A1)\n")
    fast = ["--scorer", "fast"]
    done = bncl("classify", texts, "--labels", labels, "--out", tmp_path / "o.jsonl", *fast)
    assert done.exit_code == 0, done.output
    assert "owned" in done.output
    assert not obeyed(done.output)
    model = tmp_path / "t.bncl" / "model"
    shown = bncl("explain", model, rows[0]["text"])
    assert shown.exit_code == 0, shown.output
    assert not obeyed(shown.output)
    assert "[bold red]corn[/]" in bncl("explain", model, "corn", "--label", "[bold red]corn[/]").output
    texts.write_text(json.dumps(rows[0]) * 1 + "\n" + json.dumps(rows[0]) + "\n")
    twice = bncl("classify", texts, "--labels", labels, "--out", tmp_path / "o2.jsonl", *fast)
    assert "is given twice" in sentence(twice)
    assert not obeyed(twice.output)
    texts.write_text(json.dumps({ESCAPES: "x"}) + "\n")
    assert not obeyed(bncl("classify", texts, "--labels", labels, "--out", tmp_path / "o3.jsonl", *fast).output)


def test_labels_are_no_formulas_in_a_spreadsheet(bncl: Bncl, tmp_path: Path) -> None:
    names = ["=1+1", "+2", "-3", "@SUM(A1)", "gold"]
    (tmp_path / "t.csv").write_text("text\n" + "gold\n" * 6)
    (tmp_path / "labels.txt").write_text("".join(f"{name}\n" for name in names))
    common = ["--labels", tmp_path / "labels.txt", "--scorer", "fast", "--top-k", 5, "--overwrite"]
    for wide in ([], ["--wide"]):
        done = bncl("classify", tmp_path / "t.csv", *common, *wide, "--out", tmp_path / "o.csv")
        assert done.exit_code == 0, done.output
        with (tmp_path / "o.csv").open() as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert not [cell for cell in cells if cell[:1] in "=+-@" and cell[:1]]
    again = bncl(
        *("classify", tmp_path / "o.csv", *common, "--labels-column", "labels", "--out", tmp_path / "again.jsonl"),
    )
    assert again.exit_code == 0, again.output  # a cell that was neutralised is read as it was meant


def test_log_lines_are_not_obeyed(bncl: Bncl, tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("gold\nsilver\nwheat\n")
    bncl("--quiet", "labels", "check", tmp_path / "missing.txt")
    handler = logging.getLogger("bncl_pyg").handlers[0]
    record = logging.LogRecord("bncl_pyg", logging.WARNING, "", 0, "%s is odd", (ESCAPES,), None)
    assert "owned" in handler.format(record)
    assert not obeyed(handler.format(record))


def test_pages_hold_names_as_text(bncl: Bncl, tmp_path: Path) -> None:
    name = "<script>alert(1)</script>"
    (tmp_path / "labels.txt").write_text(f'{name}\n"><img src=x onerror=alert(1)>\ngold\n')
    (tmp_path / "t.csv").write_text("text\n<script>alert(2)</script> gold\nsilver gold\nwheat\n")
    fast = ["--labels", tmp_path / "labels.txt", "--scorer", "fast"]
    assert bncl("classify", tmp_path / "t.csv", *fast, "--html", "keep", "--out", tmp_path / "o.csv").exit_code == 0
    model, page = tmp_path / "t.bncl" / "model", tmp_path / "r.html"
    done = bncl("report", model, next((tmp_path / "t.bncl").glob("features-*")), "--out", page)
    assert done.exit_code == 0, done.output
    shown = bncl("explain", model, "<script>alert(2)</script> gold", "--html", tmp_path / "e.html")
    assert shown.exit_code == 0, shown.output
    for file in (page, tmp_path / "e.html"):
        content = file.read_text()
        assert "alert(" in content
        for attack in ("<script>alert", "<img src=x"):
            assert attack not in content, file
