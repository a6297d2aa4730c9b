"""From texts to the token ids that an encoder reads: whole texts, in overlapping windows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bncl_pyg.errors import InputError

OVERLAP = 4
"""A window shares a quarter of its tokens with the one before: what a cut tears apart is whole in one of the two."""


@dataclass(frozen=True)
class Reading:
    """How texts would be read: what that costs, and what is left out.

    Args:
        texts: how many were looked at.
        tokens: a text has on average.
        windows: are read of a text on average: how many times the work of the first window alone.
        longer: the share of texts that are longer than a window.
        cut: the share of texts whose end is not read.
    """

    texts: int
    tokens: float
    windows: float
    longer: float
    cut: float


class WindowTokenizer:
    """A fast tokenizer (`tokenizer.json`) whose output is cut into windows.

    Args:
        folder: holds the tokenizer.
        max_tokens: of a window, special tokens included.
        windows: how many of them are read of a text at most.
        marker: a token id that follows the first special token, as late interaction has it.
    """

    def __init__(self, folder: Path, max_tokens: int, windows: int = 1, marker: int | None = None) -> None:
        from tokenizers import Tokenizer

        if windows < 1:
            raise InputError(f"windows must be positive, but is {windows}.")
        file = folder / "tokenizer.json"
        if not file.is_file():
            raise InputError(f"{folder} has no fast tokenizer (tokenizer.json), which an encoder needs here.")
        try:
            self._tokenizer: Any = Tokenizer.from_file(str(file))
        except Exception as error:
            # A broken file makes tokenizers raise a bare Exception.
            raise InputError(f"{file} is not a readable tokenizer ({str(error).splitlines()[0]}).") from error
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._marker = marker
        around = self._tokenizer.encode("").ids
        # What stands before and after a text; a tokenizer that adds nothing, or only at one side, is respected.
        whole, bare = (self._tokenizer.encode("a", add_special_tokens=special).ids for special in (True, False))
        before = whole.index(bare[0]) if bare and bare[0] in whole else 0
        self._before, self._after = around[:before], around[before:]
        if marker is not None:
            self._before = [*self._before, marker]
        self.room = max_tokens - len(self._before) - len(self._after)
        self.windows, self.max_tokens = windows, max_tokens
        if self.room < 1:
            raise InputError(f"max_tokens {max_tokens} leaves no room for a text.")

    def __call__(self, texts: Sequence[str]) -> list[list[list[int]]]:
        """Return the windows of each text, each a list of token ids with the special ones."""
        encoded = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [[[*self._before, *part, *self._after] for part in self._parts(one.ids)] for one in encoded]

    def pieces(self, text: str) -> list[str]:
        """Return the word pieces of a text."""
        pieces: list[str] = self._tokenizer.encode(text, add_special_tokens=False).tokens
        return pieces

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return where each window of a text begins and ends, in characters."""
        encoded = self._tokenizer.encode(text, add_special_tokens=False)
        places = [encoded.offsets[start : start + self.room] for start in self._starts(len(encoded.ids))]
        return [(part[0][0], part[-1][1]) if part else (0, len(text)) for part in places]

    def count_cut(self, texts: Sequence[str]) -> int:
        """Return how many texts have an end that is not read."""
        encoded = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return sum(self._is_cut(len(one.ids)) for one in encoded)

    def reading(self, texts: Sequence[str]) -> Reading:
        """Return how texts would be read."""
        lengths = [len(one.ids) for one in self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]
        count = max(len(lengths), 1)
        return Reading(
            len(lengths),
            sum(lengths) / count,
            sum(self._count(length) for length in lengths) / count,
            sum(length > self.room for length in lengths) / count,
            sum(self._is_cut(length) for length in lengths) / count,
        )

    @property
    def _stride(self) -> int:
        return max(self.room - self.room // OVERLAP, 1)

    def _count(self, length: int) -> int:
        """Return how many windows are read of a text with so many tokens."""
        if length <= self.room:
            return 1
        return min(1 + -(-(length - self.room) // self._stride), self.windows)

    def _is_cut(self, length: int) -> bool:
        return length > self.room + (self.windows - 1) * self._stride

    def _starts(self, length: int) -> list[int]:
        return [number * self._stride for number in range(self._count(length))]

    def _parts(self, ids: list[int]) -> Iterator[list[int]]:
        for start in self._starts(len(ids)):
            yield ids[start : start + self.room]
