"""Small things that many tests need."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from bncl_pyg.corpus import Corpus, LabelSet, annotation_matrix
from bncl_pyg.features import Features
from bncl_pyg.graph import LabelVectors, SignedLabelGraph, build_graph
from bncl_pyg.priors import Priors

LABELS = LabelSet(
    ("gold", "silver", "wheat", "corn", "money", "rates"),
    ("Gold", "Silver", "Wheat", "Corn", "Money/Foreign Exchange", "Interest Rates"),
)


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of the tests' own for what is made once and kept."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BNCL_CACHE", str(folder))
        yield folder


@pytest.fixture
def labels() -> LabelSet:
    return LABELS


@pytest.fixture
def graph() -> SignedLabelGraph:
    """Three pairs of like labels along three axes."""
    places = np.array([[3, 1, 0], [3, 0, 1], [0, 3, 1], [1, 3, 0], [-2, 0, 3], [0, -2, 3]], dtype=np.float32)
    return build_graph(LABELS, LabelVectors(places, "by hand"), (25, 75))


@pytest.fixture
def corpus() -> Corpus:
    """Sixty texts with one or two labels each."""
    generator = np.random.default_rng(0)
    columns = [sorted(set(generator.choice(6, 2).tolist())) for _ in range(60)]
    ids = tuple(f"t{place}" for place in range(60))
    return Corpus(ids, tuple(f"text {place}" for place in range(60)), annotation_matrix(columns, 6))


@pytest.fixture
def features(corpus: Corpus) -> Features:
    """Scores that know something of the truth, but say too seldom "yes"."""
    assert corpus.annotations is not None
    truth = torch.from_numpy(corpus.annotations.toarray()).float()
    noise = torch.rand(truth.shape, generator=torch.Generator().manual_seed(0))
    entailment = 0.05 + 0.3 * truth + 0.25 * noise
    return Features(corpus.ids, LABELS, entailment, 0.7 * (1 - entailment), {"name": "made up"})


@pytest.fixture
def priors(corpus: Corpus) -> Priors:
    assert corpus.annotations is not None
    return Priors.from_annotations(corpus.annotations)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a file: text as it is, a list as JSONL."""

    def write_file(name: str, content: str | list[object]) -> Path:
        path = tmp_path / name
        text = content if isinstance(content, str) else "".join(json.dumps(row) + "\n" for row in content)
        path.write_text(text, encoding="utf-8")
        return path

    return write_file


@pytest.fixture
def tensors_in() -> Callable[[object], list[Tensor]]:
    """Return everything that is a tensor in an object, its attributes and what these hold."""

    def collect(thing: object, seen: set[int]) -> list[Tensor]:
        if id(thing) in seen:
            return []
        seen.add(id(thing))
        if isinstance(thing, Tensor):
            return [thing]
        if isinstance(thing, dict):
            inside = list(thing.values())
        elif isinstance(thing, list | tuple | set):
            inside = list(thing)
        else:
            inside = list(vars(thing).values()) if hasattr(thing, "__dict__") and not isinstance(thing, type) else []
        return [tensor for part in inside for tensor in collect(part, seen)]

    return lambda thing: collect(thing, set())
