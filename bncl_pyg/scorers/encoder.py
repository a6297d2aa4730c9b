"""Sentences to vectors: a Hugging Face encoder, mean-pooled and normalised; by default the embedded MiniLM."""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from bncl_pyg.errors import InputError
from bncl_pyg.persistence import sha256_of
from bncl_pyg.scorers.classifier import quiet_transformers
from bncl_pyg.scorers.embedded import embedded_folder
from bncl_pyg.scorers.runtime import check_backend, resolve_device
from bncl_pyg.scorers.scorer import MAX_TOKENS

TOKENS_A_BATCH = 4096
TEXTS_AT_ONCE = 4096
"""How many texts are tokenised and sorted by length together."""


class SentenceEncoder:
    """A transformer whose token states are averaged to one unit vector a text.

    Args:
        folder: a Hugging Face model folder (configuration, tokenizer, safetensors weights).
        max_tokens: longer texts are cut.
        backend: `torch`, `onnx` or `onnx-int8`; the last is the fastest and changes the vectors a little.
        device: for torch, such as "cpu" or "cuda:1"; by default an accelerator if there is one.
    """

    def __init__(
        self, folder: Path, max_tokens: int = MAX_TOKENS, backend: str = "torch", device: str | None = None
    ) -> None:
        check_backend(backend)
        self._device = resolve_device(backend, device)
        self.folder, self.max_tokens, self.backend = folder, max_tokens, backend
        if not (folder / "model.safetensors").is_file():
            raise InputError(f"{folder} has no model.safetensors; other forms of weights are not read.")
        tokenizer, model = _load(folder)
        if not tokenizer.is_fast:
            raise InputError(f"{folder} has no fast tokenizer (tokenizer.json), which a sentence encoder needs here.")
        self._padding: int = tokenizer.pad_token_id or 0
        self._tokenizer: Any = tokenizer.backend_tokenizer
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_tokens)
        self._inputs: list[str] = tokenizer.model_input_names
        self._dimensions: int = model.config.hidden_size
        if backend == "torch":
            model = model.to(self._device)
            self._states: Callable[[dict[str, Tensor]], Tensor] = lambda inputs: model(**inputs).last_hidden_state
        else:
            from bncl_pyg.scorers.onnx import run_with_onnx

            self._states = run_with_onnx(model, self._inputs, quantise=backend == "onnx-int8")

    @classmethod
    def embedded(
        cls, max_tokens: int = MAX_TOKENS, backend: str = "torch", device: str | None = None
    ) -> "SentenceEncoder":
        """Load the default encoder, all-MiniLM-L6-v2; see `embedded_folder`."""
        return cls(embedded_folder(), max_tokens, backend, device)

    @cached_property
    def weights_sha256(self) -> str:
        """The hash of the weights."""
        return sha256_of(self.folder / "model.safetensors")

    def config(self) -> dict[str, Any]:
        """Return what decides the vectors."""
        return {"weights_sha256": self.weights_sha256, "max_tokens": self.max_tokens, "backend": self.backend}

    def encode(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> Tensor:
        """Return unit vectors on the CPU, (texts, dimensions); `progress` gets how many texts each batch adds."""
        vectors = torch.empty(len(texts), self._dimensions)
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            tokens = self._tokenizer.encode_batch_fast(list(texts[start : start + TEXTS_AT_ONCE]))
            for places in _batches([len(encoded.ids) for encoded in tokens]):
                batch = self._encode_batch([tokens[place] for place in places])
                vectors[[start + place for place in places]] = batch.cpu()
                if progress is not None:
                    progress(len(places))
        return vectors

    @torch.inference_mode()
    def _encode_batch(self, tokens: list[Any]) -> Tensor:
        longest = max(len(encoded.ids) for encoded in tokens)
        ids = torch.full((len(tokens), longest), self._padding)
        kept = torch.zeros(len(tokens), longest, dtype=torch.int64)
        for row, encoded in enumerate(tokens):
            ids[row, : len(encoded.ids)] = torch.tensor(encoded.ids)
            kept[row, : len(encoded.ids)] = 1
        inputs = {"input_ids": ids, "attention_mask": kept}
        if "token_type_ids" in self._inputs:
            inputs["token_type_ids"] = torch.zeros_like(ids)
        states = self._states({name: part.to(self._device) for name, part in inputs.items()}).float()
        mask = kept.unsqueeze(-1).to(states)
        return normalize((states * mask).sum(dim=1) / mask.sum(dim=1))


def _load(folder: Path) -> tuple[Any, Any]:
    """Return tokenizer and model, which are read from the folder alone."""
    from transformers import AutoModel, AutoTokenizer

    # trust_remote_code is refused in words: left out, transformers would ask on the terminal.
    options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    with quiet_transformers():
        tokenizer = AutoTokenizer.from_pretrained(folder, **options)
        return tokenizer, AutoModel.from_pretrained(folder, use_safetensors=True, **options).eval()


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
