"""What a shell is told when somebody presses Tab."""

import pytest
from bncl_cli.completion import SCORERS
from bncl_cli.main import app
from typer.testing import CliRunner

from bncl_pyg.scorers import FAST, LIGHT, MULTILINGUAL, STRONG
from bncl_pyg.training import RECIPES, Setting


def completed(*words: str) -> list[str]:
    """Return what bash would offer for the last word."""
    env = {
        "_BNCL_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(("bncl", *words)),
        "COMP_CWORD": str(len(words)),
    }
    return CliRunner().invoke(app, [], env=env, prog_name="bncl").stdout.split()


def test_the_names_are_the_librarys() -> None:
    assert set(SCORERS) == {STRONG, LIGHT, FAST, MULTILINGUAL}


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("train", "--recipe", ""), list(RECIPES)),
        (("train", "--setting", ""), list(Setting)),
        (("featurize", "--scorer", ""), list(SCORERS)),
        (("featurize", "--scorer", "l"), ["light"]),
        (("featurize", "--scorer", "light+f"), ["light+fast"]),
        (("labels", "check", "--scorer", "st"), ["strong"]),
        (("labels", "re"), ["remove", "rename"]),
        (("doc",), ["doctor"]),
        (("featurize", "--candi"), ["--candidates"]),
    ],
)
def test_names_are_completed(words: tuple[str, ...], offered: list[str]) -> None:
    assert completed(*words) == [str(name) for name in offered]


def test_completion_can_be_installed() -> None:
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).stdout
    assert "--install-completion" in shown
    assert "--show-completion" in shown
