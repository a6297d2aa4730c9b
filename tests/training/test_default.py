"""The default recipe as a whole: what goes in, and what the model that comes out predicts."""

import copy
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from scipy.stats import spearmanr
from torch import Tensor

from bncl_pyg.corpus import LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.evaluation import evaluate, reliability
from bncl_pyg.features import Features
from bncl_pyg.graph import SignedLabelGraph
from bncl_pyg.priors import Priors
from bncl_pyg.training import Annotated, DefaultRecipe, Model, SelfTraining, TrainingStep, find_recipe
from tests.training.world import World, with_candidates

WORDS = Priors(1.3, ("common", "common", "standard", "standard", "standard", "standard", "uncommon", "uncommon"))


def fit(
    world: World, priors: Priors | None, annotated: Annotated | None = None, train: Features | None = None
) -> Model:
    return DefaultRecipe().fit(world.train if train is None else train, world.graph, priors, annotated)


def test_without_annotated_texts_it_is_far_ahead_of_its_start(world: World) -> None:
    start = world.zero_shot()
    whole, scores_alone = world.metrics(world.unsupervised()), world.metrics(world.unsupervised(parts=()))
    for metric in ("ebF1", "miF1", "maF1"):
        assert getattr(whole, metric) > getattr(start, metric) + 0.15
        assert getattr(whole, metric) > getattr(scores_alone, metric) + 0.02


def test_annotated_texts_help_and_more_help_more(world: World) -> None:
    without = world.metrics(world.unsupervised()).miF1
    few, some, many = (world.metrics(world.supervised(count)).miF1 for count in (8, 90, 900))
    assert min(few, some, many) > without - 0.01
    assert many > max(without, few, some)
    assert world.metrics(world.scarce(90)).miF1 > 0.8 * some


def test_decisions_are_as_common_as_they_should_be_where_they_aim_at_that(world: World) -> None:
    recipe = DefaultRecipe(aim="prevalence")
    for annotated in (None, world.annotated(300)):
        decisions = world.decisions(recipe.fit(world.train, world.graph, world.priors, annotated))
        assert decisions.mean(axis=0) == pytest.approx(world.priors.shares, abs=0.1)


def test_probabilities_add_up_and_are_calibrated(world: World) -> None:
    start = reliability(world.truth, world.test.zero_shot_probabilities().numpy())
    for model in (world.unsupervised(), world.supervised(300)):
        assert world.probabilities(model).mean(axis=0) == pytest.approx(world.priors.shares, abs=0.03)
        assert reliability(world.truth, world.probabilities(model)).error() < start.error() / 2


def test_scores_are_above_0_where_a_label_is_predicted_but_for_a_text_s_best(world: World) -> None:
    predictions = world.supervised(60).predict(world.test)
    assert bool(predictions.decisions[predictions.scores > 0].all())
    alone = predictions.decisions & (predictions.scores <= 0)
    assert bool((predictions.decisions.sum(dim=1)[alone.any(dim=1)] == 1).all())


def test_features_without_vectors_and_words_train_and_predict(world: World) -> None:
    bare = [replace(features, vectors=None, words=None) for features in (world.train, world.test)]
    model = fit(world, world.priors, train=bare[0])
    decisions = model.predict(bare[1]).indicator()
    assert (decisions == world.decisions(model)).all()
    assert evaluate(world.truth, decisions).miF1 > world.zero_shot().miF1
    scarce = fit(world, None, world.annotated(40), bare[0])
    assert scarce.predict(bare[1]).indicator().any()
    with pytest.raises(InputError, match="trained with the encoder's vectors and the words of the texts, which these"):
        world.unsupervised().predict(bare[1])
    with pytest.raises(InputError, match="trained with the words"):
        world.unsupervised(parts=("words",)).predict(bare[1])


