"""Static vectors (model2vec): a text's vector is the mean of its tokens' vectors; thousands of texts a second."""

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag, normalize

from bncl_pyg.errors import InputError
from bncl_pyg.persistence import read_json, sha256_of

TEXTS_AT_ONCE = 4096
LONGEST = 10_000
"""Characters of a text that are read."""


def is_static(folder: Path) -> bool:
    """Return whether a folder holds static vectors, as model2vec writes them."""
    file = folder / "config.json"
    return file.is_file() and read_json(file).get("model_type") == "model2vec"


class StaticEncoder:
    """A vector a token, averaged over all tokens of a text, however long it is, and normalised.

    Args:
        folder: `tokenizer.json` and `model.safetensors` with `embeddings` (tokens, dimensions) and perhaps `weights`
            (tokens,) and `mapping` (tokens,), as model2vec saves them.
    """

    def __init__(self, folder: Path) -> None:
        from safetensors.torch import load_file

        self.folder = folder
        tensors = load_file(folder / "model.safetensors")
        if "embeddings" not in tensors or tensors["embeddings"].dim() != 2:
            raise InputError(f"{folder / 'model.safetensors'} holds no static vectors (embeddings).")
        table = tensors["embeddings"].float()
        rows = tensors["mapping"].long() if "mapping" in tensors else torch.arange(len(table))
        weights = tensors["weights"].float() if "weights" in tensors else torch.ones(len(rows))
        self._table, self._rows, self._weights = table, rows, weights
        self.tokenizer = _PlainTokenizer(folder)

    @cached_property
    def weights_sha256(self) -> str:
        """The hash of the file that holds the vectors."""
        return sha256_of(self.folder / "model.safetensors")

    def config(self) -> dict[str, Any]:
        """Return what decides the vectors."""
        return {"weights_sha256": self.weights_sha256, "kind": "static"}

    def encode(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> Tensor:
        """Return unit vectors, (texts, dimensions); zeros for a text without any known token."""
        parts = [torch.zeros(0, self._table.shape[1])]
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            ids = self.tokenizer(texts[start : start + TEXTS_AT_ONCE])
            counts = np.array([len(one) for one in ids])
            flat = torch.from_numpy(np.fromiter((token for one in ids for token in one), np.int64, counts.sum()))
            starts = torch.from_numpy(np.concatenate([[0], np.cumsum(counts)[:-1]]))
            summed = embedding_bag(
                self._rows[flat], self._table, starts, mode="sum", per_sample_weights=self._weights[flat]
            )
            parts.append(normalize(summed))
            if progress is not None:
                progress(len(ids))
        return torch.cat(parts)

    def encode_windows(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return unit vectors and one window a text: whole texts are read."""
        return self.encode(texts), torch.ones(len(texts), dtype=torch.int64)


class _PlainTokenizer:
    """A tokenizer without special or unknown tokens."""

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        self._tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._unknown = next(
            (place for word in ("[UNK]", "<unk>") if (place := self._tokenizer.token_to_id(word)) is not None), None
        )

    def __call__(self, texts: Sequence[str]) -> list[list[int]]:
        encoded = self._tokenizer.encode_batch_fast([text[:LONGEST] for text in texts], add_special_tokens=False)
        return [[token for token in one.ids if token != self._unknown] for one in encoded]

    def reading(self, texts: Sequence[str]) -> None:
        """Return nothing: how long a text is does not matter."""

    def pieces(self, text: str) -> list[str]:
        """Return the word pieces of a text."""
        pieces: list[str] = self._tokenizer.encode(text, add_special_tokens=False).tokens
        return pieces
