"""Which pairs an expensive scorer is asked about: those that a cheap one and the priors leave open, in rounds."""

import hashlib
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from bncl_pyg.active.pool import LEAST_SHARE
from bncl_pyg.errors import InputError
from bncl_pyg.features import Features, Predictions, text_hash
from bncl_pyg.persistence import write_file
from bncl_pyg.priors import Priors
from bncl_pyg.scorers import Hypothesis, Scorer
from bncl_pyg.training import find_recipe

if TYPE_CHECKING:
    from bncl_pyg.graph import SignedLabelGraph

logger = logging.getLogger(__name__)

AT_ONCE = 512
"""How many pairs are asked before what is known is kept."""


@dataclass(frozen=True)
class Answers:
    """What the expensive scorer said.

    Args:
        pairs: text and label of each pair, in the order in which they were asked, (pairs, 2).
        odds: the log-odds of entailment to contradiction, (pairs,).
    """

    pairs: Tensor
    odds: Tensor

    def __len__(self) -> int:
        return len(self.pairs)

    @classmethod
    def none(cls) -> "Answers":
        """Return no answers."""
        return cls(torch.zeros(0, 2, dtype=torch.int64), torch.zeros(0))

    @classmethod
    def load(cls, path: Path, asked: str) -> "Answers":
        """Read what an earlier run was told; nothing, if there is no such file.

        Args:
            path: the file.
            asked: what identifies scorer, texts and labels; answers to other questions are refused.
        """
        if not path.exists():
            return cls.none()
        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                pairs, odds = file.get_tensor("pairs"), file.get_tensor("odds")
        except SafetensorError as error:
            raise InputError(f"{path} holds no readable answers ({error}); remove it to start anew.") from None
        if metadata.get("asked") != asked:
            raise InputError(f"{path} holds answers about other texts or labels, or of another scorer; remove it.")
        return cls(pairs, odds)

    def save(self, path: Path, asked: str) -> None:
        """Write them, as a whole or not at all; see `load`."""
        tensors = {"pairs": self.pairs.contiguous(), "odds": self.odds.contiguous()}
        write_file(path, lambda target: save_file(tensors, target, metadata={"asked": asked}))

    def joined(self, other: "Answers") -> "Answers":
        """Return these and others."""
        return Answers(torch.cat([self.pairs, other.pairs]), torch.cat([self.odds, other.odds]))


def pair_values(predictions: Predictions, priors: Priors) -> Tensor:
    r"""Return how much ebF1 + maF1 is expected to change once a pair is known, times N; as the predictions are.

    A decision that is wrong with probability :math:`e_{il}` takes about :math:`2 e_{il} / \sum_l (d_{il} + p_{il})`
    from the F1 of text :math:`i` and :math:`2 e_{il} / L(π_l + λ_l)` from the mean over labels: see `expected_change`.
    """
    shares, decisions = predictions.probabilities.double(), predictions.decisions
    wrong = torch.where(decisions, 1 - shares, shares)
    of_texts = (decisions.sum(dim=1) + shares.sum(dim=1)).clamp_min(LEAST_SHARE)
    common = decisions.double().mean(dim=0) + torch.from_numpy(priors.shares)
    return 2 * wrong * (1 / of_texts[:, None] + 1 / (predictions.labels * common.clamp_min(1 / max(len(shares), 1))))


def with_answers(features: Features, answers: Answers, weight: float = 1.0) -> Features:
    r"""Return features whose scores at the asked pairs are corrected by what the expensive scorer says there.

    Scores of two scorers cannot stand in one column as they are: asked pairs would differ from others by who read
    them. So of the expensive scorer's log-odds :math:`x` only what the cheap one's, :math:`c`, do not tell is added,
    :math:`c + w (x - a - b c)`, with :math:`a + b c` the regression of :math:`x` on :math:`c` over the asked pairs.
    Where both say the same nothing changes, and pairs that were not asked stay as they are.

    Args:
        features: by the cheap scorer, with all labels.
        answers: of the expensive one.
        weight: w.
    """
    if not len(answers):
        return features
    rows, columns = answers.pairs.T
    cheap = _odds(features.entailment[rows, columns], features.contradiction[rows, columns])
    inputs = torch.stack([torch.ones_like(cheap), cheap], dim=1)
    # A little of a ridge: a few pairs with the same score have no slope.
    gram = inputs.T @ inputs + 1e-3 * torch.eye(2)
    coefficients = torch.linalg.solve(gram, inputs.T @ answers.odds)
    odds = cheap + weight * (answers.odds - inputs @ coefficients)
    mass = features.entailment[rows, columns] + features.contradiction[rows, columns]
    entailment, contradiction = features.entailment.clone(), features.contradiction.clone()
    entailment[rows, columns] = mass * torch.sigmoid(odds)
    contradiction[rows, columns] = mass * torch.sigmoid(-odds)
    return replace(features, entailment=entailment, contradiction=contradiction, parts={})


