"""Texts to vectors, kept between runs: encoding is the only slow step that all methods share."""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from bncl_pyg.corpus import digest
from bncl_pyg.persistence import write_file
from bncl_pyg.scorers import MINILM, SentenceEncoder

BLOCK_TEXTS = 1024
"""How many texts are kept in one file: what is lost when a run is killed."""


class RememberingEncoder(SentenceEncoder):
    """The embedded encoder with a memory on disk.

    Args:
        cache: the folder of its memory; a file's name is the hash of what decides the vectors and of a block of texts.
        told: called with a line for each block that is learned.
    """

    def __init__(self, cache: Path, told: Callable[[str], None]) -> None:
        super().__init__(MINILM.local())
        self._cache, self._told = cache / "vectors", told
        self._places: dict[str, int] = {}
        self._vectors = super().encode([])

    def learn(self, texts: Sequence[str]) -> None:
        """Encode texts, or read them from disk if that was done before, and keep their vectors in memory."""
        blocks = []
        for start in range(0, len(texts), BLOCK_TEXTS):
            block = texts[start : start + BLOCK_TEXTS]
            path = self._cache / f"{self._name(block)}.safetensors"
            if not path.exists():
                vectors = super().encode(block)
                write_file(path, lambda temporary, vectors=vectors: save_file({"vectors": vectors}, temporary))  # type: ignore[misc]
                self._told(f"encoded {start + len(block)} of {len(texts)} texts")
            blocks.append(load_file(path)["vectors"])
        self.remember(texts, torch.cat([self._vectors[:0], *blocks]))

    def remember(self, texts: Sequence[str], vectors: Tensor) -> None:
        """Keep vectors of texts that somebody encoded before, in memory."""
        self._places |= {text: place for place, text in enumerate(texts, start=len(self._vectors))}
        self._vectors = torch.cat([self._vectors, vectors]) if len(self._vectors) else vectors

    def encode(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> Tensor:
        """Return unit vectors, (texts, dimensions); from memory where all texts are known."""
        if not all(text in self._places for text in texts):
            return super().encode(texts, progress)
        return self._vectors[[self._places[text] for text in texts]]

    def _name(self, texts: Sequence[str]) -> str:
        config = self.config()
        return digest([*(f"{key}={config[key]}" for key in sorted(config)), *texts])
