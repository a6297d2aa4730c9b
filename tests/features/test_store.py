import dataclasses
import json
from pathlib import Path

import pytest
import torch

from bncl_pyg.corpus import LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.features import Features, read_features, store, word_counts, write_features


def test_round_trip_over_several_blocks(features: Features, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "BLOCK_TEXTS", 25)
    write_features(features, tmp_path / "f")
    again = read_features(tmp_path / "f")
    assert len(list((tmp_path / "f").glob("block-*.safetensors"))) == 3
    assert again.ids == features.ids
    assert again.labels == features.labels
    assert again.scorer == features.scorer
    assert torch.equal(again.entailment, features.entailment)
    assert torch.equal(again.contradiction, features.contradiction)


def test_half_precision_is_read_as_single(features: Features, tmp_path: Path) -> None:
    write_features(features, tmp_path / "f", dtype="float16")
    again = read_features(tmp_path / "f")
    assert again.entailment.dtype == torch.float32
    assert torch.allclose(again.entailment, features.entailment, atol=1e-3)


def test_an_existing_folder_is_kept_unless_asked(features: Features, tmp_path: Path) -> None:
    path = tmp_path / "f"
    write_features(features, path)
    before = (path / "manifest.json").read_bytes()
    other = dataclasses.replace(features, scorer={"name": "other"})
    with pytest.raises(InputError, match="already exists"):
        write_features(other, path)
    assert (path / "manifest.json").read_bytes() == before
    write_features(other, path, overwrite=True)
    assert read_features(path).scorer == {"name": "other"}


def test_a_folder_of_something_else_is_never_replaced(features: Features, tmp_path: Path) -> None:
    path = tmp_path / "letters"
    path.mkdir()
    (path / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match=r"is no bncl features folder"):
        write_features(features, path, overwrite=True)
    assert (path / "letter.txt").read_text() == "dear"


def test_damage_is_named_and_never_used(features: Features, tmp_path: Path) -> None:
    path = tmp_path / "f"
    write_features(features, path)
    block, manifest = path / "block-r00000000-c000000.safetensors", path / "manifest.json"
    whole, described = block.read_bytes(), json.loads(manifest.read_text())

    block.write_bytes(whole[:-8] + b"\0" * 8)
    with pytest.raises(InputError, match=r"block-r00000000-c000000.safetensors is damaged"):
        read_features(path)
    block.unlink()
    with pytest.raises(InputError, match=r"block-r00000000-c000000.safetensors is missing"):
        read_features(path)
    block.write_bytes(whole)

    manifest.write_text(json.dumps({**described, "blocks": {}}))
    with pytest.raises(InputError, match="is not complete"):
        read_features(path)
    manifest.write_text(json.dumps({**described, "rows": [[0, 59]], "shape": [59, 6]}))
    with pytest.raises(InputError, match=r"must hold 'entailment' of shape \(59, 6\)"):
        read_features(path)
    manifest.write_text(json.dumps({**described, "shape": [61, 6]}))
    with pytest.raises(InputError, match="disagree in length"):
        read_features(path)
    manifest.write_text(json.dumps({**described, "version": 9}))
    with pytest.raises(InputError, match="format version 9"):
        read_features(path)
    manifest.write_text(json.dumps({**described, "format": "bncl-graph"}))
    with pytest.raises(InputError, match="is a bncl graph folder, but a features folder is needed"):
        read_features(path)


def test_scores_that_are_no_probabilities_are_named(labels: LabelSet) -> None:
    half = torch.full((1, 6), 0.5)
    with pytest.raises(InputError, match=r"entailment of text 'a' and label 'silver' must be between 0 and 1"):
        Features(("a",), labels, half.clone().index_fill(1, torch.tensor([1]), 1.2), half)
    with pytest.raises(InputError, match=r"contradiction of text 'a' and label 'gold' .* nan"):
        Features(("a",), labels, half, torch.full((1, 6), torch.nan))
    with pytest.raises(InputError, match=r"text 'a' and label 'gold' add up to more than 1"):
        Features(("a",), labels, half, half + 0.1)
    with pytest.raises(InputError, match=r"shape \(1, 6\), but \(2, 6\) is needed"):
        Features(("a", "b"), labels, half, half)


def with_texts(features: Features) -> Features:
    texts = [f"gold {'mine ' * (place % 5)}number{place}" for place in range(len(features))]
    return dataclasses.replace(features, vectors=torch.randn(len(features), 4), words=word_counts(texts))


def test_vectors_and_words_round_trip(features: Features, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "BLOCK_TEXTS", 25)
    given = with_texts(features)
    write_features(given, tmp_path / "f")
    assert len(list((tmp_path / "f").glob("text-*.safetensors"))) == 3
    again = read_features(tmp_path / "f")
    assert given.vectors is not None
    assert again.vectors is not None
    assert torch.allclose(again.vectors, given.vectors, atol=1e-2)
    assert again.words is not None
    assert (again.words != given.words).nnz == 0
    with pytest.raises(InputError, match="There are vectors of 2 texts, but there are 60 texts"):
        dataclasses.replace(features, vectors=torch.zeros(2, 4))


def test_features_without_vectors_are_read_without(features: Features, tmp_path: Path) -> None:
    write_features(features, tmp_path / "f")
    again = read_features(tmp_path / "f")
    assert again.vectors is None
    assert again.words is None


def test_damage_to_vectors_is_named(features: Features, tmp_path: Path) -> None:
    write_features(with_texts(features), tmp_path / "f")
    file = tmp_path / "f" / "text-r00000000.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-8] + b"\1" * 8)
    with pytest.raises(InputError, match=r"text-r00000000.safetensors is damaged"):
        read_features(tmp_path / "f")
    file.unlink()
    with pytest.raises(InputError, match=r"text-r00000000.safetensors is missing"):
        read_features(tmp_path / "f")
