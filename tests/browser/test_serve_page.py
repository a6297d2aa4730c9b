"""The server's page in a browser: all three parts by keyboard, nothing of names and texts runs, nothing is lost."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from bncl_pyg.corpus import Corpus, LabelSet
from bncl_pyg.demo import demo_folder
from bncl_pyg.estimator import BNCLClassifier
from bncl_pyg.serve import RunningServer, ServeOptions

TEXTS, ANSWERED = 150, 20
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"
RTL = "\u202e\u2067evil"
SCREENSHOTS = os.environ.get("BNCL_SCREENSHOTS")
"""A folder to put pictures of the page into, for the docs."""


class Page:
    """The page, and what went wrong in it."""

    def __init__(self, browser: Any, url: str, width: int, scheme: str = "light") -> None:
        self.url, self.wrong, self.asked = url, [], []
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.watch(self.page)

    def watch(self, page: Any) -> None:
        page.set_default_timeout(120_000)
        page.on("console", lambda one: self.wrong.append(one.text) if one.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("dialog", lambda dialog: (self.wrong.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: self.asked.append(request.url))

    def open(self, part: str) -> "Page":
        """Open one of the three parts."""
        self.page.goto(f"{self.url}/#{part}")
        self.page.wait_for_selector(f"body[data-ready] #panel-{part}:visible")
        return self

    def picture(self, name: str) -> None:
        if SCREENSHOTS:
            self.page.screenshot(path=f"{SCREENSHOTS}/{name}.png")

    def close(self) -> None:
        """Close it: a page without its server would tell so."""
        self.context.close()

    def overflow(self) -> int:
        """Return by how many pixels the page is wider than the window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    def text(self, place: str) -> str:
        return str(self.page.locator(place).text_content())


OpenPage = Callable[..., Page]


