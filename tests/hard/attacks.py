"""What the attacks on files and inputs share: folders that can be damaged, and manifests that lie."""

import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import Result

from bncl_pyg.corpus import Corpus, LabelSet, annotation_matrix
from bncl_pyg.errors import InputError
from bncl_pyg.features import Features, read_features, word_counts
from bncl_pyg.graph import LabelVectors, SignedLabelGraph, build_graph
from bncl_pyg.persistence import write_manifest
from bncl_pyg.priors import Priors
from bncl_pyg.training import TrainedModel

LONG = os.environ.get("BNCL_HARD") == "long"
"""Whether this is the long version (`make test-hard`)."""
NAMES = ("gold", "silver", "wheat", "corn", "money", "rates")
READERS: dict[str, Callable[[Path], Any]] = {
    "features": read_features,
    "graph": SignedLabelGraph.load,
    "model": TrainedModel.load,
}
TRIED: Counter[str] = Counter()
"""How many attempts each module made, where that is more than it has tests."""
OWN = ("format", "version", "files", "sha256")


@dataclass(frozen=True)
class Made:
    """Two stores, two graphs and two models that differ, and texts."""

    folder: Path

    @property
    def parts(self) -> dict[str, str]:
        """What lies there, and of which kind it is."""
        kinds = {"features": "features", "graph": "graph", "model": "model", "paper": "model"}
        return {name: kind for name, kind in kinds.items() if (self.folder / name).exists()}

    def copied(self, to: Path) -> "Made":
        """Return the same in another place, where it may be damaged."""
        shutil.copytree(self.folder, to / "made")
        return Made(to / "made")


def fit(recipe: Any, features: Features, graph: SignedLabelGraph, priors: Priors) -> TrainedModel:
    return TrainedModel.fit(recipe, features, graph, priors, None, setting="annotation-free", seed=0)


def make_inputs(seed: int) -> tuple[Features, SignedLabelGraph, Priors]:
    """Return features with vectors and words of 40 texts, a graph and priors."""
    generator = np.random.default_rng(seed)
    labels = LabelSet(NAMES, tuple(f"about {name}" for name in NAMES))
    columns = [sorted(set(generator.choice(6, 2).tolist())) for _ in range(40)]
    corpus = Corpus(tuple(f"t{place}" for place in range(40)), ("x",) * 40, annotation_matrix(columns, 6))
    assert corpus.annotations is not None
    truth = torch.from_numpy(corpus.annotations.toarray()).float()
    entailment = 0.05 + 0.3 * truth + 0.25 * torch.from_numpy(generator.random(truth.shape)).float()
    texts = [" ".join(NAMES[column] for column in row) + f" report number {place}" for place, row in enumerate(columns)]
    features = Features(
        corpus.ids,
        labels,
        entailment,
        0.7 * (1 - entailment),
        {"name": "fast", "template": "This is about {}."},
        vectors=torch.from_numpy(generator.normal(size=(40, 5))).float().half().float(),
        words=word_counts(texts),
    )
    vectors = LabelVectors(generator.normal(size=(6, 4)).astype(np.float32), "drawn")
    return features, build_graph(labels, vectors, (25, 75)), Priors.from_annotations(corpus.annotations)


Bncl = Callable[..., Result]


def sentence(result: Result) -> str:
    """Return the one sentence that a command was refused with."""
    assert result.exit_code == 2, result.output
    lines = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert len(lines) == 1, result.stderr
    return lines[0].removeprefix("Error: ")


def refused(call: Callable[[], Any]) -> str:
    """Return the sentence that something was refused with."""
    with pytest.raises(InputError) as error:
        call()
    told = str(error.value)
    assert told.strip()
    assert "\n" not in told.strip()
    return told


def content_of(folder: Path) -> dict[str, Any]:
    """Return what a manifest says, without what `write_manifest` adds."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return {key: value for key, value in manifest.items() if key not in OWN}


def rewrite(folder: Path, kind: str, content: dict[str, Any]) -> None:
    """Write a manifest whose digests are all right, as somebody would who wants to be believed."""
    index = {name: value for name, value in _index(folder).items() if kind == "features"}
    write_manifest(folder, kind, content, index or None)


def _index(folder: Path) -> dict[str, str]:
    files: dict[str, str] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["files"]
    return files


def flipped(content: bytes, draw: random.Random) -> bytes:
    """Return bytes of which one bit is another."""
    place = draw.randrange(len(content))
    return content[:place] + bytes([content[place] ^ (1 << draw.randrange(8))]) + content[place + 1 :]
