"""From a trained classifier and scored texts to what a report shows."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from bncl_pyg.corpus import Corpus, rows_of
from bncl_pyg.estimator import BNCLClassifier
from bncl_pyg.evaluation import (
    BaselineInputs,
    Evaluation,
    LabelScores,
    Reliability,
    confused_pairs,
    cooccurring_pairs,
    evaluate,
    evaluate_classifier,
    reliability,
)
from bncl_pyg.evaluation.baselines import top_cardinality
from bncl_pyg.features import Features, Predictions
from bncl_pyg.graph import layout_labels
from bncl_pyg.report.data import Bin, DrawnGraph, Example, LabelRow, Method, ReportData, ShownText, Truth
from bncl_pyg.report.words import typical_words

LABELS, EXAMPLES, WORDS, PAIRS, UNSURE = 5000, 3, 6, 20, 20
"""How many labels, example texts and words a label, pairs of labels, and unsure texts are shown at most."""
EXAMPLE_LABELS, LETTERS, WORD_TEXTS = 400, 320, 20_000
"""How many labels have examples, how many letters of a text are shown, and how many texts are searched for words."""
DRAWN_LABELS, DRAWN_EDGES = 150, 500
"""How many labels, and how many edges of either sign, are drawn."""
TENTHS = 10
DENSE_PAIRS = 50_000_000
"""Beyond so many (text, label) pairs, what needs all of them at once is left out."""


def collect_report(
    classifier: BNCLClassifier,
    features: Features,
    *,
    texts: Corpus | None = None,
    truth: Corpus | None = None,
    inputs: BaselineInputs | None = None,
    title: str = "Labels by name",
) -> ReportData:
    """Gather what a report shows.

    Args:
        classifier: trained.
        features: the scored texts that are reported on.
        texts: the same texts as they were read, for words and examples; those of the truth, if not given.
        truth: the same texts with their labels, if these are known.
        inputs: what all baselines need; without it, only those that need nothing stand beside the model.
        title: of the report.
    """
    return _Collection(classifier, features, truth if texts is None else texts, truth, inputs).report(title)


@dataclass
class _Texts:
    """The texts that the report shows, each once."""

    predictions: Predictions
    ids: Sequence[str]
    content: Sequence[str] | None
    true: csr_array | None
    new_place: NDArray[np.int64]
    shown: list[ShownText] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)

    def place(self, row: int) -> int:
        """Return where a text stands among those shown; it is added if it is not there."""
        if row not in self.places:
            self.places[row] = len(self.shown)
            self.shown.append(self._shown(row))
        return self.places[row]

    def _shown(self, row: int) -> ShownText:
        columns, shares = self.predictions.best_first(row)
        given = self._known(zip(columns.tolist(), shares.tolist(), strict=True))
        rest = self.predictions.probabilities[row].masked_fill(self.predictions.decisions[row], -1)
        at = int(rest.argmax())
        other = at if self.predictions.candidates is None else int(self.predictions.candidates[row, at])
        best = self._known([(other, float(rest[at]))]) if float(rest[at]) >= 0 else []
        true = None
        if self.true is not None:
            true = [int(place) for place in self.new_place[self.true[[row]].indices] if place >= 0]
        text = None if self.content is None else _shortened(self.content[row])
        return ShownText(self.ids[row], text, given, best[0] if best else None, true)

    def _known(self, pairs: Any) -> list[tuple[int, float]]:
        """Return labels by their place in the report; those that are left out are not named."""
        return [(int(self.new_place[at]), round(share, 4)) for at, share in pairs if self.new_place[at] >= 0]


class _Collection:
    """Everything that is known of the texts."""

    def __init__(
        self,
        classifier: BNCLClassifier,
        features: Features,
        corpus: Corpus | None,
        truth: Corpus | None,
        inputs: BaselineInputs | None,
    ) -> None:
        self.classifier, self.features, self.inputs = classifier, features, inputs
        self.evaluation: Evaluation | None = None
        self.true: csr_array | None = None
        if truth is not None:
            self.evaluation = evaluate_classifier(classifier, features, truth, inputs)
            assert truth.annotations is not None
            self.true = truth.annotations[rows_of(features.ids, truth.ids, "The truth")]
        self.content: list[str] | None = None
        if corpus is not None:
            rows = rows_of(features.ids, corpus.ids, "The file of texts")
            self.content = [corpus.texts[row] for row in rows]
        self.predictions = classifier.predictions(features)
        self.given = csr_array(self.predictions.indicator())
        self.counts = np.asarray(self.given.sum(axis=0), dtype=np.int64).ravel()
        labels = len(features.labels)
        # The most common labels come first where not all are shown.
        by_count = np.lexsort((np.arange(labels), -self.counts))[:LABELS]
        self.order = np.sort(by_count)
        self.place = np.full(labels, -1, dtype=np.int64)
        self.place[self.order] = np.arange(len(self.order))
        self.texts = _Texts(self.predictions, features.ids, self.content, self.true, self.place)
        self.notes: list[str] = []

    def report(self, title: str) -> ReportData:
        """Return all of it."""
        decisions, probabilities = self.predictions.decisions, self.predictions.probabilities
        sizes = decisions.sum(dim=1)
        sure = probabilities[decisions].numpy()
        priors = self.classifier.priors_
        assert priors.cardinality is not None
        labels = self._labels()
        return ReportData(
            title=title,
            created=datetime.now(UTC).strftime("%Y-%m-%d"),
            n_texts=len(self.features),
            n_labels=len(self.features.labels),
            cardinality=float(sizes.float().mean()),
            expected_cardinality=float(priors.cardinality),
            without_label=int((sizes == 0).sum()),
            label_counts=np.bincount(sizes.numpy()).tolist(),
            sureness=np.bincount(np.minimum((sure * TENTHS).astype(int), TENTHS - 1), minlength=TENTHS).tolist(),
            mean_probability=float(sure.mean()) if len(sure) else 0.0,
            labels=labels,
            graph=self._graph(),
            cooccurring=self._pairs(cooccurring_pairs(self.given, PAIRS)),
            unsure=self._unsure(),
            texts=self.texts.shown,
            settings=_settings(self.classifier),
            truth=self._truth(),
            notes=self.notes,
        )

    def _pairs(self, pairs: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
        known = ((int(self.place[one]), int(self.place[other]), count) for one, other, count in pairs)
        return [pair for pair in known if min(pair[:2]) >= 0]

    def _labels(self) -> list[LabelRow]:
        names, descriptions = self.features.labels.names, self.features.labels.descriptions
        if len(self.order) < len(names):
            self.notes.append(f"The {len(self.order)} labels that are given most often are shown, of {len(names)}.")
        shares = self.classifier.priors_.shares
        of_truth: Mapping[int, LabelScores] = {}
        if self.evaluation is not None:
            of_truth = dict(enumerate(self.evaluation.labels))
        words, examples = self._words(), self._examples()
        friends, enemies = self._degrees()
        rows = []
        for place in self.order.tolist():
            scores = of_truth.get(place)
            rows.append(
                LabelRow(
                    name=names[place],
                    description="" if descriptions[place] == names[place] else descriptions[place],
                    given=int(self.counts[place]),
                    expected=float(shares[place]),
                    support=None if scores is None else scores.support,
                    precision=None if scores is None else scores.precision,
                    recall=None if scores is None else scores.recall,
                    F1=None if scores is None else scores.F1,
                    words=words.get(place, []),
                    examples=examples.get(place, []),
                    friends=int(friends[place]),
                    enemies=int(enemies[place]),
                )
            )
        return rows

    def _words(self) -> dict[int, list[str]]:
        if self.content is None:
            self.notes.append("Typical words and examples need the texts themselves, which were not given.")
            return {}
        rows = np.arange(len(self.content))
        if len(rows) > WORD_TEXTS:
            rows = np.sort(np.random.default_rng(0).choice(rows, WORD_TEXTS, replace=False))
            self.notes.append(f"Typical words are those of {WORD_TEXTS} texts that were drawn.")
        given = csr_array(self.given[rows][:, self.order])
        words = typical_words([self.content[row] for row in rows], given, WORDS)
        return dict(zip(self.order.tolist(), words, strict=True))

    def _examples(self) -> dict[int, list[Example]]:
        """Return of the most common labels the texts that are surest of them."""
        common = [place for place in np.argsort(-self.counts, kind="stable")[:EXAMPLE_LABELS] if self.counts[place]]
        if int((self.counts > 0).sum()) > len(common):
            self.notes.append(f"The {len(common)} labels that are given most often have example texts.")
        by_label = self.given.tocsc()
        examples = {}
        for place in map(int, common):
            rows = by_label.indices[by_label.indptr[place] : by_label.indptr[place + 1]]
            shares = self._probabilities(rows, place)
            best = np.argsort(-shares, kind="stable")[:EXAMPLES]
            examples[place] = [self._example(int(rows[at]), place, float(shares[at])) for at in best]
        return examples

    def _probabilities(self, rows: NDArray[np.int32], label: int) -> NDArray[np.float32]:
        """Return how probable a label is for texts that have it as a candidate; (rows,)."""
        at, candidates = torch.from_numpy(rows).long(), self.predictions.candidates
        shares = self.predictions.probabilities[at]
        chosen = shares[:, label] if candidates is None else shares[candidates[at] == label]
        return chosen.numpy()

    def _example(self, row: int, label: int, probability: float) -> Example:
        is_right = None if self.true is None else bool(label in self.true[[row]].indices)
        return Example(self.texts.place(row), round(probability, 4), is_right)

    def _degrees(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        graph = self.classifier.graph_
        friends, enemies = (
            np.bincount(edges[1].cpu().numpy(), minlength=graph.num_nodes)
            for edges in (graph.pos_edge_index, graph.neg_edge_index)
        )
        return friends, enemies

    def _unsure(self) -> list[int]:
        """Return the texts of which even the most probable label is improbable."""
        best = self.predictions.probabilities.max(dim=1).values
        rows = torch.argsort(best, stable=True)[:UNSURE].tolist()
        return [self.texts.place(row) for row in rows]

    def _graph(self) -> DrawnGraph:
        graph = self.classifier.graph_
        chosen = np.lexsort((np.arange(len(self.counts)), -self.counts))[:DRAWN_LABELS]
        places = [int(place) for place in np.sort(chosen) if self.place[place] >= 0]
        part = graph.part(places).to_networkx()
        at = {
            name: int(self.place[place])
            for place, name in zip(places, (graph.label_names[p] for p in places), strict=True)
        }
        edges = [(at[u], at[v], int(data["sign"]), float(data["weight"])) for u, v, data in part.edges(data=True)]
        friends, enemies = (
            sorted((edge for edge in edges if edge[2] == sign), key=lambda edge: -sign * edge[3])[:DRAWN_EDGES]
            for sign in (1, -1)
        )
        notes = []
        if len(places) < graph.num_nodes:
            notes.append(f"the {len(places)} labels that are given most often, of {graph.num_nodes}")
        if len(friends) + len(enemies) < len(edges):
            notes.append(f"the {len(friends)} strongest friendships and {len(enemies)} strongest enmities among them")
        positions = layout_labels(part)
        points = _filling(np.array(list(positions.values())).reshape(-1, 2))
        nodes = [(at[name], round(x, 4), round(y, 4)) for name, (x, y) in zip(positions, points.tolist(), strict=True)]
        drawn = [(one, other, sign, round(weight, 3)) for one, other, sign, weight in friends + enemies]
        note = f"Drawn: {' and '.join(notes)}." if notes else ""
        return DrawnGraph(nodes, drawn, graph.count(1), graph.count(-1), note)

    def _truth(self) -> Truth | None:
        if self.evaluation is None or self.true is None:
            return None
        evaluation = self.evaluation
        methods = {"this model": evaluation.metrics, **evaluation.baselines}
        pairs = len(self.features) * len(self.features.labels)
        if "top-κ" not in methods and pairs <= DENSE_PAIRS:
            decisions = top_cardinality(self.features.filled().entailment, self.classifier.priors_.cardinality or 1.0)
            methods["top-κ"] = evaluate(self.true, decisions)
        start = self.features.zero_shot_probabilities()
        as_scored = start.numpy() if self.features.candidates is None else self.features.sparse(start)
        sizes = np.asarray(self.true.sum(axis=1), dtype=np.int64).ravel()
        return Truth(
            methods=[Method(name, metrics._asdict()) for name, metrics in methods.items()],
            annotated=evaluation.annotated,
            reliability=_bins(reliability(self.true, self.predictions.probability_matrix())),
            start_reliability=_bins(reliability(self.true, as_scored)),
            calibration_error=evaluation.calibration,
            cardinality=evaluation.true_cardinality,
            label_counts=np.bincount(sizes).tolist(),
            confused=self._pairs(confused_pairs(self.true, self.given, PAIRS)),
        )


def _filling(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return places between 0 and 1 that use the room there is: halfway to where they are in order, evenly."""
    low, span = points.min(axis=0), np.maximum(np.ptp(points, axis=0), 1e-9)
    ranks = np.argsort(np.argsort(points, axis=0, kind="stable"), axis=0) / max(len(points) - 1, 1)
    filled: NDArray[np.float64] = ((points - low) / span + ranks) / 2
    return filled


