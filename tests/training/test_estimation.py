"""κ and λ where they are not known in numbers."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from bncl_pyg.corpus import LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.features import Features
from bncl_pyg.priors import Prevalence, Priors
from bncl_pyg.training import PriorEstimation, SelfTraining, estimate_cardinality
from bncl_pyg.training.prevalence import guess_error, guess_prevalence, posterior_prevalence, rescale_to_sum
from bncl_pyg.training.self_training import Prepared
from tests.training.world import World

ESTIMATION = PriorEstimation()
MOST = 0.9


@pytest.fixture(scope="module")
def data(world: World) -> Prepared:
    return SelfTraining().prepare(world.train, world.graph)


@pytest.fixture(scope="module")
def resolve(data: Prepared) -> Callable[..., Priors]:
    """Resolve κ and what is known of each label."""

    def resolved(cardinality: float | None, *prevalence: Prevalence) -> Priors:
        priors = ESTIMATION.resolve(data, Priors(cardinality, prevalence), SelfTraining())
        assert priors.is_exact
        return priors

    return resolved


def test_what_is_known_is_kept_and_the_rest_adds_up(resolve: Callable[..., Priors]) -> None:
    rough = (0.3, 0.0, "common", "uncommon", "almost unseen", None, None, (0.04, 0.25))
    resolved = resolve(1.4, *rough)
    assert resolved.cardinality == 1.4
    assert resolved.shares[:2].tolist() == pytest.approx([0.3, 0.0])
    assert resolved.shares.sum() == pytest.approx(1.4)
    assert resolved.shares[2] > resolved.shares[3] > resolved.shares[4] > 0
    assert (resolved.shares[5:7] > 0).all()


def test_the_cardinality_is_at_least_one_and_what_is_given(world: World, resolve: Callable[..., Priors]) -> None:
    counted = estimate_cardinality(world.train)
    assert counted == pytest.approx(max(1, (float(world.train.zero_shot().sum()) / 900) ** 0.5))
    assert resolve(None, *[None] * 8).cardinality == counted
    assert resolve(None, *[0.9] * 7, None).cardinality == pytest.approx(6.3)
    silent = replace(world.train, entailment=0.1 * world.train.entailment)
    assert estimate_cardinality(silent) == 1.0
    # Whoever says that texts may have none has κ below 1.
    assert 0.1 <= estimate_cardinality(silent, at_least_one=False) < 1
    # Where given numbers take all of κ, a tenth of it is left for the others.
    assert resolve(1.0, *[0.5] * 3, *[None] * 5).shares[3:].sum() == pytest.approx(0.1)


def test_a_cardinality_that_was_not_given_is_told(
    world: World, resolve: Callable[..., Priors], caplog: pytest.LogCaptureFixture
) -> None:
    resolve(None, *[None] * 8)
    assert "How many labels a text has was not given" in caplog.text
    assert "Every text is taken to have a label" in caplog.text
    caplog.clear()
    resolve(1.2, *[None] * 8)
    assert not caplog.text


def test_a_word_is_as_many_times_as_common_as_the_next(resolve: Callable[..., Priors]) -> None:
    def mean(shares: np.ndarray, words: list[str], word: str) -> float:
        return float(np.mean([share for share, one in zip(shares, words, strict=True) if one == word]))

    words = ["common"] * 2 + ["standard"] * 2 + ["uncommon"] * 2 + ["almost unseen"] * 2
    shares = resolve(1.2, *words).shares
    means = [mean(shares, words, word) for word in ("almost unseen", "uncommon", "standard", "common")]
    ratios = [more / less for less, more in pairwise(means)]
    assert ratios == pytest.approx([ratios[0]] * 3, rel=0.05)
    # "Almost unseen" is in two of the 900 texts.
    assert means[0] == pytest.approx(2 / 900, rel=0.05)


def test_labels_with_the_same_word_are_told_apart(resolve: Callable[..., Priors]) -> None:
    shares = resolve(1.3, *["standard"] * 8).shares
    assert shares.sum() == pytest.approx(1.3)
    assert shares.max() > 1.2 * shares.min()


def test_an_interval_is_pulled_towards_the_texts_the_further_the_wider_it_is(
    world: World, resolve: Callable[..., Priors]
) -> None:
    """Shares that are off by a factor of 2 come nearer to the truth where it is said that they may be off."""
    truth, factors = world.priors.shares, np.where(np.arange(8) % 2, 2.0, 0.5)
    wrong = rescale_to_sum(truth * factors, float(truth.sum()), 1.0)

    def off(width: float) -> float:
        intervals = tuple((share / width, min(share * width, 1.0)) for share in wrong)
        return float(np.abs(np.log(resolve(float(truth.sum()), *intervals).shares / truth)).mean())

    exact = float(np.abs(np.log(wrong / truth)).mean())
    assert off(1.0 + 1e-9) == pytest.approx(exact, abs=1e-3)
    assert off(2.0) < off(1.2) < exact


def test_few_annotated_texts_move_a_guess_and_many_replace_it() -> None:
    guess, counts = np.array([0.1, 0.1, 0.001]), np.array([3.0, 0.0, 0.0])
    few, many = (posterior_prevalence(counts * times, np.full(3, 4.0 * times), guess, 1.0) for times in (1, 1000))
    assert guess[0] < few[0] < many[0] == pytest.approx(0.75, rel=0.02)
    assert many[1] < few[1] < guess[1]
    # That a rare label is in none of four texts says next to nothing: it stays at the mean of what was thought of it.
    assert few[2] == pytest.approx(guess[2] * np.exp(0.5), rel=0.02)
    assert posterior_prevalence(counts, np.full(3, 4.0), guess, 1e-6) == pytest.approx(guess, rel=1e-3)


@pytest.mark.parametrize("std", [0.7, 1.5])
def test_the_error_of_a_guess_is_seen_by_annotated_texts(std: float) -> None:
    draw = np.random.default_rng(0)
    guess = np.exp(draw.uniform(np.log(0.01), np.log(0.3), 400))
    counts = draw.poisson(500 * guess * np.exp(std * draw.normal(size=400))).astype(float)
    assert guess_error(counts, np.full(400, 500.0), guess) == pytest.approx(std, rel=0.25)


def test_a_guess_counts_the_best_labels_by_two_scores() -> None:
    labels = LabelSet(("a", "b", "c"), ("a", "b", "c"))
    q = torch.tensor([[0.9, 0.5, 0.1], [0.8, 0.1, 0.1], [0.8, 0.7, 0.1], [0.6, 0.1, 0.5]])
    features = Features(("1", "2", "3", "4"), labels, q, 1 - q)
    odds = torch.log(q / (1 - q))
    centred = odds - odds.mean(dim=0) / 2
    counts = [np.bincount(values.argmax(dim=1).numpy(), minlength=3) + 0.5 for values in (q, centred)]
    assert counts[0].tolist() != counts[1].tolist()
    expected = rescale_to_sum((counts[0] * counts[1]) ** 0.75, 1.0, MOST)
    assert guess_prevalence(features, 1.0, 1.5, MOST) == pytest.approx(expected, rel=1e-3)
    # Below one label a text, one each is counted, and fewer are told.
    assert guess_prevalence(features, 0.5, 1.5, MOST) == pytest.approx(expected / 2, rel=1e-3)
    steeper = guess_prevalence(features, 1.0, 3.0, MOST)
    assert steeper.max() / steeper.min() > expected.max() / expected.min()


def test_labels_that_are_nobodys_candidates_are_rare_but_not_impossible(world: World) -> None:
    best = torch.zeros(len(world.train), 1, dtype=torch.int64)
    scores = {name: getattr(world.train, name)[:, :1] for name in ("entailment", "contradiction")}
    estimate = ESTIMATION.unknown_prevalence(replace(world.train, candidates=best, **scores), 1.0)
    assert (estimate > 0).all()
    assert estimate[0] > 20 * estimate[1]


def test_a_single_label_cannot_be_estimated(data: Prepared) -> None:
    with pytest.raises(InputError, match="cannot be estimated where there is no other; give its prevalence"):
        ESTIMATION.resolve(data, Priors(0.4, (None,)), SelfTraining())


@pytest.mark.parametrize("total", [0.5, 2.0, 2.9])
def test_shares_add_up_where_some_are_full(total: float) -> None:
    scaled = rescale_to_sum(np.array([0.9, 0.001, 0.002]), total, most=1.0)
    assert scaled.sum() == pytest.approx(total)
    assert scaled.max() <= 1
    assert rescale_to_sum(np.array([0.5, 0.5]), 3.0, most=1.0).tolist() == [1.0, 1.0]


def test_its_number_counts(data: Prepared) -> None:
    usual, other = (one.resolve(data, Priors.nothing(8), SelfTraining()) for one in (ESTIMATION, PriorEstimation(1.0)))
    assert np.abs(usual.shares - other.shares).max() > 1e-3
