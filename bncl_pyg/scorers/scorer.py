"""What a scorer is: it reads texts and labels, and scores every pair: how far the text entails or contradicts it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, overload

import torch
from torch import Tensor

from bncl_pyg.errors import InputError
from bncl_pyg.scorers.tokens import Reading

TEMPLATE = "This is about {}."
"""How what a label means becomes a hypothesis."""
MAX_TOKENS = 128
"""How many tokens of a text (with the hypothesis, for a cross-encoder) are read at a time."""
WINDOWS = 1
"""How many windows of `MAX_TOKENS` are read of a text at most."""

Progress = Callable[[int], None]
"""Called after each step with how many texts, or shares of a text rounded down, it adds."""
Hypothesis = str | tuple[str, ...]
"""What a label says, in words; or in several wordings, whose scores or vectors are averaged."""
LabelTensors = dict[str, Tensor]
"""What a scorer computes of labels alone; those of more labels follow along the first dimension of each tensor."""


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

    def score(self, texts: Sequence[str], hypotheses: Sequence[Hypothesis], pairs: Tensor | None = None) -> Tensor:
        """Return entailment and contradiction, on the CPU.

        Args:
            texts: premises.
            hypotheses: what each label says.
            pairs: for each text the hypotheses to look at, int64, (texts, candidates); all of them if not given.

        Returns:
            float32, (2, texts, hypotheses) or (2, texts, candidates): entailment, then contradiction.
        """
        ...

    def vectors(self, texts: Sequence[str]) -> Tensor | None:
        """Return its sentence encoder's vectors of texts, (texts, dimensions), on the CPU; `None` if it has none."""
        ...

    def top_labels(self, texts: Sequence[str], hypotheses: Sequence[Hypothesis], k: int) -> Tensor:
        """Return which k hypotheses fit each text best, in the order of their places; int64, (texts, k)."""
        ...

    def encode_labels(self, hypotheses: Sequence[Hypothesis]) -> LabelTensors:
        """Return what it computes of hypotheses alone, to be kept; nothing, if it reads pairs."""
        ...

    def use_labels(self, hypotheses: Sequence[Hypothesis], tensors: Mapping[str, Tensor]) -> None:
        """Take what `encode_labels` returned of these hypotheses earlier, so as not to compute it again."""
        ...

    def reading(self, texts: Sequence[str]) -> Reading | None:
        """Return how these texts would be read, without reading them; `None` if length does not matter."""
        ...


def scorer_parts(scorer: Scorer) -> dict[str, Scorer]:
    """Return the scorers that a scorer is made of, by name; itself, if it is not made of others."""
    parts: dict[str, Scorer] | None = getattr(scorer, "parts", None)
    return {str(scorer.config()["name"]): scorer} if parts is None else parts


@overload
def hypotheses_of(phrases: Sequence[str], template: str = TEMPLATE) -> list[str]: ...


@overload
def hypotheses_of(phrases: Sequence[Hypothesis], template: str | Sequence[str] = TEMPLATE) -> list[Hypothesis]: ...


def hypotheses_of(
    phrases: Sequence[Hypothesis], template: str | Sequence[str] = TEMPLATE
) -> list[str] | list[Hypothesis]:
    """Put what each label means into the template, or into each of several.

    Args:
        phrases: what each label means; several phrases of a label give as many wordings.
        template: names the place with `{}` once.
    """
    templates = [template] if isinstance(template, str) else list(template)
    if not templates:
        raise InputError("At least one template is needed.")
    for one in templates:
        if one.count("{}") != 1:
            raise InputError(f"The template must hold '{{}}' exactly once, but is '{one}'.")
    hypotheses: list[Hypothesis] = []
    for label in phrases:
        wordings = [one.replace("{}", phrase) for phrase in wordings_of(label) for one in templates]
        hypotheses.append(wordings[0] if len(wordings) == 1 else tuple(wordings))
    return hypotheses


def wordings_of(hypothesis: Hypothesis) -> tuple[str, ...]:
    """Return the wordings of a hypothesis, of which there is at least one."""
    return (hypothesis,) if isinstance(hypothesis, str) else hypothesis


def best_candidates(scores: Tensor, count: int) -> Tensor:
    """Return each text's best-scored labels in the order of their columns; int64, (texts, count).

    Args:
        scores: (texts, labels).
        count: how many, at most the number of labels.
    """
    best = torch.topk(scores, count, dim=1).indices
    return best.sort(dim=1).values


def best_windows(scores: Tensor, counts: Tensor) -> Tensor:
    """Return what the window that speaks most for a label says, for each text and label; (2, texts, columns).

    Args:
        scores: entailment and contradiction of all windows, text by text, (2, windows, columns).
        counts: how many windows each text has, (texts,).
    """
    if scores.shape[1] == len(counts):
        return scores
    starts = counts.cumsum(0) - counts
    best = scores[:, starts]
    for number in range(1, int(counts.max())):
        rows = (counts > number).nonzero()[:, 0]
        mine, other = best[:, rows], scores[:, starts[rows] + number]
        # e / c is the higher one, without dividing by 0.
        best[:, rows] = torch.where(other[0] * mine[1] > mine[0] * other[1], other, mine)
    return best


def average_wordings(rows: Tensor, hypotheses: Sequence[Hypothesis]) -> Tensor:
    """Return the mean over each hypothesis' wordings of rows that are of all wordings in order; (hypotheses, …)."""
    counts = torch.tensor([len(wordings_of(one)) for one in hypotheses])
    if bool((counts == 1).all()):
        return rows
    owner = torch.repeat_interleave(torch.arange(len(counts)), counts)
    summed = torch.zeros(len(counts), *rows.shape[1:], dtype=rows.dtype).index_add_(0, owner, rows)
    return summed / counts.view(-1, *([1] * (rows.dim() - 1))).to(rows)
