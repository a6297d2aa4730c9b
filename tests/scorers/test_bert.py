"""The compact 8-bit graph of a BERT says nearly what torch says."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertModel

from bncl_pyg.errors import InputError
from bncl_pyg.scorers import BGE, SentenceEncoder, TokenEncoder
from bncl_pyg.scorers import encoder as encoder_module
from bncl_pyg.scorers.bert import OnnxSession, bert_graph, is_bert, read_bert

TEXTS = ["gold rises and wheat falls", "wheat", "gold and gold", "wheat falls " * 20, "and", "this is about gold ."]
IDS = np.array([[2, 5, 6, 9, 7, 8, 3], [2, 7, 3, 0, 0, 0, 0]])
MASK = (IDS > 0).astype(np.int64)


def states(folder: Path, ids: np.ndarray = IDS, mask: np.ndarray = MASK, **options: bool) -> torch.Tensor:
    found = {}
    session = OnnxSession(bert_graph(read_bert(folder), **options))
    batch = {"input_ids": ids, "attention_mask": mask}
    if options.get("typed"):
        batch["token_type_ids"] = np.zeros_like(ids)
    session.run([batch], lambda number, values: found.update({number: torch.from_numpy(values)}))
    return found[0]


def cosines(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cosine_similarity(first, second, dim=-1)


def test_states_are_nearly_those_of_transformers(tiny_encoder: Path) -> None:
    model = BertModel.from_pretrained(tiny_encoder).eval()
    with torch.no_grad():
        expected = model(torch.from_numpy(IDS), torch.from_numpy(MASK)).last_hidden_state
    found = states(tiny_encoder)
    assert found.shape == expected.shape
    real = torch.from_numpy(MASK).bool()
    assert cosines(found, expected)[real].min() > 0.98
    assert torch.allclose(states(tiny_encoder, typed=True)[real], found[real], atol=0.1)


def test_types_of_tokens_count(tiny_encoder: Path) -> None:
    model = BertModel.from_pretrained(tiny_encoder).eval()
    kinds = np.array([[0, 0, 0, 1, 1, 1, 1], [0, 1, 1, 0, 0, 0, 0]])
    with torch.no_grad():
        expected = model(*map(torch.from_numpy, (IDS, MASK, kinds))).last_hidden_state
    found = {}
    session = OnnxSession(bert_graph(read_bert(tiny_encoder), typed=True))
    batch = {"input_ids": IDS, "attention_mask": MASK, "token_type_ids": kinds}
    session.run([batch], lambda number, values: found.update({number: torch.from_numpy(values)}))
    real = torch.from_numpy(MASK).bool()
    assert cosines(found[0], expected)[real].min() > 0.98
    assert cosines(found[0], states(tiny_encoder))[real].min() < 0.98


@pytest.mark.parametrize("kind", ["tiny_encoder", "tiny_quantised"])
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_vectors_in_eight_bits_are_close(kind: str, pooling: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(kind)
    exact = SentenceEncoder(folder, backend="torch", pooling=pooling).encode(TEXTS)
    rounded = SentenceEncoder(folder, backend="onnx-int8", pooling=pooling).encode(TEXTS)
    assert cosines(exact, rounded).min() > 0.98
    assert (exact @ exact.t()).min() < 0.9  # the texts differ, or the test would say nothing
    assert not torch.equal(exact, rounded)


def test_eight_bit_weights_are_those_of_the_model_that_was_rounded(tiny_encoder: Path, tiny_quantised: Path) -> None:
    exact, rounded = read_bert(tiny_encoder), read_bert(tiny_quantised)
    assert rounded.layers == exact.layers == 2
    assert rounded.rounded.keys() >= {"embeddings.word_embeddings.weight", "encoder.layer.1.output.dense.weight"}
    for name in exact.floats:
        difference = np.abs(rounded.matrix(name) - exact.matrix(name)).max()
        assert difference <= np.abs(exact.matrix(name)).max() / 100, name
    of_file = SentenceEncoder(tiny_quantised, backend="torch").encode(TEXTS)
    assert cosines(of_file, SentenceEncoder(tiny_encoder, backend="torch").encode(TEXTS)).min() > 0.98


def test_the_first_token_is_the_same_alone(tiny_encoder: Path) -> None:
    whole, first = states(tiny_encoder), states(tiny_encoder, first_token_only=True)
    assert first.shape == (2, 1, 16)
    # What the last layer's other tokens are is rounded along with it.
    assert torch.allclose(first[:, 0], whole[:, 0], atol=0.05)
    assert cosines(first[:, 0], whole[:, 0]).min() > 0.999


def test_padding_changes_no_vector(tiny_encoder: Path) -> None:
    alone = states(tiny_encoder, IDS[1:, :3], MASK[1:, :3])[0]
    padded = states(tiny_encoder, np.pad(IDS[1:, :3], ((0, 0), (0, 50))), np.pad(MASK[1:, :3], ((0, 0), (0, 50))))[0]
    assert cosines(alone, padded[:3]).min() > 0.999


@pytest.mark.parametrize("backend", ["torch", "onnx-int8"])
def test_company_and_threads_change_nothing(
    tiny_encoder: Path, backend: str, threads: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder_module, "TOKENS_A_BATCH", 12)
    tiny = SentenceEncoder(tiny_encoder, backend=backend)
    threads(1)
    alone = torch.cat([tiny.encode([text]) for text in TEXTS])
    together = tiny.encode(TEXTS)
    threads(3)
    with_threads = tiny.encode(TEXTS)
    again = tiny.encode(TEXTS)
    assert cosines(alone, together).min() > 0.999
    assert torch.allclose(together, with_threads, atol=1e-5)
    assert torch.equal(with_threads, again)
    assert cosines(together, tiny.encode(TEXTS[::-1]).flip(0)).min() > 0.999


def test_what_fails_in_a_thread_is_raised(tiny_encoder: Path, threads: Callable[[int], None]) -> None:
    threads(2)
    encoder = TokenEncoder(tiny_encoder, backend="onnx-int8")

    def fail(*_: object) -> None:
        raise ValueError("stop here")

    with pytest.raises(ValueError, match="stop here"):
        encoder.read(["gold " * 30] * 60, fail)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_weights_in_half_precision_are_read(tiny_encoder: Path, dtype: torch.dtype) -> None:
    exact = SentenceEncoder(tiny_encoder).encode(TEXTS)
    weights = load_file(tiny_encoder / "model.safetensors")
    weights["encoder.layer.0.output.dense.weight"][0] = 0  # an output that is never used must not divide by zero
    save_file({name: tensor.to(dtype) for name, tensor in weights.items()}, tiny_encoder / "model.safetensors")
    assert cosines(SentenceEncoder(tiny_encoder).encode(TEXTS), exact).min() > 0.9


def test_weights_of_a_model_around_the_encoder_are_read(tiny_encoder: Path) -> None:
    expected = SentenceEncoder(tiny_encoder).encode(TEXTS)
    weights = load_file(tiny_encoder / "model.safetensors")
    save_file({f"bert.{name}": tensor for name, tensor in weights.items()}, tiny_encoder / "model.safetensors")
    assert torch.equal(SentenceEncoder(tiny_encoder).encode(TEXTS), expected)


def test_what_is_no_bert_is_known(tiny_encoder: Path, tiny_multilingual: Path, tmp_path: Path) -> None:
    assert is_bert(tiny_encoder)
    assert not is_bert(tiny_multilingual)
    assert not is_bert(tmp_path)
    config = json.loads((tiny_encoder / "config.json").read_text())
    (tiny_encoder / "config.json").write_text(json.dumps({**config, "hidden_act": "relu"}))
    assert not is_bert(tiny_encoder)
    assert SentenceEncoder(tiny_encoder).backend == "torch"


def test_damaged_weights_are_refused(tiny_encoder: Path, tiny_quantised: Path) -> None:
    save_file({"x": torch.zeros(1)}, tiny_encoder / "model.safetensors")
    with pytest.raises(InputError, match=r"tiny-encoder does not hold the weights of a BERT encoder\."):
        SentenceEncoder(tiny_encoder)
    (tiny_encoder / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(InputError, match=r"model\.safetensors is not a safetensors file"):
        SentenceEncoder(tiny_encoder)
    (tiny_quantised / "model.onnx").write_bytes(b"no graph")
    with pytest.raises(InputError, match=r"model\.onnx is not a readable ONNX model"):
        SentenceEncoder(tiny_quantised)


def test_a_known_model_in_eight_bits_is_close_to_torch() -> None:
    texts = ["The price of gold rose in London.", "The central bank raised its interest rates.", "A wheat harvest."]
    exact, rounded = (
        SentenceEncoder(BGE.local(), backend=backend, pooling="cls").encode(texts) for backend in ("torch", "onnx-int8")
    )
    assert cosines(exact, rounded).min() > 0.99
