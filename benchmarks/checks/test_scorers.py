"""Whether the committed figures by scorer show what README and pages say."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import calibrate_scorers, demo, paper_choices, scorers
from benchmarks.quality.plan import DENSITIES
from benchmarks.results import FOLDER
from benchmarks.scorers import Job
from bncl_pyg.scorers import HEADS

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
REACH = {"reuters21578": (0.85, 0.81, 0.32), "stackex-cooking": (0.60, 0.60, 0.43), "goemotions": (0.32, 0.32, 0.23)}
"""ebF1, miF1 and maF1 that strong was to reach without annotated texts."""


def read(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def metrics(dataset: str, scorer: str, level: str, rough: str) -> Any:
    runs = read("scorers")["runs"]
    keys = [Job(dataset, scorer, level, rough, seed).key for seed in range(10)]
    return np.mean([runs[key]["metrics"] for key in keys if key in runs], axis=0)


@pytest.mark.parametrize(
    ("name", "as_markdown"),
    [
        ("scorers", scorers.as_markdown),
        ("calibration", calibrate_scorers.as_markdown),
        ("demo", demo.as_markdown),
        ("paper-choices", paper_choices.as_markdown),
    ],
)
def test_the_committed_page_is_what_its_json_says(name: str, as_markdown: Any) -> None:
    assert (FOLDER / f"{name}.md").read_text(encoding="utf-8") == as_markdown(read(name))


@pytest.mark.parametrize(
    ("level", "rough"), [("0", ""), ("0", "words"), ("0", "auto"), ("L", "scarce"), ("L", ""), ("100%", "")]
)
def test_the_rows_of_the_readme(level: str, rough: str) -> None:
    row = " | ".join(f"{value:.4f}"[1:] for value in metrics("reuters21578", "strong", level, rough))
    assert row in README.replace("*", "")


def test_the_demo_in_the_readme() -> None:
    rows = read("demo")["rows"]
    assert len(rows) == 4
    for metrics_of_row in rows.values():
        assert " | ".join(f"{value:.4f}"[1:] for value in metrics_of_row.values()) in README


@pytest.mark.parametrize("name", paper_choices.DATASETS)
def test_without_labels_the_loss_on_held_out_texts_ranks_the_label_graphs_as_f1_does(name: str) -> None:
    runs = read("paper-choices")["runs"]
    tried = [runs[paper_choices.Job(name, percentiles=pair).key] for pair in DENSITIES]
    by_loss = sorted(tried, key=lambda run: -run["loss"])
    assert (
        by_loss == sorted(tried, key=lambda run: run["metrics"][0]) == sorted(tried, key=lambda run: run["metrics"][1])
    )


@pytest.mark.parametrize("name", list(REACH))
def test_strong_reaches_what_was_asked_of_it(name: str) -> None:
    if f"{name}/strong/known/0/0" in read("scorers")["runs"]:
        assert all(metrics(name, "strong", "0", "")[2:] >= REACH[name])


def test_the_shipped_numbers_are_the_chosen_ones() -> None:
    rows = {row["scorer"]: row for row in read("calibration")["rows"]}
    for name, (scale, middle) in HEADS.items():
        assert scale == pytest.approx(rows[name]["scale"], rel=1e-3), name
        assert middle == pytest.approx(rows[name]["middle"], abs=1e-3), name
