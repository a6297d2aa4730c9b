"""A small model of tickets, trained on the spot, and servers of it."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bncl_pyg.corpus import LabelSet
from bncl_pyg.estimator import BNCLClassifier
from bncl_pyg.serve.options import ServeOptions
from bncl_pyg.serve.server import RunningServer

HOSTILE = "<script>alert(1)</script>\u202egold"
LABELS = LabelSet.of(
    {
        "refund": "money back",
        "password": "a forgotten password",
        "printer": "a printer that does not print",
        "delivery": "a late delivery",
        HOSTILE: "hostile names",
    }
)
TEXTS = (
    ("Please give me my money back", "refund"),
    ("I forgot my password and cannot log in", "password"),
    ("The office printer does not print", "printer"),
    ("My parcel has not arrived for two weeks", "delivery"),
)
Start = Callable[..., RunningServer]


@pytest.fixture(scope="session")
def texts() -> list[tuple[str, str, str]]:
    """Sixty (id, text, label)."""
    return [(f"t{place}", f"{TEXTS[place % 4][0]}, case {place}.", TEXTS[place % 4][1]) for place in range(60)]


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory, texts: list[tuple[str, str, str]]) -> Path:
    folder = tmp_path_factory.mktemp("served") / "model"
    BNCLClassifier(LABELS, scorer="fast").fit([text for _, text, _ in texts]).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def table(model: Path, texts: list[tuple[str, str, str]]) -> Path:
    path = model.parent / "texts.jsonl"
    path.write_text("".join(json.dumps({"id": name, "text": text}) + "\n" for name, text, _ in texts))
    return path


@pytest.fixture
def start(model: Path, table: Path, tmp_path: Path) -> Iterator[Start]:
    """Return what starts a server; with `annotates=True`, of a project in the test's folder."""
    with ExitStack() as running:

        def begin(*, annotates: bool = False, **more: Any) -> RunningServer:
            own = {"texts": table, "project": tmp_path / "project"} if annotates else {}
            return running.enter_context(RunningServer(str(model), ServeOptions(port=0, **own, **more)))

        yield begin
