from pathlib import Path

from benchmarks.train_size import Job as SizeJob
from benchmarks.train_size import as_markdown, perform


def test_a_store_is_trained_on(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "reuters21578"
    folder.mkdir(parents=True)
    (folder / "labels.jsonl").write_text("".join(f'{{"label": "{name}"}}\n' for name in ("gold", "wheat", "oil")))
    lines = (
        f'{{"id": "{one}", "text": "{name} rose", "labels": ["{name}"]}}\n' for one, name in enumerate(["gold", "oil"])
    )
    (folder / "train.jsonl").write_text("".join(lines))
    job = SizeJob(tmp_path / "data", tmp_path / "stores", 12)
    figures = perform(job)
    assert figures["labels"] == 3
    assert figures["peak_mb"] > 100
    about = {"command": "python -m x", "python": "3", "torch": "2", "cores": 2, "commit": "abc"}
    page = as_markdown({"runs": {job.key: {**figures, "seconds": 2.0, "peak_mb": 900}}, "sessions": [about]})
    assert "| 12 × 3 | 2 s |" in page
