"""Texts that are made up: their vectors and words tell their labels, their scores tell them badly."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from bncl_pyg.corpus import Corpus, LabelSet
from bncl_pyg.evaluation import Metrics, evaluate
from bncl_pyg.features import Features, word_counts
from bncl_pyg.graph import LabelVectors, SignedLabelGraph, build_graph
from bncl_pyg.priors import Priors
from bncl_pyg.training import Annotated, DefaultModel, DefaultRecipe, Model, SelfTraining

NAMES = ("gold", "silver", "wheat", "corn", "money", "rates", "ships", "trade")
PREVALENCE = np.array([0.3, 0.2, 0.15, 0.12, 0.1, 0.08, 0.05, 0.02])


@dataclass(frozen=True)
class World:
    """900 training and 300 test texts with 8 labels, of which some have too high scores.

    Args:
        train: the training texts.
        test: other texts.
        corpus: the training texts, annotated.
        truth: of the test texts, (texts, labels).
        graph: of the labels.
        priors: κ and λ of the training texts.
    """

    train: Features
    test: Features
    corpus: Corpus
    truth: NDArray[np.bool_]
    graph: SignedLabelGraph
    priors: Priors

    @property
    def annotations(self) -> csr_array:
        assert self.corpus.annotations is not None
        return self.corpus.annotations

    def annotated(self, count: int, seed: int = 0) -> Annotated:
        """Return so many annotated texts, drawn."""
        rows = DefaultRecipe().draw(len(self.train), count, seed)
        return Annotated(rows, self.annotations[rows])

    def first(self, count: int) -> Annotated:
        """Return the first texts, annotated."""
        return Annotated(np.arange(count), self.annotations[:count])

    def unsupervised(self, **changes: Any) -> DefaultModel:
        """Train without annotated texts, perhaps with other numbers of self-training."""
        recipe = DefaultRecipe(self_training=replace(SelfTraining(), **changes))
        return recipe.fit(self.train, self.graph, self.priors)

    def supervised(self, count: int, seed: int = 0) -> DefaultModel:
        """Train with exact priors and so many annotated texts."""
        return DefaultRecipe().fit(self.train, self.graph, self.priors, self.annotated(count, seed), seed=seed)

    def scarce(self, count: int) -> DefaultModel:
        """Train with so many annotated texts and nothing else."""
        return DefaultRecipe().fit(self.train, self.graph, None, self.annotated(count))

    def decisions(self, model: Model) -> Any:
        return model.predict(self.test).indicator()

    def probabilities(self, model: Model) -> Any:
        return model.predict(self.test).probability_matrix()

    def metrics(self, model: Model) -> Metrics:
        return evaluate(self.truth, self.decisions(model))

    def zero_shot(self) -> Metrics:
        return evaluate(self.truth, self.test.zero_shot().numpy())


def make_world() -> World:
    draw = np.random.default_rng(0)
    labels = LabelSet(NAMES, NAMES)
    truth = draw.random((1200, 8)) < PREVALENCE
    truth[np.flatnonzero(~truth.any(axis=1)), 0] = True
    directions = draw.normal(size=(8, 24))
    vectors = truth @ directions + 1.5 * draw.normal(size=(1200, 24))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    scores = 1 / (1 + np.exp(-(1.7 * truth + draw.normal(size=truth.shape) + np.linspace(-4, 0, 8))))
    filler = [f"word{place}" for place in range(40)]
    texts = [" ".join([*np.array(NAMES)[row], *draw.choice(filler, 6)]) for row in truth]
    texts = [" ".join(word for word in text.split() if draw.random() < 0.6) or "word0" for text in texts]

    def part(rows: slice) -> Features:
        entailment = torch.from_numpy(scores[rows]).float()
        ids = tuple(f"t{place}" for place in range(rows.start, rows.stop))
        of_texts = torch.from_numpy(vectors[rows]).float(), word_counts(texts[rows])
        return Features(ids, labels, entailment, 0.95 * (1 - entailment), {"name": "made up"}, *of_texts)

    train, test = part(slice(0, 900)), part(slice(900, 1200))
    annotations = csr_array(truth[:900])
    corpus = Corpus(train.ids, tuple(texts[:900]), annotations)
    graph = build_graph(labels, LabelVectors(directions.astype(np.float32), "by hand"), (25, 75))
    return World(train, test, corpus, truth[900:], graph, Priors.from_annotations(annotations))


def with_candidates(features: Features, count: int) -> Features:
    """Return features of which only each text's best labels are scored."""
    best = features.entailment.topk(count, dim=1).indices.sort(dim=1).values
    scores = {name: getattr(features, name).gather(1, best) for name in ("entailment", "contradiction")}
    return replace(features, candidates=best, **scores)
