"""The constants of docs/scale.md that are said to be measured are those of the committed results."""

import json
from pathlib import Path
from typing import Any

import pytest

TOP = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def page() -> str:
    return (TOP / "docs" / "scale.md").read_text(encoding="utf-8")


def figures(name: str) -> Any:
    return json.loads((TOP / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))


def results(name: str) -> str:
    return (TOP / "benchmarks" / "results" / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("scorer", ["light", "strong", "fast"])
def test_speed_of_encoders(page: str, scorer: str) -> None:
    (reuters,) = [each for each in figures("encoder-speed")["reading"] if each["set"] == "reuters21578"]
    assert f"| `{scorer}`, CPU | {reuters[scorer]:,.0f} texts/s on two cores" in page
    hours = [f"{2 * texts / reuters[scorer] / 3600:,.0f} core hours, " for texts in (1e8, 1e9)]
    assert any(all(each in line for each in hours) for line in page.splitlines()), hours


def test_candidates_graph_training_and_model(page: str) -> None:
    for known in ("| 45.4 |", "| 1119.5 |", "training 103 s", "65,740 training", "The model takes 566 MB"):
        assert known in results("scale")
    for told in ("in 45.4 s on two cores", "1,120 s with 1,000,000", "103 s for 65,740 texts", "566 MB with 100,000"):
        assert told in page
    assert f"{1000 * 103 / 65_740:.2f} ms a text" in page
    assert f"{1e10 / 45.4 / 1e8:.1f} × 10⁸ pairs/s" in page


def test_store_and_communication(page: str) -> None:
    largest = figures("store-growth")["stores"][-1]
    assert f"{largest['make']['cpu_seconds'] / largest['rows'] * 1e6:.0f} µs of CPU time a text" in page
    assert f"{largest['manifest_bytes'] / largest['shards']:.0f} bytes" in page
    told = figures("communication")
    assert f"{told['seconds_a_text'] * 1e6:.2f} µs a text with {told['candidates']} candidates" in page
    step = {(job["algorithm"], job["latency"], job["workers"]): job["step"] for job in told["jobs"]}
    alone = step["doubling", 0.0, 1]
    assert alone / step["doubling", 1.0, 16] == pytest.approx(13, abs=0.5)
    assert alone / step["doubling", 1.0, 32] == pytest.approx(16, abs=0.5)
    assert step["doubling", 1.0, 64] > step["doubling", 1.0, 32]
    ring = {workers: step["ring", 5.0, workers] for workers in (2, 4, 8, 16, 32, 64)}
    assert min(ring, key=lambda workers: ring[workers]) == 8
    assert alone / ring[64] < 2
