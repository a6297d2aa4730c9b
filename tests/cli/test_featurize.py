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
