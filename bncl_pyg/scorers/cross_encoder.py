"""A cross-encoder: a Hugging Face NLI classifier reads text and hypothesis (`scorer.hypotheses_of`) together."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bncl_pyg.errors import InputError
from bncl_pyg.persistence import local_folder
from bncl_pyg.scorers.classifier import (
    FIRST_TOKEN_FAMILIES,
    TorchClassifier,
    load_classifier,
    load_config_and_tokenizer,
    longest_input,
    weight_files,
)
from bncl_pyg.scorers.label_map import classifier_outputs
from bncl_pyg.scorers.onnx import cached_onnx, check_installed, run_with_onnx
from bncl_pyg.scorers.pair_tokenizer import PairTokenizer
from bncl_pyg.scorers.runtime import check_backend, resolve_device
from bncl_pyg.scorers.scorer import MAX_TOKENS, Hypothesis, LabelTensors, best_candidates, wordings_of
from bncl_pyg.scorers.tokens import Reading

Classify = Callable[[dict[str, Tensor]], Tensor]
"""From token ids, mask (and types), each (pairs, tokens), to logits on the CPU, (pairs, outputs)."""

_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}

TORCH_BUDGET, ONNX_BUDGET, ACCELERATOR_BUDGET = 2048, 1024, 16384
"""Tokens a batch. On two CPU cores, both smaller and bigger batches were slower; an accelerator needs more to do."""

NEEDED = ("*.json", "*.txt", "*.model", "model*.safetensors")
"""What is downloaded of a hub model: nothing that is pickled, no other copies of the weights."""


class CrossEncoderScorer:
    """A sequence classifier for natural language inference, over (text, hypothesis) pairs.

    Only the text is cut to fit, never the hypothesis; what is the same is tokenised and scored once.

    Args:
        model: a folder (configuration, tokenizer, safetensors weights), or a name on the Hugging Face hub, which is
            downloaded once.
        name: how the model is called in `config()`; by default the folder's or the hub's name.
        max_tokens: of text, hypothesis and special tokens together; fewer, if the model cannot read as many.
        label_map: which output means what, such as "entailment=2,neutral=1,contradiction=0"; by default the model's
            own names of its outputs say it.
        backend: "torch", "onnx" (ONNX Runtime on the CPU) or "onnx-int8" (the same, with weights of 8 bits).
        device: for torch, such as "cpu" or "cuda:1"; by default an accelerator if there is one.
        dtype: for torch, "float32" (the same scores on every device), "float16" or "bfloat16".
        onnx_cache: a folder that keeps the exported models for the next time.
        token_budget: tokens a batch, padding included.
    """

    block_texts = 32

    def __init__(
        self,
        model: str | Path,
        *,
        name: str | None = None,
        max_tokens: int = MAX_TOKENS,
        label_map: str | None = None,
        backend: str = "torch",
        device: str | None = None,
        dtype: str = "float32",
        onnx_cache: Path | None = None,
        token_budget: int | None = None,
    ) -> None:
        check_backend(backend)
        if max_tokens < 1:
            raise InputError(f"max_tokens must be positive, but is {max_tokens}.")
        if backend != "torch":
            check_installed(backend)
        _check_dtype(backend, dtype)
        place = resolve_device(backend, device)
        self.folder = local_folder(model, "a language model", NEEDED)
        # Where a folder lies is nobody's business.
        self.name = name or (self.folder.resolve().name if Path(model).is_dir() else str(model))
        self.backend = backend
        on_cpu = TORCH_BUDGET if backend == "torch" else ONNX_BUDGET
        self.token_budget = token_budget or (on_cpu if place.type == "cpu" else ACCELERATOR_BUDGET)
        self._weights = weight_files(self.folder)
        config, tokenizer = load_config_and_tokenizer(self.folder)
        self.outputs = classifier_outputs(self.name, config, label_map)
        self.max_tokens = min(max_tokens, longest_input(config, tokenizer))
        # What a classifier that reads the first token is given must not start with padding.
        pad_left = tokenizer.padding_side == "left" and config.model_type not in FIRST_TOKEN_FAMILIES
        self._tokens = PairTokenizer(self.name, tokenizer, self.max_tokens, pad_left=pad_left)
        self._dtype = "int8" if backend == "onnx-int8" else dtype
        self._tails: tuple[tuple[str, ...], list[NDArray[np.int64]]] = ((), [])

        def load() -> Any:
            return load_classifier(self.folder, config, _DTYPES[dtype])

        self._classify = TorchClassifier(load(), place) if backend == "torch" else self._in_onnx(load, onnx_cache)

    def _in_onnx(self, load: Callable[[], Any], cache: Path | None) -> Classify:
        quantise, example = self.backend == "onnx-int8", self._tokens.example()
        if cache is None:
            return run_with_onnx(load(), example, quantise=quantise)
        return cached_onnx(load, example, cache, weights_sha256=self.weights_sha256, quantise=quantise)

    @cached_property
    def weights_sha256(self) -> str:
        """The SHA-256 of the weights; of all files, one after the other, if they are several."""
        total = hashlib.sha256()
        for path in self._weights:
            with path.open("rb") as file:
                hashlib.file_digest(file, lambda: total)
        return total.hexdigest()

    def vectors(self, texts: Sequence[str]) -> None:  # noqa: ARG002 (part of `Scorer`)
        """Return nothing: a classifier reads text and hypothesis together."""
        return

    def top_labels(self, texts: Sequence[str], hypotheses: Sequence[Hypothesis], k: int) -> Tensor:
        """Return the k hypotheses with the highest entailment, which takes scoring them all; see `Scorer`."""
        return best_candidates(self.score(texts, hypotheses)[0], k)

    def encode_labels(self, hypotheses: Sequence[Hypothesis]) -> LabelTensors:  # noqa: ARG002
        """Return nothing: a classifier of pairs has no vectors."""
        return {}

    def use_labels(self, hypotheses: Sequence[Hypothesis], tensors: Mapping[str, Tensor]) -> None:
        """Do nothing; see `Scorer`."""

    def reading(self, texts: Sequence[str]) -> Reading | None:  # noqa: ARG002
        """Return nothing: the beginning of a text is read; see `Scorer`."""
        return None

    def config(self) -> dict[str, Any]:
        """Return what decides the scores."""
        return {
            "name": self.name,
            "weights_sha256": self.weights_sha256,
            "max_tokens": self.max_tokens,
            "label_map": dict(self.outputs),
            "backend": self.backend,
            "dtype": self._dtype,
        }

    def score(self, texts: Sequence[str], hypotheses: Sequence[Hypothesis], pairs: Tensor | None = None) -> Tensor:
        """Return entailment and contradiction, float32, (2, texts, hypotheses) or (2, texts, candidates)."""
        counts = torch.tensor([len(wordings_of(one)) for one in hypotheses])
        wordings = [wording for one in hypotheses for wording in wordings_of(one)]
        if len(wordings) == len(hypotheses):
            return self._score(texts, wordings, pairs)
        # The mean over a label's wordings, one after the other.
        if pairs is None:
            pairs = torch.arange(len(hypotheses)).repeat(len(texts), 1)
        starts, total = counts.cumsum(0) - counts, torch.zeros(2, *pairs.shape)
        for turn in range(int(counts.max())):
            there = turn < counts[pairs]
            part = self._score(texts, wordings, starts[pairs] + torch.where(there, turn, 0))
            total += torch.where(there, part, 0)
        return total / counts[pairs]

    def _score(self, texts: Sequence[str], hypotheses: Sequence[str], pairs: Tensor | None) -> Tensor:
        columns = _columns(len(texts), len(hypotheses), pairs)
        if columns.size == 0:
            return torch.empty(2, *columns.shape)
        text_places, distinct_texts = _distinct(texts)
        hypothesis_places, distinct_hypotheses = _distinct(hypotheses)
        tails = self._tails_of(tuple(distinct_hypotheses))
        pair_numbers = text_places[:, None] * len(tails) + hypothesis_places[columns]
        wanted, places = np.unique(pair_numbers, return_inverse=True)
        scores = self._score_pairs(self._tokens.heads(distinct_texts), tails, wanted)
        return scores[:, torch.from_numpy(places.reshape(columns.shape))]

    def _tails_of(self, hypotheses: tuple[str, ...]) -> list[NDArray[np.int64]]:
        if self._tails[0] != hypotheses:
            self._tails = (hypotheses, self._tokens.tails(hypotheses))
        return self._tails[1]

    def _score_pairs(
        self, heads: list[NDArray[np.int64]], tails: list[NDArray[np.int64]], wanted: NDArray[np.int64]
    ) -> Tensor:
        """Return scores, (2, wanted), of pairs that are numbered row by row."""
        rows, columns = np.divmod(wanted, len(tails))
        head_lengths = np.array([head.shape[1] for head in heads])
        tail_lengths = np.array([tail.shape[1] for tail in tails])
        lengths = np.minimum(head_lengths[rows] + tail_lengths[columns], self.max_tokens)
        # Pairs of like length go together, so that little is spent on padding; the longest first, so that a device
        # without memory for them says so at once.
        order = np.argsort(-lengths, kind="stable")
        scores = torch.empty(2, len(wanted))
        for part in token_batches(lengths[order], self.token_budget):
            places = order[part]
            batch = [(heads[row], tails[column]) for row, column in zip(rows[places], columns[places], strict=True)]
            logits = self._classify(self._tokens.batch(batch))
            shares = torch.softmax(logits[:, list(self.outputs.values())].float(), dim=1)
            scores[:, places] = shares[:, [0, -1]].t()
        return scores


def token_batches(lengths: NDArray[np.int64], budget: int) -> Iterator[slice]:
    """Cut lengths, longest first, into batches that hold at most `budget` tokens when padded (or one long text)."""
    start = 0
    while start < len(lengths):
        stop = start + max(1, budget // int(lengths[start]))
        yield slice(start, min(stop, len(lengths)))
        start = stop


def _distinct(texts: Sequence[str]) -> tuple[NDArray[np.int64], list[str]]:
    """Return each text's place among the distinct ones, and those."""
    places: dict[str, int] = {}
    rows = np.array([places.setdefault(text, len(places)) for text in texts], dtype=np.int64)
    return rows, list(places)


