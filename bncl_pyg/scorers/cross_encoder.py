"""Scores from a cross-encoder: a Hugging Face natural language inference model reads text and hypothesis together."""

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bncl_pyg.errors import InputError
from bncl_pyg.persistence import local_folder, read_json
from bncl_pyg.scorers.onnx import cached_onnx, check_installed, run_with_onnx
from bncl_pyg.scorers.scorer import MAX_TOKENS, best_candidates

Backend = Literal["torch", "onnx", "onnx-int8"]
Classify = Callable[[dict[str, Tensor]], Tensor]
"""From token ids, mask (and types), each (pairs, tokens), to logits on the CPU, (pairs, outputs)."""

MEANINGS = ("entailment", "neutral", "contradiction")
_SPELLING = {"entailment": "entail", "neutral": "neutral", "contradiction": "contradict"}
_ENDINGS = "(s|ed|ing|ment|ments|ion|ions|ory|ity)?"
_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}

TORCH_BUDGET, ONNX_BUDGET, ACCELERATOR_BUDGET = 2048, 1024, 16384
"""Tokens a batch. On two CPU cores, both smaller and bigger batches were slower; an accelerator needs more to do."""

NEEDED = ("*.json", "*.txt", "*.model", "model*.safetensors")
"""What is downloaded of a hub model: nothing that is pickled, no other copies of the weights."""

_FIRST_TOKEN_FAMILIES = {"bert", "roberta", "xlm-roberta", "camembert", "electra", "deberta", "deberta-v2"}
"""Whose classifier reads the last layer's first token alone."""


