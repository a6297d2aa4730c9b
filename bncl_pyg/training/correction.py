"""Learning from annotated texts: how the unsupervised logits are to be corrected; the less, the fewer there are."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from bncl_pyg.errors import InputError
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

    def distinct(self) -> tuple[Tensor, Tensor]:
        """Return the rows of which everything is known and their truth, without repetitions."""
        places = torch.from_numpy(np.unique(self.rows.numpy(), return_index=True)[1])
        if self.known is not None:
            places = places[self.known[places].all(dim=1)]
        return self.rows[places], self.truth[places]

    def tensors(self) -> dict[str, Tensor]:
        """Return the learned numbers by name; see `CollectiveModel`."""
        return self.regression._asdict()


@dataclass(frozen=True)
class CorrectionFit:
    """Every number of learning from annotated texts.

    Args:
        Cs: C of the regression, of which the likelihood of texts held out chooses.
        folds: into how many parts annotated texts are cut.
        intercept_std: how far labels' intercepts are expected to be off.
        slope_std: the same for slopes.
        slope_prior: where the common slope is pulled to.
        held_out_slope_prior: where the slope of texts held out, their inverse temperature, is pulled to.
        platt_penalty: how strongly the common slope and intercept are pulled; see `platt_scaling`.
        choice_steps: of L-BFGS on all but a fold.
        final_steps: of L-BFGS on all annotated texts.
        max_logit: beyond this, an unsupervised logit says no more.
        min_unlabelled_share: from this share of annotated texts without any label on, texts may stay without one.
    """

    Cs: tuple[float, ...] = (0.3, 3.0, 30.0)
    folds: int = 3
    intercept_std: float = 2.0
    slope_std: float = 0.25
    slope_prior: float = 0.5
    held_out_slope_prior: float = 1.0
    platt_penalty: float = 4.0
    choice_steps: int = 12
    final_steps: int = 25
    max_logit: float = 14.0
    min_unlabelled_share: float = 0.05

    def __post_init__(self) -> None:
        if self.folds < 2:
            raise InputError(f"Annotated texts must be cut into at least 2 folds, but folds is {self.folds}.")

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
        rows = torch.from_numpy(annotated.rows)
        projected = unsupervised.projection(unsupervised.logits, data.pairs)
        bounded = projected.clamp(-self.max_logit, self.max_logit)
        pairs = data.pairs.rows(rows)
        known = None if annotated.known is None else pairs.select(annotated.known)
        fold = _Fold(self, data, rows, pairs.select(annotated.labels), known, bounded[rows])
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
        folds = [order[number :: self.folds] for number in range(min(self.folds, len(rows)))]
        if len(folds) == 1:
            # A single annotated text cannot be held out.
            C = self.Cs[0]
            held_out = fold.fit(torch.arange(1), C, self.final_steps)[1]
        else:
            C, held_out = self._choose(fold, folds)
        regression, _ = fold.fit(torch.arange(len(rows)), C, self.final_steps)
        logits = regression.added_logits(data.inputs, data.pairs, bounded)
        logits[rows] = held_out
        every = torch.arange(len(rows))
        slope, _ = platt_scaling(*fold.counted(held_out, every), self.held_out_slope_prior, self.platt_penalty)
        # Also labels that are no candidates: a text whose labels are unknown is not a text without any.
        none = annotated.labels_a_text() == 0
        at_least_one = bool(none.mean() < self.min_unlabelled_share) if len(none) else True
        return Correction(rows, fold.truth, known, regression, logits, at_least_one, float(slope), C)

    def _choose(self, fold: "_Fold", folds: list[Tensor]) -> tuple[float, Tensor]:
        """Return the C that predicts the first fold best, and the logits of all folds, each held out."""
        first = folds[0]
        tried = {C: fold.held_out(first, C) for C in self.Cs}
        losses = {
            C: float(binary_cross_entropy_with_logits(*fold.counted(logits, first), reduction="sum"))
            for C, logits in tried.items()
        }
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
    data: Prepared
    rows: Tensor
    truth: Tensor
    known: Tensor | None
    logits: Tensor

    def counted(self, logits: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits of some texts beside the truth: of all their pairs, or of those that are known, (pairs, 1)."""
        truth = self.truth[places]
        if self.known is None:
            return logits, truth
        counts = self.known[places] > 0
        return logits[counts][:, None], truth[counts][:, None]

    def fit(self, places: Tensor, C: float, steps: int) -> tuple[Regression, Tensor]:
        """Learn from some of them; return what was learned, and the logits of all."""
        numbers, inputs, pairs = self.numbers, self.data.pca_inputs.rows(self.rows), self.data.pairs.rows(self.rows)
        slope, intercept = platt_scaling(
            *self.counted(self.logits[places], places), numbers.slope_prior, numbers.platt_penalty
        )
        own = fit_logistic(
            inputs.rows(places),
            self.truth[places],
            slope * self.logits[places] + intercept,
            C,
            steps=steps,
            intercept_std=numbers.intercept_std,
            scores=self.logits[places],
            slope_std=numbers.slope_std,
            pairs=pairs.rows(places),
            known=None if self.known is None else self.known[places],
        )
        regression = Regression(own.weights, own.intercepts + intercept, own.slopes + slope)
        return regression, regression.added_logits(self.data.inputs[self.rows], pairs, self.logits)

    def held_out(self, fold: Tensor, C: float) -> Tensor:
        """Return the logits of a fold, learned from the others."""
        rest = torch.ones(len(self.rows), dtype=torch.bool)
        rest[fold] = False
        return self.fit(rest.nonzero()[:, 0], C, self.numbers.choice_steps)[1][fold]
