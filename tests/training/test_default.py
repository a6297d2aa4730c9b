import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from bncl_pyg.training.priors import (
    adding_up,
    estimated_prevalence,
    guessed,
    often_best,
    often_named,
    pooled,
    unaided_prevalence,
)
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.stats import spearmanr

from bncl_pyg.corpus import Corpus, LabelSet, RoughPriors, Supervision
from bncl_pyg.errors import InputError
from bncl_pyg.estimator import BNCLClassifier
from bncl_pyg.evaluation import Metrics, evaluate, reliability
from bncl_pyg.features import Features, reachable, word_counts
from bncl_pyg.graph import LabelVectors, SignedLabelGraph, build_graph
from bncl_pyg.nn import CollectiveModel
from bncl_pyg.training import DefaultRecipe, DefaultTrainer, StageLog
from bncl_pyg.training.default import _common

NAMES = ("gold", "silver", "wheat", "corn", "money", "rates", "ships", "trade")
TRUE = np.array([0.3, 0.2, 0.15, 0.12, 0.1, 0.08, 0.05, 0.02])


@dataclasses.dataclass(frozen=True)
class World:
    """Texts whose vectors and words tell their labels, and scores that tell them badly, some labels too high."""

    train: Features
    test: Features
    corpus: Corpus
    truth: np.ndarray[tuple[int, int], np.dtype[np.bool_]]
    graph: SignedLabelGraph
    priors: Supervision

    def metrics(self, classifier: BNCLClassifier) -> Metrics:
        return evaluate(self.truth, classifier.predict(self.test))


@pytest.fixture(scope="module")
def world() -> World:
    draw = np.random.default_rng(0)
    labels = LabelSet(NAMES, NAMES)
    truth = draw.random((1200, 8)) < TRUE
    truth[np.flatnonzero(~truth.any(axis=1)), 0] = True
    directions = draw.normal(size=(8, 24))
    vectors = truth @ directions + 1.5 * draw.normal(size=(1200, 24))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    said = 1 / (1 + np.exp(-(1.7 * truth + draw.normal(size=truth.shape) + np.linspace(-4, 0, 8))))
    filler = [f"word{place}" for place in range(40)]
    texts = [" ".join([*np.array(NAMES)[row], *draw.choice(filler, 6)]) for row in truth]
    texts = [" ".join(word for word in text.split() if draw.random() < 0.6) or "word0" for text in texts]

    def part(rows: slice) -> Features:
        entailment = torch.from_numpy(said[rows]).float()
        ids = tuple(f"t{place}" for place in range(rows.start, rows.stop))
        scorer = {"name": "made up"}
        of_texts = torch.from_numpy(vectors[rows]).float(), word_counts(texts[rows])
        return Features(ids, labels, entailment, 0.95 * (1 - entailment), scorer, *of_texts)

    train, test = part(slice(0, 900)), part(slice(900, 1200))
    annotations = csr_array(truth[:900])
    corpus = Corpus(train.ids, tuple(texts[:900]), annotations)
    graph = build_graph(labels, LabelVectors(directions.astype(np.float32), "by hand"), (25, 75))
    return World(train, test, corpus, truth[900:], graph, Supervision.from_annotations(annotations))


def free(world: World, **changes: object) -> BNCLClassifier:
    recipe = dataclasses.replace(DefaultRecipe(), **changes)  # type: ignore[arg-type]
    return BNCLClassifier(recipe=recipe, graph=world.graph).fit(world.train, world.priors)


def taught(world: World, count: int, seed: int = 0, setting: str = "domain-supervisor") -> BNCLClassifier:
    priors = world.priors if setting == "domain-supervisor" else None
    return BNCLClassifier(setting, graph=world.graph, seed=seed).fit(world.train, priors, world.corpus, count)


def test_without_annotated_texts_it_is_far_ahead_of_its_start(world: World) -> None:
    start = evaluate(world.truth, world.test.zero_shot().numpy())
    whole, scores_alone = world.metrics(free(world)), world.metrics(free(world, parts=()))
    for metric in ("ebF1", "miF1", "maF1"):
        assert getattr(whole, metric) > getattr(start, metric) + 0.15
        assert getattr(whole, metric) > getattr(scores_alone, metric) + 0.02


