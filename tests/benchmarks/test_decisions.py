import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import typer

from benchmarks import decisions
from bncl_pyg.errors import InputError


def compared(before: Path, after: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    """Return the exit code and the lines that `compare` prints of scenarios and of all."""
    code = 0
    capsys.readouterr()
    try:
        decisions.compare(before, after)
    except typer.Exit as ended:
        code = ended.exit_code
    return code, capsys.readouterr().out.splitlines()[2:]


@pytest.mark.usefixtures("threads")
def test_a_dump_goes_on_and_is_compared(sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = tmp_path / "before", tmp_path / "after"

    def dump(out: Path, epochs: int = 3) -> None:
        decisions.dump(out, data=sample.parent, datasets="sample", cache=tmp_path / "cache", epochs=epochs)

    dump(before)
    names = {f"sample_{name}" for name in decisions.scenarios()}
    assert {path.stem for path in before.glob("*.npz")} == names
    assert len({path.read_bytes() for path in before.glob("*.npz")}) == len(names), "two scenarios are the same"

    # What is missing is trained again, and nothing else; the same training predicts the same.
    shutil.copytree(before, after)
    for name in ("default-words", "reference-scarce-annotation"):
        (after / f"sample_{name}.npz").unlink()
    kept = {path: path.stat().st_mtime_ns for path in after.glob("*.npz")}
    dump(after)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    code, lines = compared(before, after, capsys)
    assert code == 0
    assert len(lines) == len(names) + 1
    assert lines[-1].startswith("all: 0 of ")

    with pytest.raises(InputError, match=r"holds a dump of .*'epochs': 3"):
        dump(after, epochs=2)


def made(folder: Path, values: list[list[float]], **scenarios: list[list[bool]]) -> Path:
    """Write a dump by hand."""
    folder.mkdir()
    (folder / decisions.ABOUT).write_text(json.dumps({"commit": folder.name}))
    for name, rows in scenarios.items():
        probabilities = np.array(values, dtype=np.float32)
        np.savez(folder / f"{name}.npz", decisions=np.packbits(np.array(rows)), probabilities=probabilities)
    return folder


def test_differences_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    yes, other = [[True, False, True]], [[True, True, True]]
    one = made(tmp_path / "one", [[0.9, 0.1, 0.6]], a=yes, b=yes)
    flipped = made(tmp_path / "flipped", [[0.9, 0.1, 0.6]], a=other, b=yes)
    assert compared(one, flipped, capsys) == (
        1,
        [
            "a: 1 of 3 decisions differ, probabilities by 0.0e+00",
            "b: 0 of 3 decisions differ, probabilities by 0.0e+00",
            "all: 1 of 6 decisions differ, probabilities by at most 0.0e+00",
        ],
    )
    near = made(tmp_path / "near", [[0.9, 0.100005, 0.6]], a=yes, b=yes)
    assert compared(one, near, capsys)[0] == 0
    far = made(tmp_path / "far", [[0.9, 0.2, 0.6]], a=yes, b=yes)
    assert compared(one, far, capsys)[0] == 1
    no_number = made(tmp_path / "no-number", [[0.9, float("nan"), 0.6]], a=yes, b=yes)
    assert compared(one, no_number, capsys)[0] == 1
    fewer = made(tmp_path / "fewer", [[0.9, 0.1, 0.6]], a=yes)
    assert compared(one, fewer, capsys) == (
        1,
        [
            "a: 0 of 3 decisions differ, probabilities by 0.0e+00",
            f"b: only in {one}",
            "all: 0 of 3 decisions differ, probabilities by at most 0.0e+00",
        ],
    )
    with pytest.raises(InputError, match=r"the shapes are \(1, 3\) and \(1, 2\)"):
        decisions.compare(one, made(tmp_path / "smaller", [[0.9, 0.1]], a=[[True, False]]))


@pytest.mark.usefixtures("threads")
def test_a_data_set_needs_its_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Say where the data set 'reuters21578' is"):
        decisions.dump(tmp_path / "out", datasets="reuters21578", cache=tmp_path)
