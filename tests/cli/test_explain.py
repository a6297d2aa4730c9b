"""`bncl explain` and `bncl report` as one types them, with a real scorer."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from bncl_cli.main import app
from typer.testing import CliRunner, Result

from bncl_pyg.corpus import Corpus, LabelSet
from bncl_pyg.demo import demo_folder
from bncl_pyg.estimator import BNCLClassifier
from bncl_pyg.features import Features, score_texts, write_features
from bncl_pyg.graph import SignedLabelGraph
from bncl_pyg.priors import Priors
from bncl_pyg.scorers import load_scorer

Bncl = Callable[..., Result]
TEXTS = 120


@pytest.fixture
def bncl() -> Bncl:
    def run(*words: object) -> Result:
        return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)

    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of the bundled labels by the scorer `fast`, its features, and its texts with their labels."""
    folder = tmp_path_factory.mktemp("why")
    labels = LabelSet.read(demo_folder() / "labels.jsonl")
    with gzip.open(demo_folder() / "train.jsonl.gz", "rt", encoding="utf-8") as file:
        (folder / "texts.jsonl").write_text("".join(line for line, _ in zip(file, range(TEXTS), strict=False)))
    corpus = Corpus.read(folder / "texts.jsonl", labels)
    features = score_texts(corpus, labels, load_scorer("fast"))
    assert corpus.annotations is not None
    priors = Priors.from_annotations(corpus.annotations)
    BNCLClassifier(prevalence=priors, scorer="fast").fit(features).save_pretrained(folder / "model")
    write_features(features, folder / "features")
    return folder


def refused(result: Result, *parts: str) -> None:
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    for part in parts:
        assert part in result.stderr, result.stderr


def test_a_text_is_explained(bncl: Bncl, folder: Path) -> None:
    done = bncl("explain", folder / "model", "A strategy game with Tanks and cannons", "--label", "use::gameplaying")
    assert done.exit_code == 0, done.output
    for words in ("use::gameplaying: Game Playing", "start score", "words", "game", "prior", "logit: the sum", "█"):
        assert words in done.stdout
    every = bncl("explain", folder / "model", "A strategy game with Tanks and cannons", "--json")
    content = json.loads(every.stdout)
    assert [one["is_predicted"] for one in content["labels"]][-2:] == [True, False]
    for one in content["labels"]:
        assert sum(part["value"] for part in one["contributions"]) == pytest.approx(one["logit"])


def test_a_stored_text_is_explained_by_its_id(bncl: Bncl, folder: Path) -> None:
    identifier = json.loads((folder / "texts.jsonl").read_text().splitlines()[3])["id"]
    words = ["explain", folder / "model", identifier, "--json"]
    by_text, by_features, by_both = (
        json.loads(bncl(*words, *more).stdout)
        for more in (
            ["--texts", folder / "texts.jsonl"],
            ["--features", folder / "features"],
            ["--features", folder / "features", "--texts", folder / "texts.jsonl"],
        )
    )
    assert by_both["text"] == by_text["text"]
    assert by_features["text"] is None
    first = [content["labels"][0] for content in (by_text, by_features, by_both)]
    assert first[1]["logit"] == pytest.approx(first[2]["logit"])
    assert first[0]["logit"] == pytest.approx(first[2]["logit"], abs=0.05)
    details = [{part["name"]: part["details"] for part in one["contributions"]}["words"] for one in first]
    assert details[0]
    assert details[2]
    assert not details[1]
    assert "with --texts, its words are named" in bncl(*words[:3], "--features", folder / "features").stdout


def test_an_explanation_is_written_as_a_page(bncl: Bncl, folder: Path) -> None:
    out = folder / "why.html"
    done = bncl("explain", folder / "model", "a <b>game</b>", "--json", "--html", out)
    assert json.loads(done.stdout)["text"]
    assert f"{out}: the same as a page" in done.stderr
    assert out.read_text().startswith("<!doctype html>")