def test_annotated_texts_help_and_more_help_more(world: World) -> None:
    without = world.metrics(free(world)).miF1
    found = [world.metrics(taught(world, count)).miF1 for count in (8, 90, 900)]
    assert min(found) > without - 0.01
    assert found[2] > max(without, *found[:2])
    assert world.metrics(taught(world, 90, setting="scarce-annotation")).miF1 > 0.8 * found[1]


def test_decisions_are_as_common_as_they_should_be_and_probabilities_are_calibrated(world: World) -> None:
    for classifier in (free(world), taught(world, 300)):
        said, likely = classifier.predict(world.test), classifier.predict_proba(world.test)
        assert said.mean(axis=0) == pytest.approx(world.priors.prevalence, abs=0.1)
        start = reliability(world.truth, world.test.zero_shot_probabilities().numpy())
        assert reliability(world.truth, likely).error() < start.error() / 2


def test_few_annotated_texts_hardly_say_how_sure_to_be(world: World) -> None:
    assert world.corpus.annotations is not None
    trainer = DefaultTrainer(world.train, world.graph, DefaultRecipe())
    prevalence = torch.from_numpy(world.priors.prevalence).float()
    without = trainer._free(prevalence, world.priors.cardinality)
    changed = []
    for count in (5, 900):
        truth = torch.from_numpy(world.corpus.annotations[:count].toarray()).float()
        found = trainer._corrected(without, torch.arange(count), truth)
        surer = dataclasses.replace(found, softness=10 * found.softness)
        models = [trainer._finished(world.priors, prevalence, without, one) for one in (found, surer)]
        changed.append(models[1].softness / models[0].softness)
    assert changed[0] < 2
    assert changed[1] > 8


@pytest.mark.parametrize("parts", [(), ("vectors",), ("words",), ("graph",), ("vectors", "words", "graph")])
def test_every_part_can_be_left_out_and_saved(world: World, parts: tuple[str, ...], tmp_path: Path) -> None:
    found = free(world, parts=parts)
    found.save_pretrained(tmp_path / "m")
    again = BNCLClassifier.from_pretrained(tmp_path / "m")
    assert (again.predict(world.test) == found.predict(world.test)).all()
    assert np.allclose(again.predict_proba(world.test), found.predict_proba(world.test), atol=1e-6)
    assert again.log_ == found.log_
    assert isinstance(again.log_[0], StageLog)


def test_a_taught_model_is_saved_whole(world: World, tmp_path: Path) -> None:
    found = taught(world, 50)
    found.save_pretrained(tmp_path / "m")
    again = BNCLClassifier.from_pretrained(tmp_path / "m")
    assert (again.predict(world.test) == found.predict(world.test)).all()
    assert again.annotated_ == found.annotated_
    again.save_pretrained(tmp_path / "again")
    for file in sorted(path for path in (tmp_path / "m").rglob("*") if path.is_file()):
        assert file.read_bytes() == (tmp_path / "again" / file.relative_to(tmp_path / "m")).read_bytes()


def test_features_without_vectors_and_words_train_and_predict(world: World) -> None:
    bare = [dataclasses.replace(features, vectors=None, words=None) for features in (world.train, world.test)]
    found = BNCLClassifier(graph=world.graph).fit(bare[0], world.priors)
    assert (found.predict(bare[1]) == found.predict(world.test)).all()
    start = evaluate(world.truth, world.test.zero_shot().numpy())
    assert evaluate(world.truth, found.predict(bare[1])).miF1 > start.miF1
    known = BNCLClassifier("scarce-annotation", graph=world.graph).fit(bare[0], None, world.corpus, 40)
    assert known.predict(bare[1]).any()
    with pytest.raises(InputError, match="trained with the encoder's vectors and the words of the texts, which these"):
        free(world).predict(bare[1])
    with pytest.raises(InputError, match="trained with the words"):
        free(world, parts=("words",)).predict(bare[1])


def test_the_same_seed_gives_the_same_model_and_texts_do_not_depend_on_each_other(world: World) -> None:
    one, two = taught(world, 60, seed=3), taught(world, 60, seed=3)
    assert (one.predict_proba(world.test) == two.predict_proba(world.test)).all()
    first = dataclasses.replace(
        world.test,
        ids=world.test.ids[:1],
        entailment=world.test.entailment[:1],
        contradiction=world.test.contradiction[:1],
        vectors=None if world.test.vectors is None else world.test.vectors[:1],
        words=None if world.test.words is None else world.test.words[:1],
    )
    assert np.allclose(one.predict_proba(first)[0], one.predict_proba(world.test)[0], atol=1e-5)


