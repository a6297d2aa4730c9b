"""Folders to be damaged, and a way to run commands that never forgives a traceback."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from bncl_cli.main import app
from bncl_cli.show import err
from typer.testing import CliRunner, Result

from bncl_pyg.features import write_features
from bncl_pyg.training import PAPER, DefaultRecipe
from tests.hard.attacks import Bncl, Made, fit, make_inputs


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("hard") / "made"
    folder.mkdir()
    for ending, seed in (("", 0), ("2", 1)):
        features, graph, priors = make_inputs(seed)
        write_features(features, folder / f"features{ending}")
        graph.save(folder / f"graph{ending}")
        fit(DefaultRecipe(), features, graph, priors).save(folder / f"model{ending}")
        if not ending:
            recipe = type(PAPER)(**{**vars(PAPER), "epochs": 1})
            fit(recipe, features, graph, priors).save(folder / "paper")
    return Made(folder)


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody pulls the plug here: no test waits until the disk has everything. The kill loop does."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.fixture
def made(original: Made, tmp_path: Path) -> Made:
    return original.copied(tmp_path)


@pytest.fixture
def bncl() -> Iterator[Bncl]:
    """Run a command in this process: it ends well or with one sentence, and never with a traceback."""

    def run(*words: object, given: bytes | None = None) -> Result:
        result = CliRunner().invoke(app, [str(word) for word in words], input=given)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert "Traceback" not in result.output
        assert result.exit_code in (0, 2), result.output
        return result

    yield run
    err.quiet = False
