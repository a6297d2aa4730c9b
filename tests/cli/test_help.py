"""Help texts say all that they are meant to say; wrong files are told before anything heavy is imported."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from bncl_cli.main import app
from typer.testing import CliRunner

from bncl_pyg.corpus import LabelSet
from bncl_pyg.features import Features, write_features
from bncl_pyg.graph import SignedLabelGraph


def commands(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield words, group
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*words, name))


COMMANDS = dict(commands(typer.main.get_command(app)))


def plain(text: str) -> str:
    """Return a text without frames and line breaks, so that what was wrapped compares equal."""
    return re.sub(r"[\s│╭╮╰╯─]+", "", re.sub(r"\x1b\[[0-9;]*m", "", text))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_markup_eats_nothing_of_the_help(words: tuple[str, ...]) -> None:
    command = COMMANDS[words]
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(app, [*words, "--help"])
    assert shown.exit_code == 0
    output = plain(shown.output)
    for text in (command.help, *(getattr(parameter, "help", None) for parameter in command.params)):
        for part in (text or "").split("\n\n"):
            assert plain(part) in output, f"{' '.join(words)}: {part!r} is not shown as it is"
    for parameter in command.params:
        for option in getattr(parameter, "opts", []) if parameter.param_type_name == "option" else []:
            assert option in output


def test_exit_codes_are_documented() -> None:
    assert plain("Exit codes: 0 done, 1 an error of ours, 2 the input or an option") in plain(
        CliRunner().invoke(app, ["--help"]).output
    )


def test_python_m() -> None:
    done = subprocess.run([sys.executable, "-m", "bncl_pyg", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("bncl-pyg ")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files that are right, and some that are wrong."""
    folder = tmp_path_factory.mktemp("refusals")
    (folder / "tags.txt").write_text("gold\nsilver\nwheat\n")
    (folder / "t.csv").write_text("nr,body,labels\n1,Gold rose.,gold\n2,,silver\n")
    (folder / "good.csv").write_text("id,text,labels\n1,Gold rose.,gold\n")
    (folder / "there.csv").write_text("mine")
    (folder / "priors.json").write_text('{"cardinality": 9}')
    return folder


REFUSED = {
    "classify none.csv --labels tags.txt --out o.csv": "none.csv does not exist",
    "classify good.csv --labels none.txt --out o.csv": "none.txt does not exist",
    "classify t.csv --labels tags.txt --out o.csv": "has no column 'text'; its columns are: nr, body, labels. "
    'Say which to take with --text "NAME"',
    "classify t.csv --labels tags.txt --text body --out o.csv": "t.csv, line 3: field 'body' is empty; "
    "--skip-empty leaves such rows out.",
    "classify t.csv --labels tags.txt --text body --id x --out o.csv": "has no column 'x'",
    "classify good.csv --labels tags.txt --out there.csv": "already exists; choose another name, or replace it with "
    "--overwrite",
    "classify good.csv --labels tags.txt --out good.csv --overwrite": "is what this command reads",
    "classify good.csv --labels tags.txt --out o.doc": "cannot tell the format",
    "classify good.csv --labels tags.txt --out o.csv --priors priors.json": "at most 3, the number of labels",
    "classify good.csv --labels tags.txt --out o.csv --priors none.json": "none.json does not exist",
    "classify good.csv --labels tags.txt --out o.csv --annotated none.csv": "none.csv does not exist",
    "classify good.csv --labels tags.txt --out o.csv --labels-column x": "has no column 'x'",
    "classify good.csv --labels tags.txt --out o.csv --threshold .5 --precision .5": "exclude each other",
    "classify good.csv --labels tags.txt --out o.csv --labels-per-text 7": "at most 3, the number of labels",
    "classify good.csv --labels tags.txt --out o.csv --labels-per-text 0": "--labels-per-text must be above 0",
    "classify good.csv --labels tags.txt --out o.csv --work .": "is no bncl work folder",
    "classify good.csv --labels tags.txt --out o.csv --labels-column text": "unknown label 'Gold rose.'",
    "explain none text": "none does not exist",
    "report none good.csv --out r.html": "none does not exist",
    "serve none": "none does not exist",
    "serve none --host 0.0.0.0": "can reach 0.0.0.0: give a token that they must know with --token",
    "serve none --token short": "A token has at least 16 letters",
    "serve none --annotate good.csv": "--annotate needs --project too",
    "serve none --project p": "--project needs --annotate too",
    "serve none --annotate none.csv --project p": "none does not exist",
    "push none owner/name": "none does not exist",
    "labels add none zinc --features f --out m": "none does not exist",
    "labels remove none zinc --features f --out m": "none does not exist",
    "labels rename none zinc tin --out m": "none does not exist",
    "labels merge none zinc tin --into metal --features f --out m": "none does not exist",
    "featurize none.csv --labels tags.txt --out f": "none.csv does not exist",
    "featurize t.csv --labels tags.txt --text body --out f": "line 3: field 'body' is empty",
    "featurize good.csv --labels there.csv --out f": "there.csv has no column 'label'; its columns are: mine",
    "predict none good.csv --out o.csv": "none does not exist",
    "eval none none --truth good.csv": "none does not exist",
    "train none --out m": "none does not exist",
    "data priors none.csv --labels tags.txt --out p.json": "none.csv does not exist",
    "labels check none.txt": "none.txt does not exist",
    "labels check tags.txt --texts none.csv": "none.csv does not exist",
    "graph build none.txt --out g": "none.txt does not exist",
    "graph stats none": "none does not exist",
    "graph plot none --out g.png": "none does not exist",
    "graph export none --out g.graphml": "none does not exist",
}


