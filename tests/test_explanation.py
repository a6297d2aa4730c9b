"""Why: contributions add up to the logit, and words are those of the text."""

import json
import re
from dataclasses import replace
from math import fsum
from zlib import crc32

import numpy as np
import pytest
import torch

from bncl_pyg.corpus import Corpus, LabelSet
from bncl_pyg.demo import demo_folder
from bncl_pyg.errors import InputError
from bncl_pyg.estimator import BNCLClassifier
from bncl_pyg.explanation import Explanation, LabelExplanation, TextWords, shapley_values
from bncl_pyg.features import Features, score_texts, word_counts
from bncl_pyg.graph import SignedLabelGraph
from bncl_pyg.priors import Priors
from bncl_pyg.scorers import join_scores, load_scorer
from bncl_pyg.training import PAPER, REFERENCE, Annotated, DefaultRecipe, Recipe, SelfTraining
from tests.training.world import World, make_world, with_candidates


@pytest.fixture(scope="module")
def world() -> World:
    return make_world()


def fitted(
    world: World,
    priors: Priors | None = None,
    annotated: Annotated | None = None,
    train: Features | None = None,
    recipe: Recipe | str = "default",
) -> BNCLClassifier:
    classifier = BNCLClassifier(prevalence=priors, graph=world.graph, recipe=recipe)
    return classifier.fit(world.train if train is None else train, annotated)


def check_sums(classifier: BNCLClassifier, features: Features, texts: int = 12) -> list[LabelExplanation]:
    """Compare the sum of contributions with the decision function, for some texts and all labels."""
    predictions = classifier.predictions(features)
    explained = []
    for row in range(texts):
        one = features.rows(slice(row, row + 1))
        for place in range(predictions.scores.shape[1]):
            label = place if features.candidates is None else int(features.candidates[row, place])
            name = features.labels.names[label]
            (why,) = classifier.explain(None, name, features=one).labels
            assert why.label == name
            assert why.margin == pytest.approx(float(predictions.scores[row, place]), abs=2e-4)
            assert why.is_predicted == bool(predictions.decisions[row, place])
            assert why.logit == fsum(part.value for part in why.contributions)
            for part in why.contributions:
                if part.details:
                    assert fsum(detail.value for detail in part.details) == pytest.approx(part.value, abs=1e-5)
            explained.append(why)
    return explained


def test_without_annotated_texts_contributions_add_up_to_the_logit(world: World) -> None:
    explained = check_sums(fitted(world, world.priors), world.test)
    names = ["start score", "words", "vector", "average text", "competition", "prior"]
    assert [part.name for part in explained[0].contributions] == names
    assert any(why.threshold != 0 for why in explained)
    assert all(any(why[name].value != 0 for why in explained) for name in names)


def test_decisions_as_common_as_the_priors_say_have_no_threshold(world: World) -> None:
    explained = check_sums(fitted(world, world.priors, recipe=DefaultRecipe(aim="prevalence")), world.test)
    assert all(why.threshold == 0 for why in explained)


def test_with_annotated_texts_contributions_add_up_to_the_logit(world: World) -> None:
    explained = check_sums(fitted(world, world.priors, world.annotated(60)), world.test)
    assert {"bound", "annotated texts"} < {part.name for part in explained[0].contributions}
    scarce = check_sums(fitted(world, None, world.annotated(300)), world.test)
    assert any(why.threshold != 0 for why in scarce)


def test_where_nothing_is_known_the_threshold_is_part_of_the_decision(world: World) -> None:
    explained = check_sums(fitted(world), world.test)
    assert any(why.threshold != 0 for why in explained)
    assert all(why.margin == why.logit - why.threshold for why in explained)


def test_only_candidates_are_explained(world: World) -> None:
    train, test = with_candidates(world.train, 4), with_candidates(world.test, 4)
    classifier = fitted(world, world.priors, world.annotated(60), train)
    check_sums(classifier, test)
    assert test.candidates is not None
    candidates = {test.labels.names[place] for place in test.candidates[11].tolist()}
    other = next(name for name in test.labels.names if name not in candidates)
    with pytest.raises(InputError, match=f"'{other}' is not among the 4 candidates of this text"):
        classifier.explain(None, other, features=test.rows(slice(11, 12)))