def _bins(given: Reliability) -> list[Bin]:
    columns = (given.predicted.tolist(), given.true.tolist(), given.pairs.tolist())
    return [Bin(*one) for one in zip(*columns, strict=True) if one[2]]


def _settings(classifier: BNCLClassifier) -> dict[str, str]:
    """Return how the model was made, and by which versions it is shown."""
    scorer = classifier.scorer_config_
    parts = ", ".join(scorer.get("parts", {}))
    priors, graph = classifier.priors_, classifier.graph_
    template = scorer.get("template", "")
    settings = {
        "Setting": classifier.setting_,
        "Recipe": classifier.recipe_.name,
        "Training texts": str(classifier.n_texts_),
        "Annotated texts": str(len(classifier.annotated_)),
        "Expected labels a text (κ)": f"{priors.cardinality:.3f}",
        "Scorer": f"{scorer.get('name', 'unknown')}{f' ({parts})' if parts else ''}",
        "Template": template if isinstance(template, str) else "; ".join(template),
        "Candidates a text": "all labels" if classifier.candidates_ is None else str(classifier.candidates_),
        "Label graph": f"{graph.count(1)} pairs of friends, {graph.count(-1)} pairs of enemies, {graph.hops} hops",
        "Label vectors": str(graph.provenance.get("embeddings", "not known")),
        "Seed": str(classifier.seed_),
        "Versions": ", ".join(f"{name} {version(name)}" for name in ("bncl-pyg", "torch", "torch-geometric")),
        "Python": platform.python_version(),
    }
    return {name: value for name, value in settings.items() if value}


def _shortened(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= LETTERS else plain[: LETTERS - 1].rstrip() + "…"
