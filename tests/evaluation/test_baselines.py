import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from bncl_pyg.corpus import Corpus
from bncl_pyg.errors import InputError
from bncl_pyg.evaluation.baselines import (
    BASELINES,
    MLARAM,
    EncoderLogistic,
    Evidence,
    MLkNN,
    TfidfSVC,
    prevalence_quantile,
    run_baselines,
    top_cardinality,
)
from bncl_pyg.features import Features
from bncl_pyg.priors import Priors


@pytest.fixture(scope="module")
def library() -> dict[str, Any]:
    """What scikit-multilearn made of made-up data, with the old versions that it still works with."""
    content: dict[str, Any] = json.loads((Path(__file__).parent / "scikit_multilearn.json").read_text())
    for key, value in content.items():
        if key.startswith(("train", "test")):
            content[key] = np.array(value)
    content["train_labels"] = csr_array(content["train_labels"].astype(bool))
    return content


def test_ml_knn_decides_as_the_library(library: dict[str, Any]) -> None:
    known = library["ml_knn"]
    model = MLkNN(known["neighbours"], known["smoothing"]).fit(library["train"], library["train_labels"])
    assert model.predict(library["test"]).astype(int).tolist() == known["predicted"]


def test_ml_knn_by_hand() -> None:
    # Four texts on a line, k = 1. Label 0 is had by the left pair: a neighbour with it has always been right.
    vectors = np.array([[0.0], [1.0], [10.0], [11.0]], dtype=np.float32)
    truth = csr_array(np.array([[1], [1], [0], [0]], dtype=bool))
    model = MLkNN(neighbours=1).fit(vectors, truth)
    # P(H1) = (1 + 2) / (2 + 4); P(E1 | H1) = (1 + 2) / (2 + 2); P(E1 | H0) = (1 + 0) / (2 + 2).
    assert model.for_[:, 0] == pytest.approx([0.5 * 0.25, 0.5 * 0.75])
    assert model.against_[:, 0] == pytest.approx([0.5 * 0.75, 0.5 * 0.25])
    assert model.predict(np.array([[0.4], [10.6]], dtype=np.float32)).tolist() == [[True], [False]]


def test_ml_knn_with_fewer_texts_than_neighbours() -> None:
    model = MLkNN(neighbours=10).fit(np.eye(3, dtype=np.float32), csr_array(np.eye(3, dtype=bool)))
    assert model.neighbours_ == 2
    with pytest.raises(InputError, match="at least 2 annotated texts"):
        MLkNN().fit(np.eye(1, dtype=np.float32), csr_array(np.eye(1, dtype=bool)))


def test_ml_aram_votes_and_decides_as_the_library(library: dict[str, Any]) -> None:
    known = library["ml_aram"]
    model = MLARAM(known["vigilance"], known["threshold"]).fit(library["train"], library["train_labels"])
    assert len(model.boxes_) == known["prototypes"]
    votes = model.votes(library["test"])
    assert votes == pytest.approx(np.array(known["scores"]), abs=1e-6)
    gaps = np.sort(-np.diff(-np.sort(-votes, axis=1), axis=1), axis=1)
    clear = gaps[:, -1] - gaps[:, -2] > 1e-6  # where two gaps are the same, rounding decides which is the widest
    assert clear.sum() >= 45
    assert model.predict(library["test"])[clear].astype(int).tolist() == np.array(known["predicted"])[clear].tolist()


def test_ml_aram_stretches_a_box_and_counts() -> None:
    vectors = np.array([[0.2, 0.2], [0.3, 0.2], [0.9, 0.9]], dtype=np.float32)
    truth = csr_array(np.array([[1, 0], [1, 0], [0, 1]], dtype=bool))
    model = MLARAM(vigilance=0.9).fit(vectors, truth)
    # I = (x, 1 - x): the box around the first two keeps the smaller number on every side.
    assert model.boxes_.numpy() == pytest.approx(np.array([[0.2, 0.2, 0.7, 0.8], [0.9, 0.9, 0.1, 0.1]]), abs=1e-6)
    assert model.counts_.toarray().tolist() == [[2, 0], [0, 1]]
    assert model.predict(vectors).tolist() == truth.toarray().tolist()
    assert len(MLARAM(vigilance=0.99).fit(vectors, truth).boxes_) == 3


def test_ml_aram_gives_no_label_where_the_nearest_texts_have_none() -> None:
    vectors = np.array([[0.1, 0.1], [0.9, 0.9]], dtype=np.float32)
    truth = csr_array(np.array([[0, 0], [0, 1]], dtype=bool))
    assert MLARAM().fit(vectors, truth).predict(vectors).tolist() == truth.toarray().tolist()


def test_ml_aram_takes_vectors_of_any_range() -> None:
    vectors = np.array([[-2.0, 3.0], [3.0, -2.0]], dtype=np.float32)
    truth = csr_array(np.eye(2, dtype=bool))
    assert MLARAM().fit(vectors, truth).predict(vectors * 5).tolist() == truth.toarray().tolist()
    same = MLARAM().fit(np.full((2, 2), -1.0), truth)
    assert same.predict(np.full((1, 2), -1.0)).shape == (1, 2)


