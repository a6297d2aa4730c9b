"""Strategies choose what they say they choose, of texts that nobody annotated."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from bncl_pyg.active import (
    STRATEGIES,
    ByChance,
    Diverse,
    ExpectedChange,
    LeastSure,
    MissingExamples,
    Pool,
    Representative,
    entropy,
    expected_change,
    find_strategy,
    rows_to_annotate,
    suggest,
)
from bncl_pyg.corpus import Corpus
from bncl_pyg.errors import InputError
from bncl_pyg.features import Features, Predictions
from bncl_pyg.priors import Priors
from bncl_pyg.training import Annotated

EVERY = pytest.mark.parametrize("strategy", list(STRATEGIES))


def made(
    probabilities: list[list[float]], shares: list[float] | None = None, annotated: Annotated | None = None
) -> Pool:
    values = torch.tensor(probabilities)
    predictions = Predictions(values > 0.5, values, values - 0.5, values.shape[1])
    prevalence = np.array(shares or values.mean(dim=0).tolist())
    return Pool(predictions, Priors.exact(float(prevalence.sum()), prevalence), None, annotated)


@pytest.fixture
def pool() -> Pool:
    """Two hundred texts in four groups of very different size, of which a few are annotated."""
    generator = np.random.default_rng(0)
    groups = np.repeat(np.arange(4), [120, 50, 20, 10])
    values = np.clip(np.eye(4)[groups] * 0.7 + generator.uniform(0, 0.25, (200, 4)), 0, 1)
    vectors = np.eye(4)[groups] + generator.normal(0, 0.1, (200, 4))
    rows = np.array([5, 130, 5])
    annotated = Annotated(rows, csr_array(np.eye(4, dtype=bool)[groups[rows]]))
    predictions = Predictions(*(torch.from_numpy(one) for one in (values > 0.5, values, values - 0.5)), 4)
    prevalence = values.mean(axis=0)
    return Pool(predictions, Priors.exact(prevalence.sum(), prevalence), torch.from_numpy(vectors).float(), annotated)


def with_candidates(pool: Pool) -> Pool:
    """Return the same with every label a candidate, which must give the same."""
    candidates = torch.arange(4).expand(len(pool), 4).contiguous()
    return dataclasses.replace(pool, predictions=dataclasses.replace(pool.predictions, candidates=candidates))


@EVERY
@pytest.mark.parametrize("count", [1, 7, 60, 198])
def test_different_texts_that_nobody_annotated_are_chosen(strategy: str, count: int, pool: Pool) -> None:
    rows = suggest(pool, count, strategy)
    assert rows.dtype == np.int64
    assert len(set(rows.tolist())) == count
    assert not {5, 130} & set(rows.tolist())
    assert rows.tolist() == suggest(pool, count, strategy).tolist()


@EVERY
def test_with_candidates_it_is_the_same(strategy: str, pool: Pool) -> None:
    if strategy == Diverse().name:
        # k-means starts elsewhere on sparse points.
        assert len(set(suggest(with_candidates(pool), 9, strategy).tolist())) == 9
        return
    assert suggest(with_candidates(pool), 9, strategy).tolist() == suggest(pool, 9, strategy).tolist()


@EVERY
def test_texts_without_vectors_and_without_annotations_do(strategy: str, pool: Pool) -> None:
    bare = dataclasses.replace(pool, vectors=None, annotated=None)
    assert len(suggest(bare, 12, strategy)) == 12
    assert len(suggest(bare, 1000, strategy)) == 200


@pytest.mark.parametrize("strategy", [ByChance(), Diverse(), Representative(most_texts=50)])
def test_the_seed_decides_what_is_drawn(strategy: ByChance, pool: Pool) -> None:
    drawn = [suggest(pool, 20, strategy, seed).tolist() for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_chance_draws_anew_after_every_annotation(pool: Pool) -> None:
    assert (
        suggest(pool, 9, "random").tolist() != suggest(dataclasses.replace(pool, annotated=None), 9, "random").tolist()
    )


def test_representative_texts_are_as_many_of_each_kind_as_texts_are(pool: Pool) -> None:
    fresh = dataclasses.replace(pool, annotated=None)
    groups = np.repeat(np.arange(4), [120, 50, 20, 10])
    for count in (20, 40):
        counts = np.bincount(groups[suggest(fresh, count, "representative")], minlength=4)
        assert np.abs(counts - count * np.array([0.6, 0.25, 0.1, 0.05])).max() <= 1
    # What is annotated already counts.
    rows = np.arange(20)
    lopsided = dataclasses.replace(fresh, annotated=Annotated(rows, csr_array((20, 4), dtype=bool)))
    counts = np.bincount(groups[np.concatenate([rows, suggest(lopsided, 20, "representative")])], minlength=4)
    assert np.abs(counts - np.array([24, 10, 4, 2])).max() <= 2


def test_representative_means_are_nearer_than_by_chance(pool: Pool) -> None:
    fresh = dataclasses.replace(pool, annotated=None)
    shares = fresh.predictions.probabilities

    def distance(strategy: str, seed: int) -> float:
        return float((shares[suggest(fresh, 20, strategy, seed)].mean(dim=0) - shares.mean(dim=0)).norm())

    assert distance("representative", 0) < min(distance("random", seed) for seed in range(20))


def test_diverse_texts_come_from_clusters_that_have_no_annotated_text(pool: Pool) -> None:
    groups = np.repeat(np.arange(4), [120, 50, 20, 10])
    rows = np.array([0, 125])
    known = Annotated(rows, csr_array(np.eye(4, dtype=bool)[groups[rows]]))
    far = dataclasses.replace(pool, vectors=pool.vectors * 100 if pool.vectors is not None else None, annotated=known)
    chosen = Diverse(probability_share=0.0).choose(far, 2, 0)
    assert sorted(groups[chosen].tolist()) == [2, 3]
    change = expected_change(far)
    assert all(change[row] == change[groups == groups[row]].max() for row in chosen)


def test_least_sure_is_the_highest_entropy() -> None:
    pool = made([[0.99, 0.01], [0.5, 0.5], [0.6, 0.1], [0.0, 1.0]])
    assert LeastSure().choose(pool, 4, 0).tolist() == [1, 2, 0, 3]
    assert float(entropy(pool)[1]) == pytest.approx(2 * math.log(2))
    assert float(entropy(pool)[3]) == pytest.approx(0, abs=1e-6)


def test_expected_change_is_what_is_said_of_it() -> None:
    pool = made([[0.9, 0.1], [0.6, 0.4], [0.1, 0.2]], [0.5, 0.1])
    common = np.array([2 / 3 + 0.5, 0 + 1 / 3])  # at least one text in three has any label, as far as they can tell
    for row, (text, f1) in enumerate([((0.9, 0.1), 1.8 / 2), ((0.6, 0.4), 1.2 / 2), ((0.1, 0.2), 0.9 * 0.8)]):
        wrong = np.where(np.array(text) > 0.5, 1 - np.array(text), text)
        expected = 1 - f1 + (2 * wrong / common).sum() / 2
        assert float(expected_change(pool)[row]) == pytest.approx(expected, rel=1e-5)
    assert ExpectedChange().choose(pool, 1, 0).tolist() == [1]


def test_of_equally_unsure_texts_that_of_a_rare_label_changes_more() -> None:
    pool = made([[0.4, 0.0], [0.0, 0.4], *[[0.9, 0.0]] * 8], [0.8, 0.05])
    change = expected_change(pool)
    assert change[1] > change[0]


def test_labels_without_example_come_first() -> None:
    shares = [[0.9, 0.0, 0.1], [0.8, 0.1, 0.0], [0.1, 0.4, 0.2], [0.0, 0.3, 0.6], [0.7, 0.0, 0.5]]
    pool = made(shares, [0.5, 0.3, 0.2])
    # The commonest label's best text, then those of the two others.
    assert MissingExamples().choose(pool, 3, 0).tolist() == [0, 2, 3]
    known = Annotated(np.array([0]), csr_array(np.array([[True, False, False]])))
    assert MissingExamples().choose(dataclasses.replace(pool, annotated=known), 3, 0).tolist() == [2, 3, 1]


def test_what_cannot_be_suggested_is_said(pool: Pool) -> None:
    with pytest.raises(InputError, match="At least 1 text must be asked for, but 0 were"):
        suggest(pool, 0)
    everything = Annotated(np.arange(200), csr_array((200, 4), dtype=bool))
    with pytest.raises(InputError, match="All of these texts are annotated"):
        suggest(dataclasses.replace(pool, annotated=everything), 3)
    with pytest.raises(InputError, match=r"Unknown strategy 'divers' \(did you mean 'diverse'\?\); there are: repr"):
        find_strategy("divers")
    with pytest.raises(InputError, match="The probability share must lie between 0 and 1, but is 2"):
        Representative(probability_share=2)
    with pytest.raises(InputError, match="predictions of 4 labels, but priors of 2"):
        dataclasses.replace(pool, priors=Priors.exact(1.0, np.array([0.5, 0.5])))
    with pytest.raises(InputError, match="predictions of 200 texts, but vectors of 3"):
        dataclasses.replace(pool, vectors=torch.zeros(3, 2))
    with pytest.raises(InputError, match="There are 200 texts, but the one at 200 is annotated"):
        dataclasses.replace(pool, annotated=Annotated(np.array([200]), csr_array((1, 4), dtype=bool)))


def test_a_strategy_of_ones_own(pool: Pool) -> None:
    @dataclasses.dataclass(frozen=True)
    class Last:
        name: str = "last"
        wrong: bool = False

        def choose(self, pool: Pool, count: int, seed: int) -> np.ndarray:
            return pool.asked[[0] * count] if self.wrong else pool.open[::-1][:count]

    assert suggest(pool, 3, Last()).tolist() == [199, 198, 197]
    with pytest.raises(ValueError, match="The strategy 'last' chose a text twice"):
        suggest(pool, 3, Last(wrong=True))


def test_a_pool_of_features_knows_what_is_annotated(features: Features, priors: Priors, corpus: Corpus) -> None:
    shares = features.zero_shot_probabilities()
    predictions = Predictions(shares > 0.5, shares, shares - 0.5, 6)
    names = {"t3": ["gold"], "elsewhere": ["silver"], "t7": []}
    pool = Pool.of(features, predictions, priors, names, {"t7": ["corn"]})
    assert pool.asked.tolist() == [3, 7]
    assert pool.examples.tolist() == [1, 0, 0, 0, 0, 0]
    assert pool.annotated is not None
    assert pool.annotated.known_counts.tolist() == [1, 1, 1, 2, 1, 1]
    known = np.zeros((3, 6), dtype=bool)
    known[0] = True
    given = Corpus(("t9", "t10", "nowhere"), ("", "", ""), csr_array((3, 6), dtype=bool), csr_array(known))
    assert pool.with_annotated(given, features.ids).asked.tolist() == [3, 7, 9]
    assert corpus.annotations is not None
    own = corpus.annotations[[8]].toarray()[0] + np.eye(6, dtype=int)[0]
    assert pool.with_annotated(corpus.rows(np.array([8])), features.ids).examples.tolist() == own.tolist()
    own = corpus.annotations[[3]].toarray()[0]
    assert pool.with_annotated(corpus.rows(np.array([3])), features.ids).examples.tolist() == own.tolist()
    assert pool.with_annotated(Corpus(("nowhere",), ("",), csr_array((1, 6), dtype=bool)), features.ids) is pool
    assert Pool.of(features, predictions, priors).asked.tolist() == []


def test_rows_to_be_filled_in(pool: Pool) -> None:
    names, ids, texts = ["a", "b", "c", "d"], [f"t{row}" for row in range(200)], [f"text {row}" for row in range(200)]
    first, second = rows_to_annotate(pool, np.array([130, 0]), ids, names, texts, top_k=2)
    assert list(first) == ["id", "text", "likely", "probabilities", "labels"]
    assert (first["id"], first["text"], first["labels"]) == ("t130", "text 130", ["?"])
    assert (first["likely"][0], second["likely"][0]) == ("b", "a")
    assert first["probabilities"] == sorted(first["probabilities"], reverse=True)
    assert list(rows_to_annotate(with_candidates(pool), np.array([130, 0]), ids, names, texts, top_k=2)) == [
        first,
        second,
    ]
    (bare,) = rows_to_annotate(pool, np.array([0]), ids, names, top_k=0)
    assert bare == {"id": "t0", "likely": [], "probabilities": [], "labels": ["?"]}


@EVERY
def test_candidates_without_vectors_do(strategy: str, pool: Pool) -> None:
    bare = dataclasses.replace(with_candidates(pool), vectors=None)
    assert len(suggest(bare, 12, strategy)) == 12
