"""A cross-encoder for relevance (ms-marco): it reads a text beside each of a few candidate labels."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bncl_pyg.persistence import sha256_of
from bncl_pyg.scorers.bert import OnnxSession, bert_graph, read_bert, weights_file
from bncl_pyg.scorers.head import CosineHead
from bncl_pyg.scorers.scorer import Hypothesis, LabelTensors, best_candidates, wordings_of
from bncl_pyg.scorers.tokens import Reading

Array = NDArray[Any]
TOKENS_A_BATCH = 1024
PAIRS_AT_ONCE = 4096
"""How many pairs are tokenised and sorted by length together."""


class RelevanceScorer:
    """How relevant a text is to a label, read together; with thousands of labels, only for candidates.

    Args:
        folder: a BERT with a pooler and one output.
        head: from the output to entailment and contradiction.
        name: what to call it in a manifest.
        max_tokens: of label and text together; the text is cut.
    """

    block_texts = 32

    def __init__(self, folder: Path, head: CosineHead, name: str, max_tokens: int) -> None:
        from tokenizers import Tokenizer

        weights = read_bert(folder)
        self.folder, self.head, self.name, self.max_tokens = folder, head, name, max_tokens
        self._session = OnnxSession(bert_graph(weights, first_token_only=True, typed=True))
        self._pooler = weights.matrix("pooler.dense.weight"), weights.matrix("pooler.dense.bias")
        self._output = weights.matrix("classifier.weight")[0], float(weights.matrix("classifier.bias")[0])
        self._tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_tokens, strategy="only_second")

    @cached_property
    def weights_sha256(self) -> str:
        """The hash of the file that holds the weights."""
        return sha256_of(weights_file(self.folder))

    def config(self) -> dict[str, Any]:
        """Return what decides the scores."""
        own = {"name": self.name, "weights_sha256": self.weights_sha256, "max_tokens": self.max_tokens}
        return {**own, **self.head.config()}

    def score(self, texts: Sequence[str], hypotheses: Sequence[Hypothesis], pairs: Tensor | None = None) -> Tensor:
        """Return entailment and contradiction; see `Scorer`."""
        if pairs is None:
            pairs = torch.arange(len(hypotheses)).repeat(len(texts), 1)
        wanted = [
            (wording, texts[row], row, place)
            for row, labels in enumerate(pairs.tolist())
            for place, label in enumerate(labels)
            for wording in wordings_of(hypotheses[label])
        ]
        sums, counts = np.zeros(tuple(pairs.shape), np.float32), np.zeros(tuple(pairs.shape), np.float32)
        for start in range(0, len(wanted), PAIRS_AT_ONCE):
            part = wanted[start : start + PAIRS_AT_ONCE]
            relevance = self._relevance([(wording, text) for wording, text, _, _ in part])
            for value, (_, _, row, place) in zip(relevance, part, strict=True):
                sums[row, place] += value
                counts[row, place] += 1
        with torch.no_grad():
            mean = torch.from_numpy(sums / np.maximum(counts, 1))
            shares = torch.softmax(self.head.of_cosines(mean), dim=-1)
        return torch.stack([shares[..., 0], shares[..., 2]])

    def _relevance(self, pairs: list[tuple[str, str]]) -> Array:
        """Return the output of each (label, text), (pairs,)."""
        encoded = self._tokenizer.encode_batch_fast(pairs)
        order = sorted(range(len(encoded)), key=lambda place: len(encoded[place].ids))
        batches: list[list[int]] = [[]]
        for place in order:
            if batches[-1] and len(encoded[place].ids) * (len(batches[-1]) + 1) > TOKENS_A_BATCH:
                batches.append([])
            batches[-1].append(place)
        outputs = np.empty(len(pairs), np.float32)

        def done(number: int, states: Array) -> None:
            pooled = np.tanh(states[:, 0] @ self._pooler[0].T + self._pooler[1])
            outputs[batches[number]] = pooled @ self._output[0] + self._output[1]

        self._session.run([_inputs([encoded[place] for place in batch]) for batch in batches if batch], done)
        return outputs

    def vectors(self, texts: Sequence[str]) -> Tensor | None:  # noqa: ARG002 (part of `Scorer`)
        """Return nothing: text and label are read together."""
        return None

    def top_labels(self, texts: Sequence[str], hypotheses: Sequence[Hypothesis], k: int) -> Tensor:
        """Return the k hypotheses with the highest relevance, which takes scoring them all; see `Scorer`."""
        return best_candidates(self.score(texts, hypotheses)[0], k)

    def encode_labels(self, hypotheses: Sequence[Hypothesis]) -> LabelTensors:  # noqa: ARG002
        """Return nothing; see `Scorer`."""
        return {}

    def use_labels(self, hypotheses: Sequence[Hypothesis], tensors: Mapping[str, Tensor]) -> None:
        """Do nothing; see `Scorer`."""

    def reading(self, texts: Sequence[str]) -> Reading | None:  # noqa: ARG002
        """Return nothing: it reads the beginning of a text; see `Scorer`."""
        return None


def _inputs(encoded: list[Any]) -> dict[str, Array]:
    longest = max(len(one.ids) for one in encoded)
    ids = np.zeros((len(encoded), longest), np.int64)
    mask, kinds = np.zeros_like(ids), np.zeros_like(ids)
    for row, one in enumerate(encoded):
        ids[row, : len(one.ids)], mask[row, : len(one.ids)], kinds[row, : len(one.ids)] = one.ids, 1, one.type_ids
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": kinds}
