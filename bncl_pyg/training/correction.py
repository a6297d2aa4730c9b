"""Learning from annotated texts: how the unsupervised logits are to be corrected; the less, the fewer there are."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from bncl_pyg.features import Pairs
from bncl_pyg.training.annotated import Annotated
from bncl_pyg.training.regression import Regression, fit_logistic, platt_scaling
from bncl_pyg.training.self_training import Prepared, SelfTrained


@dataclass(frozen=True)
class Correction:
    """What was learned from annotated texts.

    Args:
        rows: which texts are annotated.
        truth: of their pairs, whether they are true, 0 or 1.
        known: of their pairs, whether that is known, 0 or 1; `None` where all is known.
        regression: slopes, intercepts and weights of the text.
        logits: of the training texts; of annotated ones, as predicted without having seen their labels (held out).
        at_least_one: whether a text without any label gets its best one.
        inverse_temperature: what logits are multiplied with to become probabilities: the slope that fits texts that
            were held out.
        C: of the regression, as chosen.
    """

    rows: Tensor
    truth: Tensor
    known: Tensor | None
    regression: Regression
    logits: Tensor
    at_least_one: bool
    inverse_temperature: float
    C: float

    def tensors(self) -> dict[str, Tensor]:
        """Return the learned numbers by name; see `CollectiveModel`."""
        return self.regression._asdict()


CS, FOLDS = (0.3, 3.0, 30.0), 3
"""Among which C the likelihood of annotated texts held out chooses, and into how many parts they are cut."""
CHOICE_STEPS, FINAL_STEPS = 12, 25
"""Tolerances: steps of L-BFGS on all but a fold, and on all annotated texts."""
MAX_LOGIT = 14.0
"""A tolerance: beyond this, an unsupervised logit says no more."""


@dataclass(frozen=True)
class CorrectionFit:
    """Learning from annotated texts: a line for each label, and a linear function of the text.

    Args:
        line_std: how many logits a label's line is expected to be off, in its intercept and in its slope over the
            usual size of the unsupervised logits.
        slope: of the line that all labels share, where annotated texts are too few to tell: that with which
            unsupervised logits become those of probabilities.
    """

    line_std: float
    slope: float

    def fit(self, data: Prepared, unsupervised: SelfTrained, annotated: Annotated, seed: int) -> Correction:
        """Learn slopes, intercepts and weights of the text.

        Labels with few examples fall back to the common slope and intercept. The penalty on the text is the one that
        predicts annotated texts best that were held out.

        Args:
            data: the training texts.
            unsupervised: what was learned without annotated texts.
            annotated: the annotated texts.
            seed: of the folds.
        """
        ranks = data.pairs.ranks
        # Which of the annotated texts this process holds, and which of its texts these are.
        places, own = annotated.held_by(data.features)
        rows = torch.from_numpy(own.rows)
        bounded = unsupervised.projection(unsupervised.logits, data.pairs).clamp(-MAX_LOGIT, MAX_LOGIT)
        slope_std = self.line_std / max(root_mean_square(bounded, data.pairs), 1.0)
        pairs = data.pairs.rows(rows)
        known = None if own.known is None else pairs.select(own.known)
        fold = _Fold(self, slope_std, data, rows, pairs.select(own.labels), known, bounded[rows])
        order = torch.randperm(len(annotated), generator=torch.Generator().manual_seed(seed))
        here = torch.full((len(annotated),), -1)
        here[torch.from_numpy(places)] = torch.arange(len(rows))
        every = [here[order[number::FOLDS]] for number in range(min(FOLDS, len(annotated)))]
        folds = [held[held >= 0] for held in every]
        if len(folds) == 1:
            # A single annotated text cannot be held out.
            C = CS[0]
            held_out = fold.fit(torch.arange(len(rows)), C, FINAL_STEPS)[1]
        else:
            C, held_out = self._choose(fold, folds)
        regression, _ = fold.fit(torch.arange(len(rows)), C, FINAL_STEPS)
        logits = regression.added_logits(data.inputs, data.pairs, bounded)
        logits[rows] = held_out
        slope, _ = platt_scaling(*fold.counted(held_out, torch.arange(len(rows))), 1.0, ranks)
        # Also labels that are no candidates: a text whose labels are unknown is not a text without any.
        counts = annotated.labels_a_text()
        at_least_one = bool((counts > 0).all())
        return Correction(rows, fold.truth, known, regression, logits, at_least_one, float(slope), C)

    def _choose(self, fold: "_Fold", folds: list[Tensor]) -> tuple[float, Tensor]:
        """Return the C that predicts the first fold best, and the logits of all folds, each held out."""
        first = folds[0]
        tried = {C: fold.held_out(first, C) for C in CS}
        own = [
            float(binary_cross_entropy_with_logits(*fold.counted(logits.double(), first), reduction="sum"))
            for logits in tried.values()
        ]
        losses = dict(zip(tried, fold.data.pairs.ranks.total(*own), strict=True))
        C = min(losses, key=losses.__getitem__)
        held_out = torch.zeros_like(fold.truth)
        held_out[first] = tried[C]
        for other in folds[1:]:
            held_out[other] = fold.held_out(other, C)
        return C, held_out


@dataclass(frozen=True)
class _Fold:
    """The annotated texts, of which some are held out at a time."""

    numbers: CorrectionFit
    slope_std: float
    data: Prepared
    rows: Tensor
    truth: Tensor
    known: Tensor | None
    logits: Tensor

    def counted(self, logits: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits of some texts beside the truth: of all their pairs, or of those that are known, (pairs, 1)."""
        truth = self.truth[places]
        if self.known is None:
            return logits, truth.to(logits)
        counts = self.known[places] > 0
        return logits[counts][:, None], truth[counts][:, None].to(logits)

    def fit(self, places: Tensor, C: float, steps: int) -> tuple[Regression, Tensor]:
        """Learn from some of them; return what was learned, and the logits of all."""
        numbers, inputs, pairs = self.numbers, self.data.pca_inputs.rows(self.rows), self.data.pairs.rows(self.rows)
        slope, intercept = platt_scaling(*self.counted(self.logits[places], places), numbers.slope, pairs.ranks)
        own = fit_logistic(
            inputs.rows(places),
            self.truth[places],
            slope * self.logits[places] + intercept,
            C,
            steps=steps,
            intercept_std=numbers.line_std,
            scores=self.logits[places],
            slope_std=self.slope_std,
            pairs=pairs.rows(places),
            known=None if self.known is None else self.known[places],
        )
        regression = Regression(own.weights, own.intercepts + intercept, own.slopes + slope)
        return regression, regression.added_logits(self.data.inputs[self.rows], pairs, self.logits)

    def held_out(self, fold: Tensor, C: float) -> Tensor:
        """Return the logits of a fold, learned from the others."""
        rest = torch.ones(len(self.rows), dtype=torch.bool)
        rest[fold] = False
        return self.fit(rest.nonzero()[:, 0], C, CHOICE_STEPS)[1][fold]


def root_mean_square(values: Tensor, pairs: Pairs) -> float:
    """Return the root of the mean of squares over all pairs that values are of."""
    squares, count = pairs.ranks.total(float(values.square().sum(dtype=torch.float64)), values.numel())
    return math.sqrt(squares / max(count, 1))
