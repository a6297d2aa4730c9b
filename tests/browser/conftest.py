"""A headless browser: Debian's Chromium, driven by Playwright."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium; where there is none, tests are skipped, unless `make test-browser` says that it must be there."""
    path = shutil.which("chromium")
    missing = None if path else "there is no chromium"
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing = "Playwright is not installed"
    if missing:
        assert os.environ.get("BNCL_BROWSER") != "required", missing
        pytest.skip(missing)
    with sync_playwright() as playwright:
        # Chromium refuses to sandbox itself where it is run by root.
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


class Opened:
    """A page, and what went wrong in it.

    Attributes:
        page: Playwright's.
        wrong: errors on the console or in a script.
        requests: all that was asked for but the file itself.
    """

    def __init__(self, browser: Any, path: Path, width: int, scheme: str) -> None:
        self.page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        # A busy machine is no error.
        self.page.set_default_timeout(120_000)
        self.wrong: list[str] = []
        self.requests: list[str] = []
        self.page.on(
            "console", lambda entry: self.wrong.append(entry.text) if entry.type in ("error", "warning") else None
        )
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.wrong.append(dialog.message), dialog.dismiss()))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.requests = [url for url in self.requests if url != path.as_uri() and not url.startswith("data:")]

    def overflow(self) -> int:
        """Return by how many pixels the page is wider than the window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    def focused(self) -> str:
        """Return which element has the focus, by id or text."""
        return str(self.page.evaluate("document.activeElement.id || document.activeElement.textContent"))


@pytest.fixture(params=[360, 1280], ids=["phone", "wide"])
def open_page(browser: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Return what opens a file, at two widths; nothing may go wrong with it until the test ends."""
    opened: list[Opened] = []

    def open_file(path: Path, scheme: str = "light") -> Opened:
        opened.append(Opened(browser, path, request.param, scheme))
        return opened[-1]

    yield open_file
    for one in opened:
        assert not one.wrong
        assert not one.requests
        one.page.close()