def test_a_label_without_examples_falls_back_to_what_needs_none(world: World) -> None:
    """'trade' is in none of the annotated texts, but it is known to be there."""
    assert world.corpus.annotations is not None
    rows = np.flatnonzero(world.corpus.annotations[:, [7]].toarray().ravel() == 0)[:200]
    some = world.corpus.rows(rows)
    found = BNCLClassifier("domain-supervisor", graph=world.graph).fit(world.train, world.priors, some)
    likely, before = (one.predict_proba(world.test)[:, 7] for one in (found, free(world)))
    assert likely.mean() == pytest.approx(world.priors.prevalence[7], abs=0.01)
    assert spearmanr(likely, before).statistic > 0.7


@pytest.mark.parametrize("count", [1, 2, 3])
def test_next_to_no_annotated_texts(world: World, count: int) -> None:
    assert world.metrics(taught(world, count)).miF1 > 0.8 * world.metrics(free(world)).miF1


def test_texts_without_labels_stay_without_where_many_are(world: World) -> None:
    none = csr_array((40, 8), dtype=bool)
    assert world.corpus.annotations is not None
    some = dataclasses.replace(world.corpus.rows(np.arange(80)))
    half = Corpus(some.ids, some.texts, csr_array(np.vstack([some.annotations[:40].toarray(), none.toarray()])))  # type: ignore[index]
    known = Supervision(0.5, world.priors.prevalence / 3)
    found = BNCLClassifier("domain-supervisor", graph=world.graph).fit(world.train, known, half)
    assert (~found.predict(world.test).any(axis=1)).mean() > 0.1
    rare = BNCLClassifier(graph=world.graph).fit(world.train, known)
    assert (~rare.predict(world.test).any(axis=1)).mean() > 0.1


def test_rough_knowledge_is_worth_something(world: World) -> None:
    exact = world.metrics(free(world)).miF1
    start = evaluate(world.truth, world.test.zero_shot().numpy()).miF1
    words = RoughPriors.nothing(8)
    words.words[:] = [3, 3, 2, 2, 2, 2, 1, 1]
    worded = BNCLClassifier(graph=world.graph).fit(world.train, dataclasses.replace(words, cardinality=1.3))
    assert world.metrics(worded).miF1 > 0.8 * exact
    nothing = BNCLClassifier(graph=world.graph).fit(world.train, "auto")
    assert world.metrics(nothing).miF1 > start
    assert nothing.supervision_.cardinality >= 1


def test_what_is_known_is_kept_and_the_rest_adds_up(world: World) -> None:
    trainer = DefaultTrainer(world.train, world.graph, DefaultRecipe())
    rough = RoughPriors.nothing(8)
    rough.prevalence[:2] = [0.3, 0.0]
    rough.words[2:5] = [3, 1, 0]
    found = trainer.settle(dataclasses.replace(rough, cardinality=1.4))
    assert found.cardinality == 1.4
    assert found.prevalence[:2].tolist() == [0.3, 0.0]
    assert found.prevalence.sum() == pytest.approx(1.4)
    assert found.prevalence[2] > found.prevalence[3] > found.prevalence[4]
    assert trainer.log == []
    assert trainer.settle(rough).cardinality >= 1


def test_prevalence_from_scores_and_from_few_texts(world: World) -> None:
    trainer = DefaultTrainer(world.train, world.graph, DefaultRecipe())
    estimate = estimated_prevalence(world.train, trainer.turned, world.priors.cardinality, trainer.strength)
    assert estimate.sum() == pytest.approx(world.priors.cardinality)
    assert (estimate > 0).all()
    few = pooled(np.array([3, 1, 0, 0, 0, 0, 0, 0]), 4, estimate, 50)
    many = pooled(np.array([3000, 1000, 0, 0, 0, 0, 0, 0]), 4000, estimate, 50)
    assert few[0] < many[0] == pytest.approx(0.75, abs=0.02)
    assert few[2] > 10 * many[2] > 0