def test_features_without_vectors_and_words_are_warned_of(world: World, caplog: pytest.LogCaptureFixture) -> None:
    fit(world, world.priors, train=replace(world.train, vectors=None, words=None))
    assert "hold neither vectors nor words of the texts" in caplog.text
    caplog.clear()
    fit(world, world.priors)
    assert not caplog.text


def test_vectors_of_another_encoder_are_refused(world: World) -> None:
    other = replace(world.test, vectors=torch.zeros(len(world.test), 7))
    with pytest.raises(InputError, match="vectors of 24 numbers a text, but these features hold vectors of 7"):
        world.unsupervised().predict(other)


def test_the_same_seed_gives_the_same_model_and_texts_do_not_depend_on_each_other(world: World) -> None:
    one, two, other = (world.probabilities(world.supervised(60, seed)) for seed in (3, 3, 4))
    assert (one == two).all()
    assert (one != other).any()
    first = world.supervised(60, 3).predict(world.test.rows(slice(0, 1))).probability_matrix()
    assert np.allclose(first[0], one[0], atol=1e-5)


def test_texts_are_predicted_some_at_a_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    model = world.unsupervised()
    at_once = model.predict(world.test)
    monkeypatch.setattr("bncl_pyg.training.default_model.TEXTS_AT_ONCE", 7)
    in_parts = model.predict(world.test)
    assert torch.equal(in_parts.decisions, at_once.decisions)
    assert torch.allclose(in_parts.probabilities, at_once.probabilities, atol=1e-5)
    assert model.predict(world.test.rows(slice(0, 0))).indicator().shape == (0, 8)


def test_a_label_without_examples_falls_back_to_what_needs_none(world: World) -> None:
    """'trade' is in none of the annotated texts, but it is known to be there."""
    rows = np.flatnonzero(world.annotations[:, [7]].toarray().ravel() == 0)[:200]
    model = fit(world, world.priors, Annotated(rows, world.annotations[rows]))
    corrected, before = (world.probabilities(one)[:, 7] for one in (model, world.unsupervised()))
    assert corrected.mean() == pytest.approx(world.priors.shares[7], abs=0.01)
    assert spearmanr(corrected, before).statistic > 0.7


@pytest.mark.parametrize("count", [1, 2, 3])
def test_next_to_no_annotated_texts(world: World, count: int) -> None:
    assert world.metrics(world.supervised(count)).miF1 > 0.8 * world.metrics(world.unsupervised()).miF1


def test_texts_without_labels_stay_without_where_many_are(world: World) -> None:
    half = csr_array(np.vstack([world.annotations[:40].toarray(), np.zeros((40, 8), dtype=bool)]))
    priors = Priors.exact(0.5, world.priors.shares / 3)
    for annotated in (Annotated(np.arange(80), half), None):
        assert (~world.decisions(fit(world, priors, annotated)).any(axis=1)).mean() > 0.1
    assert world.decisions(fit(world, world.priors, world.first(80))).any(axis=1).all()


def test_rough_knowledge_is_worth_something(world: World) -> None:
    exact = world.metrics(world.unsupervised()).miF1
    assert world.metrics(fit(world, WORDS)).miF1 > 0.8 * exact
    nothing = fit(world, Priors.nothing(8))
    assert world.metrics(nothing).miF1 > world.zero_shot().miF1
    assert nothing.priors.is_exact
    assert nothing.priors.cardinality is not None
    assert nothing.priors.cardinality >= 1


def test_an_interval_of_one_number_is_that_number(world: World) -> None:
    intervals = tuple((share, share) for share in world.priors.shares.tolist())
    one, two = fit(world, Priors(world.priors.cardinality, intervals)), world.unsupervised()
    assert (world.probabilities(one) == world.probabilities(two)).all()


