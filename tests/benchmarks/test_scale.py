import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import scale
from benchmarks.quality.datasets import GLOVE
from bncl_pyg.corpus import LabelSet

WORDS = ("red", "blue", "green", "stone", "river", "house", "bird", "tree", "acute", "ancient")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Twelve label names, words with vectors, and a few texts."""
    draw = np.random.default_rng(0)
    np.save(tmp_path / GLOVE, draw.normal(size=(len(WORDS), 6)).astype(np.float16))
    (tmp_path / f"{GLOVE.removesuffix('.f16.npy')}.vocab.txt").write_text("\n".join(WORDS) + "\n")
    names = [f"{one} {other}" for one in WORDS[:3] for other in WORDS[3:7]]
    (tmp_path / "labelsets").mkdir()
    rows = "".join(f"n{place:03d}\t{name}\tgloss\n" for place, name in enumerate(names))
    (tmp_path / "labelsets" / "wordnet_synsets.tsv").write_text(rows)
    (tmp_path / "wordnet-hypernyms").mkdir()
    texts = [{"text": f"a {one} {other} by the {third}"} for one, other, third in draw.choice(WORDS, (30, 3)).tolist()]
    (tmp_path / "wordnet-hypernyms" / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in texts))
    return tmp_path


def test_names_beyond_wordnet_are_drawn_and_always_the_same(data: Path) -> None:
    few, many = (scale.label_names("WordNet × qualifiers", count, data) for count in (5, 60))
    assert len(few) == 5
    assert len(set(many.names)) == len(many) == 60
    assert many.descriptions[:12] == scale.label_names("WordNet", 12, data).descriptions
    assert all(name.split()[0] in scale.QUALIFIERS for name in many.descriptions[12:])
    assert scale.label_names("WordNet × qualifiers", 60, data) == many


def test_an_epoch_over_small_sets_is_measured(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale, "NEIGHBOURS", 3)
    monkeypatch.setattr(scale, "EPOCH_CANDIDATES", 4)
    found = [scale.size("WordNet × qualifiers", count, data) for count in (12, 60)]
    assert [row["labels"] for row in found] == [12, 60]
    assert all(np.isfinite(row["loss"]) and row["weights"] > 0 for row in found)
    assert set(found[0]["seconds"]) == {"label vectors", "graph, two pruned hops", "candidates", "an epoch"}
    scale.plot(found, data / "plot.png")
    assert (data / "plot.png").stat().st_size > 1000


@pytest.fixture
def glosses(sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which a small set stands for the large one."""
    folder = sample.rename(sample.with_name("wordnet-hypernyms"))
    for name, value in (("CANDIDATES", 5), ("NEIGHBOURS", 3), ("EPOCH_CANDIDATES", 5), ("SERVED_LABELS", 12)):
        monkeypatch.setattr(scale, name, value)
    return folder.parent


def test_the_rows_beside_the_cosine(glosses: Path, tmp_path: Path) -> None:
    figures = scale.hypernyms(glosses, tmp_path / "cache")
    assert (figures["labels"], figures["train"], figures["test"]) == (12, 80, 40)
    assert 0 < figures["recall"] <= 1
    assert len(figures["rows"]) == 6
    ours = figures["rows"]["default recipe, annotation-free"]
    # Better than a label drawn by chance.
    assert ours[0] > 1 / 12


def test_a_saved_model_is_served(glosses: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = LabelSet.read(glosses / "wordnet-hypernyms" / "labels.jsonl")
    monkeypatch.setattr(scale, "label_names", lambda name, count, data: labels)
    monkeypatch.setattr(scale, "_command_seconds", lambda folder, corpus: 1.0)
    figures = scale.serving(glosses, tmp_path / "cache")
    assert figures["labels"] == 12
    assert figures["texts_a_second_after_encoding"] > 0
