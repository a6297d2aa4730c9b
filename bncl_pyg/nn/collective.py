"""The model of the default recipe: scores, text and label graph, joined so that all predictions together look right."""

from collections.abc import Mapping
from typing import Any

import torch
from scipy.sparse import csr_array
from torch import Tensor

from bncl_pyg.features import AllPairs, Pairs, WordAxes, text_inputs
from bncl_pyg.nn.projection import CollectiveProjection
from bncl_pyg.nn.signed_messages import SignedMessages

SMALL = 1e-6
LEAST_SPREAD = 1e-3
"""Beside the usual one; less is rounding."""
FARTHEST = 14.0
"""Beyond this, a logit says no more."""


class ScoreScale(torch.nn.Module):
    """From entailment and contradiction to one standardised score z a (text, label).

    z is the mean of the entailment and of log(entailment / contradiction), each with mean 0 and deviation 1 over the
    training texts, label by label: the first tells the very best texts apart, the second all the others. A pair without
    any score (neither entailed nor contradicted) gets the label's lowest z.

    Shapes:
        - **input:** entailment q (texts, labels), contradiction q̄ (texts, labels), or of some pairs
        - **output:** z of the same shape
    """

    def __init__(self, means: Tensor, spreads: Tensor, lowest: Tensor) -> None:
        super().__init__()
        self.register_buffer("means", means)
        self.register_buffer("spreads", spreads)
        self.register_buffer("lowest", lowest)
        self.means: Tensor
        self.spreads: Tensor
        self.lowest: Tensor

    @classmethod
    def fit(cls, entailment: Tensor, contradiction: Tensor, pairs: Pairs | None = None) -> "ScoreScale":
        """Find means and deviations on the training texts."""
        pairs = AllPairs(*entailment.shape) if pairs is None else pairs
        labels = pairs.labels
        found = cls(torch.zeros(3, labels), torch.ones(3, labels), torch.zeros(labels))
        known = entailment + contradiction > 0
        for row, values in enumerate((entailment, log_odds(entailment, contradiction))):
            found.means[row], found.spreads[row] = _moments(values, known, pairs)
        joined = found._joined(entailment, contradiction, pairs)
        found.means[2], found.spreads[2] = _moments(joined, known, pairs)
        scaled = found._standard(joined, 2, pairs)
        found.lowest = pairs.lowest(scaled.masked_fill(~known, torch.inf)).clamp(max=0)
        return found

    def forward(self, entailment: Tensor, contradiction: Tensor, pairs: Pairs | None = None) -> Tensor:
        """Return z."""
        pairs = AllPairs(*entailment.shape) if pairs is None else pairs
        scaled = self._standard(self._joined(entailment, contradiction, pairs), 2, pairs)
        return torch.where(entailment + contradiction > 0, scaled, pairs.spread(self.lowest))

    def _joined(self, entailment: Tensor, contradiction: Tensor, pairs: Pairs) -> Tensor:
        first = self._standard(entailment, 0, pairs)
        return first + self._standard(log_odds(entailment, contradiction), 1, pairs)

    def _standard(self, values: Tensor, row: int, pairs: Pairs) -> Tensor:
        return (values - pairs.spread(self.means[row])) / pairs.spread(self.spreads[row])


def log_odds(entailment: Tensor, contradiction: Tensor) -> Tensor:
    """Return log(q / q̄)."""
    return ((entailment + SMALL) / (contradiction + SMALL)).log()


def _moments(values: Tensor, known: Tensor, pairs: Pairs) -> tuple[Tensor, Tensor]:
    """Return each label's mean and deviation over the known values; (labels,) each."""
    count = pairs.sums(known.to(values)).clamp_min(1)
    mean = pairs.sums(torch.where(known, values, 0)) / count
    spread = (pairs.sums(torch.where(known, values - pairs.spread(mean), 0).square()) / count).sqrt()
    # A label that was never scored, or always the same, has no deviation of its own: it takes the usual one.
    usual = spread[spread > 0].median() if bool((spread > 0).any()) else torch.tensor(1.0)
    return mean, torch.where(spread > LEAST_SPREAD * usual, spread, usual)


