from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import communication
from benchmarks.communication import Job, measured


@pytest.fixture(autouse=True)
def _few_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(communication, "LABELS", 50)
    monkeypatch.setattr(communication, "STEPS", 2)


@pytest.mark.parametrize("algorithm", ["doubling", "ring"])
def test_processes_add_up_and_messages_are_delayed(algorithm: str) -> None:
    """Each worker compares the sum with what it must be; eight have 3 or 14 messages one after the other."""
    done = measured(Job(algorithm, 8, 2.0), 0.001)
    assert done["communication"] >= (3 if algorithm == "doubling" else 14) * 0.002
    assert done["step"] >= done["communication"]


def test_a_wrong_sum_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(communication.Worker, "all_reduce", lambda _, own: np.zeros_like(own))
    with pytest.raises(SystemExit, match="has another sum than it must be"):
        measured(Job("ring", 2, 0.0), 0.001)


def test_a_stopped_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Job] = []

    def stop_at_third(job: Job, local: float) -> dict[str, float]:
        seen.append(job)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return {"step": local / job.workers + 0.1, "communication": 0.1}

    monkeypatch.setattr(communication, "measured", stop_at_third)
    monkeypatch.setattr(communication, "seconds_a_text", lambda: 1e-6)
    for place in ("benchmarks.communication.FOLDER", "benchmarks.results.FOLDER"):
        monkeypatch.setattr(place, tmp_path)
    options: dict[str, Any] = {"texts": 1000, "workers": "1,2", "latencies": "0,1", "fresh": False, "write": True}
    with pytest.raises(KeyboardInterrupt):
        communication.main(**options)
    communication.main(**options)
    assert [(job.algorithm, job.workers, job.latency) for job in seen] == [
        ("doubling", 1, 0.0),
        ("doubling", 2, 0.0),
        *[("ring", 2, 0.0)] * 2,
        ("doubling", 2, 1.0),
        ("ring", 2, 1.0),
    ]
    page = (tmp_path / "communication.md").read_text()
    assert page.count("\n| ring") == page.count("\n| doubling") == 2
    assert (tmp_path / "communication.png").stat().st_size > 1000