@pytest.fixture
def open_url(browser: Any) -> Iterator[OpenPage]:
    """Return what opens a server's page; nothing may go wrong with it until the test ends."""
    opened: list[Page] = []

    def begin(url: str, width: int = 1400, scheme: str = "light") -> Page:
        opened.append(Page(browser, url, width, scheme))
        return opened[-1]

    yield begin
    for one in opened:
        one.close()
        assert not one.wrong
        assert all(url.startswith(f"{one.url}/") for url in one.asked), "nothing is asked of another host"


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[str]]]:
    """A folder with a model and texts of the bundled set, and the truth by id."""
    folder = tmp_path_factory.mktemp("page")
    labels = LabelSet.read(demo_folder() / "labels.jsonl")
    corpus = Corpus.read(demo_folder() / "train.jsonl.gz", labels)
    assert corpus.annotations is not None
    truth = {
        name: [labels.names[at] for at in corpus.annotations[[row]].indices]
        for row, name in enumerate(corpus.ids[:TEXTS])
    }
    BNCLClassifier(labels, scorer="fast").fit(corpus.texts[:TEXTS]).save_pretrained(folder / "model")
    rows = [{"id": name, "text": text} for name, text in zip(truth, corpus.texts, strict=False)]
    (folder / "packages.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder, truth


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with label names, ids and texts that try to run, to turn around, and to fill the page."""
    folder = tmp_path_factory.mktemp("hostile")
    labels = LabelSet.of({HOSTILE: f"{HOSTILE} meant", RTL: "turned around", "x" * 300: "never ends", "gold": "metal"})
    # Long enough not to be taken for a page of HTML, which would be stripped.
    words = "Gold rose and silver fell on the market of this week, as many people had foreseen. " * 4
    texts = [f"{place} {words} {HOSTILE} {RTL}" for place in range(12)] + ["gold " * 210_000 + HOSTILE]
    BNCLClassifier(labels, scorer="fast").fit(texts[:12]).save_pretrained(folder / "model")
    rows = [{"id": f"{place}{HOSTILE}{RTL}", "text": text} for place, text in enumerate(texts)]
    (folder / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ServeOptions(port=0, texts=folder / "texts.jsonl", project=folder / HOSTILE.replace("/", "_"))
    with RunningServer(str(folder / "model"), options) as server:
        yield server.url


def answer_by_keyboard(page: Page, truth: dict[str, list[str]], before: str) -> str:
    """Answer the text that is shown with the labels that it has, by keys alone; return its id."""
    page.page.wait_for_function("before => document.getElementById('text-id').textContent !== before", arg=before)
    name = page.text("#text-id")
    offered = [one.get_attribute("data-label") for one in page.page.locator("#choices .choice").all()]
    keyboard = page.page.keyboard
    for label in truth[name]:
        if label in offered[:9]:
            keyboard.press(str(offered.index(label) + 1))
        else:
            keyboard.press("/")
            keyboard.type(label)
            keyboard.press("Enter")
            page.page.wait_for_selector(f'#choices .choice.yes[data-label="{label}"]')
    keyboard.press("Enter" if truth[name] else "n")
    return name


def test_twenty_texts_by_keyboard(
    bundled: tuple[Path, dict[str, list[str]]], open_url: OpenPage, tmp_path: Path
) -> None:
    folder, truth = bundled
    project = tmp_path / "packages"
    options = ServeOptions(port=0, texts=folder / "packages.jsonl", project=project, retrain_every=10)
    with ExitStack() as running:
        server = running.enter_context(RunningServer(str(folder / "model"), options))
        page = open_url(server.url).open("annotate")
        names, before, estimates = [], "", []
        for number in range(ANSWERED):
            before = answer_by_keyboard(page, truth, before)
            names.append(before)
            if number in (9, 19):
                done = str((number + 1) // 10)
                page.page.wait_for_selector(f'#training[data-trainings="{done}"]')
                estimates.append(page.text("#gain"))
            if number == 19:
                page.page.wait_for_function("b => document.getElementById('text-id').textContent !== b", arg=before)
                page.page.keyboard.press("1")
                page.page.wait_for_selector(".choice.yes")
                page.picture("annotate-1400")
        assert len(set(names)) == ANSWERED
        assert "after 10 answers" in estimates[0]
        assert "after 20 answers" in estimates[1]
        assert estimates[0].split("after")[0] != estimates[1].split("after")[0], "the estimate moves"
        assert page.text("#far-text").startswith(f"{ANSWERED} of {TEXTS} texts answered")
        assert "a minute" in page.text("#speed")
        # Undo by key, and the same answer once more.
        page.page.keyboard.press("u")
        page.page.wait_for_function("name => document.getElementById('text-id').textContent === name", arg=names[-1])
        marked = [one.get_attribute("data-label") for one in page.page.locator("#choices .choice.yes").all()]
        assert sorted(str(one) for one in marked) == sorted(truth[names[-1]])
        page.page.keyboard.press("Enter" if truth[names[-1]] else "n")
        page.page.wait_for_function("name => document.getElementById('text-id').textContent !== name", arg=names[-1])
        # A second tab gets another text; a page that is loaded again finds everything.
        other = open_url(server.url).open("annotate")
        other.page.wait_for_function("() => document.getElementById('text-id').textContent")
        assert other.text("#text-id") != page.text("#text-id")
        assert other.text("#text-id") not in names
        current = page.text("#text-id")
        page.page.reload()
        page.page.wait_for_function("() => document.getElementById('text-id').textContent")
        assert page.text("#text-id") == current, "the text that was open is there again"
        assert page.text("#far-text").startswith(f"{ANSWERED} of {TEXTS} texts answered")
        page.open("try")
        page.page.locator("#own-decisions").uncheck()
        assert f"on {ANSWERED} answered texts, whose answers the model did not see" in page.text("#threshold-truth")
        low = page.text("#threshold-truth")
        page.page.locator("#threshold").press("End")
        assert page.text("#threshold-truth") != low
        page.close()
        other.close()
    with RunningServer(str(folder / "model"), options) as again:
        page = open_url(again.url).open("annotate")
        page.page.wait_for_function("() => document.getElementById('far-text').textContent")
        assert page.text("#far-text").startswith(f"{ANSWERED} of {TEXTS} texts answered")
        assert "after 20 answers" in page.text("#gain")
        exported = page.page.evaluate("fetch('/v1/annotate/export?format=jsonl').then(one => one.text())")
        page.close()
    kept = {row["id"]: sorted(row["labels"]) for row in map(json.loads, str(exported).splitlines())}
    assert kept == {name: sorted(truth[name]) for name in names}


def test_parts_unsure_skip_and_space(
    bundled: tuple[Path, dict[str, list[str]]], open_url: OpenPage, tmp_path: Path
) -> None:
    options = ServeOptions(port=0, texts=bundled[0] / "packages.jsonl", project=tmp_path / "p", retrain_every=1000)
    with RunningServer(str(bundled[0] / "model"), options) as server:
        page = open_url(server.url, 400).open("annotate")
        keyboard, shown = page.page.keyboard, []

        def next_text() -> str:
            before = shown[-1] if shown else ""
            page.page.wait_for_function("b => document.getElementById('text-id').textContent !== b", arg=before)
            shown.append(page.text("#text-id"))
            return shown[-1]

        first = next_text()
        page.picture("annotate-400")
        keyboard.press("Shift+Enter")
        assert page.text("#annotate-state") == "Nothing is marked."
        labels = [str(one.get_attribute("data-label")) for one in page.page.locator("#choices .choice").all()]
        for key in ("Space", "Space", "ArrowDown", "Space", "Space"):
            keyboard.press(key)
        states = [one.get_attribute("aria-checked") for one in page.page.locator("#choices .choice").all()[:3]]
        assert states == ["true", "false", "mixed"]
        keyboard.press("Shift+Enter")
        next_text()
        keyboard.press("?")
        next_text()
        keyboard.press("s")
        next_text()
        page.page.locator("#none").click()
        next_text()
        assert page.text(
            "#far-text"
        ) == f"4 of {TEXTS} texts answered (1 in part, 1 not sure, 1 skipped)." or page.text("#far-text").startswith(
            "3 of"
        )
        assert page.overflow() == 0
        assert server.served.session is not None
        answers = server.served.session.project.answers()
        page.close()
    assert (answers[first].yes, answers[first].no, answers[first].is_whole) == ((labels[0],), (labels[1],), False)
    assert [answers[name].kind for name in shown[:4]] == ["answer", "unsure", "skip", "answer"]


@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (400, "dark")])
def test_try_and_look(
    bundled: tuple[Path, dict[str, list[str]]], open_url: OpenPage, tmp_path: Path, width: int, scheme: str
) -> None:
    options = ServeOptions(port=0, texts=bundled[0] / "packages.jsonl", project=tmp_path / "packages")
    with RunningServer(str(bundled[0] / "model"), options) as server:
        page = open_url(server.url, width, scheme).open("try")
        page.page.locator("#try-text").fill("A strategy game with three-dimensional graphics and sound for two players")
        page.page.locator("#try-text").press("Control+Enter")
        page.page.wait_for_selector("#why-text mark")
        assert page.page.locator("#try-labels .label.given").count() >= 1
        page.page.locator("#try-labels .label").nth(2).click()
        third = page.text("#try-labels li:nth-child(3) .name")
        page.page.wait_for_function("name => document.getElementById('why-label').textContent === name", arg=third)
        page.page.locator("#tried-name").fill("fun")
        page.page.locator("#tried-description").fill("games and other fun")
        page.page.locator("#tried-description").press("Enter")
        page.page.wait_for_selector("#tried .share")
        assert "from its words alone" in page.text("#tried")
        page.page.locator("#tried-name").fill(third)
        page.page.locator("#tried-description").fill("bread and butter")
        page.page.locator("#tried-description").press("Enter")
        page.page.wait_for_selector("#tried li:nth-child(2) .share")
        assert "reworded: " in page.text("#tried")
        assert page.overflow() == 0
        page.page.evaluate("scrollTo(0, 0)")
        page.picture(f"try-{width}")
        assert contrast(page, [".hint", ".muted", ".label .name", ".main", "[role=tab]", "label", ".bar a"]) >= 4.5
        page.page.locator("#tab-try").press("ArrowRight")
        # On a busy machine the tab's text comes later, and takes the focus with it.
        page.page.wait_for_function("() => document.getElementById('text-id').textContent")
        page.page.locator("#tab-annotate").press("ArrowRight")
        page.page.wait_for_selector("#label-texts li")
        page.page.locator('.node[aria-label^="use::"]').first.focus()
        page.page.keyboard.press("Enter")
        page.page.wait_for_function(
            "() => document.getElementById('label-texts-title').textContent.startsWith('use::')"
        )
        assert page.page.locator(".node.chosen").count() == 1
        report = page.page.frame_locator("#report")
        report.locator("#label-table tr[data-label]").first.wait_for()
        assert page.overflow() == 0
        page.page.evaluate("scrollTo(0, 0)")
        page.picture(f"look-{width}")
        page.page.goto(f"{server.url}/docs")
        page.page.wait_for_selector("#paths .card")
        assert "POST /v1/predict" in page.text("#paths")
        assert page.overflow() == 0
        page.picture(f"docs-{width}")
        page.close()


def contrast(page: Page, selectors: list[str]) -> float:
    """Return the least of WCAG's contrast ratios of letters and what is behind them."""
    light = page.page.evaluate(
        """selectors => selectors.map(selector => {
            const element = [...document.querySelectorAll(selector)].find(one => one.offsetParent !== null);
            let behind = element;
            while (getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
            return [getComputedStyle(element).color, getComputedStyle(behind).backgroundColor].map(colour => {
                const [r, g, b] = colour.match(/[0-9.]+/g).map(part => part / 255)
                    .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
                return 0.2126 * r + 0.7152 * g + 0.0722 * b;
            });
        })""",
        selectors,
    )
    return float(min((max(pair) + 0.05) / (min(pair) + 0.05) for pair in light))


def test_names_and_texts_never_run(hostile: str, open_url: OpenPage) -> None:
    """Whatever would run opens a dialog or is told on the console, and both fail the test."""
    page = open_url(hostile, 400).open("try")
    page.page.locator("#try-text").fill(f"{HOSTILE} gold {RTL}")
    page.page.locator("#try-run").click()
    page.page.wait_for_selector("#why-parts li")
    assert HOSTILE in [str(one) for one in page.page.locator("#try-labels .name").all_text_contents()]
    page.page.locator("#tried-name").fill(HOSTILE)
    page.page.locator("#tried-name").press("Enter")
    page.page.wait_for_selector("#tried .share")
    page.open("annotate")
    seen = set()
    for _ in range(13):
        page.page.wait_for_function(
            "names => !names.includes(document.getElementById('text-id').textContent)", arg=[*seen, ""]
        )
        seen.add(page.text("#text-id"))
        assert page.overflow() == 0
        assert HOSTILE in page.text("#text")
        page.page.keyboard.press("1")
        page.page.keyboard.press("Enter")
    assert len(seen) == 13, "one of them has a megabyte"
    page.page.wait_for_selector("#all-done:visible")
    page.open("look")
    page.page.wait_for_selector("#label-texts-title bdi")
    page.page.frame_locator("#report").locator("#label-table tr[data-label]").first.wait_for()
    assert page.overflow() == 0
    assert page.page.locator("main img, main script").count() == 0


class Blank(BaseHTTPRequestHandler):
    """A site of somebody else's, with an empty page and no policy of its own that would hold its scripts back."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>another site</title>")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def other_site() -> Iterator[str]:
    """The address of another site: the same machine by another name and port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Blank) as site:
        thread = threading.Thread(target=site.serve_forever)
        thread.start()
        yield f"http://localhost:{site.server_port}"
        site.shutdown()
        thread.join()