class CollectiveModel(torch.nn.Module):
    """Everything that the default recipe learned.

    1. Scores become z. What is added to them: a linear function of the text, and what the neighbours in the label graph
       say. The `projection` makes the result meet κ and λ: the logits that need no annotated text.
    2. With annotated texts, these logits are corrected: slope, intercept and a second linear function of the text.
    3. From the logits, probabilities (`calibration`) and decisions (`decision`, twice as steep), each projected.

    Args:
        scale: from scores to z.
        axes: of the words, if they are used.
        messages: along the label graph, if it is used.
        vectors: whether the encoder's vectors are used.
        tensors: the learned numbers: `score_weight` (), `text_weights` (dimensions, labels), `text_intercepts`
            (labels,), `ceiling`, how probable each label gets at most, and `thresholds`, how certain it must be to be
            predicted, (labels,); with annotated texts `slopes`, `intercepts` (labels,), `weights` (dimensions, labels).
        projections: `free`, `calibration` and `decision`.
        steepness: of decisions.
        softness: what logits are multiplied with to become probabilities.
        at_least_one: whether a text without any label gets its best one.
    """

    def __init__(
        self,
        scale: ScoreScale,
        axes: WordAxes | None,
        messages: SignedMessages | None,
        *,
        vectors: bool,
        tensors: Mapping[str, Tensor],
        projections: Mapping[str, CollectiveProjection],
        steepness: float,
        softness: float,
        at_least_one: bool,
    ) -> None:
        super().__init__()
        self.scale, self.axes, self.messages, self.vectors = scale, axes, messages, vectors
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)
        self.projections = torch.nn.ModuleDict(dict(projections))
        self.steepness, self.softness, self.at_least_one = steepness, softness, at_least_one

    @property
    def corrected(self) -> bool:
        """Whether annotated texts were there to learn from."""
        return hasattr(self, "slopes")

    @property
    def vector_length(self) -> int:
        """How many numbers the encoder's vector of a text has."""
        return len(self.get_buffer("text_weights")) - (0 if self.axes is None else self.axes.axes.shape[1])

    def inputs(self, vectors: Tensor | None, words: csr_array | None, texts: int) -> Tensor:
        """Return what the linear functions see of texts; (texts, dimensions)."""
        return text_inputs(vectors if self.vectors else None, words, self.axes, texts)

    def forward(self, entailment: Tensor, contradiction: Tensor, inputs: Tensor, pairs: Pairs | None = None) -> Tensor:
        """Return logits, (texts, labels), or of the pairs that are given."""
        pairs = AllPairs(*entailment.shape) if pairs is None else pairs
        scores = self.scale(entailment, contradiction, pairs)
        logits = free_logits(scores, inputs, self.messages, dict(self.named_buffers()), pairs)
        if not self.corrected:
            return logits
        projected: Tensor = self.projections["free"](logits, pairs)
        known = projected.clamp(-FARTHEST, FARTHEST)
        of_text = pairs.linear(inputs, self.get_buffer("weights")) + pairs.spread(self.get_buffer("intercepts"))
        return of_text + pairs.spread(self.get_buffer("slopes")) * known

    def probabilities(self, logits: Tensor, pairs: Pairs | None = None) -> Tensor:
        """Return how probable each label is; (texts, labels), or of the pairs."""
        projected: Tensor = self.projections["calibration"](self.softness * logits, pairs)
        ceiling = self.get_buffer("ceiling")
        return torch.sigmoid(projected) * (ceiling if pairs is None else pairs.spread(ceiling))

    def decide(self, logits: Tensor, pairs: Pairs | None = None) -> Tensor:
        """Return which labels each text has; boolean, (texts, labels), or of the pairs."""
        return decided(self.certainty(logits, pairs), at_least_one=self.at_least_one)

    def certainty(self, logits: Tensor, pairs: Pairs | None = None) -> Tensor:
        """Return what is above 0 where a label is predicted; (texts, labels), or of the pairs."""
        projected: Tensor = self.projections["decision"](self.steepness * logits, pairs)
        thresholds = self.get_buffer("thresholds")
        return projected - (thresholds if pairs is None else pairs.spread(thresholds))


def free_logits(
    scores: Tensor, inputs: Tensor, messages: SignedMessages | None, tensors: Mapping[str, Tensor], pairs: Pairs
) -> Tensor:
    """Return the logits that need no annotated text, before they are projected."""
    of_text = pairs.linear(inputs, tensors["text_weights"]) + pairs.spread(tensors["text_intercepts"])
    logits = tensors["score_weight"] * scores + of_text
    return logits if messages is None else logits + messages(scores, pairs=pairs)


def decided(logits: Tensor, *, at_least_one: bool) -> Tensor:
    """Return where logits are above 0 and, if wanted, the best label of a text without any; boolean."""
    said = logits > 0
    if at_least_one:
        none = ~said.any(dim=1)
        said[none, logits[none].argmax(dim=1)] = True
    return said


def as_state(model: CollectiveModel) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return a model as tensors and as what JSON can hold; the label graph is not among it."""
    tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    if model.axes is not None:
        tensors |= {"words.buckets": model.axes.buckets, "words.rarity": model.axes.rarity}
        tensors["words.axes"] = model.axes.axes.half()
    about = {name: getattr(model, name) for name in ("vectors", "steepness", "softness", "at_least_one")}
    about["projections"] = {
        name: {"cardinality": one.cardinality, "competition": one.competition}
        for name, one in model.projections.items()
    }
    return tensors, about


def from_state(tensors: Mapping[str, Tensor], about: Mapping[str, Any], edge_index: Tensor) -> CollectiveModel:
    """Make the model that `as_state` described; `edge_index` is the label graph's."""

    def part(prefix: str) -> dict[str, Tensor]:
        return {name.removeprefix(prefix): found for name, found in tensors.items() if name.startswith(prefix)}

    words, scale = part("words."), part("scale.")
    axes = WordAxes(words["buckets"], words["rarity"], words["axes"].float()) if words else None
    messages = None
    if "messages.weight" in tensors:
        messages = SignedMessages(edge_index, len(scale["lowest"]))
        messages.load_state_dict(part("messages."))
        messages.requires_grad_(False)
    projections = {
        name: CollectiveProjection(tensors[f"projections.{name}.offsets"], **numbers)
        for name, numbers in about["projections"].items()
    }
    own = {name: found for name, found in tensors.items() if "." not in name}
    rest = {name: about[name] for name in ("vectors", "steepness", "softness", "at_least_one")}
    return CollectiveModel(ScoreScale(**scale), axes, messages, tensors=own, projections=projections, **rest)
