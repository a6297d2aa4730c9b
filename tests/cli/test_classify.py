"""`bncl classify` and `bncl predict` as somebody with a table of tickets types them."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
from bncl_cli.main import app
from typer.testing import CliRunner, Result

TAGS = ("password reset", "refund", "printer", "late delivery")
TEXTS = (
    "I forgot my password and cannot log in",
    "Please give me my money back",
    "The office printer does not print",
    "My parcel has not arrived for two weeks",
)


def bncl(*words: object, **more: bytes) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False, **more)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("helpdesk")
    (folder / "tags.txt").write_text("\n".join(TAGS) + "\n")
    with (folder / "tickets.csv").open("w", newline="", encoding="latin-1") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(["ticket_id", "subject", "body"])
        for number in range(40):
            writer.writerow([f"T-{number}", TEXTS[number % 4], f"Grüße, Fall {number}"])
    return folder


def run(folder: Path, *more: object) -> Result:
    words = ["classify", folder / "tickets.csv", "--labels", folder / "tags.txt", "--text", "subject,body"]
    return bncl(*words, "--id", "ticket_id", "--scorer", "fast", *more)


def test_one_command_gives_the_table_back(folder: Path) -> None:
    result = run(folder, "--out", folder / "labelled.csv", "--json", folder / "summary.json", "--overwrite")
    assert result.exit_code == 0, result.output
    with (folder / "labelled.csv").open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file, delimiter=";"))
    assert list(rows[0]) == ["ticket_id", "subject", "body", "labels", "probabilities"]
    assert len(rows) == 40
    assert rows[0]["body"] == "Grüße, Fall 0"
    for sentence in (
        "labelled.csv: 40 texts; 4 labels.",
        "Labels a text: ",
        "Most given: ",
        "Least given: ",
        "How sure: ",
        f"{folder / 'tickets.bncl'} keeps features, graph and model (40 texts scored, model trained)",
        f"bncl predict {folder / 'tickets.bncl' / 'model'} NEW-TEXTS.csv --text subject,body --id ticket_id",
        "--labels-column COLUMN",
    ):
        assert sentence in result.stdout
    assert result.stdout.count("→") == 5
    assert "is not UTF-8 text; it is read as Windows-1252" in result.stderr
    figures = json.loads((folder / "summary.json").read_text())
    assert figures["texts"] == 40
    assert figures["trained_now"]
    assert {name for name, _ in figures["most_given"]} <= set(TAGS)
    again = run(folder, "--out", folder / "labelled.csv", "--overwrite")
    assert "(nothing to score, model as it was)" in again.stdout
    refused = run(folder, "--out", folder / "labelled.csv")
    assert (refused.exit_code, "already exists" in refused.stderr) == (2, True)


def test_standard_output_holds_the_table_alone(folder: Path) -> None:
    result = run(folder, "--out", "-", "--work", folder / "tickets.bncl", "--top-k", 1, "--wide")
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader(result.stdout.lstrip("\ufeff").splitlines(), delimiter=";"))
    assert len(rows) == 40
    assert list(rows[0]) == ["ticket_id", "subject", "body", "labels", *TAGS]
    assert all(row["labels"] in TAGS for row in rows)
    assert "Labels a text: 1.00" in result.stderr
    figures = json.loads(run(folder, "--out", folder / "o.csv", "--overwrite", "--json", "-").stdout)
    assert figures["model"] == str(folder / "tickets.bncl" / "model")


def test_predict_reads_standard_input_and_own_rules(folder: Path) -> None:
    model = folder / "tickets.bncl" / "model"
    if not model.exists():
        assert run(folder, "--out", folder / "first.csv").exit_code == 0
    given = "".join(json.dumps({"body": text}) + "\n" for text in (*TEXTS, " ")).encode()
    words = ["predict", model, "-", "--out", "-", "--text", "body", "--skip-empty"]
    result = bncl(*words, "--threshold", 0, input=given)
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [len(row["labels"]) for row in rows] == [4, 4, 4, 4, 0]
    assert rows[4] == {"body": " ", "labels": [], "probabilities": []}
    assert "standard output: 5 texts, 0 of them without any label, 1 without text were skipped" in result.stderr
    figures = bncl(*words[:4], folder / "p.csv", *words[5:], "--precision", 0.9, "--json", "-", input=given)
    content = json.loads(figures.stdout)
    assert content["rows"] == 5
    assert "An expected precision of 0.9 needs a threshold of" in figures.stderr
    assert not list(folder.glob("*.partial"))


def test_the_model_is_evaluated_on_a_table(folder: Path) -> None:
    model = folder / "tickets.bncl" / "model"
    if not model.exists():
        assert run(folder, "--out", folder / "first.csv").exit_code == 0
    truth = folder / "truth.csv"
    truth.write_text("nr,text,tag\n" + "".join(f"{n},{TEXTS[n % 4]} today,{TAGS[n % 4]}\n" for n in range(8)))
    words = ["eval", model, truth, "--truth", truth, "--id", "nr", "--labels-column", "tag", "--json", "-"]
    result = bncl(*words)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["metrics"]["miF1"] > 0.6
    assert "8 texts, 4 labels" in result.stderr


def test_a_broken_pipe_is_no_error_of_the_input(folder: Path) -> None:
    table = folder / "many.csv"
    table.write_text("id,text,labels\n" + "".join(f"{number},{'word ' * 50},refund\n" for number in range(3000)))
    words = ["data", "priors", str(table), "--labels", str(folder / "tags.txt"), "--out", "-"]
    command = [sys.executable, "-m", "bncl_pyg", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    shown = process.stderr.read()
    process.stderr.close()
    assert process.wait() != 2
    assert "Broken pipe" not in shown