def test_another_site_cannot_annotate(hostile: str, other_site: str, browser: Any) -> None:
    """A page of another origin asks in all the ways a page can; it reads nothing, and the server keeps nothing."""
    context = browser.new_context()
    page, before = context.new_page(), context.request.get(f"{hostile}/v1/annotate/export").text()
    page.goto(other_site)
    outcome = page.evaluate(
        """async ([url, text]) => {
            const body = JSON.stringify({holder: "x", annotator: "x", key: "x", text, kind: "unsure"});
            const asked = [];
            for (const mode of ["cors", "no-cors"]) {
                for (const type of ["application/json", "text/plain"]) {
                    try {
                        const headers = {"Content-Type": type};
                        const one = await fetch(url + "/v1/annotate/answers", {method: "POST", mode, body, headers});
                        asked.push(one.type + one.status);
                    } catch { asked.push("refused"); }
                }
            }
            try {
                asked.push("read " + await fetch(url + "/v1/session").then(one => one.text()));
            } catch { asked.push("refused"); }
            return asked;
        }""",
        [hostile, f"0{HOSTILE}{RTL}"],
    )
    assert set(outcome) <= {"refused", "opaque0"}
    told = context.request.get(f"{hostile}/metrics").text()
    assert 'route="/v1/annotate/answers",method="POST",status="403"' in told, "the server was asked, and refused"
    assert context.request.get(f"{hostile}/v1/annotate/export").text() == before
    context.close()