def test_decisions_aim_at_f1_or_at_prevalences(world: World) -> None:
    f1, prevalence = (
        DefaultRecipe(aim=aim).fit(world.train, world.graph, world.priors)
        for aim in ("f1", "prevalence")  # type: ignore[arg-type]
    )
    assert f1.network.get_buffer("thresholds").any()
    assert not prevalence.network.get_buffer("thresholds").any()
    assert (world.probabilities(f1) == world.probabilities(prevalence)).all()
    assert DefaultRecipe().adapted(aim="prevalence").aim == "prevalence"
    with pytest.raises(InputError, match="aim must be one of f1, prevalence, but is 'F1'"):
        DefaultRecipe(aim="F1")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="The recipe default has no epochs"):
        DefaultRecipe().adapted(epochs=3)


def test_ten_numbers_and_no_more() -> None:
    def count(value: object) -> int:
        if isinstance(value, dict):
            return sum(count(one) for one in value.values())
        return int(isinstance(value, int | float))

    # The tenth is with how many labels each is joined in the default graph.
    assert count(DefaultRecipe().config()) == 9


def test_who_knows_nothing_is_trained_as_in_scarce_annotation(world: World) -> None:
    """Whether or not it is called by another name."""
    one, two = (fit(world, priors, world.annotated(30)) for priors in (Priors.nothing(8), None))
    assert one.priors.shares == pytest.approx(two.priors.shares)
    assert (world.probabilities(one) == world.probabilities(two)).all()


def test_what_is_roughly_known_counts_beside_annotated_texts(world: World) -> None:
    nothing, rough = (fit(world, priors, world.annotated(3)).priors for priors in (None, WORDS))
    assert rough.cardinality == 1.3
    truth = np.log(world.priors.shares)
    off = [np.abs(np.log(known.shares) - truth).mean() for known in (nothing, rough)]
    assert off[1] < off[0]


def test_knowing_nothing_beside_annotated_texts_costs_little(world: World) -> None:
    scarce, both = (fit(world, priors, world.first(200)) for priors in (None, Priors.nothing(8)))
    assert world.metrics(both).miF1 > world.metrics(scarce).miF1 - 0.03
    for model in (scarce, both):
        assert model.priors.shares == pytest.approx(world.priors.shares, abs=0.06)


def test_words_are_not_looked_at_where_the_recipe_leaves_them_out(world: World) -> None:
    recipe = DefaultRecipe(self_training=SelfTraining(parts=("vectors", "graph")))
    one, two = (
        recipe.fit(features, world.graph, None, world.annotated(8))
        for features in (world.train, replace(world.train, words=None))
    )
    assert (one.priors.shares == two.priors.shares).all()
    assert (world.probabilities(one) == world.probabilities(two)).all()


def test_what_is_estimated_is_never_above_one(world: World) -> None:
    everything = Annotated(np.arange(5), csr_array(np.ones((5, 8), dtype=bool)))
    for priors in (None, Priors(8.0, (None,) * 8)):
        assert fit(world, priors, everything).priors.shares.max() <= 1


def test_prevalences_that_add_up_to_too_much_are_scaled(world: World) -> None:
    assert world.priors.cardinality is not None
    doubled = Priors.exact(world.priors.cardinality, np.minimum(2 * world.priors.shares, 1))
    model = fit(world, doubled)
    assert model.priors.shares.sum() == pytest.approx(world.priors.cardinality)
    assert (world.decisions(model) == world.decisions(world.unsupervised())).mean() > 0.97


def test_too_little_to_train_on(world: World) -> None:
    with pytest.raises(InputError, match="at least 2 training texts"):
        fit(world, world.priors, train=world.train.rows(slice(0, 1)))
    with pytest.raises(InputError, match=r"needs priors, if only `Priors\.nothing`"):
        fit(world, None)
    nothing = Annotated(np.arange(3), csr_array((3, 8), dtype=bool))
    with pytest.raises(InputError, match="None of the annotated texts has a label"):
        fit(world, None, nothing)