def test_labels_that_no_annotated_text_has_are_as_common_as_those_that_one_has(world: World) -> None:
    assert world.corpus.annotations is not None
    trainer = DefaultTrainer(world.train, world.graph, DefaultRecipe())
    truth = torch.zeros(100, 8)
    truth[:60, 0], truth[0, 1], truth[1, 2], truth[2, 3], truth[50:, 4] = 1, 1, 1, 1, 1
    without = trainer._free(torch.from_numpy(world.priors.prevalence).float(), world.priors.cardinality)
    found = trainer._corrected(without, torch.arange(100), truth)
    known = world.priors.with_annotated(np.arange(100), csr_array(truth.numpy() > 0))
    estimate = torch.tensor([0.1, 0.1, 0.1, 0.4, 0.1, 0.1, 0.1, 0.1])

    def said(**changes: float) -> torch.Tensor:
        trainer.recipe = dataclasses.replace(DefaultRecipe(), **{"estimate_share": 0.0, **changes})  # type: ignore[arg-type]
        return trainer._said(found, known, estimate)

    plain, pooled_with_it = said(estimate_weight=1e9), said(estimate_weight=50)
    assert float(said(estimate_weight=0)[5:].sum()) == pytest.approx(3 / 100)
    assert float(pooled_with_it[5:].sum()) == pytest.approx((3 + 50 * float(plain[5:].sum())) / 150, rel=1e-3)
    assert pooled_with_it[:5].tolist() == pytest.approx(plain[:5].tolist())
    # Of the three labels with one example, the estimate says that the last is more common; together, they stay.
    told_apart = said(estimate_share=0.3)
    assert float(told_apart[3] / pooled_with_it[3]) > 1.1
    assert float(told_apart[1] / pooled_with_it[1]) < 1
    assert float(told_apart[1:4].sum()) == pytest.approx(float(pooled_with_it[1:4].sum()))
    assert float(told_apart[0]) == pytest.approx(float(pooled_with_it[0]))


def test_a_label_is_as_common_as_it_is_among_the_best_and_a_little_more(world: World) -> None:
    scores = torch.tensor([[0.9, 0.5, 0.1, 0.0], [0.8, 0.1, 0.6, 0.0]])
    labels = LabelSet(("a", "b", "c", "d"), ("a", "b", "c", "d"))
    few = Features(("one", "two"), labels, scores, torch.zeros(2, 4))
    expected = np.array([1.0, 0.25, 0.25, 0.0]) + 0.1 * 1.5 / 4
    assert often_best(few, 1.5) == pytest.approx(adding_up(expected, 1.5))
    assert often_best(few, 4.0) == pytest.approx([0.9] * 4)
    best = scores.topk(3, dim=1).indices.sort(dim=1).values
    sparse = dataclasses.replace(
        few, entailment=scores.gather(1, best), contradiction=torch.zeros(2, 3), candidates=best
    )
    assert often_best(sparse, 1.5) == pytest.approx(often_best(few, 1.5))


def test_a_label_is_as_common_as_the_rarest_word_of_its_name_or_description() -> None:
    texts = ["Corn prices", "the corn", "the Fed meets", "fed chair", "the end", "wheat"]
    names, descriptions = ("corn", "FED-chair", "m1", "wheat", "??"), ("the corn", "Fed", "money supply", "wheat", "--")
    scores = torch.full((6, 5), 0.5)
    ids = tuple(str(place) for place in range(6))
    features = Features(ids, LabelSet(names, descriptions), scores, scores, words=word_counts(texts))
    # 'chair' is rarer than 'fed', but its description is only 'Fed'; of the last label there is no word to look for.
    expected = np.array([2, 2, 0, 1, 0]) / 6 + 0.1 * 1.0 / 5
    assert often_named(features, 1.0) == pytest.approx(adding_up(expected, 1.0))


def test_what_is_guessed_takes_everything_into_account(world: World) -> None:
    estimate = np.full(8, 0.1)
    both = often_best(world.train, 1.2) * 0.1 * often_named(world.train, 1.2)
    assert guessed(world.train, estimate, 1.2) == pytest.approx(both ** (1 / 3))
    silent = dataclasses.replace(world.train, words=None)
    assert guessed(silent, estimate, 1.2) == pytest.approx((often_best(world.train, 1.2) * 0.1) ** 0.5)


