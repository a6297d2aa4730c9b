"""The default recipe's model: texts' inputs and the collective model, from features to predictions."""

import logging
from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from bncl_pyg.errors import InputError
from bncl_pyg.explanation import Account, ExplainedText
from bncl_pyg.features import LSA, Features, Predictions, TextInputs, all_pairs, pairs_of
from bncl_pyg.nn import CollectiveModel, CollectiveProjection, ScoreStandardizer
from bncl_pyg.priors import Priors
from bncl_pyg.training.default_explanation import explain_default

if TYPE_CHECKING:
    from bncl_pyg.graph import SignedLabelGraph

log = logging.getLogger(__name__)

TEXTS_AT_ONCE = 4096
NUMBERS = ("inverse_temperature", "decision_inverse_temperature", "max_logit", "at_least_one")
"""What a saved network holds besides its tensors and projections."""


class DefaultModel(torch.nn.Module):
    """What the default recipe learned.

    Args:
        text_inputs: from vectors and words to inputs.
        network: from scores and inputs to predictions.
        priors: the κ and λ that its predictions meet.
        candidates: how many labels a training text had.
    """

    def __init__(self, text_inputs: TextInputs, network: CollectiveModel, priors: Priors, candidates: int) -> None:
        super().__init__()
        self.text_inputs, self.network = text_inputs, network
        self.priors, self.candidates = priors, candidates

    @property
    def vector_length(self) -> int:
        """How many numbers the encoder's vector of a text has."""
        lsa = self.text_inputs.lsa
        return len(self.network.get_buffer("text_weights")) - (0 if lsa is None else lsa.components.shape[1])

    @torch.inference_mode()
    def predict(self, features: Features) -> Predictions:
        """Predict, some texts at a time."""
        self._check(features)
        starts = range(0, max(len(features), 1), TEXTS_AT_ONCE)
        return Predictions.joined([self._predict(features.rows(slice(at, at + TEXTS_AT_ONCE))) for at in starts])

    def _predict(self, features: Features) -> Predictions:
        device = self.network.get_buffer("thresholds").device
        entailment, contradiction = features.entailment.to(device), features.contradiction.to(device)
        candidates = None if features.candidates is None else features.candidates.to(device)
        pairs = pairs_of(candidates, entailment, len(features.labels))
        logits = self.network(entailment, contradiction, self.inputs(features, entailment), pairs)
        margins = self.network.decision_function(logits, pairs)
        decisions, probabilities = self.network.decide(margins), self.network.probabilities(logits, pairs)
        return Predictions(
            decisions.cpu(), probabilities.cpu(), margins.cpu(), len(features.labels), features.candidates
        )

    def explain(self, text: ExplainedText, label: int) -> Account:
        """Say what the logit of a decision consists of; see `Model`."""
        self._check(text.features)
        return explain_default(self.network, self.text_inputs, text, label)

    def inputs(self, features: Features, like: Tensor) -> Tensor:
        """Return what the linear functions see of texts; (texts, dimensions)."""
        inputs: Tensor = self.text_inputs(features.vectors, features.words, like)
        return inputs

    def label_graph(self, graph: "SignedLabelGraph") -> "SignedLabelGraph":
        """Return the graph that is given, which is used as it is."""
        return graph

    def tensors(self) -> dict[str, Tensor]:
        """Return the learned numbers; the label graph is not among them."""
        tensors = {name: tensor.contiguous() for name, tensor in self.network.state_dict().items()}
        if self.text_inputs.lsa is not None:
            tensors |= {f"lsa.{name}": tensor for name, tensor in self.text_inputs.lsa.state_dict().items()}
            # They were rounded to half precision when they were learned.
            tensors["lsa.components"] = tensors["lsa.components"].half()
        return tensors

    def config(self) -> dict[str, Any]:
        """Return the rest of the state."""
        return {
            **{name: getattr(self.network, name) for name in NUMBERS},
            "projections": {name: one.config() for name, one in self.network.projections.items()},  # type: ignore[operator]
            "uses_vectors": self.text_inputs.uses_vectors,
            "lsa_weight": self.text_inputs.lsa_weight,
            "candidates": self.candidates,
        }

    @classmethod
    def load(
        cls,
        tensors: Mapping[str, Tensor],
        config: Mapping[str, Any],
        priors: Priors,
    ) -> "DefaultModel":
        """Make the model again that `tensors` and `config` described."""

        def part(prefix: str) -> dict[str, Tensor]:
            return {name.removeprefix(prefix): tensors[name] for name in tensors if name.startswith(prefix)}

        words = part("lsa.")
        lsa = LSA(words["buckets"], words["idf"], words["components"].float()) if words else None
        network = CollectiveModel(
            ScoreStandardizer(**part("standardizer.")),
            tensors={name: tensor for name, tensor in tensors.items() if "." not in name},
            projections={
                name: CollectiveProjection(tensors[f"projections.{name}.offsets"], **numbers)
                for name, numbers in config["projections"].items()
            },
            **{name: config[name] for name in NUMBERS},
        )
        text_inputs = TextInputs(lsa, config["lsa_weight"], uses_vectors=config["uses_vectors"])
        model = cls(text_inputs, network, priors, config["candidates"]).eval()
        model._check_state(len(priors))
        return model

    @torch.inference_mode()
    def _check_state(self, labels: int) -> None:
        """Raise unless the numbers that were read fit each other: a text that is made up is predicted."""
        lsa, inputs = self.text_inputs.lsa, len(self.network.get_buffer("text_weights"))
        if lsa is not None and not len(lsa.buckets) == len(lsa.idf) == len(lsa.components):
            raise ValueError("the words have not one weight each")
        rank = 0 if lsa is None else lsa.components.shape[1]
        if inputs < rank or (inputs > rank) != self.text_inputs.uses_vectors:
            raise ValueError(f"{inputs} inputs are not those of {rank} axes of words and the vectors")
        if type(self.candidates) is not int or not 0 < self.candidates <= labels:
            raise ValueError(f"there cannot be {self.candidates} candidates of {labels} labels")
        if not isfinite(self.text_inputs.lsa_weight):
            raise ValueError("the weight of words is not finite")
        scores = torch.full((1, labels), 0.3)
        logits = self.network(scores, scores, scores.new_zeros(1, inputs), all_pairs(scores))
        margins = self.network.decision_function(logits, all_pairs(scores))
        if margins.shape != scores.shape or not bool(margins.isfinite().all()):
            raise ValueError("its numbers give no finite answers")
        if not bool(self.network.probabilities(logits, all_pairs(scores)).isfinite().all()):
            raise ValueError("its numbers give no finite probabilities")

    def _check(self, features: Features) -> None:
        """Refuse features that lack what the model looks at besides scores, or hold another encoder's vectors."""
        uses_vectors, vectors = self.text_inputs.uses_vectors, features.vectors
        missing = []
        if uses_vectors and vectors is None:
            missing.append("the encoder's vectors")
        if self.text_inputs.lsa is not None and features.words is None:
            missing.append("the words")
        if missing:
            raise InputError(
                f"The model was trained with {' and '.join(missing)} of the texts, which these features do not hold: "
                f"featurize the texts again, which adds them."
            )
        if uses_vectors and vectors is not None and vectors.shape[1] != self.vector_length:
            raise InputError(
                f"The model was trained with vectors of {self.vector_length} numbers a text, but these features hold "
                f"vectors of {vectors.shape[1]}: they are another encoder's."
            )
        if features.entailment.shape[1] != self.candidates:
            log.warning(features.other_candidates(self.candidates))
