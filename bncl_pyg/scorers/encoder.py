"""Encoders: texts to unit vectors, one a text (`SentenceEncoder`) or one a token (`TokenEncoder`)."""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from bncl_pyg.errors import InputError
from bncl_pyg.persistence import read_json, sha256_of
from bncl_pyg.scorers.bert import OnnxSession, is_bert, read_bert, weights_file
from bncl_pyg.scorers.kept_graphs import kept_graph
from bncl_pyg.scorers.pretrained import MINILM
from bncl_pyg.scorers.runtime import check_backend, first_line, resolve_backend, resolve_device
from bncl_pyg.scorers.scorer import MAX_TOKENS, WINDOWS
from bncl_pyg.scorers.tokens import WindowTokenizer

Array = NDArray[Any]
Pooling = Literal["mean", "cls"]
TOKENS_A_BATCH = 1024
"""On two CPU cores, both smaller and bigger batches were slower."""
TEXTS_AT_ONCE = 1024
"""How many texts are tokenised and sorted by length together."""


class Encoder:
    """A transformer that reads texts window by window; what becomes of its token states, its subclasses say.

    Args:
        folder: a Hugging Face model folder: configuration, tokenizer, and weights as `model.safetensors` or, of a BERT,
            as 8-bit `model.onnx`.
        max_tokens: of a window.
        backend: `torch`, `onnx` or `onnx-int8`; by default the last on the CPU, if it can compute this model, which is
            the fastest and changes the vectors a little, and torch elsewhere.
        device: for torch, such as "cpu" or "cuda:1"; by default an accelerator if there is one.
        windows: how many windows of a text are read at most.
        marker: see `WindowTokenizer`.
        first_token_only: whether the states of all tokens but the first are never looked at.
    """

    def __init__(
        self,
        folder: Path,
        max_tokens: int = MAX_TOKENS,
        backend: str | None = None,
        device: str | None = None,
        *,
        windows: int = WINDOWS,
        marker: int | None = None,
        first_token_only: bool = False,
    ) -> None:
        if backend is not None:
            check_backend(backend)
        self.folder = folder
        compact = is_bert(folder)
        self.backend = resolve_backend(backend, device, compact=compact)
        self._device = resolve_device(self.backend, device)
        self._weights = weights_file(folder)
        self.max_tokens = min(max_tokens, _longest(folder))
        self.tokenizer = WindowTokenizer(folder, self.max_tokens, windows, marker)
        config = read_json(folder / "config.json") if (folder / "config.json").is_file() else {}
        self._padding = int(config.get("pad_token_id") or 0)
        self._reads_first = first_token_only
        self._states = self._load(compact)

    @property
    def windows(self) -> int:
        """How many windows of a text are read at most."""
        return self.tokenizer.windows

    @cached_property
    def weights_sha256(self) -> str:
        """The hash of the file that holds the weights."""
        return sha256_of(self._weights)

    def config(self) -> dict[str, Any]:
        """Return what decides the vectors."""
        numbers = {"weights_sha256": self.weights_sha256, "max_tokens": self.max_tokens, "backend": self.backend}
        return numbers | ({"windows": self.windows} if self.windows > 1 else {})

    def _load(self, compact: bool) -> "_Compute":
        if self.backend == "onnx-int8" and compact:
            return OnnxSession(kept_graph(self.folder, self.weights_sha256, first_token_only=self._reads_first))
        model, names = _load_torch(self.folder)
        if self.backend == "torch":
            return _TorchStates(model.to(self._device), names, self._device)
        from bncl_pyg.scorers.onnx import run_with_onnx

        return _TorchStates(
            run_with_onnx(model, names, quantise=self.backend == "onnx-int8"), names, torch.device("cpu"), called="dict"
        )

    def _read(
        self, texts: Sequence[str], done: "Callable[[Windows, Array], None]", progress: Callable[[int], None] | None
    ) -> None:
        """Call `done` with some windows and their token states; from several threads, in any order."""
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            windows = self.tokenizer(texts[start : start + TEXTS_AT_ONCE])
            every = [Window(start + row, *part) for row, parts in enumerate(windows) for part in enumerate(parts)]
            batches = [[every[place] for place in places] for places in _batches([len(one.ids) for one in every])]
            inputs = [_padded([one.ids for one in batch], self._padding) for batch in batches]

            def finish(number: int, states: Array, *, batches: Any = batches, inputs: Any = inputs) -> None:
                batch = batches[number]
                done(Windows(batch, inputs[number][1]), states)
                if progress is not None:
                    progress(sum(one.number == 0 for one in batch))

            self._states.run([{"input_ids": ids, "attention_mask": mask} for ids, mask in inputs], finish)