def test_where_nothing_is_known_names_speak_for_rare_labels_and_hardly_for_common_ones(world: World) -> None:
    trainer = DefaultTrainer(world.train, world.graph, DefaultRecipe())
    known = world.train, trainer.turned, 1.2, trainer.strength
    estimate, found = estimated_prevalence(*known), unaided_prevalence(*known)
    guess = guessed(world.train, estimate, 1.2)
    assert found.sum() == pytest.approx(1.2)
    # Up to what scaling does to all of them alike.
    moved = np.log(found / estimate) - 0.8 / (1 + estimate * 8 / 1.2) * np.log(guess / estimate)
    assert moved == pytest.approx([moved[0]] * 8)


def test_who_gives_prevalences_gets_decisions_as_common_and_who_does_not_gets_those_with_the_highest_f1(
    world: World,
) -> None:
    trainer = DefaultTrainer(world.train, world.graph, DefaultRecipe())
    given, guess = (trainer.run(world.priors, estimated=estimated) for estimated in (False, True))
    assert not given.get_buffer("thresholds").any()
    assert guess.get_buffer("thresholds").abs().max() > 0.01
    likely = given.probabilities(trainer.start(world.priors).logits)
    logits = trainer.start(world.priors).logits
    assert torch.equal(likely, guess.probabilities(logits))

    def expected(model: CollectiveModel) -> float:
        said = model.certainty(logits) > 0
        return float(2 * (likely * said).sum() / (said.sum() + likely.sum()))

    assert expected(guess) > expected(given)


def test_a_prevalence_that_is_given_among_guesses_is_kept_to(world: World) -> None:
    rough = RoughPriors.nothing(8)
    rough.prevalence[:3] = world.priors.prevalence[:3]
    rough.words[3:] = [2, 2, 2, 1, 1]
    found = BNCLClassifier(graph=world.graph).fit(world.train, dataclasses.replace(rough, cardinality=1.3))
    thresholds = found.model_.get_buffer("thresholds")
    assert not thresholds[:3].any()
    assert thresholds[3:].all()
    whole = dataclasses.replace(rough, cardinality=1.3, prevalence=world.priors.prevalence, words=np.full(8, -1))
    assert not BNCLClassifier(graph=world.graph).fit(world.train, whole).model_.get_buffer("thresholds").any()


def test_who_knows_nothing_is_taught_as_in_scarce_annotation(world: World) -> None:
    """Whether or not it is called by another name."""
    one = BNCLClassifier("domain-supervisor", graph=world.graph).fit(world.train, "auto", world.corpus, 30)
    two = taught(world, 30, setting="scarce-annotation")
    assert one.supervision_.prevalence == pytest.approx(two.supervision_.prevalence)
    assert (one.predict_proba(world.test) == two.predict_proba(world.test)).all()


def test_words_are_not_looked_at_where_the_recipe_leaves_them_out(world: World) -> None:
    recipe = dataclasses.replace(DefaultRecipe(), parts=("vectors", "graph"))
    found = [
        BNCLClassifier("scarce-annotation", recipe=recipe, graph=world.graph).fit(features, None, world.corpus, 8)
        for features in (world.train, dataclasses.replace(world.train, words=None))
    ]
    assert (found[0].supervision_.prevalence == found[1].supervision_.prevalence).all()


def test_thresholds_are_left_out_where_annotated_texts_fare_better_without(world: World) -> None:
    assert world.corpus.annotations is not None
    trainer = DefaultTrainer(world.train, world.graph, dataclasses.replace(DefaultRecipe(), own_weight=0.1))
    start = trainer.start(world.priors)
    truth = torch.from_numpy(world.corpus.annotations.toarray()).float()
    found = trainer._corrected(start, torch.arange(900), truth)
    certain = found.logits
    # Probabilities that are much too low for the common label and much too high for the others.
    wrong = found.logits + torch.tensor([-6.0, *[2.0] * 7])
    assert not trainer._thresholds(certain, wrong, torch.ones(8), 1.0, found).any()
    assert trainer._thresholds(certain, wrong, torch.ones(8), 1.0, None).abs().max() > 0.5
    twice = dataclasses.replace(found, rows=torch.tensor([5, 3, 5]), truth=truth[[5, 3, 5]])
    assert twice.once()[0].tolist() == [3, 5]
    assert torch.equal(twice.once()[1], truth[[3, 5]])
    few = dataclasses.replace(found, rows=found.rows[:3], truth=truth[:3])
    less, more = (trainer._thresholds(certain, certain, torch.ones(8), 1.0, one) for one in (few, None))
    assert less.abs().max() < more.abs().max()


