"""A small data set for what benchmarks do."""

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from bncl_pyg.demo import demo_folder
from bncl_pyg.persistence import write_jsonl


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """A folder with a data set: some texts of the bundled one, and their most common labels."""
    folder = tmp_path / "data" / "sample"
    folder.mkdir(parents=True)
    rows = {}
    for name in ("train", "test"):
        with gzip.open(demo_folder() / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
            rows[name] = [json.loads(line) for line in file]
    counts = Counter(label for row in rows["train"] for label in row["labels"])
    common = {label for label, _ in counts.most_common(12)}
    labels = (demo_folder() / "labels.jsonl").read_text(encoding="utf-8").splitlines()
    write_jsonl(folder / "labels.jsonl", [row for row in map(json.loads, labels) if row["label"] in common])
    for name, count in (("train", 80), ("test", 40)):
        fitting = [row | {"labels": sorted(common & {*row["labels"]})} for row in rows[name]]
        write_jsonl(folder / f"{name}.jsonl", [row for row in fitting if row["labels"]][:count])
    return folder


@pytest.fixture
def threads() -> Iterator[None]:
    """What sets the number of threads does so for this test only."""
    usual = torch.get_num_threads()
    yield
    torch.set_num_threads(usual)