@pytest.mark.parametrize("parts", [(), ("words",), ("vectors",), ("graph",)])
def test_parts_that_are_left_out_are_not_named(world: World, parts: tuple[str, ...]) -> None:
    recipe = DefaultRecipe(self_training=SelfTraining(parts=parts))  # type: ignore[arg-type]
    names = {part.name for part in check_sums(fitted(world, world.priors, recipe=recipe), world.test)[0].contributions}
    expected = {"words": {"words"}, "vectors": {"vector"}, "graph": set()}
    expected = set().union(*(expected[part] for part in parts))
    average = {"average text"} if expected & {"words", "vector"} else set()
    assert names == {"start score", "competition", "prior"} | expected | average


@pytest.mark.parametrize("recipe", [PAPER, REFERENCE], ids=["paper", "reference"])
def test_paths_of_the_paper_add_up_to_the_difference_of_its_channels(world: World, recipe: Recipe) -> None:
    classifier = fitted(world, world.priors, recipe=recipe.adapted(epochs=2))
    explained = check_sums(classifier, world.test)
    assert [part.name for part in explained[0].contributions] == ["start score", "hop 1", "hop 2"]
    notes = " ".join(detail.note for why in explained for part in why.contributions for detail in part.details)
    for relation in ("friend of", "enemy of", "enemy of enemy", "friend of friend", ", which is "):
        assert relation in notes


def test_paths_of_the_paper_with_candidates(world: World) -> None:
    train, test = with_candidates(world.train, 4), with_candidates(world.test, 4)
    check_sums(fitted(world, world.priors, train=train, recipe=PAPER.adapted(epochs=2)), test, texts=6)


def test_scorers_of_an_ensemble_share_the_start_score(world: World) -> None:
    classifier = fitted(world, world.priors)
    generator = torch.Generator().manual_seed(0)
    one = world.test.rows(slice(0, 1))
    shares = [torch.rand(3, 1, 8, generator=generator).softmax(dim=0)[:2] for _ in range(3)]
    joint = join_scores(shares)
    features = replace(one, entailment=joint[0], contradiction=joint[1], parts=dict(zip("abc", shares, strict=True)))
    for name in world.test.labels.names:
        start = classifier.explain(None, name, features=features)[name]["start score"]
        assert [detail.name for detail in start.details] == ["a", "b", "c"]
        assert fsum(detail.value for detail in start.details) == pytest.approx(start.value, abs=1e-9)


def test_words_are_those_of_the_text(world: World) -> None:
    text = "Gold and SILVER: gold word1, zzunseen"
    features = replace(world.test.rows(slice(0, 1)), words=word_counts([text]))
    words = fitted(world, world.priors).explain(text, "gold", features=features)["gold"]["words"]
    names = {detail.name: detail for detail in words.details}
    assert set(names) == {"Gold", "SILVER", "word1"}
    assert [text[start:end] for start, end in names["Gold"].spans] == ["Gold", "gold"]
    assert names["Gold"].note == "2 times"
    assert names["Gold"].value == max(detail.value for detail in words.details) > 0


def test_words_that_the_shown_text_lacks_are_summed(world: World) -> None:
    features = replace(world.test.rows(slice(0, 1)), words=word_counts(["gold silver wheat"]))
    words = fitted(world, world.priors).explain("wheat", "gold", features=features)["gold"]["words"]
    assert {detail.name for detail in words.details} == {"wheat", "other words"}
    assert fsum(detail.value for detail in words.details) == pytest.approx(words.value, abs=1e-9)


def test_words_that_share_a_bucket_are_both_shown() -> None:
    buckets = 7
    words = ["alpha", "beta", "gamma", "delta", "omega", "sigma"]
    places = [crc32(word.encode()) % buckets for word in words]
    shared = next(place for place in places if places.count(place) > 1)
    both = [word for word, place in zip(words, places, strict=True) if place == shared]
    detail = TextWords(" ".join(words), buckets).detail(shared, 1.0)
    assert detail is not None
    assert detail.name == " / ".join(both)
    assert "counted as one" in detail.note
    assert TextWords("nothing", 2**18).detail(0, 1.0) is None


def test_letters_that_grow_when_they_are_lowered_keep_their_places() -> None:
    text = "İİ İstanbul ΟΔΟΣ Gold"
    words = TextWords(text, 2**18)
    for word in ("stanbul", "οδος", "gold"):
        detail = words.detail(crc32(word.encode()) % 2**18, 1.0)
        assert detail is not None
        assert detail.name.lower() == word


def test_all_given_labels_and_the_best_other_are_explained(world: World) -> None:
    classifier = fitted(world, world.priors)
    predictions = classifier.predictions(world.test)
    for row in range(20):
        explanation = classifier.explain(None, features=world.test.rows(slice(row, row + 1)))
        *given, other = explanation.labels
        assert [why.label for why in given] == [
            world.test.labels.names[place] for place in predictions.best_first(row)[0]
        ]
        assert all(why.is_predicted for why in given)
        assert not other.is_predicted
        rest = predictions.scores[row].masked_fill(predictions.decisions[row], -np.inf)
        assert other.label == world.test.labels.names[int(rest.argmax())]


def test_a_text_s_best_label_is_given_though_its_logit_is_too_low(world: World) -> None:
    classifier = fitted(world, world.priors)
    predictions = classifier.predictions(world.test)
    row = int((predictions.decisions & (predictions.scores <= 0)).any(dim=1).nonzero()[0])
    why = classifier.explain(None, features=world.test.rows(slice(row, row + 1))).labels[0]
    assert why.is_predicted
    assert why.margin <= 0
    assert "as the best label of a text that has no other" in why.verdict()
    assert "below the threshold" in why.verdict()


def test_it_is_said_in_json_and_in_plain_text(world: World) -> None:
    features = replace(world.test.rows(slice(0, 1)), words=word_counts(["gold silver"]))
    explanation = fitted(world, world.priors).explain("gold silver", features=features)
    content = json.loads(json.dumps(explanation.as_dict()))
    first = content["labels"][0]
    assert content["text"] == "gold silver"
    assert first["logit"] == pytest.approx(sum(part["value"] for part in first["contributions"]))
    assert first["margin"] == first["logit"] - first["threshold"]
    lines = str(explanation).splitlines()
    assert lines[0].startswith(f"{first['label']}: ")
    assert any(line.strip().endswith("gold") for line in lines)
    assert isinstance(explanation, Explanation)


def test_a_saved_model_explains_the_same(world: World, tmp_path: object) -> None:
    classifier = fitted(world, world.priors, world.annotated(60))
    folder = f"{tmp_path}/model"
    classifier.save_pretrained(folder)
    one = world.test.rows(slice(3, 4))
    saved = BNCLClassifier.from_pretrained(folder).explain(None, features=one)
    assert saved == classifier.explain(None, features=one)


def test_what_cannot_be_explained_is_said(world: World) -> None:
    classifier = fitted(world, world.priors)
    one = world.test.rows(slice(0, 1))
    with pytest.raises(InputError, match=r"unknown label 'golf' \(did you mean 'gold'\?\)"):
        classifier.explain(None, "golf", features=one)
    with pytest.raises(InputError, match="give the text or its features"):
        classifier.explain(None)
    with pytest.raises(InputError, match="features of 2"):
        classifier.explain(None, features=world.test.rows(slice(0, 2)))
    with pytest.raises(KeyError):
        classifier.explain(None, "gold", features=one)["silver"]
    with pytest.raises(KeyError):
        classifier.explain(None, "gold", features=one)["gold"]["hop 1"]


def test_shapley_values_are_fair() -> None:
    worth = {(): 0.0, ("a",): 1.0, ("b",): 2.0, ("a", "b"): 5.0}
    assert shapley_values(["a", "b"], lambda some: worth[some]) == {"a": 2.0, "b": 3.0}


def test_a_graph_knows_friends_and_enemies(graph: SignedLabelGraph, corpus: Corpus) -> None:
    signs = graph.neighbours(0)
    assert set(signs.values()) == {1, -1}
    friends = {int(u) for u, v in graph.pos_edge_index.T.tolist() if v == 0}
    assert {place for place, sign in signs.items() if sign > 0} == friends


def test_a_real_ensemble_on_real_texts_adds_up() -> None:
    """The bundled set by two encoders, without annotated texts and with them, from texts to explanations."""
    labels = LabelSet.read(demo_folder() / "labels.jsonl")
    corpus = Corpus.read(demo_folder() / "train.jsonl.gz", labels).rows(np.arange(48))
    assert corpus.annotations is not None
    scorer = load_scorer("light+fast")
    features = score_texts(corpus, labels, scorer, parts=True)
    annotated = Annotated(np.arange(24), corpus.annotations[:24])
    for y in (None, annotated):
        classifier = BNCLClassifier(prevalence=Priors.from_annotations(corpus.annotations), scorer=scorer)
        classifier.fit(features, y)
        check_sums(classifier, features, texts=2)
        why = classifier.explain(corpus.texts[0]).labels[0]
        assert {detail.name for detail in why["start score"].details} == {"light", "fast"}
        assert {detail.name for detail in why["words"].details} <= set(re.findall(r"\w+", corpus.texts[0]))
        row = classifier.predictions(features.rows(slice(0, 1)))
        assert why.margin == pytest.approx(float(row.scores[0, labels.place(why.label)]), abs=0.02)
