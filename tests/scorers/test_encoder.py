import hashlib
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, BertModel

from bncl_pyg.errors import InputError
from bncl_pyg.scorers import SentenceEncoder, encoder


def test_batches_give_the_same_vectors_as_one_text_at_a_time(
    tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["gold rises and wheat falls", "wheat", "gold and gold", "wheat falls"]
    tiny = SentenceEncoder(tiny_encoder)
    batches: list[int] = []
    monkeypatch.setattr(encoder, "TOKENS_A_BATCH", 12)
    together = tiny.encode(texts, progress=batches.append)
    one_by_one = torch.cat([tiny.encode([text]) for text in texts])
    assert together.shape == (4, 16)
    assert batches == [2, 1, 1]  # 3 and 4 tokens, then 5, then 7
    assert torch.allclose(together, one_by_one, atol=1e-6)
    assert torch.allclose(together.norm(dim=1), torch.ones(4))


def test_long_texts_are_cut(tiny_encoder: Path) -> None:
    short = SentenceEncoder(tiny_encoder, max_tokens=4)
    assert torch.allclose(short.encode(["gold rises and wheat"]), short.encode(["gold rises"]), atol=1e-6)


def test_the_embedded_encoder_knows_what_belongs_together() -> None:
    gold, silver, wheat = SentenceEncoder.embedded().encode(["gold price", "silver price", "wheat harvest"])
    assert gold @ silver > gold @ wheat


def test_vectors_are_those_of_transformers(tiny_encoder: Path) -> None:
    """Mean pooling over a plain forward of one text, as the model card of all-MiniLM-L6-v2 says."""
    tokenizer, model = AutoTokenizer.from_pretrained(tiny_encoder), BertModel.from_pretrained(tiny_encoder).eval()
    with torch.no_grad():
        states = model(**tokenizer("gold and wheat", return_tensors="pt")).last_hidden_state[0]
    expected = torch.nn.functional.normalize(states.mean(dim=0), dim=0)
    assert torch.allclose(SentenceEncoder(tiny_encoder).encode(["gold and wheat"])[0], expected, atol=1e-6)


def test_what_decides_the_vectors_is_known(tiny_encoder: Path) -> None:
    config = SentenceEncoder(tiny_encoder, max_tokens=9).config()
    assert config == {
        "weights_sha256": hashlib.sha256((tiny_encoder / "model.safetensors").read_bytes()).hexdigest(),
        "max_tokens": 9,
        "backend": "torch",
    }
    (tiny_encoder / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"has no model\.safetensors"):
        SentenceEncoder(tiny_encoder)


def test_a_device_changes_nothing_but_where_it_runs(tiny_encoder: Path) -> None:
    on_cpu = SentenceEncoder(tiny_encoder, device="cpu")
    assert on_cpu.config() == SentenceEncoder(tiny_encoder).config()
    assert on_cpu.encode(["gold"]).device.type == "cpu"
    with pytest.raises(InputError, match="The device 'toaster' cannot be used here"):
        SentenceEncoder(tiny_encoder, device="toaster")
    with pytest.raises(InputError, match="The backend 'onnx' runs on the CPU, so the device cannot be 'cuda'"):
        SentenceEncoder(tiny_encoder, backend="onnx", device="cuda")
    with pytest.raises(InputError, match="The backend must be one of torch, onnx, onnx-int8, but is 'jax'"):
        SentenceEncoder(tiny_encoder, backend="jax")
