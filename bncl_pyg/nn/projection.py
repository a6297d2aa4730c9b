r"""The collective projection: the least change to the logits after which all predictions together look right.

.. math:: p_{il} = σ(s_{il} + ρ a_i + b_l), \quad \sum_i p_{il} = N λ_l, \quad \sum_l σ(s_{il} + a_i + b_l) = κ

It meets what the paper's L2 and L3 only ask for: each label is as common as it should be, and each text has κ labels,
as far as ρ, the competition among a text's labels, demands. The two are solved in turn; eight turns leave λ a few per
cent off.
"""

import torch
from torch import Tensor

FIRST_STEPS, LATER_STEPS, ROUNDS = 8, 2, 8
LARGEST_STEP, LARGEST_OFFSET = 2.0, 40.0
TINY = 1e-12


def solve_offsets(logits: Tensor, totals: Tensor, start: Tensor, steps: int) -> Tensor:
    """Return for each row the number that, added to its logits, makes their sigmoids add up to the row's total.

    Newton's method on the logarithm of the sum, which is nearly linear where a total is small.

    Args:
        logits: (rows, columns).
        totals: (rows,), above 0 and below the number of columns.
        start: (rows,).
        steps: how many.
    """
    wanted, offsets = totals.log(), start
    for _ in range(steps):
        likely = torch.sigmoid(logits + offsets[:, None])
        found = likely.sum(dim=1).clamp_min(TINY)
        slope = likely.mul_(1 - likely).sum(dim=1).clamp_min(TINY) / found
        change = ((wanted - found.log()) / slope).clamp(-LARGEST_STEP, LARGEST_STEP)
        offsets = (offsets + change).clamp(-LARGEST_OFFSET, LARGEST_OFFSET)
    return offsets


class CollectiveProjection(torch.nn.Module):
    """Offsets that make predictions meet cardinality and prevalence.

    Args:
        offsets: b, (labels,).
        cardinality: κ.
        competition: ρ; at 0, texts have no offset.

    Shapes:
        - **input:** logits (texts, labels)
        - **output:** logits (texts, labels)
    """

    def __init__(self, offsets: Tensor, cardinality: float, competition: float) -> None:
        super().__init__()
        self.register_buffer("offsets", offsets)
        self.offsets: Tensor
        self.cardinality, self.competition = cardinality, competition

    @classmethod
    def solved(
        cls, logits: Tensor, prevalence: Tensor, cardinality: float, competition: float
    ) -> "CollectiveProjection":
        """Find the label offsets on (training) texts.

        Args:
            logits: (texts, labels).
            prevalence: λ, (labels,); a label with λ = 0 gets an offset below which nothing is predicted.
            cardinality: κ.
            competition: ρ.
        """
        texts = len(logits)
        totals = (prevalence.to(logits) * texts).clamp(1e-3, texts - 1e-3)
        by_label = logits.t().contiguous()
        found = cls(torch.logit(totals / texts), cardinality, competition)
        of_texts = torch.zeros(texts)
        for turn in range(ROUNDS):
            steps = LATER_STEPS if turn else FIRST_STEPS
            if competition:
                of_texts = found._text_offsets(logits, of_texts, steps)
            found.offsets = solve_offsets(by_label + competition * of_texts, totals, found.offsets, steps)
            if not competition and turn:
                break
        return found

    def forward(self, logits: Tensor) -> Tensor:
        """Add the offsets; each text's own is found anew, from it alone."""
        if self.competition:
            of_texts = self._text_offsets(logits, torch.zeros(len(logits)), 2 * FIRST_STEPS)
            logits = logits + self.competition * of_texts[:, None]
        return logits + self.offsets

    def _text_offsets(self, logits: Tensor, start: Tensor, steps: int) -> Tensor:
        most = logits.shape[1] - 1e-3
        totals = torch.full((len(logits),), min(self.cardinality, most))
        return solve_offsets(logits + self.offsets, totals, start, steps)