@pytest.mark.parametrize(
    ("priors", "count", "steps"),
    [("exact", None, 1), ("nothing", None, 2), ("words", None, 2), ("exact", 30, 2), (None, 30, 5), ("words", 30, 6)],
)
def test_every_step_is_reported(world: World, priors: str | None, count: int | None, steps: int) -> None:
    known = {"exact": world.priors, "nothing": Priors.nothing(8), "words": WORDS, None: None}[priors]
    annotated = None if count is None else world.annotated(count)
    told: list[TrainingStep] = []
    DefaultRecipe().fit(world.train, world.graph, known, annotated, progress=told.append)
    assert [(step.number, step.of) for step in told] == [(number, steps) for number in range(1, steps + 1)]
    assert all(step.what and step.figures for step in told)


def test_labels_that_were_hardly_scored_in_training_are_no_surprise_later(world: World) -> None:
    """A sparse store: one label is never a candidate of a training text, one has a single score."""
    entailment, contradiction = world.train.entailment.clone(), world.train.contradiction.clone()
    for scores in (entailment, contradiction):
        scores[:, 6] = 0
        scores[1:, 7] = 0
    decisions = world.decisions(
        fit(world, world.priors, train=replace(world.train, entailment=entailment, contradiction=contradiction))
    )
    assert decisions[:, 6].mean() < 0.3
    assert decisions[:, 7].mean() < 0.2
    assert evaluate(world.truth[:, :6], decisions[:, :6]).miF1 > 0.7


def test_a_single_label_needs_its_prevalence(world: World) -> None:
    alone = replace(
        world.train,
        labels=LabelSet(("gold",), ("gold",)),
        entailment=world.train.entailment[:, :1],
        contradiction=world.train.contradiction[:, :1],
    )
    graph = SignedLabelGraph.from_pairs(("gold",), torch.zeros(2, 0, dtype=torch.int64), torch.zeros(0), torch.zeros(0))
    with pytest.raises(InputError, match="cannot be estimated where there is no other"):
        DefaultRecipe().fit(alone, graph, Priors.nothing(1))
    model = DefaultRecipe().fit(alone, graph, Priors(0.4, (0.4,)))
    assert 0.1 < model.predict(alone).indicator().mean() < 0.7


@pytest.mark.parametrize(("priors", "count"), [("exact", None), ("nothing", None), ("exact", 40), (None, 40)])
def test_with_every_label_a_candidate_the_model_is_as_with_all_pairs(
    priors: str | None, count: int | None, world: World
) -> None:
    known = {"exact": world.priors, "nothing": Priors.nothing(8), None: None}[priors]
    annotated = None if count is None else world.annotated(count)
    whole = fit(world, known, annotated).predict(world.test)
    sparse = fit(world, known, annotated, with_candidates(world.train, 8)).predict(with_candidates(world.test, 8))
    assert np.allclose(whole.probability_matrix(), sparse.probability_matrix().toarray(), atol=0.01)
    assert (whole.indicator() == sparse.indicator().toarray()).mean() > 0.998


@pytest.mark.parametrize("recipe", ["default", "paper"])
def test_candidates_are_trained_on_and_predicted(recipe: str, world: World) -> None:
    train, test = with_candidates(world.train, 5), with_candidates(world.test, 5)
    predictions = find_recipe(recipe).fit(train, world.graph, world.priors).predict(test)
    decisions = predictions.indicator()
    assert isinstance(decisions, csr_array)
    assert decisions.shape == predictions.probability_matrix().shape == (len(test), 8)
    candidates = test.sparse(torch.ones(len(test), 5)).toarray() > 0
    assert not (decisions.toarray() & ~candidates).any()
    margins = predictions.score_matrix().toarray()
    assert decisions.toarray()[margins > 0].all()
    assert ((margins > 0).sum(axis=1) <= decisions.sum(axis=1)).all()
    assert [len(predictions.best_first(row)[0]) for row in range(len(test))] == decisions.sum(axis=1).tolist()
    if recipe == "default":
        start = evaluate(world.truth, test.sparse(test.zero_shot()))
        assert evaluate(world.truth, decisions).miF1 > start.miF1