def test_scores_that_say_the_same_many_times_over_are_never_sure(world: World) -> None:
    trainer = DefaultTrainer(world.train, world.graph, DefaultRecipe())
    start = trainer.start(world.priors)
    prevalence = torch.from_numpy(world.priors.prevalence).float()
    for dispersion, least in ((0.5, 1.0), (1.6, 1 / 1.6)):
        model = trainer._finished(world.priors, prevalence, dataclasses.replace(start, dispersion=dispersion), None)
        ceiling = model.get_buffer("ceiling")
        assert torch.allclose(ceiling, ((1 + prevalence) / 2).clamp_min(least))
        likely = model.probabilities(start.logits)
        assert bool((likely <= ceiling).all())
        assert torch.allclose(likely.mean(dim=0), prevalence, rtol=0.1)


@pytest.mark.parametrize("best", [2, 3, 4, 8])
def test_a_ceiling_and_candidates_fit_together(world: World, best: int) -> None:
    """With probabilities under a ceiling, labels are as common among candidates as they would be without one."""
    candidates = world.train.entailment.topk(best, dim=1).indices.sort(dim=1).values
    scores = {name: getattr(world.train, name).gather(1, candidates) for name in ("entailment", "contradiction")}
    trainer = DefaultTrainer(
        dataclasses.replace(world.train, candidates=candidates, **scores), world.graph, DefaultRecipe()
    )
    start = dataclasses.replace(trainer.start(world.priors), dispersion=1.8)
    prevalence = torch.from_numpy(world.priors.prevalence).float()
    model = trainer._finished(world.priors, prevalence, start, None)
    likely = model.probabilities(start.logits, trainer.pairs)
    asked = reachable(prevalence * len(world.train), trainer.pairs)
    kept = asked > 5
    assert torch.allclose(trainer.pairs.sums(likely)[kept] / asked[kept], torch.tensor(1.0), atol=0.15)


def test_what_is_estimated_is_never_above_one(world: World) -> None:
    truth = torch.ones(5, 8)
    known = Supervision(8.0, np.full(8, 0.99)).with_annotated(np.arange(5), csr_array(truth.numpy() > 0))
    trainer = DefaultTrainer(world.train, world.graph, DefaultRecipe())
    trainer.run(known, estimated=True)
    assert trainer.prevalence.max() <= 1


def test_the_common_line_is_the_best_even_where_logits_are_far_out() -> None:
    draw = torch.Generator().manual_seed(0)
    for spread, intercept in ((1.0, 0.0), (6.0, -8.0), (30.0, 5.0)):
        logits = spread * torch.randn(400, 5, generator=draw) - 20 * (spread > 20)
        truth = torch.bernoulli(torch.sigmoid(0.3 * logits + intercept), generator=draw)

        def loss(line: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
            said = line[0] * logits.double() + line[1]  # noqa: B023
            fit = torch.nn.functional.binary_cross_entropy_with_logits(said, truth.double(), reduction="sum")  # noqa: B023
            return float(fit) + 2 * ((line[0] - 0.5) ** 2 + line[1] ** 2)

        found = np.array([float(part) for part in _common(logits, truth)])
        best = minimize(loss, [0.3, intercept], method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-9})
        assert loss(found) <= best.fun * (1 + 1e-5) + 1e-3


def test_training_again_can_begin_where_annotated_texts_come_in(world: World) -> None:
    trainer = DefaultTrainer(world.train, world.graph, DefaultRecipe())
    known = world.priors.with_annotated(np.arange(50), csr_array(world.corpus.annotations[:50]))  # type: ignore[index]
    whole = trainer.run(known, estimated=False)
    again = trainer.run(known, estimated=False, start=trainer.start(world.priors))
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name])
    assert [(entry.stage, entry.of) for entry in trainer.log] == [(1, 1)]
    with pytest.raises(ValueError, match="no start that knows it"):
        trainer.run(known, estimated=True, start=trainer.start(world.priors))


def test_prevalences_that_add_up_to_too_much_are_scaled(world: World) -> None:
    doubled = Supervision(world.priors.cardinality, np.minimum(2 * world.priors.prevalence, 1))
    found = BNCLClassifier(graph=world.graph).fit(world.train, doubled)
    assert (found.predict(world.test) == free(world).predict(world.test)).mean() > 0.97


