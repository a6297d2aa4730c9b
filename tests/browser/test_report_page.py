"""The report in a browser: nothing fails, nothing is asked for, everything works with a keyboard, on a phone too."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from bncl_pyg.corpus import Corpus, LabelSet
from bncl_pyg.estimator import BNCLClassifier
from bncl_pyg.features import Features, word_counts
from bncl_pyg.graph import LabelVectors, build_graph
from bncl_pyg.priors import Priors
from bncl_pyg.report import LabelRow, ReportData, collect_report, render_explanation, render_report
from tests.browser.conftest import Opened

Open = Callable[..., Opened]

LABELS, TEXTS = 60, 200
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"
LONG = "x" * 300


@pytest.fixture(scope="module")
def scored() -> tuple[BNCLClassifier, Features, Corpus]:
    """A classifier of sixty labels, of which one is hostile and one never ends, and texts with their labels."""
    draw = np.random.default_rng(0)
    names = [f"label-{place:02d}" for place in range(LABELS)]
    names[3], names[4] = HOSTILE, LONG
    labels = LabelSet(tuple(names), tuple(f"What number {place} means" for place in range(LABELS)))
    truth = draw.random((TEXTS, LABELS)) < np.linspace(0.2, 0.005, LABELS)
    truth[np.arange(TEXTS), np.arange(TEXTS) % LABELS] = True
    texts = [" ".join(f"word{place}" for place in np.flatnonzero(row)) + f" {HOSTILE} {LONG}" for row in truth]
    scores = torch.from_numpy(1 / (1 + np.exp(-3 * truth - draw.normal(size=truth.shape) + 2))).float()
    ids = tuple(f"t{place}" for place in range(TEXTS))
    features = Features(ids, labels, scores, 0.9 * (1 - scores), {"name": "made up"}, words=word_counts(texts))
    corpus = Corpus(ids, tuple(texts), csr_array(truth))
    graph = build_graph(labels, LabelVectors(draw.normal(size=(LABELS, 8)).astype(np.float32), "by hand"))
    priors = Priors.from_annotations(csr_array(truth))
    return BNCLClassifier(prevalence=priors, graph=graph).fit(features), features, corpus


@pytest.fixture(scope="module")
def data(scored: tuple[BNCLClassifier, Features, Corpus]) -> ReportData:
    classifier, features, corpus = scored
    return collect_report(classifier, features, truth=corpus, title="a test")


@pytest.fixture(scope="module")
def page(data: ReportData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render_report(data), encoding="utf-8")
    return path


def names_in(opened: Opened) -> list[str]:
    return [str(name) for name in opened.page.locator("#label-table tr[data-label] button.plain").all_text_contents()]


def test_nothing_is_wider_than_the_window(open_page: Open, page: Path) -> None:
    opened = open_page(page)
    assert opened.overflow() == 0
    for button in opened.page.locator("#label-table tr[data-label] button.plain").all()[:6]:
        button.click()
    opened.page.locator("#label-more").click()
    opened.page.locator("#graph-search").fill("label-07")
    assert opened.overflow() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_letters_stand_out_in_light_and_in_dark(open_page: Open, page: Path, scheme: str) -> None:
    opened = open_page(page, scheme)
    light = opened.page.evaluate(
        """selectors => selectors.map(selector => {
            const element = document.querySelector(selector);
            let behind = element;
            while (getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
            return [getComputedStyle(element).color, getComputedStyle(behind).backgroundColor].map(colour => {
                const [r, g, b] = colour.match(/[0-9.]+/g).map(part => part / 255)
                    .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
                return 0.2126 * r + 0.7152 * g + 0.0722 * b;
            });
        })""",
        ["h1", ".hint", ".tile .of", "#label-table td", "#label-table .plain", ".chip", "#settings dt", "footer"],
    )
    assert (light[0][1] < 0.05) == (scheme == "dark")
    # WCAG's contrast ratio of normal text.
    contrasts = [(max(pair) + 0.05) / (min(pair) + 0.05) for pair in light]
    assert min(contrasts) >= 4.5


def test_search_finds_a_label(open_page: Open, page: Path) -> None:
    opened = open_page(page)
    opened.page.locator("#label-search").fill("label-17")
    assert names_in(opened) == ["label-17"]
    opened.page.locator("#label-search").fill("number 21 means")
    assert names_in(opened) == ["label-21"]
    opened.page.locator("#label-search").fill("no such label")
    assert names_in(opened) == []
    assert opened.page.locator("#label-count").text_content() == "0 of 0 labels"


def test_sorting_sorts(open_page: Open, page: Path, data: ReportData) -> None:
    opened = open_page(page)
    given = {row.name: row.given for row in data.labels}
    shown = [given[name] for name in names_in(opened)]
    assert shown == sorted(given.values(), reverse=True)[:20]
    opened.page.locator('[data-sort="name"]').click()
    assert names_in(opened) == sorted(given, key=str.lower)[:20]
    assert opened.page.locator('th[aria-sort="ascending"]').text_content() == "Label"
    opened.page.locator('[data-sort="F1"]').click()
    quality = {row.name: row.F1 for row in data.labels}
    assert [quality[name] for name in names_in(opened)] == sorted(quality.values(), reverse=True)[:20]  # type: ignore[type-var]
    opened.page.locator('[data-sort="F1"]').click()
    assert [quality[name] for name in names_in(opened)] == sorted(quality.values())[:20]  # type: ignore[type-var]


def test_filters_leave_what_they_say(open_page: Open, page: Path, data: ReportData) -> None:
    opened = open_page(page)
    opened.page.locator("#label-filter").select_option(label="never given")
    expected = {row.name for row in data.labels if row.given == 0}
    assert set(names_in(opened)) == expected
    opened.page.locator("#label-filter").select_option(label="F1 below 0.5, though true somewhere")
    low = {row.name for row in data.labels if row.support and row.F1 is not None and row.F1 < 0.5}
    assert opened.page.locator("#label-count").text_content() == f"{min(20, len(low))} of {len(low)} labels"


def test_more_labels_are_shown_when_asked_for(open_page: Open, page: Path) -> None:
    opened = open_page(page)
    assert len(names_in(opened)) == 20
    opened.page.locator("#label-more").click()
    assert len(names_in(opened)) == LABELS
    assert opened.page.locator("#label-more").is_hidden()


def test_a_label_opens_and_shows_texts_as_text(open_page: Open, page: Path) -> None:
    opened = open_page(page)
    opened.page.locator("#label-search").fill("<script>")
    button = opened.page.locator("#label-table tr[data-label] button.plain").first
    assert button.text_content() == HOSTILE
    assert button.get_attribute("aria-expanded") == "false"
    button.click()
    samples = opened.page.locator(".opened .sample p").all_text_contents()
    assert samples
    assert all(HOSTILE in sample for sample in samples)
    assert opened.page.locator("img").count() == 0


def test_the_graph_is_zoomed_searched_and_clicked(open_page: Open, page: Path, data: ReportData) -> None:
    opened = open_page(page)
    content = opened.page.locator("#graph-content")
    start = content.get_attribute("transform")
    opened.page.locator("#zoom-in").click()
    assert content.get_attribute("transform") != start
    opened.page.locator("#zoom-all").click()
    assert content.get_attribute("transform") == start
    opened.page.locator("#graph-search").fill("label-11")
    panel = opened.page.locator("#graph-panel")
    assert panel.locator("h3").first.text_content() == "label-11"
    friends = [edge for edge in data.graph.edges if edge[2] > 0 and 11 in edge[:2]]
    assert f"Friends ({len(friends)})" in str(panel.text_content())
    opened.page.locator("#zoom-all").click()
    # The middle of a small circle may lie below a name: the event is the same wherever in the group it begins.
    opened.page.locator('.node[data-label="20"] circle').dispatch_event("click")
    assert panel.locator("h3").first.text_content() == "label-20"
    opened.page.locator("#graph-enemies").uncheck()
    panel.get_by_text("Show in the table").click()
    assert names_in(opened)[0] == "label-20"
    assert opened.focused() == "label-20"


def test_enemies_differ_from_friends_by_more_than_colour(open_page: Open, page: Path) -> None:
    opened = open_page(page)
    dashes = {
        kind: opened.page.locator(f".edge.{kind}").first.evaluate("line => getComputedStyle(line).strokeDasharray")
        for kind in ("friend", "enemy")
    }
    assert dashes["friend"] == "none"
    assert dashes["enemy"] != "none"


def test_everything_works_with_a_keyboard(open_page: Open, page: Path) -> None:
    opened = open_page(page)
    keyboard = opened.page.keyboard
    opened.page.locator("#label-search").focus()
    keyboard.type("label-17")
    assert names_in(opened) == ["label-17"]
    opened.page.locator('[data-sort="given"]').focus()
    keyboard.press("Enter")
    assert opened.page.locator('[data-sort="given"]').locator("xpath=..").get_attribute("aria-sort") == "ascending"
    opened.page.locator('[data-sort="F1"]').focus()
    keyboard.press("Tab")
    assert opened.focused() == "label-17"
    keyboard.press("Enter")
    assert opened.page.locator(".opened").count() == 1
    assert opened.focused() == "label-17"
    keyboard.press("Space")
    assert opened.page.locator(".opened").count() == 0
    graph, content = opened.page.locator("#graph"), opened.page.locator("#graph-content")
    graph.focus()
    before = content.get_attribute("transform")
    for key in ("ArrowRight", "+"):
        keyboard.press(key)
        assert content.get_attribute("transform") != before
        before = content.get_attribute("transform")
    keyboard.press("0")
    assert content.get_attribute("transform") == "translate(0.00 0.00) scale(1.0000)"
    opened.page.locator("#graph-search").focus()
    keyboard.type("label-3")
    keyboard.press("Enter")
    assert str(opened.page.locator("#graph-panel h3").first.text_content()).startswith("label-3")


def test_what_is_focused_is_seen(open_page: Open, page: Path) -> None:
    opened = open_page(page)
    opened.page.keyboard.press("Tab")
    style = opened.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert opened.page.evaluate("document.activeElement.tagName") == "A"
    assert style == "solid"


def test_pairs_lead_to_their_labels(open_page: Open, page: Path, data: ReportData) -> None:
    opened = open_page(page)
    link = opened.page.locator("#pairs [data-show]").first
    label = int(str(link.get_attribute("data-show")))
    link.click()
    assert names_in(opened)[0] == data.labels[label].name


def test_thousands_of_labels_stay_usable(open_page: Open, data: ReportData, tmp_path: Path) -> None:
    first = data.labels[0]
    many: list[LabelRow] = [*data.labels, *(replace(first, name=f"further {place}", given=0) for place in range(5000))]
    path = tmp_path / "many.html"
    path.write_text(render_report(replace(data, labels=many, n_labels=len(many))), encoding="utf-8")
    opened = open_page(path)
    assert len(names_in(opened)) == 20
    opened.page.locator("#label-search").fill("further 4321")
    assert names_in(opened) == ["further 4321"]
    assert opened.overflow() == 0


def test_a_report_without_truth_works_too(
    open_page: Open, scored: tuple[BNCLClassifier, Features, Corpus], tmp_path: Path
) -> None:
    classifier, features, _ = scored
    path = tmp_path / "plain.html"
    path.write_text(render_report(collect_report(classifier, features)), encoding="utf-8")
    opened = open_page(path)
    assert opened.overflow() == 0
    assert opened.page.locator('[data-sort="F1"]').count() == 0
    assert len(names_in(opened)) == 20


def test_an_explanation_is_a_page_of_the_same_kind(
    open_page: Open, scored: tuple[BNCLClassifier, Features, Corpus], tmp_path: Path
) -> None:
    classifier, features, corpus = scored
    explanation = classifier.explain(corpus.texts[0], features=features.rows(slice(0, 1)))
    path = tmp_path / "why.html"
    path.write_text(render_explanation(explanation), encoding="utf-8")
    opened = open_page(path)
    assert opened.overflow() == 0
    assert opened.page.locator("mark").count()
    assert opened.page.locator("section").count() == len(explanation.labels)
