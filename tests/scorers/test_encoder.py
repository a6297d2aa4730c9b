import hashlib
import json
from pathlib import Path

import pytest
import torch
from torch.nn.functional import cosine_similarity, normalize
from transformers import AutoTokenizer, BertModel

from bncl_pyg.errors import InputError
from bncl_pyg.scorers import SentenceEncoder, TokenEncoder, encoder

TEXTS = ["gold rises and wheat falls", "wheat", "gold and gold", "wheat falls"]
LONG = " ".join(["gold rises and wheat falls this is about gold"] * 6)  # 54 words


def test_batches_give_the_same_vectors_as_one_text_at_a_time(
    tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = SentenceEncoder(tiny_encoder, backend="torch")
    batches: list[int] = []
    monkeypatch.setattr(encoder, "TOKENS_A_BATCH", 12)
    together = tiny.encode(TEXTS, progress=batches.append)
    one_by_one = torch.cat([tiny.encode([text]) for text in TEXTS])
    assert together.shape == (4, 16)
    assert batches == [2, 1, 1]  # 3 and 4 tokens, then 5, then 7
    assert torch.allclose(together, one_by_one, atol=1e-6)
    assert torch.allclose(together.norm(dim=1), torch.ones(4))


def test_more_texts_than_are_tokenised_at_once_keep_their_order(
    tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = SentenceEncoder(tiny_encoder, backend="torch")
    whole, told = tiny.encode(TEXTS), []
    monkeypatch.setattr(encoder, "TEXTS_AT_ONCE", 3)
    assert torch.allclose(tiny.encode(TEXTS, told.append), whole, atol=1e-6)
    assert sum(told) == 4
    assert tiny.encode([]).shape == (0, 16)


def test_long_texts_are_cut(tiny_encoder: Path) -> None:
    short = SentenceEncoder(tiny_encoder, max_tokens=4)
    assert torch.allclose(short.encode(["gold rises and wheat"]), short.encode(["gold rises"]), atol=1e-6)


def test_the_windows_of_a_long_text_are_averaged(tiny_encoder: Path) -> None:
    whole = SentenceEncoder(tiny_encoder, 22, "torch", windows=9)
    words, told = LONG.split(), []
    parts = [" ".join(words[start : start + 20]) for start in (0, 15, 30, 45)]
    found = whole.encode([LONG, "gold"], told.append)
    assert torch.allclose(found[0], normalize(whole.encode(parts).sum(dim=0), dim=0), atol=1e-6)
    assert torch.allclose(found[1], whole.encode(["gold"])[0], atol=1e-6)
    assert sum(told) == 2  # texts, not windows
    vectors, counts = whole.encode_windows(["gold", LONG])
    assert counts.tolist() == [1, 4]
    assert torch.allclose(vectors, whole.encode(["gold", *parts]), atol=1e-6)


def test_one_window_is_the_beginning_of_a_text(tiny_encoder: Path) -> None:
    plain, one = (SentenceEncoder(tiny_encoder, 22, "torch"), SentenceEncoder(tiny_encoder, 22, "torch", windows=1))
    start = " ".join(LONG.split()[:20])
    assert torch.equal(one.encode([LONG]), plain.encode([LONG]))
    assert torch.allclose(one.encode([LONG]), one.encode([start]), atol=1e-6)
    more = SentenceEncoder(tiny_encoder, 22, "torch", windows=2).encode([LONG])
    assert not torch.allclose(more, one.encode([LONG]), atol=1e-3)


def test_the_embedded_encoder_knows_what_belongs_together() -> None:
    gold, silver, wheat = SentenceEncoder.embedded().encode(["gold price", "silver price", "wheat harvest"])
    assert gold @ silver > gold @ wheat


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_vectors_are_those_of_transformers(tiny_encoder: Path, pooling: str) -> None:
    """The mean over a plain forward of one text, or its first state."""
    tokenizer, model = AutoTokenizer.from_pretrained(tiny_encoder), BertModel.from_pretrained(tiny_encoder).eval()
    with torch.no_grad():
        states = model(**tokenizer("gold and wheat", return_tensors="pt")).last_hidden_state[0]
    expected = normalize(states.mean(dim=0) if pooling == "mean" else states[0], dim=0)
    for backend, least in (("torch", 1 - 1e-6), ("onnx", 1 - 1e-6), ("onnx-int8", 0.98)):
        found = SentenceEncoder(tiny_encoder, backend=backend, pooling=pooling).encode(["gold and wheat"])[0]
        assert cosine_similarity(found, expected, dim=0) > least


def test_the_folder_says_how_states_are_pooled(tiny_encoder: Path) -> None:
    assert SentenceEncoder(tiny_encoder).pooling == "mean"
    (tiny_encoder / "1_Pooling").mkdir()
    file = tiny_encoder / "1_Pooling" / "config.json"
    file.write_text(json.dumps({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}))
    assert SentenceEncoder(tiny_encoder).pooling == "cls"
    assert SentenceEncoder(tiny_encoder, pooling="mean").pooling == "mean"


def test_token_vectors_are_the_states_of_length_one(tiny_encoder: Path) -> None:
    tokenizer, model = AutoTokenizer.from_pretrained(tiny_encoder), BertModel.from_pretrained(tiny_encoder).eval()
    found = TokenEncoder(tiny_encoder, backend="torch").token_vectors(TEXTS)
    for text, vectors in zip(TEXTS, found, strict=True):
        with torch.no_grad():
            states = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        assert torch.allclose(vectors, normalize(states), atol=1e-5)


def test_what_decides_the_vectors_is_known(tiny_encoder: Path) -> None:
    expected = {
        "weights_sha256": hashlib.sha256((tiny_encoder / "model.safetensors").read_bytes()).hexdigest(),
        "max_tokens": 9,
        "backend": "torch",
    }
    assert SentenceEncoder(tiny_encoder, max_tokens=9, backend="torch").config() == expected
    assert SentenceEncoder(tiny_encoder, max_tokens=9, backend="torch", windows=1).config() == expected
    two = SentenceEncoder(tiny_encoder, max_tokens=9, backend="torch", windows=2)
    assert two.config() == {**expected, "windows": 2}
    assert SentenceEncoder(tiny_encoder, max_tokens=9, device="cpu").config() == {**expected, "backend": "onnx-int8"}
    assert SentenceEncoder(tiny_encoder, max_tokens=999).config()["max_tokens"] == 64
    (tiny_encoder / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"has no model\.safetensors"):
        SentenceEncoder(tiny_encoder)


def test_a_device_changes_nothing_but_where_it_runs(tiny_encoder: Path) -> None:
    on_cpu = SentenceEncoder(tiny_encoder, backend="torch", device="cpu")
    assert on_cpu.config() == SentenceEncoder(tiny_encoder, backend="torch").config()
    assert on_cpu.encode(["gold"]).device.type == "cpu"
    with pytest.raises(InputError, match="The device 'toaster' cannot be used here"):
        SentenceEncoder(tiny_encoder, device="toaster")
    with pytest.raises(InputError, match="The backend 'onnx' runs on the CPU, so the device cannot be 'cuda'"):
        SentenceEncoder(tiny_encoder, backend="onnx", device="cuda")
    with pytest.raises(InputError, match="The backend must be one of torch, onnx, onnx-int8, but is 'jax'"):
        SentenceEncoder(tiny_encoder, backend="jax")


def test_an_encoder_that_is_no_bert_is_computed_by_torch(tiny_multilingual: Path) -> None:
    tiny = SentenceEncoder(tiny_multilingual)
    assert tiny.config()["backend"] == "torch"
    assert tiny.max_tokens == 38  # its positions are counted from after the padding token
    vectors = tiny.encode(["gold", "золото мир", "小麦", "gold " * 60])
    assert torch.allclose(vectors.norm(dim=1), torch.ones(4))
    for text, vector in zip(["gold", "золото мир", "小麦"], vectors, strict=False):
        assert torch.allclose(tiny.encode([text])[0], vector, atol=1e-6)


def test_a_damaged_encoder_is_refused(tiny_multilingual: Path) -> None:
    (tiny_multilingual / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(InputError, match=r"tiny-multilingual is not a readable encoder \(.*\)\.$"):
        SentenceEncoder(tiny_multilingual)