def test_one_text_is_too_few(world: World) -> None:
    alone = dataclasses.replace(
        world.train,
        ids=("t0",),
        entailment=world.train.entailment[:1],
        contradiction=world.train.contradiction[:1],
        vectors=None,
        words=None,
    )
    with pytest.raises(InputError, match="at least 2 training texts"):
        BNCLClassifier(graph=world.graph).fit(alone, world.priors)


def test_stages_are_told(world: World) -> None:
    told: list[StageLog] = []
    found = BNCLClassifier("scarce-annotation", graph=world.graph)
    found.fit(world.train, None, world.corpus, 30, progress=told.append)
    assert [entry.stage for entry in told] == list(range(1, told[-1].of + 1))
    assert told == found.log_


def test_labels_that_were_hardly_scored_in_training_are_no_surprise_later(world: World) -> None:
    """A sparse store: one label is never a candidate of a training text, one has a single score."""
    entailment, contradiction = world.train.entailment.clone(), world.train.contradiction.clone()
    for scores in (entailment, contradiction):
        scores[:, 6] = 0
        scores[1:, 7] = 0
    sparse = dataclasses.replace(world.train, entailment=entailment, contradiction=contradiction)
    found = BNCLClassifier(graph=world.graph).fit(sparse, world.priors)
    said = found.predict(world.test).mean(axis=0)
    assert said[6] < 0.3
    assert said[7] < 0.2
    assert evaluate(world.truth[:, :6], found.predict(world.test)[:, :6]).miF1 > 0.7


def test_knowing_nothing_beside_annotated_texts_costs_little(world: World) -> None:
    few = world.corpus.rows(np.arange(200))
    scarce = BNCLClassifier("scarce-annotation", graph=world.graph).fit(world.train, None, few)
    both = BNCLClassifier("domain-supervisor", graph=world.graph).fit(world.train, "auto", few)
    assert world.metrics(both).miF1 > world.metrics(scarce).miF1 - 0.03
    for found in (scarce, both):
        assert found.supervision_.prevalence == pytest.approx(world.priors.prevalence, abs=0.06)


def test_vectors_of_another_encoder_are_refused(world: World) -> None:
    other = dataclasses.replace(world.test, vectors=torch.zeros(len(world.test), 7))
    with pytest.raises(InputError, match="vectors of 24 numbers a text, but these features hold vectors of 7"):
        free(world).predict(other)


def test_numbers_of_numpy_can_be_saved(world: World, tmp_path: Path) -> None:
    known = Supervision(np.float64(world.priors.cardinality), world.priors.prevalence)
    BNCLClassifier(graph=world.graph).fit(world.train, known).save_pretrained(tmp_path / "m")
    assert BNCLClassifier.from_pretrained(tmp_path / "m").predict(world.test).any()


def test_a_single_label_needs_its_prevalence(world: World) -> None:
    labels = LabelSet(("gold",), ("gold",))
    alone = dataclasses.replace(
        world.train,
        labels=labels,
        entailment=world.train.entailment[:, :1],
        contradiction=world.train.contradiction[:, :1],
    )
    graph = SignedLabelGraph.from_pairs(("gold",), torch.zeros(2, 0, dtype=torch.int64), torch.zeros(0), torch.zeros(0))
    with pytest.raises(InputError, match="cannot be estimated where there is no other"):
        BNCLClassifier(graph=graph).fit(alone, "auto")
    found = BNCLClassifier(graph=graph).fit(alone, Supervision(0.4, np.array([0.4])))
    assert 0.1 < found.predict(alone).mean() < 0.7


@pytest.mark.parametrize("total", [0.5, 2.0, 2.9])
def test_shares_add_up_where_some_are_full(total: float) -> None:
    assert adding_up(np.array([0.9, 0.001, 0.002]), total, most=1.0).sum() == pytest.approx(total)
    assert adding_up(np.array([0.5, 0.5]), 3.0, most=1.0).tolist() == [1.0, 1.0]


def test_priors_are_refused_before_they_are_estimated(world: World) -> None:
    with pytest.raises(InputError, match="leave priors out"):
        BNCLClassifier("scarce-annotation", graph=world.graph).fit(world.train, "auto", world.corpus)


def test_features_without_vectors_and_words_are_said(world: World, caplog: pytest.LogCaptureFixture) -> None:
    bare = dataclasses.replace(world.train, vectors=None, words=None)
    BNCLClassifier(graph=world.graph).fit(bare, world.priors)
    assert "hold neither vectors nor words of the texts" in caplog.text


