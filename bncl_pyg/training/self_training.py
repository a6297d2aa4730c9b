"""Self-training: what κ and λ teach without annotated texts. Each round fits the last one's predictions."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from bncl_pyg.errors import InputError
from bncl_pyg.features import LSA, Features, Pairs, TextInputs, pairs_of
from bncl_pyg.nn import (
    CollectiveProjection,
    ProjectionSteps,
    ScoreStandardizer,
    WeightedMessages,
    unsupervised_logits,
)
from bncl_pyg.training.message_weights import fit_messages
from bncl_pyg.training.regression import PCAInputs, fit_logistic, mean_by_label

if TYPE_CHECKING:
    from bncl_pyg.graph import SignedLabelGraph

Part = Literal["vectors", "words", "graph"]


@dataclass(frozen=True)
class Prepared:
    """The training texts as self-training sees them.

    Args:
        features: without what the recipe leaves out.
        pairs: which (text, label) pairs there are.
        standardizer: from scores to z.
        scores: z, of the pairs.
        text_inputs: from vectors and words to inputs.
        inputs: of the texts, (texts, dimensions).
        pca_inputs: the same along their principal axes.
        C: of regressions on the text.
        edges: of the label graph, from u to v, (2, edges), if it is used.
        friends: which of the edges join friends, (friends,).
    """

    features: Features
    pairs: Pairs
    standardizer: ScoreStandardizer
    scores: Tensor
    text_inputs: TextInputs
    inputs: Tensor
    pca_inputs: PCAInputs
    C: float
    edges: Tensor | None
    friends: Tensor


@dataclass(frozen=True)
class SelfTrained:
    """What was learned without annotated texts.

    Args:
        tensors: `score_weight`, `text_weights`, `text_intercepts`; see `CollectiveModel`.
        messages: along the label graph, if it is used.
        projection: of the logits.
        logits: of the training texts, before projection.
        dispersion: the variance of how many labels the scores alone give a text, over its mean, where texts do not
            compete. Where it is high, some texts get many labels and others none: the same evidence many times over.
        change: how many labels a text the last round changed.
    """

    tensors: dict[str, Tensor]
    messages: WeightedMessages | None
    projection: CollectiveProjection
    logits: Tensor
    dispersion: float
    change: float


@dataclass(frozen=True)
class SelfTraining:
    """Every number of self-training.

    Args:
        parts: what is used besides the scores: the encoder's `vectors`, the `words`, the label `graph`.
        lsa_rank: into how many dimensions the words are pressed.
        lsa_weight: of the words beside the encoder's vector, which has length 1.
        lsa_min_texts: a word counts from so many texts on.
        rounds: how often the text is fitted to the pseudo-labels; 0 leaves the scores and the graph.
        initial_slope: how steep scores become the first probabilities.
        score_weight: of the score, beside the text.
        text_weight: of the text.
        graph_weight: of the label graph.
        competition: ρ, see `CollectiveProjection`.
        text_C: C of the regression on the text, times the number of texts (the errors of pseudo-labels do not average
            out over more texts, so that the penalty must grow with them).
        max_text_C: C at most.
        graph_C: the same for the graph.
        text_steps: of L-BFGS on the text, in each round.
        graph_steps: of L-BFGS on the graph.
        projection: how far projections are solved.
    """

    parts: tuple[Part, ...] = ("vectors", "words", "graph")
    lsa_rank: int = 400
    lsa_weight: float = 2.0
    lsa_min_texts: int = 2
    rounds: int = 3
    initial_slope: float = 3.0
    score_weight: float = 2.0
    text_weight: float = 4.0
    graph_weight: float = 1.0
    competition: float = 0.75
    text_C: float = 500.0
    max_text_C: float = 0.2
    graph_C: float = 20.0
    text_steps: int = 10
    graph_steps: int = 15
    projection: ProjectionSteps = field(default_factory=ProjectionSteps)

    def prepare(self, features: Features, graph: "SignedLabelGraph") -> Prepared:
        """Standardise the scores, and find the inputs of the texts."""
        if len(features) < 2:
            raise InputError("Self-training needs at least 2 training texts.")
        pairs = pairs_of(features.candidates, features.entailment, len(features.labels))
        standardizer = ScoreStandardizer.fit(features.entailment, features.contradiction, pairs)
        vectors = features.vectors if "vectors" in self.parts else None
        words = features.words if "words" in self.parts else None
        lsa = None if words is None else LSA.fit(words, self.lsa_rank, self.lsa_min_texts)
        text_inputs = TextInputs(lsa, self.lsa_weight, uses_vectors=vectors is not None)
        inputs = text_inputs(vectors, words, features.entailment)
        edges, are_friends = graph.message_edges()
        return Prepared(
            replace(features, vectors=vectors, words=words),
            pairs,
            standardizer,
            standardizer(features.entailment, features.contradiction, pairs),
            text_inputs,
            inputs,
            PCAInputs.fit(inputs),
            min(self.max_text_C, self.text_C / len(features)),
            edges if "graph" in self.parts and edges.shape[1] else None,
            are_friends.nonzero()[:, 0],
        )

    def fit(self, data: Prepared, prevalence: Tensor, cardinality: float) -> SelfTrained:
        """Learn from scores, text and graph; λ is (labels,)."""
        pairs = data.pairs
        rounds = self.rounds if data.inputs.shape[1] else 0
        tensors = {
            "score_weight": torch.tensor(self.score_weight if rounds else self.initial_slope),
            "text_weights": torch.zeros(data.inputs.shape[1], pairs.labels),
            "text_intercepts": torch.zeros(pairs.labels),
        }
        logits = self.initial_slope * data.scores
        dispersion = self._dispersion(logits, prevalence, cardinality, pairs)
        projection, pseudo_labels = self._project(logits, prevalence, cardinality, pairs)
        messages, change = None, 0.0
        for turn in range(max(rounds, 1)):
            if rounds:
                base = torch.logit(mean_by_label(pseudo_labels, pairs))
                text = fit_logistic(data.pca_inputs, pseudo_labels, base, data.C, steps=self.text_steps, pairs=pairs)
                tensors["text_weights"] = self.text_weight * text.weights
                tensors["text_intercepts"] = -tensors["text_weights"].T @ data.pca_inputs.centre
            if data.edges is not None and turn == max(rounds, 1) - 1:
                # Only now: learned in every round, rivalry among like labels would feed on itself.
                messages = fit_messages(
                    data.edges, data.scores, pseudo_labels, pairs, self.graph_C, self.graph_weight, self.graph_steps
                )
            with torch.no_grad():
                logits = unsupervised_logits(data.scores, data.inputs, messages, tensors, pairs)
            projection, probabilities = self._project(logits, prevalence, cardinality, pairs)
            change = float((probabilities - pseudo_labels).abs().sum() / len(probabilities))
            pseudo_labels = probabilities
        return SelfTrained(tensors, messages, projection, logits, dispersion, change)

    def _project(
        self, logits: Tensor, prevalence: Tensor, cardinality: float, pairs: Pairs
    ) -> tuple[CollectiveProjection, Tensor]:
        """Return the projection of logits, and the probabilities after it: the next round's pseudo-labels."""
        projection = CollectiveProjection.fit(
            logits, prevalence, cardinality, self.competition, pairs, steps=self.projection
        )
        return projection, torch.sigmoid(projection(logits, pairs))

    def _dispersion(self, logits: Tensor, prevalence: Tensor, cardinality: float, pairs: Pairs) -> float:
        independent = CollectiveProjection.fit(logits, prevalence, cardinality, 0.0, pairs, steps=self.projection)
        counts = torch.sigmoid(independent(logits, pairs)).sum(dim=1)
        return float(counts.var() / counts.mean().clamp_min(1e-6))