class CrossEncoderScorer:
    """A sequence classifier for natural language inference, over (text, hypothesis) pairs.

    Only the text is cut to fit, never the hypothesis; what is the same is tokenised and scored once.

    Args:
        model: a folder (configuration, tokenizer, safetensors weights), or a name on the Hugging Face hub, which is
            downloaded once.
        name: how the model is called in `about()`; by default the folder's or the hub's name.
        max_tokens: of text, hypothesis and special tokens together; fewer, if the model cannot read as many.
        label_map: which output means what, such as "entailment=2,neutral=1,contradiction=0"; by default the model's
            own names of its outputs say it.
        backend: "torch", "onnx" (ONNX Runtime on the CPU) or "onnx-int8" (the same, with weights of 8 bits).
        device: for torch, such as "cpu" or "cuda:1"; by default an accelerator if there is one.
        dtype: for torch, "float32", "float16" or "bfloat16"; by default float32 on the CPU and float16 elsewhere.
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
        dtype: str | None = None,
        onnx_cache: Path | None = None,
        token_budget: int | None = None,
    ) -> None:
        if backend not in get_args(Backend):
            raise InputError(f"The backend must be one of {', '.join(get_args(Backend))}, but is '{backend}'.")
        if max_tokens < 1:
            raise InputError(f"max_tokens must be positive, but is {max_tokens}.")
        if backend != "torch":
            check_installed(backend)
        place, number_type = _device_and_dtype(backend, device, dtype)
        self.folder = local_folder(model, "a language model", NEEDED)
        # Where a folder lies is nobody's business.
        self.name = name or (self.folder.resolve().name if Path(model).is_dir() else str(model))
        self.backend = backend
        on_cpu = TORCH_BUDGET if backend == "torch" else ONNX_BUDGET
        self.token_budget = token_budget or (on_cpu if place.type == "cpu" else ACCELERATOR_BUDGET)
        self._weights = _weight_files(self.folder)
        config, tokenizer = _load_config_and_tokenizer(self.folder)
        self.outputs = _outputs(self.name, config, label_map)
        self.max_tokens = min(max_tokens, _longest(config, tokenizer))
        # What a classifier that reads the first token is given must not start with padding.
        pad_left = tokenizer.padding_side == "left" and config.model_type not in _FIRST_TOKEN_FAMILIES
        self._tokens = _PairTokens(self.name, tokenizer, self.max_tokens, pad_left=pad_left)
        self._dtype = "int8" if backend == "onnx-int8" else str(number_type).removeprefix("torch.")
        self._tails: tuple[tuple[str, ...], list[NDArray[np.int64]]] = ((), [])

        def load() -> Any:
            return _load_model(self.folder, config, number_type)

        self._classify: Classify
        if backend == "torch":
            self._classify = _TorchClassifier(load(), place)
        else:
            quantise, example = backend == "onnx-int8", self._tokens.example()
            if onnx_cache is None:
                self._classify = run_with_onnx(load(), example, quantise=quantise)
            else:
                weights = self.weights_sha256
                self._classify = cached_onnx(load, example, onnx_cache, weights_sha256=weights, quantise=quantise)

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

    def best(self, texts: Sequence[str], hypotheses: Sequence[str], count: int) -> Tensor:
        """Return the hypotheses with the highest entailment, which takes scoring them all; see `Scorer`."""
        return best_candidates(self.score(texts, hypotheses)[0], count)

    def know(self, hypotheses: Sequence[str], vectors: Tensor) -> None:
        """Do nothing: a classifier of pairs has no vectors."""

    def about(self) -> dict[str, Any]:
        """Return what decides the scores."""
        return {
            "name": self.name,
            "weights_sha256": self.weights_sha256,
            "max_tokens": self.max_tokens,
            "label_map": dict(self.outputs),
            "backend": self.backend,
            "dtype": self._dtype,
        }

    def score(self, texts: Sequence[str], hypotheses: Sequence[str], pairs: Tensor | None = None) -> Tensor:
        """Return entailment and contradiction, float32, (2, texts, hypotheses) or (2, texts, candidates)."""
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


def parse_label_map(label_map: str, outputs: int, name: str) -> dict[str, int]:
    """Return the output of each meaning from a map such as "entailment=2,neutral=1,contradiction=0"."""
    found: dict[str, int] = {}
    for entry in label_map.split(","):
        match = re.fullmatch(r"\s*([^=]*?)\s*=\s*(\d+)\s*", entry)
        if match is None:
            raise InputError(f"--label-map must look like {_example_map(outputs)}, but is '{label_map}'.")
        meaning, output = _meaning(match[1]), int(match[2])
        if meaning is None:
            raise InputError(f"--label-map names '{match[1]}', but only {', '.join(MEANINGS)} have a meaning.")
        if meaning in found:
            raise InputError(f"--label-map gives {meaning} twice.")
        if output in found.values():
            raise InputError(f"--label-map gives output {output} twice.")
        if output >= outputs:
            raise InputError(f"--label-map says {meaning}={output}, but {name} has {outputs} outputs, counted from 0.")
        found[meaning] = output
    for meaning in MEANINGS:
        if meaning not in found and (meaning != "neutral" or outputs > 2):
            raise InputError(f"--label-map does not say which output of {name} is {meaning}.")
    return {meaning: found[meaning] for meaning in MEANINGS if meaning in found}


def _outputs(name: str, config: Any, label_map: str | None) -> dict[str, int]:
    """Return which output means what, in the order of `MEANINGS`."""
    labels = {int(output): str(label) for output, label in config.id2label.items()}
    if label_map is not None:
        return parse_label_map(label_map, len(labels), name)
    called = ", ".join(f"'{labels[output]}'" for output in sorted(labels))
    hint = f"say which output is which, such as --label-map {_example_map(len(labels))}"
    found: dict[str, int] = {}
    for output, label in sorted(labels.items()):
        meaning = _meaning(label)
        if meaning in found:
            raise InputError(f"{name} has two outputs that mean {meaning} (of {called}); {hint}.")
        if meaning is not None:
            found[meaning] = output
    if len(labels) != len(MEANINGS) or len(found) != len(MEANINGS):
        raise InputError(
            f"{name} has outputs called {called} instead of entailment, neutral and contradiction; {hint}."
        )
    return {meaning: found[meaning] for meaning in MEANINGS}


def _meaning(word: str) -> str | None:
    letters = "".join(filter(str.isalpha, word.lower()))
    return next((key for key, stem in _SPELLING.items() if re.fullmatch(stem + _ENDINGS, letters)), None)


def _example_map(outputs: int) -> str:
    return "entailment=0,contradiction=1" if outputs == 2 else "entailment=2,neutral=1,contradiction=0"


def _device_and_dtype(backend: str, device: str | None, dtype: str | None) -> tuple[torch.device, torch.dtype]:
    if dtype is not None and dtype not in _DTYPES:
        raise InputError(f"The dtype must be one of {', '.join(_DTYPES)}, but is '{dtype}'.")
    if backend != "torch":
        if device not in (None, "cpu"):
            raise InputError(f"The backend '{backend}' runs on the CPU, so the device cannot be '{device}'.")
        if dtype not in (None, "float32"):
            raise InputError(f"The backend '{backend}' starts from float32, so the dtype cannot be '{dtype}'.")
        return torch.device("cpu"), torch.float32
    if device is None:
        place = torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
    else:
        try:
            place = torch.device(device)
            torch.empty(0, device=place)
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            raise InputError(f"The device '{device}' cannot be used here ({_first_line(error)}).") from None
    if dtype is None:
        return place, torch.float32 if place.type == "cpu" else torch.float16
    return place, _DTYPES[dtype]


def _weight_files(folder: Path) -> list[Path]:
    """Return the files that hold the weights, sorted."""
    index = folder / "model.safetensors.index.json"
    if (folder / "model.safetensors").is_file():
        return [folder / "model.safetensors"]
    if not index.is_file():
        raise InputError(f"{folder} holds no model.safetensors, and weights in another format are not read.")
    shards = read_json(index).get("weight_map")
    if not isinstance(shards, dict) or not shards:
        raise InputError(f"{index} does not say which files hold the weights.")
    files = [folder / str(shard) for shard in sorted(set(shards.values()))]
    for file in files:
        if not file.is_file():
            raise InputError(f"{file} is missing, but {index.name} names it.")
    return files


@contextmanager
def _quiet_transformers() -> Iterator[None]:
    """Keep transformers from writing its progress and its reports to the terminal: what matters is raised."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    before = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(before)


