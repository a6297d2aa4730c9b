from pathlib import Path

from benchmarks.default_cost import as_markdown, measured
from benchmarks.quality.datasets import DataSet


def test_a_small_set_is_measured_and_shown(sample: Path, tmp_path: Path) -> None:
    row = measured(DataSet(sample, tmp_path / "cache"), 1)
    assert {name: row[name] for name in ("name", "train", "labels")} == {"name": "sample", "train": 80, "labels": 12}
    assert all(row[name] > 0 for name in ("training", "taught", "featurize", "predict"))
    about = {"python": "", "torch": "", "cores": 2, "commit": "", "command": ""}
    page = as_markdown({"about": about, "repeats": 1, "texts": 512, "sets": [row]})
    assert "| sample | 80 × 12 |" in page