@dataclass(frozen=True)
class PairBudget:
    """How an expensive scorer's pairs are spent.

    Args:
        pairs: how many it may be asked about.
        rounds: in how many turns: after each, a model is trained, and what it leaves open is asked in the next.
        weight: of what the expensive scorer adds; see `with_answers`.
    """

    pairs: int
    rounds: int = 4
    weight: float = 0.5

    def __post_init__(self) -> None:
        if self.pairs < 1:
            raise InputError(f"The budget must be at least 1 pair, but is {self.pairs}.")
        if self.rounds < 1:
            raise InputError(f"At least 1 round is needed, but {self.rounds} were asked for.")

    def spend(
        self,
        features: Features,
        texts: Sequence[str],
        hypotheses: Sequence[Hypothesis],
        scorer: Scorer,
        graph: "SignedLabelGraph",
        priors: Priors | None = None,
        *,
        kept: Path | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> tuple[Features, Answers]:
        """Ask; return the corrected features, and what was said.

        Args:
            features: of all pairs, by the cheap scorer.
            texts: the texts, in their order.
            hypotheses: what each label says.
            scorer: the expensive one.
            graph: of the labels.
            priors: what is known of κ and λ; nothing, if not given.
            kept: a file in which answers are kept while they come in, and from which a run that was stopped goes on.
            progress: told how many pairs were asked, and how many there are to ask.
        """
        if features.candidates is not None:
            raise InputError("Pairs are chosen among all labels: featurize without candidates.")
        total = min(self.pairs, features.entailment.numel())
        asked = "" if kept is None else _identity(features, texts, hypotheses, scorer)
        answers = Answers.none() if kept is None else Answers.load(kept, asked)
        while len(answers) < total:
            number = int(self.rounds * len(answers) / total) + 1
            until = -(-total * number // self.rounds)
            corrected = with_answers(features, answers, self.weight)
            chosen = _most_open(corrected, graph, priors, answers, until - len(answers))
            for some in chosen.split(AT_ONCE):
                scores = scorer.score([texts[row] for row in some[:, 0].tolist()], hypotheses, some[:, 1:])
                answers = answers.joined(Answers(some, _odds(scores[0, :, 0], scores[1, :, 0])))
                if kept is not None:
                    answers.save(kept, asked)
                if progress is not None:
                    progress(len(answers), total)
            logger.info("Round %d of %d: %d pairs were asked.", number, self.rounds, len(answers))
        return with_answers(features, answers, self.weight), answers


def _most_open(
    features: Features, graph: "SignedLabelGraph", priors: Priors | None, answers: Answers, count: int
) -> Tensor:
    """Return the pairs that were not asked whose answers are expected to change F1 most, (count, 2)."""
    model = find_recipe("default").fit(features, graph, priors or Priors.nothing(len(features.labels)))
    values = pair_values(model.predict(features), model.priors)
    values[answers.pairs[:, 0], answers.pairs[:, 1]] = -torch.inf
    best = values.flatten().topk(count).indices
    # By text: a scorer that remembers a text's tokens reads it once.
    best = best.sort().values
    return torch.from_numpy(np.stack(np.unravel_index(best.numpy(), tuple(values.shape)), axis=1))


def _identity(features: Features, texts: Sequence[str], hypotheses: Sequence[Hypothesis], scorer: Scorer) -> str:
    """Return one hash of who is asked what."""
    content = [scorer.config(), features.ids, [text_hash(text) for text in texts], list(hypotheses)]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _odds(entailment: Tensor, contradiction: Tensor) -> Tensor:
    return (entailment + LEAST_SHARE).log() - (contradiction + LEAST_SHARE).log()
