"""BERT encoders in ONNX Runtime: a compact graph is made from the weights on the spot, with 8-bit products.

The usual export keeps a hundred small operators a layer. Here a layer is four products with dynamic 8-bit inputs, one
fused attention, one GELU and two normalisations, which is all that a CPU needs to do; where only a text's first token
is read (`[CLS]`), the last layer computes that token alone. Making it takes a second, and no transformers.
"""

import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from bncl_pyg.errors import InputError
from bncl_pyg.persistence import read_json
from bncl_pyg.scorers.runtime import first_line

Array = NDArray[Any]
QUERY_KEY_VALUE = ("query", "key", "value")
STEPS = 63
"""Weights are rounded to whole numbers from -63 to 63: with more, sums of two products overflow 16 bits on processors
without VNNI instructions."""
SMALL_BERT = {"model_type": "bert", "num_attention_heads": 12, "layer_norm_eps": 1e-12, "hidden_act": "gelu"}
"""What a folder without `config.json` holds: the encoders of 384 dimensions that all come from MiniLM."""


@dataclass(frozen=True)
class Rounded:
    """A matrix of whole numbers: values · scale, less the zero point; (inputs, outputs) for a product."""

    values: Array
    scale: Array
    zero: Array

    def floats(self) -> Array:
        """Return the numbers that it stands for."""
        return ((self.values.astype(np.float32) - self.zero.astype(np.float32)) * self.scale).astype(np.float32)


@dataclass(frozen=True)
class BertWeights:
    """The parameters of a BERT encoder, by the names that Hugging Face gives them, without a prefix.

    Args:
        config: the numbers that decide its computation.
        floats: parameters as they are.
        rounded: those that the file holds as 8-bit whole numbers; matrices of products are (inputs, outputs).
    """

    config: dict[str, Any]
    floats: dict[str, Array]
    rounded: dict[str, Rounded] = field(default_factory=dict)

    @property
    def layers(self) -> int:
        """How many layers there are."""
        return sum(name.endswith("attention.self.query.bias") for name in self.floats)

    def matrix(self, name: str) -> Array:
        """Return a parameter as Hugging Face has it; matrices of products are (outputs, inputs)."""
        if name in self.floats:
            return self.floats[name].astype(np.float32, copy=False)
        numbers = self.rounded[name].floats()
        return numbers if "embeddings" in name else np.ascontiguousarray(numbers.T)

    def product(self, *names: str) -> Rounded:
        """Return the matrices of products beside each other as 8-bit whole numbers, (inputs, outputs)."""
        parts = [self.rounded[name] if name in self.rounded else _round(self.floats[name]) for name in names]
        each = [part.values.shape[1] for part in parts]
        return Rounded(
            np.concatenate([part.values for part in parts], axis=1),
            np.concatenate([np.broadcast_to(part.scale, size) for part, size in zip(parts, each, strict=True)]),
            np.concatenate([np.broadcast_to(part.zero, size) for part, size in zip(parts, each, strict=True)]),
        )

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return all parameters as torch tensors, as transformers' `BertModel` names them."""
        return {name: torch.from_numpy(np.array(self.matrix(name))) for name in (*self.floats, *self.rounded)}


def is_bert(folder: Path) -> bool:
    """Return whether a folder holds an encoder that this module can compute."""
    if not (folder / "config.json").is_file():
        return (folder / "model.onnx").is_file()
    config = read_json(folder / "config.json")
    return all(
        config.get(key, value) == value for key, value in SMALL_BERT.items() if key in ("model_type", "hidden_act")
    )


def weights_file(folder: Path) -> Path:
    """Return the file of a folder that holds the weights: `model.safetensors`, else an 8-bit `model.onnx`."""
    for name in ("model.safetensors", "model.onnx"):
        if (folder / name).is_file():
            return folder / name
    raise InputError(f"{folder} has no model.safetensors; other forms of weights are not read.")


def read_bert(folder: Path) -> BertWeights:
    """Read the weights of a BERT encoder from `model.safetensors` or, 8-bit, from `model.onnx`."""
    config = read_json(folder / "config.json") if (folder / "config.json").is_file() else SMALL_BERT
    if (folder / "model.safetensors").is_file():
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            tensors = load_file(folder / "model.safetensors")
        except SafetensorError as error:
            raise InputError(f"{folder / 'model.safetensors'} is not a safetensors file ({error}).") from None
        # Half precision, which NumPy knows one sort of, becomes single.
        floats = {_plain(name): tensor.float().numpy() for name, tensor in tensors.items()}
        return _checked(folder, BertWeights(config, floats))
    return _checked(folder, _read_onnx(folder / "model.onnx", config))


def _checked(folder: Path, weights: BertWeights) -> BertWeights:
    there = {*weights.floats, *weights.rounded}
    if "embeddings.word_embeddings.weight" not in there or not weights.layers:
        raise InputError(f"{folder} does not hold the weights of a BERT encoder.")
    return weights


