"""What the library says to somebody who writes Python is told with options to somebody who types commands."""

import json
from pathlib import Path

import pytest
from bncl_cli.main import app
from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast
from typer.testing import CliRunner, Result

from bncl_pyg.features import read_features

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "gold", "wheat", "this", "is", "about", "."]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two texts, two labels and a classifier whose outputs have no names."""
    rows = [{"id": "a", "text": "gold"}, {"id": "b", "text": "wheat"}]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "labels.txt").write_text("gold\nwheat\n")
    model = tmp_path / "nli"
    model.mkdir()
    (model / "vocab.txt").write_text("\n".join(WORDS))
    BertTokenizerFast(vocab=str(model / "vocab.txt")).save_pretrained(model)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    config = BertConfig(vocab_size=len(WORDS), max_position_embeddings=64, num_labels=3, **sizes)
    BertForSequenceClassification(config).save_pretrained(model)
    return tmp_path


def featurize(folder: Path, *more: str) -> Result:
    words = ["featurize", folder / "texts.jsonl", "--labels", folder / "labels.txt", "--out", folder / "f"]
    words += ["--scorer", folder / "nli", *more]
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


MAP = "entailment=2,neutral=1,contradiction=0"


def test_a_device_is_an_option(folder: Path) -> None:
    refused = featurize(folder, "--label-map", MAP, "--device", "toaster")
    assert refused.exit_code == 2
    assert "The device 'toaster' cannot be used here" in refused.stderr
    assert featurize(folder, "--label-map", MAP, "--device", "cpu").exit_code == 0
    # Another device is no other scorer: the store can be gone on with.
    assert "0 of 1 blocks scored now" in featurize(folder, "--label-map", MAP).output
    assert "device" not in read_features(folder / "f").scorer


def test_arguments_are_named_as_options(folder: Path) -> None:
    unnamed = featurize(folder)
    assert unnamed.exit_code == 2
    assert f'such as --label-map "{MAP}".' in unnamed.stderr
    assert featurize(folder, "--label-map", MAP).exit_code == 0
    changed = featurize(folder, "--label-map", MAP, "--template", "It is {}.")
    assert changed.exit_code == 2
    assert "another template; start anew with --fresh, or choose another name." in changed.stderr
    assert featurize(folder, "--label-map", MAP, "--template", "It is {}.", "--fresh").exit_code == 0


def test_an_expensive_scorer_has_a_budget(folder: Path) -> None:
    rows = [{"id": f"t{row}", "text": "gold " * (1 + row % 3) + "wheat " * (row % 2)} for row in range(12)]
    (folder / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ("--label-map", MAP, "--cheap", "fast", "--budget", "7")
    done = featurize(folder, *words, "--json", str(folder / "figures.json"))
    assert done.exit_code == 0, done.output
    assert "was asked about 7 of 24 pairs, 'fast' about all" in done.output
    assert json.loads((folder / "figures.json").read_text())["asked"] == 7
    made = read_features(folder / "f")
    assert made.scorer["name"] == "fast"
    assert made.scorer["budget"]["pairs"] == 7
    assert made.vectors is not None
    words_of_cheap = ["featurize", folder / "texts.jsonl", "--labels", folder / "labels.txt", "--scorer", "fast"]
    plain = CliRunner().invoke(app, [*map(str, words_of_cheap), "--out", str(folder / "plain")])
    assert plain.exit_code == 0
    cheap = read_features(folder / "plain")
    assert 0 < int((made.entailment != cheap.entailment).sum()) <= 7
    assert not list(folder.glob("f.*"))
    again = featurize(folder, *words)
    assert again.exit_code == 2
    assert "--overwrite" in again.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--label-map", MAP, "--budget", "5", "--candidates", "1"], "--budget chooses pairs among all labels"),
        (["--budget", "5", "--scorer", "fast"], "--budget is for a cross-encoder; 'fast' reads texts and labels apart"),
        (["--priors", "labels.txt"], "--priors is for --budget PAIRS"),
        (["--label-map", MAP, "--budget", "0"], "--budget"),
    ],
)
def test_what_a_budget_cannot_be_for_is_said(folder: Path, words: list[str], message: str) -> None:
    refused = featurize(folder, *words)
    assert refused.exit_code == 2
    assert message in refused.stderr
    assert not (folder / "f").exists()
