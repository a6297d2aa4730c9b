"""Tiny models, made on the spot with random weights."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    BertTokenizerFast,
    XLMRobertaConfig,
    XLMRobertaModel,
    XLMRobertaTokenizer,
)

from bncl_pyg.scorers import BiEncoderScorer, CosineHead, LateInteractionScorer, SentenceEncoder, TokenEncoder

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
GOLD = WORDS.index("gold")


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


def make_encoder(folder: Path, seed: int = 0, **config: object) -> Path:
    """Write a BERT of two layers; its weights are big enough for words to look at each other."""
    _tokenizer(folder)
    torch.manual_seed(seed)
    BertModel(_config(initializer_range=0.2, **config)).save_pretrained(folder)
    return folder


@pytest.fixture
def tiny_encoder(tmp_path: Path) -> Path:
    """A sentence encoder: a BERT of two layers."""
    return make_encoder(tmp_path / "tiny-encoder")


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


@pytest.fixture
def tiny_reranker(tmp_path: Path) -> Path:
    """A classifier with one output: relevance."""
    folder = tmp_path / "tiny-reranker"
    _tokenizer(folder)
    torch.manual_seed(0)
    BertForSequenceClassification(_config(num_labels=1, initializer_range=0.5)).save_pretrained(folder)
    return folder


@pytest.fixture
def tiny_quantised(tiny_encoder: Path, tmp_path: Path) -> Path:
    """The tiny encoder in 8 bits: `model.onnx` with the names that exporter and quantiser give."""
    folder = tmp_path / "tiny-quantised"
    folder.mkdir()
    for name in ("config.json", "tokenizer.json"):
        (folder / name).write_bytes((tiny_encoder / name).read_bytes())
    weights = {name: tensor.numpy() for name, tensor in load_file(tiny_encoder / "model.safetensors").items()}
    _float_graph(weights, tmp_path / "float.onnx")
    quantize_dynamic(tmp_path / "float.onnx", folder / "model.onnx", weight_type=QuantType.QInt8)
    return folder


def _float_graph(weights: dict[str, np.ndarray], file: Path) -> None:
    """Write every product and table of a BERT as a node of its own, which is all that a quantiser looks at."""
    helper, types = onnx.helper, onnx.TensorProto
    nodes, parameters, outputs = [], [], []
    for name, values in weights.items():
        layer = name.removesuffix(".weight")
        is_table = name.endswith("embeddings.weight")
        is_product = values.ndim == 2 and not is_table
        kept = f"onnx::MatMul_{len(parameters)}" if is_product else name
        content = np.ascontiguousarray(values.T if is_product else values)
        parameters.append(onnx.numpy_helper.from_array(content, kept))
        if is_table:
            nodes.append(helper.make_node("Gather", [kept, "ids"], [f"{name}.out"], name=f"/{layer}/Gather"))
        elif is_product:
            node = "/" + layer.replace(".", "/").replace("layer/", "layer.") + "/MatMul"
            nodes.append(helper.make_node("MatMul", [f"x{values.shape[1]}", kept], [f"{name}.out"], name=node))
        else:
            nodes.append(helper.make_node("Identity", [kept], [f"{name}.out"]))
        outputs.append(helper.make_tensor_value_info(f"{name}.out", types.FLOAT, None))
    inputs = [helper.make_tensor_value_info(f"x{width}", types.FLOAT, ["texts", width]) for width in (16, 32)]
    inputs.append(helper.make_tensor_value_info("ids", types.INT64, ["texts"]))
    graph = helper.make_graph(nodes, "bert", inputs, outputs, parameters)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), file)


@pytest.fixture
def tiny_multilingual(tmp_path: Path) -> Path:
    """A sentence encoder that is no BERT, with a vocabulary of several scripts."""
    folder = tmp_path / "tiny-multilingual"
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "▁gold", "▁золото", "▁小麦", "▁weizen", "▁", *"abcdelort.世界мир"]
    tokenizer = XLMRobertaTokenizer(vocab=[(piece, -1.0 - place / 10) for place, piece in enumerate(pieces)])
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = XLMRobertaConfig(
        vocab_size=len(tokenizer), max_position_embeddings=40, type_vocab_size=1, initializer_range=0.2, **sizes
    )
    XLMRobertaModel(config).save_pretrained(folder)
    return folder


@pytest.fixture
def make_static(tmp_path: Path) -> Callable[..., Path]:
    """Write static vectors as model2vec does, with the tensors that are given."""

    def make(**tensors: Tensor) -> Path:
        folder = tmp_path / "tiny-static"
        folder.mkdir(exist_ok=True)
        words = {word: place for place, word in enumerate(WORDS)}
        tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        tokenizer.save(str(folder / "tokenizer.json"))
        (folder / "config.json").write_text(json.dumps({"model_type": "model2vec", "normalize": True}))
        save_file(tensors, folder / "model.safetensors")
        return folder

    return make


@pytest.fixture
def tiny_static(make_static: Callable[..., Path]) -> Path:
    """Static vectors of four dimensions."""
    return make_static(embeddings=torch.randn(len(WORDS), 4, generator=torch.Generator().manual_seed(0)))


@pytest.fixture
def make_late(tiny_encoder: Path) -> Callable[..., LateInteractionScorer]:
    """Make late interaction out of the tiny encoder."""

    def make(max_tokens: int = 32, windows: int = 1) -> LateInteractionScorer:
        of_texts = TokenEncoder(tiny_encoder, max_tokens, windows=windows, marker=4)
        of_hypotheses = TokenEncoder(tiny_encoder, max_tokens, marker=1)
        return LateInteractionScorer(of_texts, of_hypotheses, CosineHead.symmetric(10.0, 0.5), "late")

    return make


@pytest.fixture
def make_bi(tmp_path: Path) -> Callable[..., BiEncoderScorer]:
    """Make a bi-encoder whose vectors depend on the seed."""

    def make(seed: int = 0, name: str | None = None) -> BiEncoderScorer:
        name = name or f"bi{seed}"
        return BiEncoderScorer(
            SentenceEncoder(make_encoder(tmp_path / name, seed)), CosineHead.symmetric(10.0, 0.5), name
        )

    return make


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    """Set how many threads torch, and what follows its number, has; as it was afterwards."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)
