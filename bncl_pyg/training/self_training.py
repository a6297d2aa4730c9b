"""Self-training: what κ and λ teach without annotated texts. Each round fits the last one's predictions."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from bncl_pyg.errors import InputError
from bncl_pyg.features import LSA, Features, Pairs, TextInputs, pairs_of
from bncl_pyg.nn import (
    CollectiveProjection,
    LabelSmoothing,
    ScoreStandardizer,
    unsupervised_logits,
)
from bncl_pyg.training.regression import PCAInputs, fit_ridge

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
        smoothing: along the label graph, if it is used.
    """

    features: Features
    pairs: Pairs
    standardizer: ScoreStandardizer
    scores: Tensor
    text_inputs: TextInputs
    inputs: Tensor
    pca_inputs: PCAInputs
    C: float
    smoothing: LabelSmoothing | None


@dataclass(frozen=True)
class SelfTrained:
    """What was learned without annotated texts.

    Args:
        tensors: `score_weight`, `text_weights`, `text_intercepts`; see `CollectiveModel`.
        projection: of the logits.
        logits: of the training texts, before projection.
        change: how many labels a text the last round changed.
    """

    tensors: dict[str, Tensor]
    projection: CollectiveProjection
    logits: Tensor
    change: float


@dataclass(frozen=True)
class SelfTraining:
    """Every number of self-training.

    Args:
        parts: what is used besides the scores: the encoder's `vectors`, the `words`, the label `graph`.
        slope: how many logits a standard deviation of a score is worth.
        competition: ρ, see `CollectiveProjection`.
        rounds: how often the text is fitted to the pseudo-labels; 0 leaves the scores.
        text_C: C of the regression on the text, times the number of texts and of inputs: the errors of pseudo-labels do
            not average out over more texts, so that the penalty must grow with them.
        lsa_weight: of the words beside the encoder's vector, which has length 1.
        graph_texts: how many texts of its own the label graph is worth to a label; see `LabelSmoothing`.
    """

    parts: tuple[Part, ...] = ("vectors", "words", "graph")
    slope: float = 3.0
    competition: float = 0.75
    rounds: int = 3
    text_C: float = 900.0
    lsa_weight: float = 2.0
    graph_texts: float = 10.0

    def prepare(self, features: Features, graph: "SignedLabelGraph") -> Prepared:
        """Standardise the scores, and find the inputs of the texts."""
        ranks = features.ranks
        pairs = pairs_of(features.candidates, features.entailment, len(features.labels), ranks)
        if pairs.texts < 2:
            raise InputError("Self-training needs at least 2 training texts.")
        standardizer = ScoreStandardizer.fit(features.entailment, features.contradiction, pairs)
        vectors = features.vectors if "vectors" in self.parts else None
        words = features.words if "words" in self.parts else None
        lsa = None if words is None else LSA.fit(words, ranks=ranks)
        text_inputs = TextInputs(lsa, self.lsa_weight, uses_vectors=vectors is not None)
        inputs = text_inputs(vectors, words, features.entailment)
        edges, are_friends = graph.message_edges()
        uses_graph = "graph" in self.parts and edges.shape[1] > 0
        return Prepared(
            replace(features, vectors=vectors, words=words),
            pairs,
            standardizer,
            standardizer(features.entailment, features.contradiction, pairs),
            text_inputs,
            inputs,
            PCAInputs.fit(inputs, ranks),
            self.text_C / (pairs.texts + inputs.shape[1]),
            LabelSmoothing(edges, are_friends, len(features.labels)) if uses_graph else None,
        )

    def fit(
        self, data: Prepared, prevalence: Tensor, cardinality: float, *, at_least_one: bool | None = None
    ) -> SelfTrained:
        """Learn from scores, text and graph.

        Args:
            data: the training texts.
            prevalence: λ, (labels,).
            cardinality: κ.
            at_least_one: whether every text has a label; where nobody says so, a κ of at least 1 does.
        """
        pairs = data.pairs
        tensors = {
            "score_weight": torch.tensor(self.slope),
            "text_weights": torch.zeros(data.inputs.shape[1], pairs.labels),
            "text_intercepts": torch.zeros(pairs.labels),
        }

        def project(logits: Tensor) -> tuple[CollectiveProjection, Tensor]:
            """Return the projection of logits, and the probabilities after it: the next round's pseudo-labels."""
            projection = CollectiveProjection.fit(
                logits,
                prevalence,
                cardinality,
                self.competition,
                pairs,
                at_least_one=cardinality >= 1 if at_least_one is None else at_least_one,
            )
            return projection, torch.sigmoid(projection(logits, pairs))

        logits, change = self.slope * data.scores, 0.0
        projection, pseudo_labels = project(logits)
        for _ in range(self.rounds if data.inputs.shape[1] else 0):
            weights = fit_ridge(data.pca_inputs, pseudo_labels, data.C, pairs)
            if data.smoothing is not None:
                weights = data.smoothing(weights, pairs.texts * prevalence, self.graph_texts)
            tensors["text_weights"] = self.slope * weights
            tensors["text_intercepts"] = -tensors["text_weights"].T @ data.pca_inputs.centre
            logits = unsupervised_logits(data.scores, data.inputs, tensors, pairs)
            projection, probabilities = project(logits)
            change = float(pairs.ranks.sum((probabilities - pseudo_labels).abs().sum()) / pairs.texts)
            pseudo_labels = probabilities
        return SelfTrained(tensors, projection, logits, change)
