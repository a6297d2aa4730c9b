r"""The collective projection: the least change to the logits after which all predictions together look right.

.. math:: p_{il} = σ(s_{il} + ρ a_i + b_l), \quad \sum_i p_{il} = N λ_l, \quad \sum_l σ(s_{il} + a_i + b_l) = κ

It meets what the paper's L2 and L3 only ask for: each label is as common as it should be, and each text has κ labels,
as far as ρ, the competition among a text's labels, demands. The two are solved in turn; eight turns leave λ a few per
cent off.
"""

import torch
from torch import Tensor

from bncl_pyg.features import AllPairs, Pairs, reachable, row_blocks

FIRST_STEPS, LATER_STEPS, ROUNDS = 8, 2, 8
LARGEST_STEP, LARGEST_OFFSET = 2.0, 40.0
TINY = 1e-12
LEAST = 1e-3
"""How far a total is kept from nothing and from everything."""


def solve_text_offsets(logits: Tensor, cardinality: float, start: Tensor, steps: int) -> Tensor:
    """Return for each text the number that, added to its logits, gives it so many labels; (texts,).

    Args:
        logits: (texts, labels), or of some pairs.
        cardinality: how many.
        start: offsets to start from, (texts,).
        steps: of Newton's method.
    """
    total = min(cardinality, logits.shape[1] - LEAST)
    found = torch.empty_like(start)
    # Some texts at a time, through all steps: they stay in the cache.
    for rows in row_blocks(logits):
        mine, offsets = logits[rows], start[rows]
        wanted = torch.full_like(offsets, total)
        for _ in range(steps):
            likely = (mine + offsets[:, None]).sigmoid_()
            sums = likely.sum(dim=1)
            offsets = _nearer(offsets, wanted, sums, likely.mul_(1 - likely).sum(dim=1))
        found[rows] = offsets
    return found


def solve_label_offsets(logits: Tensor, totals: Tensor, start: Tensor, steps: int, pairs: Pairs) -> Tensor:
    """Return for each label the number that, added to its logits, gives it to so many texts; (labels,).

    Args:
        logits: of the pairs.
        totals: how many, (labels,), above 0 and below the number of texts whose candidate the label is.
        start: offsets to start from, (labels,).
        steps: of Newton's method.
        pairs: which pairs the logits are of.
    """
    offsets = start
    for _ in range(steps):
        offsets = _nearer(offsets, totals, *pairs.likely_sums(logits, offsets))
    return offsets


def _nearer(offsets: Tensor, totals: Tensor, sums: Tensor, slopes: Tensor) -> Tensor:
    """Take a step of Newton's method on the logarithm of the sum, which is nearly linear where a total is small."""
    sums = sums.clamp_min(TINY)
    change = (totals.log() - sums.log()) * sums / slopes.clamp_min(TINY)
    return (offsets + change.clamp(-LARGEST_STEP, LARGEST_STEP)).clamp(-LARGEST_OFFSET, LARGEST_OFFSET)


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
        cls,
        logits: Tensor,
        prevalence: Tensor,
        cardinality: float,
        competition: float,
        pairs: Pairs | None = None,
        ceiling: Tensor | None = None,
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
            ceiling: what probabilities will be multiplied with before they should meet κ and λ, (labels,), above λ.
        """
        pairs = AllPairs(*logits.shape) if pairs is None else pairs
        texts, counts = pairs.texts, pairs.counts
        wanted = prevalence.to(logits) * texts
        totals = reachable(wanted, pairs)
        if ceiling is not None:
            wanted, totals = wanted / ceiling, totals / ceiling
            cardinality = float(totals.sum()) / texts
        totals = totals.minimum(counts - LEAST).clamp_min(LEAST)
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
            solved = solve_label_offsets(base, totals, found.offsets, steps, pairs)
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