def _load_config_and_tokenizer(folder: Path) -> tuple[Any, Any]:
    from transformers import AutoConfig, AutoTokenizer

    # trust_remote_code is refused in words: left out, transformers would ask on the terminal.
    options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    with _quiet_transformers():
        try:
            config = AutoConfig.from_pretrained(folder, **options)
            tokenizer = AutoTokenizer.from_pretrained(folder, **options)
        except Exception as error:
            # A broken folder makes transformers and tokenizers raise anything, from OSError to bare Exception.
            raise InputError(f"{folder} is not a readable Hugging Face model ({_first_line(error)}).") from error
    if tokenizer.pad_token_id is None:
        raise InputError(f"The tokenizer of {folder} has no padding token.")
    return config, tokenizer


def _load_model(folder: Path, config: Any, dtype: torch.dtype) -> Any:
    from transformers import AutoModelForSequenceClassification

    with _quiet_transformers():
        try:
            model, report = AutoModelForSequenceClassification.from_pretrained(
                folder,
                config=config,
                dtype=dtype,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                output_loading_info=True,
            )
        except Exception as error:
            raise InputError(f"{folder} is not a readable sequence classifier ({_first_line(error)}).") from error
    # Weights that are not in the file would be random numbers.
    if report["missing_keys"]:
        raise InputError(f"{folder} is not a sequence classifier: it has no weights '{min(report['missing_keys'])}'.")
    model.config.use_cache = False
    if config.model_type in _FIRST_TOKEN_FAMILIES:
        _finish_first_token_only(model)
    return model.eval()


def _finish_first_token_only(model: Any) -> None:
    """Leave out what no classifier reads: the last layer after its attention, for all tokens but the first.

    Each token goes its own way from there on, so that the logits stay the same; of a model with six layers, it saves
    an eighth of the arithmetic.
    """
    last = model.base_model.encoder.layer[-1]
    # A layer that works in chunks counts the tokens.
    if getattr(last, "chunk_size_feed_forward", 0) == 0:
        last.attention.output.register_forward_pre_hook(lambda _, states: tuple(state[:, :1] for state in states))