def _plain(name: str) -> str:
    return name.removeprefix("bert.").removeprefix("model.")


def _read_onnx(file: Path, config: dict[str, Any]) -> BertWeights:
    """Read a graph that ONNX Runtime's quantiser wrote: the names of its nodes are the layers' names."""
    onnx = _onnx()
    try:
        graph = onnx.load(file).graph
    except Exception as error:
        # Protobuf has exceptions of its own.
        raise InputError(f"{file} is not a readable ONNX model ({first_line(error)}).") from error
    numbers = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    extra = ("_scale", "_zero_point", "_quantized")
    floats = {
        _plain(name): values
        for name, values in numbers.items()
        if values.dtype == np.float32 and not name.endswith(extra) and not name.startswith("onnx::")
    }
    rounded = {}

    def whole(name: str) -> Rounded:
        base = name.removesuffix("_quantized")
        return Rounded(numbers[name], numbers[f"{base}_scale"], numbers[f"{base}_zero_point"])

    for node in graph.node:
        if node.op_type == "MatMulInteger" and node.input[1] in numbers:
            layer = re.sub(r"/(Gemm_)?MatMul_quant$", "", node.name).strip("/").replace("/", ".")
            rounded[_plain(f"{layer}.weight")] = whole(node.input[1])
    for name in numbers:
        if name.endswith("embeddings.weight_quantized"):
            rounded[_plain(name.removesuffix("_quantized"))] = whole(name)
    return BertWeights(config, floats, rounded)


def _round(matrix: Array) -> Rounded:
    """Round a matrix, (outputs, inputs), with one scale an output; return it as (inputs, outputs)."""
    scale = np.maximum(np.maximum(matrix.max(axis=1), -matrix.min(axis=1)) / STEPS, 1e-12).astype(np.float32)
    scaled = np.rint(matrix / scale[:, None])
    return Rounded(scaled.astype(np.int8).T, scale, np.zeros(len(scale), dtype=np.int8))


def bert_graph(weights: BertWeights, *, first_token_only: bool = False, typed: bool = False) -> bytes:
    """Return an ONNX model from `input_ids` and `attention_mask`, (texts, tokens), to `states`.

    Args:
        weights: of the encoder.
        first_token_only: compute the last layer of each text's first token alone: `states` is then (texts, 1,
            dimensions).
        typed: whether there is a third input, `token_type_ids`, for pairs of texts.
    """
    return _Graph(weights, typed=typed).build(first_token_only=first_token_only)


