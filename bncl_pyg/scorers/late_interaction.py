"""Late interaction (ColBERT): every token of a hypothesis looks for the token of the text that is most like it."""

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bncl_pyg.errors import InputError
from bncl_pyg.scorers.encoder import TokenEncoder, Windows
from bncl_pyg.scorers.head import CosineHead
from bncl_pyg.scorers.scorer import Hypothesis, LabelTensors, best_candidates, wordings_of
from bncl_pyg.scorers.tokens import Reading

Array = NDArray[Any]
PRODUCTS_AT_ONCE = 1 << 23
"""How many products of a text's tokens with labels' tokens are held at once, by each thread."""


class LateInteractionScorer:
    r"""MaxSim: the mean over a hypothesis' tokens of the highest cosine with any token of the text.

    .. math:: s(text, hypothesis) = \\frac{1}{|h|} \\sum_{t ∈ h} \\max_{u ∈ text} \\cos(t, u)

    Of a text that is read in several windows, the one with the highest s counts. Token vectors of hypotheses are kept,
    those of texts are not: memory does not grow with the texts, and there are N + L encodings, as with a bi-encoder. A
    head turns s into entailment and contradiction.

    Args:
        texts: encoder of texts.
        hypotheses: encoder of hypotheses: the same weights, with another marker.
        head: from MaxSim to probabilities.
        name: what to call it in a manifest.
    """

    block_texts = 1024

    def __init__(self, texts: TokenEncoder, hypotheses: TokenEncoder, head: CosineHead, name: str) -> None:
        self.encoder, self._of_hypotheses, self.head, self.name = texts, hypotheses, head, name
        self._labels: tuple[tuple[Hypothesis, ...], LabelTensors] | None = None

    def config(self) -> dict[str, Any]:
        """Return what decides the scores."""
        return {"name": self.name, "kind": "late interaction", **self.encoder.config(), **self.head.config()}

    def score(self, texts: Sequence[str], hypotheses: Sequence[Hypothesis], pairs: Tensor | None = None) -> Tensor:
        """Return entailment and contradiction; see `Scorer`."""
        with torch.no_grad():
            shares = torch.softmax(self.head.of_cosines(self.max_sim(texts, hypotheses, pairs)), dim=-1)
        return torch.stack([shares[..., 0], shares[..., 2]])

    def max_sim(self, texts: Sequence[str], hypotheses: Sequence[Hypothesis], pairs: Tensor | None = None) -> Tensor:
        """Return s of all pairs, (texts, hypotheses), or of each text's candidates."""
        if pairs is not None and (pairs.dim() != 2 or len(pairs) != len(texts)):
            raise InputError(f"The candidates need a row for each of the {len(texts)} texts, not {tuple(pairs.shape)}.")
        tokens, lengths = self._label_tokens(hypotheses)
        starts = np.concatenate([[0], np.cumsum(lengths)])
        columns = len(hypotheses) if pairs is None else pairs.shape[1]
        best = np.full((len(texts), columns), -1, dtype=np.float32)
        lock = Lock()
        chosen = None if pairs is None else pairs.numpy()

        def done(read: Windows, states: Array) -> None:
            if chosen is None:
                scores = _all_labels(states, read.mask, tokens, starts)
            else:
                scores = _candidates(states, read.mask, tokens, starts, chosen[[one.row for one in read.windows]])
            with lock:  # windows of one text may be read by several threads
                for window, row in zip(read.windows, scores, strict=True):
                    np.maximum(best[window.row], row, out=best[window.row])

        self.encoder.read(texts, done)
        return torch.from_numpy(best)

    def vectors(self, texts: Sequence[str]) -> Tensor | None:  # noqa: ARG002 (part of `Scorer`)
        """Return nothing: there is no vector of a whole text."""
        return None

    def top_labels(self, texts: Sequence[str], hypotheses: Sequence[Hypothesis], k: int) -> Tensor:
        """Return the k hypotheses with the highest MaxSim; see `Scorer`."""
        return best_candidates(self.max_sim(texts, hypotheses), k)

    def encode_labels(self, hypotheses: Sequence[Hypothesis]) -> LabelTensors:
        """Return the token vectors of hypotheses, and how many tokens each has; see `Scorer`.

        Wordings of one hypothesis follow each other: s is then the mean over the tokens of all of them.
        """
        wordings = [wording for one in hypotheses for wording in wordings_of(one)]
        vectors = self._of_hypotheses.token_vectors(wordings or [""])
        counts = iter(vectors)
        lengths = [sum(len(next(counts)) for _ in wordings_of(one)) for one in hypotheses]
        # Of no hypothesis at all, how long a vector is is still known.
        tokens = torch.cat(vectors)[: sum(lengths)].half()
        return {"tokens": tokens, "lengths": torch.tensor(lengths, dtype=torch.int64)}

    def use_labels(self, hypotheses: Sequence[Hypothesis], tensors: Mapping[str, Tensor]) -> None:
        """Take hypotheses' token vectors; see `Scorer`."""
        self._labels = tuple(hypotheses), dict(tensors)

    def reading(self, texts: Sequence[str]) -> Reading | None:
        """Return how texts would be read; see `Scorer`."""
        return self.encoder.tokenizer.reading(texts)

    def _label_tokens(self, hypotheses: Sequence[Hypothesis]) -> tuple[Array, Array]:
        key = tuple(hypotheses)
        if self._labels is None or self._labels[0] != key:
            self._labels = key, self.encode_labels(key)
        tensors = self._labels[1]
        return tensors["tokens"].float().numpy(), tensors["lengths"].numpy()


def _all_labels(states: Array, mask: Array, tokens: Array, starts: Array) -> Array:
    """Return MaxSim of windows and all labels, (windows, labels)."""
    windows, length, width = states.shape
    scores = np.empty((windows, len(starts) - 1), dtype=np.float32)
    flat = states.reshape(-1, width)
    size = max(PRODUCTS_AT_ONCE // max(len(flat), 1), 1)
    first = 0
    while first < len(starts) - 1:
        # As many labels as fit, at least one.
        last = max(int(np.searchsorted(starts, starts[first] + size, side="right")) - 1, first + 1)
        cosines = (flat @ tokens[starts[first] : starts[last]].T).reshape(windows, length, -1)
        cosines[mask == 0] = -1
        best = cosines.max(axis=1)
        inside = starts[first:last] - starts[first]
        scores[:, first:last] = np.add.reduceat(best, inside, axis=1) / np.diff(starts[first : last + 1])
        first = last
    return scores


def _candidates(states: Array, mask: Array, tokens: Array, starts: Array, chosen: Array) -> Array:
    """Return MaxSim of windows and their own candidates, (windows, candidates)."""
    scores = np.empty(chosen.shape, dtype=np.float32)
    lengths = np.diff(starts)
    for row, labels in enumerate(chosen):
        counts = lengths[labels]
        inside = np.concatenate([[0], np.cumsum(counts)[:-1]])
        rows = np.repeat(starts[labels] - inside, counts) + np.arange(counts.sum())
        best = (states[row][mask[row] > 0] @ tokens[rows].T).max(axis=0)
        scores[row] = np.add.reduceat(best, inside) / counts
    return scores
