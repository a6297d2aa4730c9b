"""Every example runs as it stands, offline, and shows something."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))


def test_the_examples_are_there_and_short() -> None:
    names = {path.stem for path in EXAMPLES}
    assert names >= {"texts_to_labels", "few_annotations", "own_signed_graph", "million_labels_sample"}
    lengths = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in EXAMPLES}
    assert {name: length for name, length in lengths.items() if length > 60} == {}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs(example: Path, tmp_path: Path) -> None:
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:__main__", example],
        cwd=tmp_path,
        env={**os.environ, **offline},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 3, done.stdout
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir()), "an example leaves no files behind"
