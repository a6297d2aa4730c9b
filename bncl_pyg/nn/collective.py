"""The model of the default recipe: scores and text, joined so that all predictions together look right."""

from collections.abc import Mapping

import torch
from torch import Tensor

from bncl_pyg.features import Pairs, all_pairs
from bncl_pyg.nn.projection import CollectiveProjection
from bncl_pyg.nn.standardize import ScoreStandardizer


class CollectiveModel(torch.nn.Module):
    """Everything that the default recipe learned, but for what turns words into numbers.

    1. Scores become z. A linear function of the text is added, in which labels learned from their neighbours in the
       label graph. The `unsupervised` projection makes the result meet κ and λ: the logits that need no annotated text.
    2. With annotated texts, these logits are corrected: slope, intercept and a second linear function of the text.
    3. From the logits, probabilities (the `calibration` projection) and decisions (the `decision` projection), each
       with its own temperature.

    Args:
        standardizer: from scores to z.
        tensors: the learned numbers: `score_weight` (), `text_weights` (dimensions, labels), `text_intercepts`
            (labels,), `thresholds`, above which the decision function must be for the label to be predicted, (labels,);
            with annotated texts `slopes`, `intercepts` (labels,), `weights` (dimensions, labels).
        projections: `unsupervised`, `calibration` and `decision`.
        inverse_temperature: what logits are multiplied with to become probabilities.
        decision_inverse_temperature: what logits are multiplied with to become decisions.
        max_logit: beyond this, an unsupervised logit says no more to the correction.
        at_least_one: whether a text without any label gets its best one.

    Shapes:
        - **input:** entailment q, contradiction q̄ (texts, labels), or of some pairs; inputs (texts, dimensions)
        - **output:** logits (texts, labels), or of the pairs
    """

    def __init__(
        self,
        standardizer: ScoreStandardizer,
        *,
        tensors: Mapping[str, Tensor],
        projections: Mapping[str, CollectiveProjection],
        inverse_temperature: float,
        decision_inverse_temperature: float,
        max_logit: float,
        at_least_one: bool,
    ) -> None:
        super().__init__()
        self.standardizer = standardizer
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)
        self.projections = torch.nn.ModuleDict(dict(projections))
        self.inverse_temperature = float(inverse_temperature)
        self.decision_inverse_temperature = float(decision_inverse_temperature)
        self.max_logit, self.at_least_one = float(max_logit), bool(at_least_one)

    @property
    def is_corrected(self) -> bool:
        """Whether annotated texts were there to learn from."""
        return hasattr(self, "slopes")

    def forward(self, entailment: Tensor, contradiction: Tensor, inputs: Tensor, pairs: Pairs | None = None) -> Tensor:
        """Return logits."""
        pairs = all_pairs(entailment) if pairs is None else pairs
        scores = self.standardizer(entailment, contradiction, pairs)
        logits = unsupervised_logits(scores, inputs, dict(self.named_buffers()), pairs)
        if not self.is_corrected:
            return logits
        projected: Tensor = self.projections["unsupervised"](logits, pairs)
        bounded = projected.clamp(-self.max_logit, self.max_logit)
        of_text = pairs.linear(inputs, self.get_buffer("weights"))
        of_text = of_text + pairs.broadcast_to_pairs(self.get_buffer("intercepts"))
        return of_text + pairs.broadcast_to_pairs(self.get_buffer("slopes")) * bounded

    def probabilities(self, logits: Tensor, pairs: Pairs | None = None) -> Tensor:
        """Return how probable each label is; (texts, labels), or of the pairs."""
        projected: Tensor = self.projections["calibration"](self.inverse_temperature * logits, pairs)
        return torch.sigmoid(projected)

    def decision_function(self, logits: Tensor, pairs: Pairs | None = None) -> Tensor:
        """Return what is above 0 where a label is predicted; (texts, labels), or of the pairs."""
        projected: Tensor = self.projections["decision"](self.decision_inverse_temperature * logits, pairs)
        thresholds = self.get_buffer("thresholds")
        return projected - (thresholds if pairs is None else pairs.broadcast_to_pairs(thresholds))

    def decide(self, margins: Tensor) -> Tensor:
        """Return which labels each text has, from the decision function; boolean, of the same shape."""
        return decide(margins, at_least_one=self.at_least_one)


def unsupervised_logits(scores: Tensor, inputs: Tensor, tensors: Mapping[str, Tensor], pairs: Pairs) -> Tensor:
    """Return the logits that need no annotated text, before they are projected."""
    of_text = pairs.linear(inputs, tensors["text_weights"]) + pairs.broadcast_to_pairs(tensors["text_intercepts"])
    return tensors["score_weight"] * scores + of_text


def decide(margins: Tensor, *, at_least_one: bool) -> Tensor:
    """Return where margins are above 0 and, if wanted, the best label of a text without any; boolean."""
    decisions = margins > 0
    if at_least_one:
        none = ~decisions.any(dim=1)
        decisions[none, margins[none].argmax(dim=1)] = True
    return decisions