def with_candidates(features: Features, count: int) -> Features:
    best = features.entailment.topk(count, dim=1).indices.sort(dim=1).values
    scores = {name: getattr(features, name).gather(1, best) for name in ("entailment", "contradiction")}
    return dataclasses.replace(features, candidates=best, **scores)


@pytest.mark.parametrize(
    ("setting", "rough"),
    [("annotation-free", False), ("annotation-free", True), ("domain-supervisor", False), ("scarce-annotation", True)],
)
def test_with_every_label_a_candidate_the_model_is_as_with_all_pairs(setting: str, rough: bool, world: World) -> None:
    likely, said = [], []
    for train, test in ((world.train, world.test), *[[with_candidates(one, 8) for one in (world.train, world.test)]]):
        classifier = BNCLClassifier(setting, graph=world.graph)
        priors = None if setting == "scarce-annotation" else ("auto" if rough else world.priors)
        annotated = None if setting == "annotation-free" else world.corpus
        classifier.fit(train, priors, annotated, None if annotated is None else 40)
        for found, one in ((likely, classifier.predict_proba(test)), (said, classifier.predict(test))):
            found.append(one if isinstance(one, np.ndarray) else one.toarray())
    assert np.allclose(likely[0], likely[1], atol=0.01)
    assert (said[0] == said[1]).mean() > 0.998


@pytest.mark.parametrize("recipe", ["default", "paper"])
def test_candidates_are_trained_on_saved_and_predicted(recipe: str, world: World, tmp_path: Path) -> None:
    train, test = with_candidates(world.train, 5), with_candidates(world.test, 5)
    classifier = BNCLClassifier(recipe=recipe, graph=world.graph).fit(train, world.priors)
    said, likely = classifier.predict(test), classifier.predict_proba(test)
    assert said.shape == likely.shape == (len(test), 8)
    assert isinstance(said, csr_array)
    kept = test.sparse(torch.ones(len(test), 5)).toarray() > 0
    assert not (said.toarray() & ~kept).any()
    sure = classifier.decision_function(test).toarray()
    assert (said.toarray()[sure > 0]).all()
    assert ((sure > 0).sum(axis=1) <= said.sum(axis=1)).all()
    rows = list(classifier.predicted_rows(test))
    assert [len(row["labels"]) for row in rows] == said.sum(axis=1).tolist()
    if recipe == "default":
        start = evaluate(world.truth, test.sparse(test.zero_shot()))
        assert evaluate(world.truth, said).miF1 > start.miF1
    classifier.save_pretrained(tmp_path / "m")
    again = BNCLClassifier.from_pretrained(tmp_path / "m")
    assert again.candidates_ == 5
    assert (again.predict(test) != said).nnz == 0


def test_a_text_whose_labels_are_no_candidates_is_not_one_without_labels(world: World) -> None:
    sparse = with_candidates(world.train, 1)
    classifier = BNCLClassifier("scarce-annotation", graph=world.graph).fit(sparse, None, world.corpus, 100)
    assert world.corpus.annotations is not None
    assert (world.corpus.annotations.sum(axis=1) > 0).mean() > 0.95
    assert classifier.model_.at_least_one
    assert classifier.predict(with_candidates(world.test, 1)).sum(axis=1).min() == 1


def test_labels_that_are_nobodys_candidates_are_rare_but_not_impossible(world: World) -> None:
    best = torch.zeros(len(world.train), 1, dtype=torch.int64)
    scores = {name: getattr(world.train, name)[:, :1] for name in ("entailment", "contradiction")}
    alone = dataclasses.replace(world.train, candidates=best, **scores)
    trainer = DefaultTrainer(alone, world.graph, DefaultRecipe())
    found = estimated_prevalence(alone, trainer.turned, 1.0, trainer.strength)
    assert (found > 0).all()
    assert found[0] > 20 * found[1]


def test_features_with_other_candidates_than_the_models(world: World, caplog: pytest.LogCaptureFixture) -> None:
    few = with_candidates(world.train, 5)
    free(world).predict(with_candidates(world.test, 5))
    assert "trained with all labels a text, but these features hold 5 candidates" in caplog.text
    paper = BNCLClassifier(recipe="paper", graph=world.graph).fit(few, world.priors)
    with pytest.raises(InputError, match="trained with 5 candidates a text, but these features hold all labels"):
        paper.predict(world.test)