def test_wrong_files_are_told_before_torch_is_imported(folder: Path) -> None:
    """In one process, one after the other; what is wrong with each is told, and nothing is written."""
    before = {path: path.read_bytes() for path in folder.iterdir()}
    code = (
        "import io, json, sys\nfrom contextlib import redirect_stderr\nfrom bncl_cli.main import app\ntold = {}\n"
        "for line in json.loads(sys.argv[1]):\n"
        "    with redirect_stderr(io.StringIO()) as shown:\n"
        "        try: app(line.split())\n"
        "        except SystemExit as end: told[line] = [end.code, shown.getvalue()]\n"
        "heavy = {'torch', 'scipy', 'sklearn', 'transformers', 'torch_geometric', 'pandas'}\n"
        "print(json.dumps([told, sorted(heavy & sys.modules.keys())]))\n"
    )
    command = [sys.executable, "-c", code, json.dumps(list(REFUSED))]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    told, heavy = json.loads(done.stdout)
    assert heavy == []
    for line, sentence in REFUSED.items():
        status, shown = told[line]
        assert status == 2, line
        assert sentence in shown, f"{line}: {shown}"
        assert shown.count("\n") == 1
        assert shown.startswith("Error: ")
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_refusals_beside_a_real_model(folder: Path, features: Features, graph: SignedLabelGraph) -> None:
    write_features(features, folder / "features", overwrite=True)
    graph.save(folder / "graph", overwrite=True)
    code = (
        "import sys\nfrom bncl_cli.main import app\n"
        "try: app(sys.argv[1:])\nexcept SystemExit as end: print(end.code, 'torch' in sys.modules)\n"
    )
    lines = {
        "train features --annotated good.csv --labels-column x --out m": "has no column 'x'",
        "train features --priors none.json --out m": "none.json does not exist",
        "train features --graph features --out m": "is a bncl features folder, but a graph folder is needed",
    }
    for line, sentence in lines.items():
        done = subprocess.run([sys.executable, "-c", code, *line.split()], cwd=folder, capture_output=True, text=True)
        assert done.stdout.strip() == "2 False", line
        assert sentence in done.stderr


def test_labels_with_brackets_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    from bncl_cli.show import examples, table

    table("t", ["", "n"], [["[red]urgent[/red]", 1]])
    examples([("A [bold] text", ["[x]"], [0.5])])
    shown = capsys.readouterr().out
    assert "[red]urgent[/red]" in shown
    assert "A [bold] text" in shown
    assert "[x] 0.50" in shown
    assert LabelSet.of(["[x]"]).names == ("[x]",)
