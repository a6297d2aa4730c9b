"""Numbers at their limits: never NaN in a probability, never infinity in a store."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bncl_pyg import BNCLClassifier
from bncl_pyg.corpus import Corpus, LabelSet, annotation_matrix
from bncl_pyg.errors import InputError
from bncl_pyg.features import Features, Predictions, read_features, write_features
from bncl_pyg.graph import LabelVectors, SignedLabelGraph, build_graph
from bncl_pyg.priors import Priors
from bncl_pyg.training import Annotated
from tests.hard.attacks import Bncl, make_inputs, refused


@pytest.mark.parametrize("value", [1e30, 7e4, -7e4, float("nan"), float("inf")])
def test_vectors_that_half_precision_cannot_hold_are_told(value: float, tmp_path: Path) -> None:
    features, _, _ = make_inputs(0)
    assert features.vectors is not None
    vectors = features.vectors.clone()
    vectors[3, 1] = value
    assert "The vector of text 't3' holds" in refused(lambda: replace(features, vectors=vectors))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_the_largest_vectors_are_stored_and_predicted_from(dtype: Any, tmp_path: Path) -> None:
    features, graph, priors = make_inputs(0)
    assert features.vectors is not None
    largest = replace(features, vectors=features.vectors.sign() * 65504.0)
    write_features(largest, tmp_path / "f", dtype=dtype)
    again = read_features(tmp_path / "f")
    assert again.vectors is not None
    assert bool(again.vectors.isfinite().all())
    classifier = BNCLClassifier(prevalence=priors, graph=graph).fit(again)
    assert np.isfinite(classifier.predict_proba(again)).all()
    assert np.isfinite(classifier.predict_proba(features)).all()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.1, 1.1])
def test_scores_that_are_none_are_told(value: float) -> None:
    features, _, _ = make_inputs(0)
    scores = features.entailment.clone()
    scores[2, 3] = value
    told = refused(lambda: replace(features, entailment=scores))
    assert "text 't2' and label 'corn'" in told


def test_counts_of_words_that_are_none_are_told() -> None:
    features, _, _ = make_inputs(0)
    assert features.words is not None
    words = features.words.copy()
    words.data[0] = np.nan
    assert "finite" in refused(lambda: replace(features, words=words))


class _Broken:
    """A scorer whose numbers are none."""

    block_texts = 1024

    def __init__(self, scores: float, vectors: float) -> None:
        self.value, self.number = scores, vectors

    def config(self) -> dict[str, Any]:
        return {"name": "broken"}

    def vectors(self, texts: Any) -> torch.Tensor:
        return torch.full((len(texts), 3), self.number)

    def score(self, texts: Any, hypotheses: Any, candidates: Any = None) -> tuple[torch.Tensor, torch.Tensor]:
        shape = len(texts), len(hypotheses)
        return torch.full(shape, self.value), torch.full(shape, self.value)

    def encode_labels(self, *_: Any, **__: Any) -> dict[str, torch.Tensor]:
        return {}

    def use_labels(self, *_: Any) -> None: ...

    def reading(self, texts: Any) -> None:
        return None


@pytest.mark.parametrize(("score", "vector"), [(float("nan"), 0.5), (0.3, 1e30), (0.3, float("nan"))])
def test_a_scorer_that_overflows_puts_nothing_into_a_store(score: float, vector: float, tmp_path: Path) -> None:
    from bncl_pyg.features import featurize

    broken: Any = _Broken(score, vector)
    rows = [("a", "x"), ("b", "y")]
    told = refused(lambda: featurize(lambda: rows, LabelSet.of(["p", "q"]), broken, tmp_path / "f"))
    assert "of text 'a'" in told


@pytest.mark.parametrize("value", [float("nan"), 1.5, -0.5])
def test_predictions_are_probabilities_or_told(value: float) -> None:
    shares = torch.tensor([[0.1, value]])
    told = refused(lambda: Predictions(shares > 0.5, shares, shares, 2))
    assert "label number 2 of text number 1" in told


@pytest.mark.parametrize("value", [1e20, float("nan"), float("inf")])
def test_label_vectors_that_have_no_cosine_are_told(value: float) -> None:
    vectors = np.ones((3, 2), dtype=np.float32)
    vectors[1, 0] = value
    told = refused(lambda: build_graph(LabelSet.of(["a", "b", "c"]), LabelVectors(vectors, "w.txt"), (25, 75)))
    assert "label number 2" in told or "label 'b'" in told


def test_large_label_vectors_have_cosines(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(6, 4)).astype(np.float32)
    labels = LabelSet.of([f"l{place}" for place in range(6)])
    small, large = (build_graph(labels, LabelVectors(vectors * scale, "drawn"), (25, 75)) for scale in (1, 1e14))
    assert torch.equal(small.edge_index, large.edge_index)
    assert bool(large.edge_weight.isfinite().all())


ODD = {
    "one text": ([[0.6, 0.2]], [[0.2, 0.6]]),
    "constant": ([[0.4, 0.4]] * 6, [[0.3, 0.3]] * 6),
    "all zero": ([[0.0, 0.0]] * 6, [[0.0, 0.0]] * 6),
    "all entailed": ([[1.0, 1.0]] * 6, [[0.0, 0.0]] * 6),
    "all contradicted": ([[0.0, 0.0]] * 6, [[1.0, 1.0]] * 6),
    "tiny": ([[1e-38, 1e-30]] * 6, [[1e-45, 1e-38]] * 6),
}


@pytest.mark.parametrize("recipe", ["default", "paper"])
@pytest.mark.parametrize("odd", ODD)
def test_odd_scores_give_probabilities(odd: str, recipe: str) -> None:
    entailment, contradiction = (torch.tensor(scores) for scores in ODD[odd])
    ids = tuple(f"t{place}" for place in range(len(entailment)))
    features = Features(ids, LabelSet.of(["gold", "silver"]), entailment, contradiction)
    edges = torch.zeros(2, 0, dtype=torch.int64)
    graph = SignedLabelGraph.from_edge_index(edges, edges, label_names=["gold", "silver"])
    from bncl_pyg.training import find_recipe

    chosen = find_recipe(recipe, **({} if recipe == "default" else {"epochs": 1}))
    for prevalence in (None, [0.5, 0.2], [0.0, 1.0], [1.0, 1.0], [(0.0, 1.0), None]):
        try:
            classifier = BNCLClassifier(prevalence=prevalence, graph=graph, recipe=chosen).fit(features)
        except InputError:
            continue
        shares = classifier.predict_proba(features)
        assert ((shares >= 0) & (shares <= 1.00001)).all(), (prevalence, shares)


@pytest.mark.parametrize("which", ["nothing", "everything"])
def test_all_texts_annotated_with_nothing_or_everything(which: str) -> None:
    features, graph, priors = make_inputs(0)
    columns = [[] if which == "nothing" else list(range(6))] * 40
    annotated = Annotated(np.arange(40), annotation_matrix(columns, 6))
    for known in (None, priors):
        try:
            classifier = BNCLClassifier(prevalence=known, graph=graph).fit(features, annotated)
        except InputError:
            assert which == "nothing"
            continue
        assert np.isfinite(classifier.predict_proba(features)).all()


@pytest.mark.parametrize(
    "content",
    [
        {"cardinality": 7},
        {"cardinality": 0},
        {"cardinality": -1},
        {"cardinality": 10**400},
        {"cardinality": True},
        {"cardinality": "2"},
        {"cardinality": [1]},
        {"prevalence": {"gold": 1.01}},
        {"prevalence": {"gold": -0.1}},
        {"prevalence": {"gold": [0.5, 0.1]}},
        {"prevalence": {"gold": [0.5]}},
        {"prevalence": {"gold": 10**400}},
        {"prevalence": {"gold": {}}},
        {"prevalence": {"nobody": 0.5}},
        {"prevalence": []},
        {"prevalence": dict.fromkeys(("gold", "silver", "wheat", "corn", "money", "rates"), 0)},
        {"precision": "factor 2"},
        {"cardinality": 1, "precision": "factor nan"},
        {"cardinality": 1, "precision": "factor 0"},
        {"cardinality": 1, "at_least_one": "yes"},
        {},
    ],
)
def test_priors_that_cannot_be_are_told(content: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "priors.json"
    file.write_text(json.dumps(content))
    labels = LabelSet.of(["gold", "silver", "wheat", "corn", "money", "rates"])
    told = refused(lambda: Priors.read(file, labels))
    assert str(file) in told


def test_not_a_number_is_none(tmp_path: Path) -> None:
    labels = LabelSet.of(["gold", "silver"])
    for text in ('{"cardinality": NaN}', '{"cardinality": Infinity}', '{"prevalence": {"gold": -Infinity}}'):
        (tmp_path / "p.json").write_text(text)
        refused(lambda: Priors.read(tmp_path / "p.json", labels))


def test_numbers_that_are_none_become_null_in_tables(bncl: Bncl, tmp_path: Path) -> None:
    row = '{"text": "gold", "x": NaN, "y": [1, Infinity, {"z": NaN}]}\n'
    (tmp_path / "t.jsonl").write_text(row + '{"text": "silver"}\n')
    (tmp_path / "labels.txt").write_text("gold\nsilver\n")
    words = ["classify", tmp_path / "t.jsonl", "--labels", tmp_path / "labels.txt", "--scorer", "fast"]
    done = bncl(*words, "--out", tmp_path / "o.jsonl")
    assert done.exit_code == 0, done.output
    written = (tmp_path / "o.jsonl").read_text()
    assert "NaN" not in written
    assert "Infinity" not in written
    assert json.loads(written.splitlines()[0])["y"] == [1, None, {"z": None}]


def test_no_text_at_all_has_no_predictions() -> None:
    features, graph, priors = make_inputs(0)
    classifier = BNCLClassifier(prevalence=priors, graph=graph).fit(features)
    assert classifier.predict(Corpus.of([])).shape == (0, 6)
