"""The load test asks what it says it asks, and its page is made from its figures."""

from pathlib import Path

from benchmarks import serve_load
from bncl_pyg.estimator import BNCLClassifier


def test_a_small_run(tmp_path: Path) -> None:
    texts = [f"{name} rose, number {place}" for place in range(10) for name in ("Gold", "Wheat")]
    BNCLClassifier(["gold", "wheat"], scorer="fast").fit(texts).save_pretrained(tmp_path / "model")
    with serve_load.running(tmp_path / "model", batch=8, wait=0.003) as url:
        run = serve_load.load(url, texts, 40, 4)
    assert (run["requests"], run["clients"]) == (40, 4)
    assert 0 < run["p50_ms"] <= run["p99_ms"] <= run["longest_ms"]
    figures = {"runs": {"joined": run}, "ratio": 3.14, "memory": [{"requests": 0, "megabytes": 500.0}]}
    about = {"command": "c", "commit": "x", "python": "3", "torch": "2", "cores": 2}
    page = serve_load.as_markdown({"about": about, "note": "A note.", "clients": 4, "scorers": {"fast": figures}})
    assert "3.1 times the throughput" in page
    assert "| joined | 4 | 40 |" in page
    assert "A note." in page
