r"""The collective projection: the least change to the logits after which all predictions together look right.

.. math:: p_{il} = σ(s_{il} + ρ a_i + b_l), \quad \sum_i p_{il} = N λ_l, \quad \sum_l σ(s_{il} + a_i + b_l) = κ

It meets what the paper's L2 and L3 only ask for: each label is as common as it should be, and each text has κ labels,
as far as ρ, the competition among a text's labels, demands. The two are solved in turn; eight turns leave λ a few per
cent off.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from bncl_pyg.nn.pairs import AllPairs, Pairs, reachable

FIRST_STEPS, LATER_STEPS, ROUNDS = 8, 2, 8
LARGEST_STEP, LARGEST_OFFSET = 2.0, 40.0
TINY = 1e-12
LEAST = 1e-3
"""How far a total is kept from nothing and from everything."""


def solve_offsets(
    likely: Callable[[Tensor], Tensor], sums: Callable[[Tensor], Tensor], totals: Tensor, start: Tensor, steps: int
) -> Tensor:
    """Return offsets under which probabilities add up to totals.

    Newton's method on the logarithm of the sum, which is nearly linear where a total is small.

    Args:
        likely: from offsets, (sums,), to probabilities of pairs.
        sums: of values of pairs, (sums,).
        totals: what the sums should be, (sums,), above 0 and below the number of pairs that each is over.
        start: offsets to start from, (sums,).
        steps: how many.
    """
    wanted, offsets = totals.log(), start
    for _ in range(steps):
        found_likely = likely(offsets)
        found = sums(found_likely).clamp_min(TINY)
        slope = sums(found_likely.mul_(1 - found_likely)).clamp_min(TINY) / found
        change = ((wanted - found.log()) / slope).clamp(-LARGEST_STEP, LARGEST_STEP)
        offsets = (offsets + change).clamp(-LARGEST_OFFSET, LARGEST_OFFSET)
    return offsets


def solve_text_offsets(logits: Tensor, cardinality: float, start: Tensor, steps: int) -> Tensor:
    """Return for each text the number that, added to its logits, gives it so many labels; (texts,)."""
    totals = torch.full((len(logits),), min(cardinality, logits.shape[1] - LEAST))
    return solve_offsets(
        lambda offsets: torch.sigmoid(logits + offsets[:, None]), lambda likely: likely.sum(dim=1), totals, start, steps
    )


class CollectiveProjection(torch.nn.Module):
    """Offsets that make predictions meet cardinality and prevalence.

    Args:
        offsets: b, (labels,).
        cardinality: κ.
        competition: ρ; at 0, texts have no offset.

    Shapes:
        - **input:** logits (texts, labels), or of some pairs
        - **output:** logits of the same shape
    """

    def __init__(self, offsets: Tensor, cardinality: float, competition: float) -> None:
        super().__init__()
        self.register_buffer("offsets", offsets)
        self.offsets: Tensor
        self.cardinality, self.competition = cardinality, competition

    @classmethod
    def solved(
        cls, logits: Tensor, prevalence: Tensor, cardinality: float, competition: float, pairs: Pairs | None = None
    ) -> "CollectiveProjection":
        """Find the label offsets on (training) texts.

        Where texts have candidates only, a label's true texts may lie elsewhere: the fewer of all texts it is a
        candidate of, the fewer of these it is asked to have, down to half of them at most. A label that is nobody's
        candidate keeps the offset that its prevalence alone suggests.

        Args:
            logits: (texts, labels), or of the pairs.
            prevalence: λ, (labels,); a label with λ = 0 gets an offset below which nothing is predicted.
            cardinality: κ.
            competition: ρ.
            pairs: which pairs the logits are of; all, if not given.
        """
        pairs = AllPairs(*logits.shape) if pairs is None else pairs
        texts, counts = pairs.texts, pairs.counts
        wanted = prevalence.to(logits) * texts
        totals = reachable(wanted, pairs).minimum(counts - LEAST).clamp_min(LEAST)
        alone = torch.logit(wanted / texts).clamp(-LARGEST_OFFSET, LARGEST_OFFSET)
        found = cls(torch.where(counts > 0, torch.logit(totals / counts.clamp_min(1)), alone), cardinality, competition)
        of_texts = torch.zeros(texts)
        for turn in range(ROUNDS):
            steps = LATER_STEPS if turn else FIRST_STEPS
            if competition:
                shifted = logits + pairs.spread(found.offsets)
                of_texts = solve_text_offsets(shifted, cardinality, of_texts, steps)
                base = logits + competition * of_texts[:, None]
            else:
                base = logits
            solved = solve_offsets(
                lambda offsets, base=base: torch.sigmoid(base + pairs.spread(offsets)),  # type: ignore[misc]
                pairs.sums,
                totals,
                found.offsets,
                steps,
            )
            found.offsets = torch.where(counts > 0, solved, alone)
            if not competition and turn:
                break
        return found

    def forward(self, logits: Tensor, pairs: Pairs | None = None) -> Tensor:
        """Add the offsets; each text's own is found anew, from it alone."""
        offsets = self.offsets if pairs is None else pairs.spread(self.offsets)
        if self.competition:
            start = torch.zeros(len(logits))
            of_texts = solve_text_offsets(logits + offsets, self.cardinality, start, 2 * FIRST_STEPS)
            logits = logits + self.competition * of_texts[:, None]
        return logits + offsets
