import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from bncl_cli.main import app
from torch import Tensor
from typer.testing import CliRunner, Result

from bncl_pyg import scorers

Bncl = Callable[..., Result]


class Fake:
    def vectors(self, texts: Sequence[str]) -> Tensor:
        return torch.nn.functional.normalize(torch.tensor([[len(text), 1.0] for text in texts]))

    def pieces(self, text: str) -> list[str]:
        return list(text) if any(map(str.isdigit, text)) else [text]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the scorers that were loaded."""
    names: list[str] = []

    def load(name: str) -> Fake:
        names.append(name)
        return Fake()

    monkeypatch.setattr(scorers, "load_scorer", load)
    return names


@pytest.fixture
def bncl(asked: list[str]) -> Bncl:
    return lambda *words: CliRunner().invoke(
        app, ["labels", "check", *map(str, words)], catch_exceptions=False, env={"COLUMNS": "300"}
    )


def test_findings_are_shown_worst_first_and_written(
    bncl: Bncl, asked: list[str], write: Callable[..., Path], tmp_path: Path
) -> None:
    labels = write("l.jsonl", [{"label": "bank"}, {"label": "[red]X-99[/red] 7"}, {"label": "E1[/b]"}])
    texts = write("t.jsonl", [{"id": 1, "text": "Rates rose."}])
    result = bncl(labels, "--texts", texts, "--json", tmp_path / "out.json")
    assert result.exit_code == 0, result.output
    assert asked == ["light"]
    written = json.loads((tmp_path / "out.json").read_text())
    assert written["labels"] == 3
    severities = [finding["severity"] for finding in written["findings"]]
    assert severities == sorted(severities, reverse=True)
    assert result.stdout.index("severe") < result.stdout.index("hint")
    assert "E1[/b]" in result.stdout
    assert "l.jsonl: 3 labels, findings: 1 severe" in result.stdout


def test_nothing_to_mend(bncl: Bncl, asked: list[str], write: Callable[..., Path]) -> None:
    result = bncl(write("l.txt", "precious metals\n"), "--scorer", "embedded")
    assert result.exit_code == 0
    assert asked == ["embedded"]
    assert result.stdout.strip().endswith("1 labels, nothing to mend.")


def test_bad_input_is_one_sentence(bncl: Bncl, write: Callable[..., Path], tmp_path: Path) -> None:
    labels = write("l.txt", "gold\nsilver\n")
    for words, sentence in (
        ([tmp_path / "no.txt"], "no.txt does not exist"),
        ([labels, "--template", "about"], "exactly once"),
        ([labels, "--texts", write("t.jsonl", [{"id": 1}])], "has no column 'text'; its columns are: id"),
        ([labels, "--json", labels], "is what this command reads"),
    ):
        result = bncl(*words)
        assert result.exit_code == 2
        assert sentence in result.stderr
        assert "Traceback" not in result.output