def _longest(config: Any, tokenizer: Any) -> int:
    """Return how many tokens the model can read."""
    longest: int = tokenizer.model_max_length
    positions = getattr(config, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        # RoBERTa and its kin count positions from after the padding token's id.
        shifted = "roberta" in config.model_type or config.model_type == "camembert"
        longest = min(longest, positions - ((config.pad_token_id or 0) + 1 if shifted else 0))
    return longest


class _TorchClassifier:
    def __init__(self, model: Any, device: torch.device) -> None:
        self._model, self._device = model.to(device), device

    @torch.inference_mode()
    def __call__(self, inputs: dict[str, Tensor]) -> Tensor:
        logits: Tensor = self._model(**{name: part.to(self._device) for name, part in inputs.items()}).logits
        return logits.cpu()


class _PairTokens:
    """Joins what the tokenizer made of texts and of hypotheses, as the tokenizer itself would join the pair.

    A head is what comes before the hypothesis' share, a tail is the rest; both are (2, tokens): ids, and token types.
    """

    def __init__(self, name: str, tokenizer: Any, max_tokens: int, *, pad_left: bool) -> None:
        self._tokenizer, self._max_tokens, self._pad_left = tokenizer, max_tokens, pad_left
        self._typed = "token_type_ids" in tokenizer.model_input_names
        self._layout = _layout(name, tokenizer)
        self._cut_left = tokenizer.truncation_side == "left"

    def heads(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """Return each text's head, not yet cut to the room that a hypothesis leaves."""
        layout = self._layout
        return [np.hstack([layout.before, layout.typed(ids, layout.text_type)]) for ids in self._ids(texts)]

    def tails(self, hypotheses: Sequence[str]) -> list[NDArray[np.int64]]:
        """Return each hypothesis' tail after checking that it leaves room for a text."""
        tails = [self._tail(ids) for ids in self._ids(hypotheses)]
        for hypothesis, tail in zip(hypotheses, tails, strict=True):
            if self._layout.before.shape[1] + 1 + tail.shape[1] > self._max_tokens:
                raise InputError(
                    f"The hypothesis '{hypothesis}' is too long: with it, max_tokens {self._max_tokens} leaves no room "
                    f"for a text."
                )
        return tails

    def batch(self, pairs: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]]) -> dict[str, Tensor]:
        """Return the model's inputs, each (pairs, tokens)."""
        lengths = [min(head.shape[1] + tail.shape[1], self._max_tokens) for head, tail in pairs]
        width = max(lengths)
        tokens = np.empty((2, len(pairs), width), dtype=np.int64)
        tokens[0], tokens[1] = self._tokenizer.pad_token_id, self._tokenizer.pad_token_type_id
        mask = np.zeros((len(pairs), width), dtype=np.int64)
        for row, ((head, tail), length) in enumerate(zip(pairs, lengths, strict=True)):
            start = width - length if self._pad_left else 0
            middle, stop = start + length - tail.shape[1], start + length
            tokens[:, row, start:middle] = self._cut(head, length - tail.shape[1])
            tokens[:, row, middle:stop] = tail
            mask[row, start:stop] = 1
        inputs = {"input_ids": torch.from_numpy(tokens[0]), "attention_mask": torch.from_numpy(mask)}
        return {**inputs, "token_type_ids": torch.from_numpy(tokens[1])} if self._typed else inputs

    def example(self) -> dict[str, Tensor]:
        """Return inputs of two pairs."""
        return self.batch([(self.heads(["yes"])[0], self._tail(self._ids(["no"])[0]))] * 2)

    def _cut(self, head: NDArray[np.int64], length: int) -> NDArray[np.int64]:
        if not self._cut_left or head.shape[1] == length:
            return head[:, :length]
        special = self._layout.before.shape[1]
        return np.hstack([head[:, :special], head[:, head.shape[1] - (length - special) :]])

    def _tail(self, ids: Sequence[int]) -> NDArray[np.int64]:
        layout = self._layout
        return np.hstack([layout.between, layout.typed(ids, layout.hypothesis_type), layout.after])

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        return _tokenize(self._tokenizer, list(texts), truncation=True, max_length=self._max_tokens)


@dataclass(frozen=True)
class _Layout:
    """The special tokens around a pair, each (2, tokens): ids and types; and the types of text and hypothesis."""

    before: NDArray[np.int64]
    between: NDArray[np.int64]
    after: NDArray[np.int64]
    text_type: int
    hypothesis_type: int

    @staticmethod
    def typed(ids: Sequence[int], kind: int) -> NDArray[np.int64]:
        return np.array([ids, [kind] * len(ids)], dtype=np.int64)


def _layout(name: str, tokenizer: Any) -> _Layout:
    """Find out from an example how the tokenizer joins a pair."""
    text, hypothesis = (_tokenize(tokenizer, [word])[0] for word in ("yes", "no"))
    joined = tokenizer("yes", "no", return_token_type_ids=True)
    tokens = np.array([joined["input_ids"], joined["token_type_ids"]], dtype=np.int64)
    special = tokens.shape[1] - len(text) - len(hypothesis)
    for first in range(special + 1):
        for gap in range(special - first + 1):
            ends = np.cumsum([first, len(text), gap, len(hypothesis)])
            before, own, between, other, after = np.split(tokens, ends, axis=1)
            if text and hypothesis and own[0].tolist() == text and other[0].tolist() == hypothesis:
                return _Layout(before, between, after, int(own[1, 0]), int(other[1, 0]))
    raise InputError(
        f"The tokenizer of {name} does not put a text before its hypothesis, as natural language inference needs it."
    )


def _tokenize(tokenizer: Any, texts: list[str], **options: Any) -> list[list[int]]:
    ids: list[list[int]] = tokenizer(
        texts,
        add_special_tokens=False,
        # What looks like a special token, such as "</s>" in HTML, is text like any other: BART, which counts these
        # tokens, could not read it in a batch.
        split_special_tokens=True,
        return_attention_mask=False,
        return_token_type_ids=False,
        verbose=False,
        **options,
    )["input_ids"]
    return ids


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


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