class _Graph:
    """Puts nodes and parameters together."""

    def __init__(self, weights: BertWeights, *, typed: bool) -> None:
        self.onnx = _onnx()
        self.weights, self.typed = weights, typed
        self.nodes: list[Any] = []
        self.parameters: list[Any] = []
        self.epsilon = float(weights.config.get("layer_norm_eps", 1e-12))

    def build(self, *, first_token_only: bool) -> bytes:
        helper, types = self.onnx.helper, self.onnx.TensorProto
        state = self._embedded()
        for layer in range(self.weights.layers):
            last = layer == self.weights.layers - 1
            state = self._layer(layer, state, first_token_only=first_token_only and last)
        self._add("Identity", [state], "states")
        names = ["input_ids", "attention_mask", *(["token_type_ids"] if self.typed else [])]
        inputs = [helper.make_tensor_value_info(name, types.INT64, ["texts", "tokens"]) for name in names]
        output = helper.make_tensor_value_info("states", types.FLOAT, ["texts", "read", "dimensions"])
        graph = helper.make_graph(self.nodes, "bert", inputs, [output], self.parameters)
        versions = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
        content: bytes = helper.make_model(graph, opset_imports=versions, ir_version=9).SerializeToString()
        return content

    def _add(self, kind: str, inputs: list[str], output: str, *more: str, domain: str = "", **options: Any) -> str:
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, [output, *more], domain=domain, **options))
        return output

    def _keep(self, name: str, values: Array) -> str:
        self.parameters.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def _float(self, name: str) -> str:
        return self._keep(name, self.weights.matrix(name))

    def _normalized(self, first: str, second: str, name: str) -> str:
        summed = self._add("Add", [first, second], f"{name}.sum")
        parameters = [self._float(f"{name}.weight"), self._float(f"{name}.bias")]
        return self._add("LayerNormalization", [summed, *parameters], name, axis=-1, epsilon=self.epsilon)

    def _product(self, name: str, state: str, *layers: str) -> str:
        """Add one product for layers that read the same state: their outputs lie beside each other."""
        matrix = self.weights.product(*(f"{layer}.weight" for layer in layers))
        bias = np.concatenate([self.weights.matrix(f"{layer}.bias") for layer in layers])
        parts = [("values", matrix.values), ("scale", matrix.scale), ("zero", matrix.zero), ("bias", bias)]
        inputs = [state, *(self._keep(f"{name}.{part}", values) for part, values in parts)]
        return self._add("DynamicQuantizeMatMul", inputs, f"{name}.out", domain="com.microsoft")

    def _embedded(self) -> str:
        types = self.onnx.TensorProto
        self._add("Cast", ["attention_mask"], "mask", to=types.INT32)
        self._keep("0", np.array([0]))
        self._keep("1", np.array([1]))
        words = self._words("embeddings.word_embeddings.weight", "input_ids")
        places = self.weights.matrix("embeddings.position_embeddings.weight")
        kinds = self.weights.matrix("embeddings.token_type_embeddings.weight")
        self._keep("places", places if self.typed else places + kinds[0])
        self._add("Shape", ["input_ids"], "length", start=1, end=2)
        self._add("Slice", ["places", "0", "length", "0"], "placed")
        if self.typed:
            self._add("Gather", [self._keep("kinds", kinds), "token_type_ids"], "typed", axis=0)
            words = self._add("Add", [words, "typed"], "words.typed")
        return self._normalized(words, "placed", "embeddings.LayerNorm")

    def _words(self, name: str, ids: str) -> str:
        if name not in self.weights.rounded:
            return self._add("Gather", [self._float(name), ids], "words", axis=0)
        table = self.weights.rounded[name]
        rows = self._add("Gather", [self._keep(name, table.values), ids], "words.rounded", axis=0)
        scale, zero = self._keep(f"{name}.scale", table.scale), self._keep(f"{name}.zero", table.zero)
        return self._add("DequantizeLinear", [rows, scale, zero], "words")

    def _layer(self, number: int, state: str, *, first_token_only: bool) -> str:
        name = f"encoder.layer.{number}"
        three = self._product(f"{name}.qkv", state, *(f"{name}.attention.self.{part}" for part in QUERY_KEY_VALUE))
        parts = [f"{name}.{part}" for part in QUERY_KEY_VALUE]
        self._add("Split", [three], *parts, axis=-1, num_outputs=3)
        if first_token_only:
            # Only its query is asked, but of all tokens' keys and values.
            parts[0] = self._add("Slice", [parts[0], "0", "1", "1"], f"{name}.query.first")
            state = self._add("Slice", [state, "0", "1", "1"], f"{name}.first")
        heads = int(self.weights.config["num_attention_heads"])
        attended = self._add(
            "MultiHeadAttention",
            [*parts, "", "mask"],
            f"{name}.attended",
            domain="com.microsoft",
            num_heads=heads,
        )
        mixed = self._product(f"{name}.mixed", attended, f"{name}.attention.output.dense")
        state = self._normalized(state, mixed, f"{name}.attention.output.LayerNorm")
        wide = self._product(f"{name}.wide", state, f"{name}.intermediate.dense")
        active = self._add("Gelu", [wide], f"{name}.gelu", domain="com.microsoft")
        narrow = self._product(f"{name}.narrow", active, f"{name}.output.dense")
        return self._normalized(state, narrow, f"{name}.output.LayerNorm")


class OnnxSession:
    """An ONNX model: many batches at a time with a thread each, or one batch with all threads.

    Threads that share the products of one batch wait for each other; with a batch each, they do not.

    Args:
        model: the ONNX model, or its file.
        output: the name of its output.
    """

    def __init__(self, model: bytes | Path, output: str = "states") -> None:
        self._model, self._output = model, output
        self._sessions: dict[int, Any] = {}

    def run(self, batches: Sequence[dict[str, Array]], done: Callable[[int, Array], None]) -> None:
        """Call `done` with the number of each batch of inputs and its output; from several threads."""
        threads = max(torch.get_num_threads(), 1)
        if len(batches) < 2 or threads == 1:
            session = self._session(threads)
            for number, batch in enumerate(batches):
                done(number, self._one(session, batch))
            return
        session = self._session(1)
        # What `done` computes has a thread to itself, too.
        with threadpool_limits(1, "blas"), ThreadPoolExecutor(threads) as pool:
            work = lambda number: done(number, self._one(session, batches[number]))  # noqa: E731
            # The longest batches first, so that no thread is left alone with one at the end.
            list(pool.map(work, reversed(range(len(batches)))))

    def _one(self, session: Any, batch: dict[str, Array]) -> Array:
        (output,) = session.run([self._output], batch)
        values: Array = output
        return values

    def _session(self, threads: int) -> Any:
        if threads not in self._sessions:
            self._sessions[threads] = make_session(self._model, threads)
        return self._sessions[threads]


def make_session(model: bytes | Path, threads: int) -> Any:
    """Return an ONNX Runtime session on the CPU."""
    runtime = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    # Threads that wait by spinning take the processor from the one that works, where others use the machine too.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    try:
        return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        # The exceptions of ONNX Runtime have no class in common but this one.
        what = f"{model} is not a readable ONNX model" if isinstance(model, Path) else "The model cannot be computed"
        raise InputError(f"{what} ({str(error).splitlines()[0]}).") from error


def _onnx() -> Any:
    return import_module("onnx")
