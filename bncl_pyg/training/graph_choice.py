"""Which percentiles the label graph takes where nobody asked for some: chosen on training texts alone."""

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from bncl_pyg.errors import InputError
from bncl_pyg.features import Features
from bncl_pyg.ranks import ALONE, Ranks
from bncl_pyg.training.annotated import Annotated
from bncl_pyg.training.recipe import TrainingStep

if TYPE_CHECKING:
    from bncl_pyg.graph import SignedLabelGraph

logger = logging.getLogger(__name__)

Percentiles = tuple[float, float]


@dataclass(frozen=True)
class GraphCandidate:
    """A label graph that is tried.

    Args:
        graph: the graph.
        percentiles: that a recipe proposed; `None` for the graph as it was given.
    """

    graph: "SignedLabelGraph"
    percentiles: Percentiles | None = None

    def __str__(self) -> str:
        return "graph as given" if self.percentiles is None else f"graph {_shown(self.percentiles)}"

    def result(self, number: int, of: int, figures: dict[str, float]) -> TrainingStep:
        """Return the step that says what came of it."""
        return TrainingStep(number, of, str(self), figures)


def candidate_graphs(graph: "SignedLabelGraph", percentiles: tuple[Percentiles, ...]) -> list[GraphCandidate]:
    """Return the graphs to choose among, or the one that is given alone.

    Args:
        graph: as it is given. It is used as it is unless `default_graph` made it, of whose percentiles nobody asked.
        percentiles: to choose among; without any, the graph is used as it is.
    """
    # PyG takes seconds to import.
    from bncl_pyg.graph import has_open_percentiles, with_percentiles

    if not percentiles or not has_open_percentiles(graph):
        return [GraphCandidate(graph)]
    candidates, refused = [], None
    for pair in percentiles:
        try:
            candidates.append(GraphCandidate(with_percentiles(graph, pair), pair))
        except InputError as error:
            # Labels that are alike can rule out some percentiles and leave others.
            logger.warning("A graph with the percentiles %s is not tried: %s", _shown(pair), error)
            refused = error
    if not candidates and refused is not None:
        raise refused
    return candidates


def _shown(percentiles: Percentiles) -> str:
    return "/".join(f"{number:g}" for number in percentiles)


@dataclass(frozen=True)
class HeldOut:
    """What graphs are tried on: texts that training sees without their labels, or not at all.

    Where several processes hold the texts, rows are counted over all of them, and each holds what is its own.

    Args:
        rest: the texts to train on.
        annotated: the annotated texts among them whose labels training sees.
        texts: to look at.
        truth: their labels, boolean, (texts, labels); `None` where these are not known and texts themselves are held
            out.
        known: which of these are known, where texts are annotated in part; `None` for all.
    """

    rest: Features
    annotated: Annotated | None
    texts: Features
    truth: csr_array | None
    known: csr_array | None = None

    @classmethod
    def of(cls, features: Features, annotated: Annotated | None, share: float, fewest: int, seed: int) -> "HeldOut":
        """Hold out a share of the annotated texts' annotations or, where they are too few, of the other texts.

        Args:
            features: all training texts, at least 2.
            annotated: annotated texts; a text that occurs several times is held out wholly or not at all.
            share: of the texts; one at least.
            fewest: how many annotated texts are enough.
            seed: of the draw.
        """
        everything = np.arange(int(features.ranks.total(len(features))[0]))
        draw = np.random.default_rng(seed)
        known = everything[:0] if annotated is None else np.unique(annotated.rows)
        others = np.setdiff1d(everything, known)
        if annotated is not None and len(known) > 1 and (len(known) >= fewest or not len(others)):
            rows = draw.choice(known, max(1, round(share * len(known))), replace=False)
            is_held = np.isin(annotated.rows, rows)
            held, kept = (annotated.drawn(np.flatnonzero(mask)) for mask in (is_held, ~is_held))
            _, own = held.held_by(features)
            return cls(features, kept, features.rows(own.rows), own.labels, own.known)
        rows = np.sort(draw.choice(others, max(1, round(share * len(others))), replace=False))
        rest = np.setdiff1d(everything, rows)
        if annotated is not None:
            annotated = replace(annotated, rows=np.searchsorted(rest, annotated.rows))
        return cls(features.rows(features.held_rows(rest)), annotated, features.rows(features.held_rows(rows)), None)


def micro_f1(truth: csr_array, decisions: Any, known: csr_array | None = None, ranks: Ranks = ALONE) -> float:
    """Return the F1 of all decisions together (miF1); 0 where nothing is true or predicted.

    Args:
        truth: boolean, (texts, labels).
        decisions: boolean, (texts, labels), dense or sparse.
        known: which pairs are looked at, likewise; all, if not given.
        ranks: who holds other texts.
    """
    predicted = csr_array(decisions, dtype=bool)
    if known is not None:
        predicted = csr_array(predicted.multiply(known))
    count, right = ranks.total(predicted.nnz + truth.nnz, predicted.multiply(truth).nnz)
    return 2 * right / count if count else 0.0