class Window(NamedTuple):
    """A part of a text: the text's row, its number in the text, and its token ids."""

    row: int
    number: int
    ids: list[int]


class Windows(NamedTuple):
    """Windows that are read together, and where they have tokens, (windows, tokens)."""

    windows: list[Window]
    mask: Array


class _Compute(Protocol):
    """What turns inputs into token states."""

    def run(self, batches: Sequence[dict[str, Array]], done: Callable[[int, Array], None]) -> None:
        """Call `done` with the number of each batch and its states."""
        ...


class SentenceEncoder(Encoder):
    """A transformer whose token states become one unit vector a window, or a text: the mean of its windows.

    Args:
        folder: see `Encoder`; also `max_tokens`, `backend`, `device`, `windows`.
        pooling: `mean` of the token states, or the first token's, `cls`; by default what the folder says
            (`1_Pooling/config.json`, as sentence-transformers writes it), else the mean.
    """

    def __init__(
        self,
        folder: Path,
        max_tokens: int = MAX_TOKENS,
        backend: str | None = None,
        device: str | None = None,
        *,
        windows: int = WINDOWS,
        pooling: Pooling | None = None,
    ) -> None:
        self.pooling: Pooling = pooling or _pooling_of(folder)
        first = self.pooling == "cls"
        super().__init__(folder, max_tokens, backend, device, windows=windows, first_token_only=first)

    @classmethod
    def embedded(
        cls,
        max_tokens: int = MAX_TOKENS,
        backend: str | None = None,
        device: str | None = None,
        *,
        windows: int = WINDOWS,
    ) -> "SentenceEncoder":
        """Load all-MiniLM-L6-v2, from an installed package or the hub."""
        return cls(MINILM.local(), max_tokens, backend, device, windows=windows, pooling="mean")

    def encode(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> Tensor:
        """Return unit vectors on the CPU, (texts, dimensions); `progress` gets how many texts each batch adds."""
        return mean_of_windows(*self.encode_windows(texts, progress))

    def encode_windows(
        self, texts: Sequence[str], progress: Callable[[int], None] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return unit vectors of all windows, text by text, (windows, dimensions), and how many each text has."""
        parts: dict[tuple[int, int], Array] = {}

        def done(read: Windows, states: Array) -> None:
            pooled = self._pool(states, read.mask)
            pooled /= np.maximum(np.linalg.norm(pooled, axis=1, keepdims=True), 1e-12)
            for window, vector in zip(read.windows, pooled, strict=True):
                parts[window.row, window.number] = vector

        # Of no text at all, how long a vector is must still be known.
        self._read(texts or [""], done, progress if texts else None)
        places = sorted(parts)  # always in the same order, whichever thread was faster
        counts = torch.bincount(torch.tensor([row for row, _ in places]), minlength=1)
        vectors = torch.from_numpy(np.stack([parts[place] for place in places]))
        return (vectors, counts) if texts else (vectors[:0], counts[:0])

    def _pool(self, states: Array, mask: Array) -> Array:
        if self.pooling == "cls":
            return np.array(states[:, 0])
        weights = mask.astype(states.dtype)
        pooled: Array = np.einsum("btd,bt->bd", states, weights) / weights.sum(axis=1, keepdims=True)
        return pooled


class TokenEncoder(Encoder):
    """A transformer whose token states are kept apart, as unit vectors, for late interaction."""

    def with_marker(self, marker: int) -> "TokenEncoder":
        """Return an encoder of single windows with another marker and the same weights, which are not loaded again."""
        other = copy(self)
        other.tokenizer = WindowTokenizer(self.folder, self.max_tokens, 1, marker)
        return other

    def read(
        self,
        texts: Sequence[str],
        done: Callable[[Windows, Array], None],
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Call `done` with some windows and their token vectors, (windows, tokens, dimensions)."""

        def unit(read: Windows, states: Array) -> None:
            lengths = np.maximum(np.linalg.norm(states, axis=2, keepdims=True), 1e-12)
            done(read, (states / lengths).astype(np.float32, copy=False))

        self._read(texts, unit, progress)

    def token_vectors(self, texts: Sequence[str]) -> list[Tensor]:
        """Return the token vectors of the first window of each text, (tokens, dimensions) each."""
        kept: dict[int, Tensor] = {}

        def done(read: Windows, states: Array) -> None:
            for window, vectors in zip(read.windows, states, strict=True):
                if window.number == 0:
                    kept[window.row] = torch.from_numpy(vectors[: len(window.ids)].copy())

        self.read(texts, done)
        return [kept[row] for row in range(len(texts))]


class _TorchStates:
    """A transformers model, in torch or exported, one batch after the other."""

    def __init__(self, model: Any, names: Sequence[str], device: torch.device, *, called: str = "kwargs") -> None:
        self._model, self._names, self._device, self._called = model, names, device, called

    @torch.inference_mode()
    def run(self, batches: Sequence[dict[str, Array]], done: Callable[[int, Array], None]) -> None:
        for number, batch in enumerate(batches):
            inputs = {name: torch.from_numpy(part).to(self._device) for name, part in batch.items()}
            if "token_type_ids" in self._names:
                inputs["token_type_ids"] = torch.zeros_like(inputs["input_ids"])
            states = self._model(inputs) if self._called == "dict" else self._model(**inputs).last_hidden_state
            done(number, states.float().cpu().numpy())


def _load_torch(folder: Path) -> tuple[Any, list[str]]:
    """Return a transformers model that is read from the folder alone, and the names of its inputs."""
    from transformers import AutoConfig, AutoModel, BertConfig, BertModel

    from bncl_pyg.scorers.classifier import quiet_transformers

    # trust_remote_code is refused in words: left out, transformers would ask on the terminal.
    options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    with quiet_transformers():
        if (folder / "model.safetensors").is_file():
            try:
                typed = getattr(AutoConfig.from_pretrained(folder, **options), "type_vocab_size", 0) > 1
                model = AutoModel.from_pretrained(folder, use_safetensors=True, **options)
            except Exception as error:
                # A broken folder makes transformers raise anything, from OSError to bare Exception.
                raise InputError(f"{folder} is not a readable encoder ({first_line(error)}).") from error
            return model.eval(), ["input_ids", "attention_mask", *(["token_type_ids"] if typed else [])]
        weights = read_bert(folder)
        tensors = {name: part for name, part in weights.state_dict().items() if not name.startswith("pooler")}
        words, width = tensors["embeddings.word_embeddings.weight"].shape
        config = BertConfig(
            vocab_size=words,
            hidden_size=width,
            num_hidden_layers=weights.layers,
            num_attention_heads=weights.config["num_attention_heads"],
            intermediate_size=len(tensors["encoder.layer.0.intermediate.dense.bias"]),
            max_position_embeddings=len(tensors["embeddings.position_embeddings.weight"]),
        )
        model = BertModel(config, add_pooling_layer=False)
        model.load_state_dict(tensors, strict=False)
        return model.eval(), ["input_ids", "attention_mask", "token_type_ids"]


def mean_of_windows(vectors: Tensor, counts: Tensor) -> Tensor:
    """Return one unit vector a text, (texts, dimensions), from those of its windows.

    Args:
        vectors: of all windows, text by text, (windows, dimensions).
        counts: how many windows each text has, (texts,).
    """
    if len(vectors) == len(counts):
        return normalize(vectors)
    owners = torch.repeat_interleave(torch.arange(len(counts)), counts)
    return normalize(torch.zeros(len(counts), vectors.shape[1]).index_add_(0, owners, vectors))


def _longest(folder: Path) -> int:
    """Return how many tokens the model can read."""
    if not (folder / "config.json").is_file():
        return 512
    config = read_json(folder / "config.json")
    longest = int(config.get("max_position_embeddings") or 512)
    # RoBERTa and its kin count positions from after the padding token's id.
    shifted = "roberta" in str(config.get("model_type")) or config.get("model_type") == "camembert"
    return longest - (int(config.get("pad_token_id") or 0) + 1 if shifted else 0)


def _pooling_of(folder: Path) -> Pooling:
    file = folder / "1_Pooling" / "config.json"
    return "cls" if file.is_file() and read_json(file).get("pooling_mode_cls_token") else "mean"


def _padded(sequences: Sequence[list[int]], padding: int) -> tuple[Array, Array]:
    """Return token ids and mask, (sequences, tokens)."""
    longest = max(len(part) for part in sequences)
    ids = np.full((len(sequences), longest), padding, dtype=np.int64)
    mask = np.zeros_like(ids)
    for row, part in enumerate(sequences):
        ids[row, : len(part)], mask[row, : len(part)] = part, 1
    return ids, mask


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield places of like length, so that little is spent on padding, up to a number of tokens a batch."""
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and lengths[place] * (len(batch) + 1) > TOKENS_A_BATCH:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch
