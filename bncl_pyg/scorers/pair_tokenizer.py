"""Tokens of (text, hypothesis) pairs: each side is tokenised once, and pairs are joined from the parts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bncl_pyg.errors import InputError


class PairTokenizer:
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
