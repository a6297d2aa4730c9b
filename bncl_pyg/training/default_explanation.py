"""What a logit of the default recipe's model consists of.

Up to the correction by annotated texts everything is a sum: the score, the words, the vector (in both, what came along
the label graph), the offset of the text (competition) and that of the label (prior). A correction multiplies the sum by
a slope, which the contributions carry with them, and adds another linear function of the same words and the same
vector.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import fsum

import torch
from torch import Tensor

from bncl_pyg.explanation import Account, Contribution, Detail, ExplainedText, shapley_values
from bncl_pyg.features import Pairs, TextInputs, pairs_of
from bncl_pyg.nn import CollectiveModel, CollectiveProjection, unsupervised_logits
from bncl_pyg.scorers import join_scores


@torch.inference_mode()
def explain_default(network: CollectiveModel, text_inputs: TextInputs, text: ExplainedText, label: int) -> Account:
    """Return what the logit of a label's decision consists of.

    Args:
        network: from scores and inputs to logits.
        text_inputs: from vectors and words to inputs.
        text: what is known of the text.
        label: which one; a candidate of the text.
    """
    return _Logit.of(network, text_inputs, text, label).account()


@dataclass(frozen=True)
class _Logit:
    """One (text, label) pair on its way through the network.

    Args:
        network: from scores and inputs to logits.
        text_inputs: from vectors and words to inputs.
        text: what is known of the text.
        label: which one.
        place: its column.
        pairs: which pairs there are.
        scores: z of all labels, (1, labels).
        inputs: (1, dimensions).
        unsupervised: the logits without annotated texts, before they are projected, (1, labels).
        beta: the inverse temperature of decisions.
        slope: what a correction multiplies a logit with before that; 1 without.
    """

    network: CollectiveModel
    text_inputs: TextInputs
    text: ExplainedText
    label: int
    place: int
    pairs: Pairs
    scores: Tensor
    inputs: Tensor
    unsupervised: Tensor
    beta: float
    slope: float

    @classmethod
    def of(cls, network: CollectiveModel, text_inputs: TextInputs, text: ExplainedText, label: int) -> "_Logit":
        device, features = network.get_buffer("thresholds").device, text.features
        entailment, contradiction = features.entailment.to(device), features.contradiction.to(device)
        candidates = None if features.candidates is None else features.candidates.to(device)
        pairs = pairs_of(candidates, entailment, len(features.labels))
        scores = network.standardizer(entailment, contradiction, pairs)
        inputs = text_inputs(features.vectors, features.words, entailment)
        place = text.place(label)
        assert place is not None
        return cls(
            network,
            text_inputs,
            text,
            label,
            place,
            pairs,
            scores,
            inputs,
            unsupervised_logits(scores, inputs, dict(network.named_buffers()), pairs),
            network.decision_inverse_temperature,
            float(network.get_buffer("slopes")[label]) if network.is_corrected else 1.0,
        )

    @property
    def gain(self) -> float:
        """What everything before a correction is multiplied with."""
        return self.beta * self.slope

    def account(self) -> Account:
        """Return all contributions, but for those that could never be there."""
        parts = [self._start(), *self._of_text(), *self._offsets()]
        return Account(tuple(parts), float(self.network.get_buffer("thresholds")[self.label]))

    def _start(self) -> Contribution:
        z = float(self.scores[0, self.place])
        weight = self.gain * float(self.network.get_buffer("score_weight"))
        q, against = (float(part[0, self.place]) for part in self._entailment())
        meaning = (
            f"What the language model says of text and label: entailment {q:.3f}, contradiction {against:.3f}, "
            f"{abs(z):.2f} standard deviations {'above' if z >= 0 else 'below'} the label's mean."
        )
        return Contribution("start score", weight * z, meaning, tuple(self._of_scorers(weight)))

    def _entailment(self) -> tuple[Tensor, Tensor]:
        return self.text.features.entailment, self.text.features.contradiction

    def _of_scorers(self, weight: float) -> Iterator[Detail]:
        """Yield the share of each part of an ensemble: what it adds to z, whichever parts are asked before it."""
        parts = self.text.features.parts
        if not parts or float(sum(part[0, self.place] for part in self._entailment())) <= 0:
            return

        def value(names: tuple[str, ...]) -> float:
            if len(names) in (0, len(parts)):
                return float(self.scores[0, self.place]) if names else 0.0
            joint = join_scores([parts[name] for name in names]).to(self.scores.device)
            return float(self.network.standardizer(joint[0], joint[1], self.pairs)[0, self.place])

        for name, share in shapley_values(list(parts), value).items():
            q, against = parts[name][:, 0, self.place].tolist()
            yield Detail(name, weight * share, f"entails {q:.2f}, contradicts {against:.2f}")

    def _of_text(self) -> Iterator[Contribution]:
        weights = self.gain * self.network.get_buffer("text_weights")[:, self.label].double()
        intercept = self.gain * float(self.network.get_buffer("text_intercepts")[self.label])
        if self.network.is_corrected:
            weights = weights + self.beta * self.network.get_buffer("weights")[:, self.label].double()
        lsa, features = self.text_inputs.lsa, self.text.features
        rank = 0 if lsa is None else lsa.components.shape[1]
        length = len(weights) - rank
        if lsa is not None and features.words is not None:
            tf_idf = lsa.tf_idf(features.words)
            axes = lsa.components[tf_idf.indices].double() @ weights[length:]
            added = self.text_inputs.lsa_weight * axes.cpu() * torch.from_numpy(tf_idf.data).double()
            buckets = lsa.buckets.cpu()[tf_idf.indices].tolist()
            values = dict(zip(buckets, added.tolist(), strict=True))
            meaning = "What the words of the text say, as the model learned it from all training texts."
            yield Contribution("words", fsum(values.values()), meaning, self.text.named_words(values))
        if length:
            value = float(self.inputs[0, :length].double() @ weights[:length])
            yield Contribution("vector", value, "What the encoder's vector of the text says, beside its words.")
        if len(weights):
            meaning = "What words and vector of an average text would say, taken off."
            yield Contribution("average text", intercept, meaning)

    def _offsets(self) -> Iterator[Contribution]:
        projections, decision = self.network.projections, self.network.projections["decision"]
        assert isinstance(decision, CollectiveProjection)
        prior = float(decision.offsets[self.label])
        if self.network.is_corrected:
            first = projections["unsupervised"]
            assert isinstance(first, CollectiveProjection)
            rivalry = self.gain * self._competition(first, self.unsupervised)
            prior += self.gain * float(first.offsets[self.label])
            projected = first(self.unsupervised, self.pairs)
            beyond = projected.clamp(-self.network.max_logit, self.network.max_logit) - projected
            yield Contribution(
                "bound",
                self.gain * float(beyond[0, self.place]),
                f"Beyond ±{self.network.max_logit:g}, what is known without annotated texts says no more.",
            )
            yield Contribution(
                "annotated texts",
                self.beta * float(self.network.get_buffer("intercepts")[self.label]),
                "The intercept that annotated texts taught; what they taught of words and vector is counted there.",
            )
            rivalry += self._competition(decision, self.beta * self._corrected())
        else:
            rivalry = self._competition(decision, self.beta * self.unsupervised)
        yield Contribution(
            "competition",
            rivalry,
            "The labels of a text compete: where others are sure, each gets less; where none is, each gets more.",
        )
        yield Contribution("prior", prior, "How common the label is: common ones need less to be given.")

    def _competition(self, projection: CollectiveProjection, logits: Tensor) -> float:
        if not projection.competition:
            return 0.0
        return projection.competition * float(projection.text_offsets(logits, self.pairs)[0])

    def _corrected(self) -> Tensor:
        corrected: Tensor = self.network(
            *(part.to(self.scores.device) for part in self._entailment()), self.inputs, self.pairs
        )
        return corrected