def _columns(texts: int, hypotheses: int, pairs: Tensor | None) -> NDArray[np.int64]:
    """Return the hypotheses that each text is scored with, (texts, candidates)."""
    if pairs is None:
        return np.broadcast_to(np.arange(hypotheses), (texts, hypotheses))
    if pairs.ndim != 2 or len(pairs) != texts or pairs.dtype != torch.int64:
        raise InputError(
            f"pairs must be int64 of shape ({texts}, candidates), but is {str(pairs.dtype).removeprefix('torch.')} of "
            f"shape {tuple(pairs.shape)}."
        )
    if pairs.numel() and not 0 <= int(pairs.min()) <= int(pairs.max()) < hypotheses:
        raise InputError(
            f"pairs must hold numbers from 0 to {hypotheses - 1}, but holds {int(pairs.min())} to {int(pairs.max())}."
        )
    columns: NDArray[np.int64] = pairs.cpu().numpy()
    return columns


def _check_dtype(backend: str, dtype: str) -> None:
    if dtype not in _DTYPES:
        raise InputError(f"The dtype must be one of {', '.join(_DTYPES)}, but is '{dtype}'.")
    if backend != "torch" and dtype != "float32":
        raise InputError(f"The backend '{backend}' starts from float32, so the dtype cannot be '{dtype}'.")