def test_a_text_whose_labels_are_no_candidates_is_not_one_without_labels(world: World) -> None:
    model = fit(world, None, world.annotated(100), with_candidates(world.train, 1))
    assert (world.annotations.sum(axis=1) > 0).mean() > 0.95
    assert model.config()["at_least_one"]
    assert model.predict(with_candidates(world.test, 1)).indicator().sum(axis=1).min() == 1


def test_features_with_other_candidates_than_the_models(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.unsupervised().predict(with_candidates(world.test, 5))
    assert "trained with all labels a text, but these features hold 5 candidates" in caplog.text
    paper = find_recipe("paper", epochs=1).fit(with_candidates(world.train, 5), world.graph, world.priors)
    with pytest.raises(InputError, match="trained with 5 candidates a text, but these features hold all labels"):
        paper.predict(world.test)


def test_training_and_predicting_change_nothing_that_was_made_before(world: World) -> None:
    """Neither what is given, nor the recipe, nor the model of another training, nor a model that predicts."""
    train, graph, annotated = copy.deepcopy((world.train, world.graph, world.annotated(40)))
    recipe = DefaultRecipe()
    first = recipe.fit(train, graph, None, annotated)
    before, config = copy.deepcopy(first.state_dict()), first.config()
    recipe.fit(train, graph, Priors.nothing(8), annotated, seed=1)
    first.predict(world.test)
    assert first.config() == config
    assert all(torch.equal(tensor, before[name]) for name, tensor in first.state_dict().items())
    assert recipe == DefaultRecipe()
    for name in ("entailment", "contradiction", "vectors"):
        assert torch.equal(getattr(train, name), getattr(world.train, name))
    assert train.words is not None
    assert (train.words != world.train.words).nnz == 0
    assert torch.equal(graph.edge_index, world.graph.edge_index)
    assert (annotated.labels != world.annotated(40).labels).nnz == 0
    with pytest.raises(FrozenInstanceError):
        recipe.name = "another"  # type: ignore[misc]


@pytest.mark.parametrize("count", [None, 40])
@pytest.mark.parametrize("candidates", [5, 8])
def test_a_model_moves_as_a_whole(
    world: World, tensors_in: Callable[[object], list[Tensor]], count: int | None, candidates: int
) -> None:
    train = world.train if candidates == 8 else with_candidates(world.train, candidates)
    model = DefaultRecipe().fit(train, world.graph, world.priors, None if count is None else world.annotated(count))
    model.predict(train.rows(slice(0, 3)))
    assert {tensor.device.type for tensor in tensors_in(model)} == {"cpu"}
    model.to("meta")
    assert {tensor.device.type for tensor in tensors_in(model)} == {"meta"}


@pytest.mark.parametrize("known_priors", [True, False])
def test_of_texts_annotated_in_part_nothing_else_is_learned(world: World, known_priors: bool) -> None:
    priors, whole = world.priors if known_priors else None, world.annotated(200)
    known = np.zeros(whole.labels.shape, dtype=bool)
    known[:, :4] = True
    known[:20] = True
    truth = whole.labels.toarray() & known
    partly = fit(world, priors, Annotated(whole.rows, csr_array(truth), csr_array(known)))
    as_if_none = fit(world, priors, Annotated(whole.rows, csr_array(truth)))
    labels = slice(4, None)
    given, wrong = (world.decisions(model)[:, labels].sum() for model in (partly, as_if_none))
    # Who takes what is not known for "has not" gives these labels to fewer texts.
    assert given > wrong
    assert world.metrics(partly).miF1 > world.metrics(as_if_none).miF1
    everything = Annotated(whole.rows, whole.labels, csr_array(np.ones_like(known)))
    same, usual = (world.probabilities(fit(world, priors, one)) for one in (everything, whole))
    assert np.allclose(same, usual, atol=1e-3)