def test_logistic_regression_is_scikit_learns_at_the_optimum() -> None:
    generator = np.random.default_rng(0)
    vectors = generator.standard_normal((300, 12)).astype(np.float32) + 0.5
    truth = vectors @ generator.standard_normal((12, 4)) + generator.standard_normal((300, 4)) > [0, 1, 3, 6]
    model = EncoderLogistic(C=3.0).fit(vectors, csr_array(truth))
    for label in range(4):
        peer = LogisticRegression(C=3.0, tol=1e-9, max_iter=10_000).fit(vectors, truth[:, label])
        assert model.weights_[:, label] == pytest.approx(peer.coef_[0], abs=2e-3)
        assert model.intercepts_[label] == pytest.approx(peer.intercept_[0], abs=5e-3)


def test_logistic_regression_chooses_its_regularization_on_annotated_texts_held_out() -> None:
    generator = np.random.default_rng(1)
    vectors = generator.standard_normal((200, 5)).astype(np.float32) / 20
    truth = csr_array(vectors[:, :2] > 0)
    # Short vectors and clean labels: the weakest penalty is the best.
    assert EncoderLogistic().fit(vectors, truth).C_ == 100


@pytest.mark.parametrize("model", [TfidfSVC(), EncoderLogistic()])
def test_linear_models_say_never_or_always_where_nothing_can_be_learned(model: TfidfSVC | EncoderLogistic) -> None:
    texts = ["red apple", "green apple", "red car", "green car", "red apple pie"]
    vectors = np.array([[1, 0], [1, 0.1], [0, 1], [0.1, 1], [1, 0]], dtype=np.float32)
    truth = csr_array(np.array([[1, 1, 0], [1, 1, 0], [0, 1, 0], [0, 1, 0], [1, 1, 0]], dtype=bool))
    inputs: Any = texts if isinstance(model, TfidfSVC) else vectors
    said = model.fit(inputs, truth).predict(inputs)
    assert said.tolist() == truth.toarray().tolist()


def test_top_cardinality_rounds_and_gives_at_least_one() -> None:
    scores = torch.tensor([[0.1, 0.3, 0.2], [0.9, 0.5, 0.8]])
    assert top_cardinality(scores, 0.2).tolist() == [[False, True, False], [True, False, False]]
    assert top_cardinality(scores, 1.6).tolist() == [[False, True, True], [True, False, True]]
    assert top_cardinality(scores, 9.0).all()


def test_prevalence_quantile_takes_the_share_of_training_texts() -> None:
    training = torch.tensor([[0.1, 0.5], [0.2, 0.6], [0.3, 0.7], [0.4, 0.8]])
    said = prevalence_quantile(training, training, np.array([0.5, 0.1]))
    assert said.tolist() == [[False, False], [False, False], [True, False], [True, False]]
    new = prevalence_quantile(torch.tensor([[0.35, 0.9], [0.25, 0.7]]), training, np.array([0.5, 0.25]))
    assert new.tolist() == [[True, True], [False, False]]


def test_a_label_that_is_no_candidate_is_never_given(features: Features, corpus: Corpus, priors: Priors) -> None:
    # Only the first two labels are candidates, the others score 0, as a sparse store is read.
    kept = torch.zeros(6, dtype=torch.bool)
    kept[:2] = True
    sparse = Features(features.ids, features.labels, features.entailment * kept, features.contradiction * kept)
    given = Evidence(sparse, sparse, priors, None, corpus.texts, lambda texts: torch.zeros(len(texts), 1))
    said = BASELINES["λ-quantile"].decide(given)
    assert said[:, :2].any()
    assert not said[:, 2:].any()


@pytest.fixture
def evidence(features: Features, corpus: Corpus, priors: Priors) -> Evidence:
    """The first 40 texts are annotated; vectors know the truth, but for some noise."""
    assert corpus.annotations is not None
    truth = torch.from_numpy(corpus.annotations.toarray()).float()
    vectors = truth + 0.3 * torch.rand(truth.shape, generator=torch.Generator().manual_seed(1))
    places = {text: row for row, text in enumerate(corpus.texts)}

    def encode(texts: Any) -> Tensor:
        return vectors[[places[text] for text in texts]]

    return Evidence(features, features, priors, corpus.rows(np.arange(40)), corpus.texts, encode)


def test_every_baseline_decides_on_every_text(evidence: Evidence, corpus: Corpus) -> None:
    found = dict(run_baselines(evidence))
    assert list(found) == list(BASELINES)
    assert corpus.annotations is not None
    for name, said in found.items():
        assert said.shape == (60, 6), name
        assert said.dtype == bool, name
    # Vectors that know the truth are enough for whoever reads them.
    for name in ("ML-kNN", "ML-ARAM", "encoder + logistic regression"):
        assert (found[name][40:] == corpus.annotations.toarray()[40:]).mean() > 0.85, name


def test_without_annotated_texts_only_scores_are_used(features: Features, corpus: Corpus, priors: Priors) -> None:
    def encode(texts: Any) -> Tensor:
        raise AssertionError("nothing needs vectors")

    given = Evidence(features, features, priors, None, corpus.texts, encode)
    assert [name for name, _ in run_baselines(given)] == ["zero-shot", "top-κ", "λ-quantile"]
    with pytest.raises(InputError, match="needs annotated texts"):
        BASELINES["ML-kNN"].decide(given)
    other = Features(features.ids, features.labels, features.entailment, features.contradiction, {"name": "other"})
    with pytest.raises(InputError, match="scored by another scorer"):
        Evidence(other, features, priors, None, corpus.texts, encode)
    with pytest.raises(InputError, match="60 scored texts, but 59 texts"):
        Evidence(features, features, priors, None, corpus.texts[1:], encode)
