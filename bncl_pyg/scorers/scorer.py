"""What a scorer is: it reads texts and labels, and scores every pair: how far the text entails or contradicts it."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from bncl_pyg.errors import InputError

TEMPLATE = "This is about {}."
"""How a label's description becomes a hypothesis."""
MAX_TOKENS = 128
"""How many tokens of a text (with the hypothesis, for a cross-encoder) are read."""

Progress = Callable[[int], None]
"""Called after each step with how many texts, or shares of a text rounded down, it adds."""


class Scorer(Protocol):
    """Natural language inference over (text, hypothesis) pairs.

    Attributes:
        block_texts: how many texts are a sensible unit of work: what is lost when a run is killed.
    """

    block_texts: int

    def config(self) -> dict[str, Any]:
        """Return what decides the scores (name, weights hash, max_tokens, …), as JSON can hold it.

        The device is not part of it: the scores are the same wherever they are computed.
        """
        ...

    def score(self, texts: Sequence[str], hypotheses: Sequence[str], pairs: Tensor | None = None) -> Tensor:
        """Return entailment and contradiction, on the CPU.

        Args:
            texts: premises.
            hypotheses: what each label says, in words.
            pairs: for each text the hypotheses to look at, int64, (texts, candidates); all of them if not given.

        Returns:
            float32, (2, texts, hypotheses) or (2, texts, candidates): entailment, then contradiction.
        """
        ...

    def vectors(self, texts: Sequence[str]) -> Tensor | None:
        """Return its sentence encoder's vectors of texts, (texts, dimensions), on the CPU; `None` if it has none."""
        ...

    def top_labels(self, texts: Sequence[str], hypotheses: Sequence[str], k: int) -> Tensor:
        """Return which k hypotheses fit each text best, in the order of their places; int64, (texts, k)."""
        ...

    def cache_label_vectors(self, hypotheses: Sequence[str], vectors: Tensor) -> None:
        """Take hypotheses' vectors, (hypotheses, dimensions), that it computed earlier, so as not to encode again."""
        ...


def hypotheses_of(descriptions: Sequence[str], template: str = TEMPLATE) -> list[str]:
    """Put each description into the template, which must name the place with `{}` once."""
    if template.count("{}") != 1:
        raise InputError(f"The template must hold '{{}}' exactly once, but is '{template}'.")
    return [template.replace("{}", description) for description in descriptions]


def best_candidates(scores: Tensor, count: int) -> Tensor:
    """Return each text's best-scored labels in the order of their columns; int64, (texts, count).

    Args:
        scores: (texts, labels).
        count: how many, at most the number of labels.
    """
    best = torch.topk(scores, count, dim=1).indices
    return best.sort(dim=1).values
