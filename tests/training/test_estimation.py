"""κ and λ where they are not known in numbers."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from bncl_pyg.corpus import LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.features import Features
from bncl_pyg.priors import Prevalence, Priors
from bncl_pyg.training import PriorEstimation, SelfTraining, estimate_cardinality
from bncl_pyg.training.prevalence import guess_prevalence, rescale_to_sum, shrunk_prevalence, topk_prevalence
from bncl_pyg.training.self_training import Prepared
from tests.training.world import World

ESTIMATION = PriorEstimation()
FLOOR, MOST = ESTIMATION.floor, ESTIMATION.max_prevalence


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
    assert resolved.shares[[0, 1, 7]].tolist() == pytest.approx([0.3, 0.0, 0.1])
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
    # Where given numbers take all of κ, a tenth of it is left for the others.
    assert resolve(1.0, *[0.5] * 3, *[None] * 5).shares[3:].sum() == pytest.approx(0.1)


def test_two_words_are_3_to_16_times_apart(resolve: Callable[..., Priors]) -> None:
    def means(cardinality: float, *words: str) -> list[float]:
        shares = resolve(cardinality, *words).shares
        return [float(np.mean([s for s, w in zip(shares, words, strict=True) if w == word])) for word in set(words)]

    halves = ["common"] * 4 + ["standard"] * 4
    ratios = [max(pair) / min(pair) for pair in (means(total, *halves) for total in (0.05, 1.0, 2.0))]
    assert all(2.99 < ratio < 16.01 for ratio in ratios)
    unseen = resolve(1.5, *["common"] * 7, "almost unseen").shares[7]
    assert 1 / 900 < unseen < 0.01


def test_labels_with_the_same_word_are_told_apart_within_reach(data: Prepared) -> None:
    def ratio(**changes: float) -> float:
        """Return how many times as common as the rarest label the most common one is."""
        estimation = replace(ESTIMATION, **changes)  # type: ignore[arg-type]
        shares = estimation.resolve(data, Priors(1.3, ("standard",) * 8), SelfTraining()).shares
        assert shares.sum() == pytest.approx(1.3)
        return float(shares.max() / shares.min())

    # "Standard" is about 7 times as common as "uncommon" here: labels reach 1.5 √7 times up and as far down.
    assert 2 < ratio() < 16.1
    assert 1.2 < ratio(reach=0.5) < 1.8
    assert ratio(trust=0.0) == pytest.approx(1)


def test_prevalence_from_scores_and_from_few_texts(world: World, data: Prepared) -> None:
    assert world.priors.cardinality is not None
    estimate = ESTIMATION.unknown_prevalence(data.features, world.priors.cardinality)
    assert estimate.sum() == pytest.approx(world.priors.cardinality)
    assert (estimate > 0).all()
    few = shrunk_prevalence(np.array([3, 1, 0, 0, 0, 0, 0, 0]), np.full(8, 4), estimate, 50)
    many = shrunk_prevalence(np.array([3000, 1000, 0, 0, 0, 0, 0, 0]), np.full(8, 4000), estimate, 50)
    assert few[0] < many[0] == pytest.approx(0.75, abs=0.02)
    assert few[2] > 10 * many[2] > 0


def test_a_label_is_as_common_as_it_is_among_the_best_and_a_little_more() -> None:
    scores = torch.tensor([[0.9, 0.5, 0.1, 0.0], [0.8, 0.1, 0.6, 0.0]])
    labels = LabelSet(("a", "b", "c", "d"), ("a", "b", "c", "d"))
    few = Features(("one", "two"), labels, scores, torch.zeros(2, 4))
    expected = np.array([1.0, 0.25, 0.25, 0.0]) + 0.1 * 1.5 / 4
    of_few = topk_prevalence(few, 1.5, FLOOR, MOST)
    assert of_few == pytest.approx(rescale_to_sum(expected, 1.5, MOST))
    assert topk_prevalence(few, 4.0, FLOOR, MOST) == pytest.approx([0.9] * 4)
    best = scores.topk(3, dim=1).indices.sort(dim=1).values
    sparse = replace(few, entailment=scores.gather(1, best), contradiction=torch.zeros(2, 3), candidates=best)
    assert topk_prevalence(sparse, 1.5, FLOOR, MOST) == pytest.approx(of_few)


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


CHANGES = {
    "guess_power": 1.0,
    "floor": 1.0,
    "max_prevalence": 0.2,
    "least_left": 0.5,
    "rarest_texts": 40.0,
    "rarest_share": 0.5,
    "word_ratios": (2.0, 2.5),
    "initial_trust": 0.0,
    "trust": 0.0,
    "trained_share": 0.0,
    "reach": 0.5,
}


@pytest.mark.parametrize("name", CHANGES)
def test_every_number_counts(data: Prepared, name: str) -> None:
    priors = [
        Priors(1.2, ("common", "common", "standard", "almost unseen", "standard", "almost unseen", None, None)),
        Priors(1.2, (0.6, 0.5, None, None, None, None, None, None)),
        Priors.nothing(8),
    ]
    changed = replace(ESTIMATION, **{name: CHANGES[name]})
    usual, other = (
        np.stack([estimation.resolve(data, one, SelfTraining()).shares for one in priors])
        for estimation in (ESTIMATION, changed)
    )
    assert np.abs(usual - other).max() > 1e-6
