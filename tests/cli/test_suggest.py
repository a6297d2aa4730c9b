"""`bncl suggest`, and the way back: what is filled in is given to `bncl train` and `bncl classify`."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from bncl_cli.main import app
from typer.testing import CliRunner, Result

from bncl_pyg import BNCLClassifier
from bncl_pyg.corpus import Corpus, LabelSet
from bncl_pyg.features import Features, write_features
from bncl_pyg.graph import SignedLabelGraph
from bncl_pyg.persistence import write_jsonl
from bncl_pyg.priors import Priors
from bncl_pyg.training import TrainedModel

Bncl = Callable[..., Result]


@pytest.fixture
def bncl() -> Bncl:
    def run(*words: object) -> Result:
        return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)

    return run


@pytest.fixture
def folder(tmp_path: Path, corpus: Corpus, features: Features, graph: SignedLabelGraph, priors: Priors) -> Path:
    """A model without annotated texts, its features, and its texts without their labels."""
    write_features(features, tmp_path / "features")
    rows = ({"id": one, "text": text} for one, text in zip(corpus.ids, corpus.texts, strict=True))
    write_jsonl(tmp_path / "texts.jsonl", rows)
    BNCLClassifier(prevalence=priors, graph=graph).fit(features).save_pretrained(tmp_path / "model")
    return tmp_path


def refused(result: Result, *parts: str) -> None:
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    for part in parts:
        assert part in result.stderr, result.stderr


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.mark.parametrize("with_texts", [True, False])
def test_what_is_filled_in_is_learned_from(
    bncl: Bncl, folder: Path, corpus: Corpus, labels: LabelSet, with_texts: bool
) -> None:
    out, model = folder / "to-annotate.csv", folder / "model"
    words = ["--texts", folder / "texts.jsonl"] if with_texts else []
    done = bncl("suggest", model, folder / "features", "--n", 12, "--out", out, *words)
    assert done.exit_code == 0, done.output
    assert "12 of 60 texts that nobody annotated, by the strategy representative" in done.output
    rows = read(out)
    assert list(rows[0]) == ["id", *(["text"] if with_texts else []), "likely", "probabilities", "labels"]
    assert len({row["id"] for row in rows}) == 12
    assert {row["labels"] for row in rows} == {"?"}
    assert all(len(row["likely"].split(";")) == 5 for row in rows)
    assert corpus.annotations is not None
    # Somebody fills in nine; the tenth has none of the labels, and two are left as they are.
    for row in rows[:9]:
        places = corpus.annotations[[corpus.ids.index(row["id"])]].indices
        row["labels"] = "; ".join(labels.names[place] for place in places)
    rows[9]["labels"] = ""
    write(out, rows)
    words = ["--annotated", out, "--priors", folder / "model" / "priors.json", "--out", folder / "next"]
    trained = bncl("train", folder / "features", *words)
    assert trained.exit_code == 0, trained.output
    assert "60 texts, 10 of them annotated" in trained.output
    learned = TrainedModel.load(folder / "next").annotated
    assert set(learned) == {row["id"] for row in rows[:10]}
    assert learned[rows[9]["id"]] == ()
    assert len(learned[rows[0]["id"]]) == corpus.annotations[[corpus.ids.index(rows[0]["id"])]].nnz
    again = bncl("suggest", folder / "next", folder / "features", "--n", 100, "--out", folder / "all.jsonl")
    assert "50 of 50 texts" in again.output
    asked = {json.loads(line)["id"] for line in (folder / "all.jsonl").read_text().splitlines()}
    assert not asked & set(learned)
    assert len(asked) == 50


def test_texts_that_were_annotated_since_are_not_asked_again(bncl: Bncl, folder: Path) -> None:
    first, second = folder / "first.csv", folder / "second.csv"
    words = ["suggest", folder / "model", folder / "features", "--strategy", "least-sure", "--n", 5]
    assert bncl(*words, "--out", first).exit_code == 0
    rows = read(first)
    for row in rows[:3]:
        row["labels"] = "gold"
    write(first, rows)
    done = bncl(*words, "--out", second, "--annotated", first)
    assert "5 of 57 texts" in done.output
    asked = [row["id"] for row in read(second)]
    assert asked[:2] == [row["id"] for row in rows[3:]]


@pytest.mark.parametrize("strategy", ["representative", "diverse", "expected-change", "least-sure", "missing-examples"])
def test_every_strategy_has_its_name(bncl: Bncl, folder: Path, strategy: str) -> None:
    words = ["suggest", folder / "model", folder / "features", "--strategy", strategy, "--n", 3, "--top-k", 2]
    assert f"by the strategy {strategy}" in bncl(*words, "--out", folder / "a.jsonl").output
    assert all(len(json.loads(line)["likely"]) == 2 for line in (folder / "a.jsonl").read_text().splitlines())


def test_a_table_goes_to_and_fro(bncl: Bncl, tmp_path: Path) -> None:
    topics = {"refund": "Please give me my money back", "printer": "The office printer does not print"}
    rows = [{"nr": f"T{row}", "body": f"{list(topics.values())[row % 2]}, case {row}."} for row in range(24)]
    write(tmp_path / "tickets.csv", rows)
    (tmp_path / "tags.txt").write_text("refund\nprinter\n")
    words = ["--text", "body", "--id", "nr"]
    label = ["classify", tmp_path / "tickets.csv", "--labels", tmp_path / "tags.txt", *words, "--scorer", "fast"]
    assert bncl(*label, "--out", tmp_path / "one.csv").exit_code == 0
    model = tmp_path / "tickets.bncl" / "model"
    asked = ["suggest", model, tmp_path / "tickets.csv", *words, "--n", 6, "--out", tmp_path / "ask.csv"]
    done = bncl(*asked)
    assert "6 of 24 texts" in done.output, done.output
    given = [{"nr": row["id"], "body": row["text"], "labels": row["labels"]} for row in read(tmp_path / "ask.csv")]
    for row in given[:5]:
        row["labels"] = "refund" if "money" in row["body"] else "printer"
    write(tmp_path / "given.csv", given)
    again = bncl(*label, "--annotated", tmp_path / "given.csv", "--out", tmp_path / "two.csv")
    assert again.exit_code == 0, again.output
    assert set(TrainedModel.load(model).annotated) == {row["nr"] for row in given[:5]}


def test_what_is_wrong_is_said(bncl: Bncl, folder: Path) -> None:
    model, features, out = folder / "model", folder / "features", folder / "a.csv"
    refused(bncl("suggest", folder / "none", features, "--out", out), "none")
    refused(bncl("suggest", model, folder / "none", "--out", out), "none")
    refused(bncl("suggest", model, features, "--out", model / "a.csv"), "lies inside of")
    refused(bncl("suggest", model, features, "--out", out, "--n", 0), "--n")
    refused(bncl("suggest", model, features, "--out", out, "--strategy", "best"), "--strategy")
    texts = folder / "texts.jsonl"
    refused(bncl("suggest", model, texts, "--texts", texts, "--out", out), "is a table of texts: --texts is for")
    write_jsonl(folder / "few.jsonl", [{"id": "t0", "text": "text 0"}])
    refused(bncl("suggest", model, features, "--texts", folder / "few.jsonl", "--out", out), "no text with id 't1'")
    assert not out.exists()
    out.write_text("mine")
    refused(bncl("suggest", model, features, "--out", out), "a.csv", "--overwrite")
    assert out.read_text() == "mine"