def test_bad_use_of_explain_is_one_sentence(bncl: Bncl, folder: Path) -> None:
    model, texts = folder / "model", folder / "texts.jsonl"
    refused(bncl("explain", folder / "none", "x"), "none does not exist")
    refused(bncl("explain", model, " "), "The text is empty.")
    refused(bncl("explain", model, "x", "--label", "use::gameplayin"), "did you mean 'use::gameplaying'?")
    refused(bncl("explain", model, "nobody", "--texts", texts), "texts.jsonl has no text with id 'nobody'")
    refused(bncl("explain", model, "nobody", "--features", folder / "features"), "has no text with id 'nobody'")
    refused(bncl("explain", model, "x", "--html", model / "a.html"), "lies inside of")


def test_a_report_of_features_and_of_texts_is_the_same(bncl: Bncl, folder: Path) -> None:
    out, other = folder / "report.html", folder / "other.html"
    truth = ["--truth", folder / "texts.jsonl"]
    done = bncl("report", folder / "model", folder / "features", *truth, "--out", out)
    assert done.exit_code == 0, done.output
    assert f"{out}: {TEXTS} texts, 57 labels" in done.stdout
    assert bncl("report", folder / "model", folder / "texts.jsonl", *truth, "--out", other).exit_code == 0
    data = [page.read_text().split('id="data">')[1].split("</script>")[0] for page in (out, other)]
    first, second = (json.loads(content)["labels"] for content in data)
    # Stored scores are rounded.
    given = [[row["given"] for row in rows] for rows in (first, second)]
    assert sum(abs(one - two) for one, two in zip(*given, strict=True)) <= 2
    assert any(row["words"] for row in first)
    assert any(row["F1"] for row in first)


def test_a_report_without_truth(bncl: Bncl, folder: Path) -> None:
    out = folder / "plain.html"
    words = ["report", folder / "model", folder / "features", "--out", out]
    assert bncl(*words).exit_code == 0
    assert "need the texts themselves" in out.read_text()
    refused(bncl(*words, "--texts", folder / "texts.jsonl"), "plain.html")
    assert bncl(*words, "--texts", folder / "texts.jsonl", "--overwrite").exit_code == 0
    assert "need the texts themselves" not in out.read_text()


def test_a_report_with_all_baselines(bncl: Bncl, folder: Path) -> None:
    out = folder / "all.html"
    words = ["report", folder / "model", folder / "features", "--truth", folder / "texts.jsonl", "--out", out]
    done = bncl(*words, "--training", folder / "features")
    assert done.exit_code == 0, done.output
    assert "λ-quantile" in out.read_text()


def test_bad_use_of_report_is_one_sentence(bncl: Bncl, folder: Path) -> None:
    words = ["report", folder / "model", folder / "features", "--out", folder / "x.html"]
    refused(bncl(*words, "--training", folder / "features"), "--training is for the baselines, which need --truth too")
    truth = ["--truth", folder / "texts.jsonl"]
    refused(bncl(*words, *truth, "--annotated", folder / "texts.jsonl"), "which need --training too")
    refused(bncl(*words, "--truth", folder / "none.jsonl"), "none.jsonl does not exist")
    refused(bncl(*words[:2], folder / "none", *words[3:]), "none does not exist")
    refused(bncl(*words[:4], folder / "features" / "x.html"), "lies inside of")
    assert not (folder / "x.html").exists()


def test_a_model_of_the_paper_is_explained_by_paths(
    bncl: Bncl, features: Features, graph: SignedLabelGraph, priors: Priors, tmp_path: Path
) -> None:
    recipe = BNCLClassifier(prevalence=priors, graph=graph, recipe="paper")
    recipe.fit(features).save_pretrained(tmp_path / "model")
    write_features(features, tmp_path / "features")
    done = bncl("explain", tmp_path / "model", "t3", "--features", tmp_path / "features")
    assert done.exit_code == 0, done.output
    for words in ("start score", "hop 1", "hop 2", "friend of"):
        assert words in done.stdout
