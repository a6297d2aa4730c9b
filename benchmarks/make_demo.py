"""Make the bundled demonstration set from the debtags data: packages by what they are used for.

    python -m benchmarks.make_demo DEBTAGS --out bncl_pyg/demo/data

DEBTAGS is a folder with `train.jsonl`, `test.jsonl` and `labels.jsonl`. Kept are the tags of the facets `field::` and
`use::` and a seeded sample of the packages that have one, each text cut to 600 characters.
"""

import gzip
import json
import random
from pathlib import Path
from typing import Annotated, Any

import typer

from bncl_pyg.corpus import LabelSet
from bncl_pyg.persistence import write_bytes, write_jsonl

SIZES = {"train": 1800, "test": 500}
LONGEST = 600


def main(debtags: Path, out: Annotated[Path, typer.Option()]) -> None:
    """Write texts and labels of the sample."""
    rows = [json.loads(line) for line in (debtags / "labels.jsonl").read_text().splitlines()]
    facets = ("field::", "use::")
    kept = [row for row in rows if row["label"].startswith(facets) and not row["label"].endswith("::TODO")]
    out.mkdir(parents=True, exist_ok=True)
    labels_file = out / "labels.jsonl"
    write_jsonl(labels_file, ({"label": row["label"], "description": row["description"]} for row in kept))
    labels = LabelSet.read(labels_file)
    for split, size in SIZES.items():
        file = out / f"{split}.jsonl.gz"
        lines = [
            json.dumps(row, ensure_ascii=False) + "\n" for row in _sample(debtags / f"{split}.jsonl", labels, size)
        ]
        write_bytes(file, gzip.compress("".join(lines).encode(), mtime=0))


def _sample(file: Path, labels: LabelSet, size: int) -> list[dict[str, Any]]:
    rows = []
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        names = [name for name in row["labels"] if name in labels]
        if names:
            rows.append({"id": row["id"], "text": row["text"][:LONGEST], "labels": names})
    chosen = sorted(random.Random(0).sample(range(len(rows)), size))
    return [rows[place] for place in chosen]


if __name__ == "__main__":
    typer.run(main)
