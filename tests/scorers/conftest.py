"""Tiny models, made on the spot with random weights."""

from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, BertModel, BertTokenizerFast

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "gold",
    "rises",
    "wheat",
    "falls",
    "and",
    "this",
    "is",
    "about",
    ".",
]


def _tokenizer(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)


def _config(**more: object) -> BertConfig:
    return BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        **more,
    )


@pytest.fixture
def tiny_encoder(tmp_path: Path) -> Path:
    """A sentence encoder: a BERT of two layers."""
    folder = tmp_path / "tiny-encoder"
    _tokenizer(folder)
    torch.manual_seed(0)
    BertModel(_config()).save_pretrained(folder)
    return folder


@pytest.fixture
def tiny_classifier(tmp_path: Path) -> Path:
    """An NLI classifier of the same size."""
    folder = tmp_path / "tiny-classifier"
    _tokenizer(folder)
    torch.manual_seed(0)
    names = {0: "contradiction", 1: "neutral", 2: "entailment"}
    config = _config(num_labels=3, id2label=names, label2id={word: place for place, word in names.items()})
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder
