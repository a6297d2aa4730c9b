"""What a report says is what the model says, and nothing that a text says becomes part of the page."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy.sparse import csr_array

from bncl_pyg.corpus import Corpus, LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.estimator import BNCLClassifier
from bncl_pyg.evaluation import BaselineInputs, evaluate_classifier
from bncl_pyg.explanation import Contribution, Detail, Explanation, LabelExplanation
from bncl_pyg.features import Features
from bncl_pyg.report import ReportData, collect_report, render_explanation, render_report
from tests.training.world import World, make_world, with_candidates

HOSTILE = "<script>alert('x')</script> & \"quoted\" </script><img src=x onerror=alert(1)> {{data}}"


@pytest.fixture(scope="module")
def world() -> World:
    return make_world()


@pytest.fixture(scope="module")
def classifier(world: World) -> BNCLClassifier:
    return BNCLClassifier(prevalence=world.priors, graph=world.graph).fit(world.train)


@pytest.fixture(scope="module")
def truth(world: World) -> Corpus:
    texts = tuple(
        f"text {row} is about {' '.join(np.array(world.test.labels.names)[true])}"
        for row, true in enumerate(world.truth)
    )
    return Corpus(world.test.ids, texts, csr_array(world.truth))


@pytest.fixture(scope="module")
def report(world: World, classifier: BNCLClassifier, truth: Corpus) -> ReportData:
    return collect_report(classifier, world.test, truth=truth, title="of a test")


class _Page(HTMLParser):
    """The elements and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_figures_are_those_of_the_evaluation(
    report: ReportData, world: World, classifier: BNCLClassifier, truth: Corpus
) -> None:
    evaluation = evaluate_classifier(classifier, world.test, truth)
    assert report.truth is not None
    assert {method.name: method.metrics for method in report.truth.methods}[
        "this model"
    ] == evaluation.metrics._asdict()
    assert [method.name for method in report.truth.methods] == ["this model", "zero-shot", "top-κ"]
    for row, scores in zip(report.labels, evaluation.labels, strict=True):
        assert (row.name, row.F1, row.precision, row.recall) == (
            scores.label,
            scores.F1,
            scores.precision,
            scores.recall,
        )
        assert (row.support, row.given) == (scores.support, scores.predicted)
    assert report.cardinality == pytest.approx(evaluation.cardinality)
    assert report.truth.calibration_error == evaluation.calibration
    assert [row.expected for row in report.labels] == pytest.approx(world.priors.shares)


def test_counts_are_of_all_texts(report: ReportData, world: World, classifier: BNCLClassifier) -> None:
    predictions = classifier.predictions(world.test)
    assert sum(report.label_counts) == sum(report.truth.label_counts) == 300  # type: ignore[union-attr]
    assert sum(report.sureness) == int(predictions.decisions.sum())
    assert report.without_label == report.label_counts[0]
    decisions = predictions.decisions.numpy()
    one, other, count = report.cooccurring[0]
    assert (
        count
        == int((decisions[:, one] & decisions[:, other]).sum())
        == max(int((decisions[:, a] & decisions[:, b]).sum()) for a in range(8) for b in range(a))
    )
    missed, wrong, times = report.truth.confused[0]  # type: ignore[union-attr]
    of_missed = world.truth[:, missed] & ~decisions[:, missed]
    assert times == int((of_missed & decisions[:, wrong] & ~world.truth[:, wrong]).sum())


def test_unsure_texts_are_those_whose_best_label_is_least_probable(
    report: ReportData, world: World, classifier: BNCLClassifier
) -> None:
    best = classifier.predictions(world.test).probabilities.max(dim=1).values
    ids = [report.texts[place].id for place in report.unsure]
    assert ids[0] == world.test.ids[int(best.argmin())]
    assert len(ids) == len(set(ids)) == 20


def test_examples_are_the_surest_texts_of_a_label(report: ReportData, world: World, classifier: BNCLClassifier) -> None:
    predictions = classifier.predictions(world.test)
    for place, row in enumerate(report.labels):
        shares = predictions.probabilities[:, place][predictions.decisions[:, place]]
        assert [one.probability for one in row.examples] == pytest.approx(sorted(shares.tolist())[::-1][:3], abs=1e-4)
        for example in row.examples:
            text = report.texts[example.text]
            assert example.is_right == (place in (text.true or []))
            assert place in [label for label, _ in text.given]
    assert any(row.name in row.words for row in report.labels)


def test_without_truth_and_texts_the_rest_is_shown(world: World, classifier: BNCLClassifier) -> None:
    data = collect_report(classifier, world.test)
    assert data.truth is None
    assert all(row.F1 is None and not row.words for row in data.labels)
    assert all(text.text is None and text.true is None for text in data.texts)
    assert any("need the texts themselves" in note for note in data.notes)
    page = render_report(data)
    assert "Reliability" not in page
    assert "Without true labels" in page
    with_texts = collect_report(classifier, world.test, texts=Corpus(world.test.ids, ("gold silver",) * 300))
    assert with_texts.texts[0].text == "gold silver"


def test_all_baselines_stand_beside_the_model_where_they_can(
    world: World, classifier: BNCLClassifier, truth: Corpus
) -> None:
    inputs = BaselineInputs(world.train, None, lambda texts: world.test.vectors)  # type: ignore[arg-type, return-value]
    data = collect_report(classifier, world.test, truth=truth, inputs=inputs)
    assert data.truth is not None
    assert [method.name for method in data.truth.methods] == ["this model", "zero-shot", "top-κ", "λ-quantile"]


def test_candidates_are_reported_on(world: World, truth: Corpus) -> None:
    classifier = BNCLClassifier(prevalence=world.priors, graph=world.graph).fit(with_candidates(world.train, 4))
    test = with_candidates(world.test, 4)
    data = collect_report(classifier, test, truth=truth)
    assert data.truth is not None
    assert data.truth.methods[0].metrics["miF1"] == evaluate_classifier(classifier, test, truth).metrics.miF1
    assert "4" in data.settings["Candidates a text"]
    for text in data.texts:
        candidates = {int(place) for place in test.candidates[test.ids.index(text.id)]}  # type: ignore[index]
        assert {label for label, _ in text.given} <= candidates
    assert render_report(data)


def test_the_graph_has_friends_and_enemies(report: ReportData, world: World) -> None:
    drawn = report.graph
    assert sorted(label for label, _, _ in drawn.nodes) == list(range(8))
    assert all(0 <= x <= 1 and 0 <= y <= 1 for _, x, y in drawn.nodes)
    assert len([edge for edge in drawn.edges if edge[2] > 0]) == drawn.friends == world.graph.count(1)
    assert len([edge for edge in drawn.edges if edge[2] < 0]) == drawn.enemies == world.graph.count(-1)
    page = _Page(render_report(report))
    kinds = [str(attributes["class"]) for tag, attributes in page.tags if tag == "line" and "data-a" in attributes]
    assert sum("friend" in kind for kind in kinds) == drawn.friends
    assert sum("enemy" in kind for kind in kinds) == drawn.enemies


def test_what_is_too_much_is_left_out_and_said(
    world: World, classifier: BNCLClassifier, truth: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "LABELS": 5,
        "EXAMPLE_LABELS": 2,
        "WORD_TEXTS": 50,
        "DRAWN_LABELS": 4,
        "DRAWN_EDGES": 1,
    }.items():
        monkeypatch.setattr(f"bncl_pyg.report.collect.{name}", value)
    data = collect_report(classifier, world.test, truth=truth)
    assert len(data.labels) == 5
    assert len(data.graph.nodes) == 4
    assert sum(bool(row.examples) for row in data.labels) == 2
    said = " ".join([*data.notes, data.graph.note])
    for sentence in (
        "5 labels that are given most often are shown, of 8",
        "2 labels that are given most often have",
        "those of 50 texts",
        "the 4 labels that are given most often, of 8",
    ):
        assert sentence in said
    assert all(label < 5 for text in data.texts for label, _ in text.given)
    page = render_report(data)
    assert all(note in page for note in data.notes)


def test_the_page_needs_nothing_else(report: ReportData) -> None:
    page = render_report(report)
    assert "{{" not in page.split("<script>")[0]
    tags = _Page(page).tags
    assert not [attributes for _, attributes in tags if attributes.get("src")]
    links = [attributes["href"] for _, attributes in tags if "href" in attributes]
    assert all(str(link).startswith(("#", "data:")) for link in links)
    assert not re.findall(r"https?://|@import|url\(", page)
    content = re.search(r'id="data">(.*?)</script>', page, re.S)
    assert content is not None
    assert len(json.loads(content[1])["labels"]) == 8


def test_nothing_that_a_text_or_a_label_says_becomes_part_of_the_page(world: World) -> None:
    names = (HOSTILE, *world.test.labels.names[1:])
    labels = LabelSet(names, (HOSTILE, *world.test.labels.descriptions[1:]))

    def renamed(features: Features) -> Features:
        return replace(features, labels=labels, ids=tuple(f"{HOSTILE}{one}" for one in features.ids))

    graph = world.graph.clone()
    graph.label_names = list(names)
    classifier = BNCLClassifier(prevalence=world.priors, graph=graph).fit(renamed(world.train))
    test = renamed(world.test)
    truth = Corpus(test.ids, tuple(f"{HOSTILE} {row}" for row in range(300)), csr_array(world.truth))
    plain = _Page(render_report(collect_report(classifier, test, truth=truth, title=HOSTILE)))
    assert [tag for tag, _ in plain.tags].count("script") == 2
    assert "img" not in {tag for tag, _ in plain.tags}
    assert not [name for _, attributes in plain.tags for name in attributes if name.startswith("on")]
    assert any(HOSTILE in text for text in plain.text)
    why = classifier.explain(HOSTILE, features=test.rows(slice(0, 1)))
    explained = _Page(render_explanation(why))
    assert {"script", "img"}.isdisjoint(tag for tag, _ in explained.tags)


def test_other_texts_than_those_of_the_features_are_refused(
    world: World, classifier: BNCLClassifier, truth: Corpus
) -> None:
    with pytest.raises(InputError, match="The truth has no text with id 't900'"):
        collect_report(classifier, world.test, truth=truth.rows(np.arange(1, 300)))
    with pytest.raises(InputError, match="The file of texts has no text with id"):
        collect_report(classifier, world.test, texts=Corpus(("a",), ("b",)))


def test_an_explanation_marks_the_words_of_the_text() -> None:
    words = Contribution("words", 0.5, "what", (Detail("gold", 1.0, "", ((0, 4),)), Detail("of", -0.5, "", ((5, 7),))))
    rest = Contribution("prior", -1.0, "how common", tuple(Detail(f"d{place}", -0.05) for place in range(20)))
    why = LabelExplanation("gold", "Gold", False, 0.25, (words, rest), 0.1)
    page = render_explanation(Explanation("7", "gold of <b>", (why,)))
    assert 'title="+1.000">gold</mark>' in page
    assert 'class="against level3" title="-0.500">of</mark>' in page
    assert "&lt;b&gt;" in page
    assert "8 more" in page
    assert "-0.500" in page
    assert "Not given: logit -0.50, 0.60 below the threshold +0.10; probability 25%." in page


def test_the_data_can_be_held_by_json(report: ReportData) -> None:
    assert json.loads(json.dumps(report.as_dict()))["n_texts"] == 300
