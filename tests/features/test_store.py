import dataclasses
import hashlib
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from bncl_pyg.corpus import LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.features import Features, StoredFeatures, read_features, store, word_counts, write_features
from bncl_pyg.persistence import read_manifest, write_manifest


def rewrite_shard(path: Path, files: dict[str, bytes]) -> None:
    """Write files into a store's first shard, as a program that knows the format could."""
    name = "shard-r00000000.json"
    content = read_manifest(path, "features-shard", check_files=False, name=name)
    digests = content.pop("files")
    for file, more in files.items():
        (path / file).write_bytes(more)
        digests[file] = hashlib.sha256(more).hexdigest()
    rest = {key: content[key] for key in content if key not in ("format", "version")}
    write_manifest(path, "features-shard", rest, digests, name=name)


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
    block, manifest = path / "block-r00000000-c000000-made_up.safetensors", path / "manifest.json"
    whole, described = block.read_bytes(), manifest.read_bytes()

    for damage in (lambda: block.write_bytes(whole[:-8] + b"\0" * 8), block.unlink):
        damage()
        with pytest.raises(
            InputError, match=r"block-r00000000-c000000-made_up.safetensors is missing or damaged: .*anew"
        ):
            read_features(path)
    block.write_bytes(whole)

    shard = path / "shard-r00000000.json"
    listed = shard.read_bytes()
    shard.unlink()
    with pytest.raises(InputError, match="is not complete"):
        read_features(path)
    shard.write_bytes(listed.replace(b"block-", b"blocks-"))
    with pytest.raises(InputError, match=r"shard-r00000000.json is damaged or was edited"):
        read_features(path)
    shard.write_bytes(listed)
    content = json.loads(described)
    for change, sentence in (
        ({"dtype": "float16"}, "damaged or was edited"),
        ({"version": 9}, "format version 9"),
        ({"version": 2}, "format version 2, but this release reads 3; make it anew"),
        ({"format": "bncl-graph"}, "is a bncl graph folder, but a features folder is needed"),
    ):
        manifest.write_text(json.dumps({**content, **change}))
        with pytest.raises(InputError, match=sentence):
            read_features(path)


def test_blocks_of_another_shape_are_named(features: Features, tmp_path: Path) -> None:
    path = tmp_path / "f"
    write_features(features, path)
    scores = {name: torch.zeros(59, 6) for name in ("entailment", "contradiction")}
    rewrite_shard(path, {"block-r00000000-c000000-made_up.safetensors": save(scores)})
    with pytest.raises(InputError, match=r"must hold 'entailment' of shape \(60, 6\)"):
        read_features(path)


def test_labels_are_those_that_the_manifest_describes(features: Features, tmp_path: Path) -> None:
    path = tmp_path / "f"
    write_features(features, path)
    file = path / "labels.jsonl"
    whole = file.read_text()
    first, second, *rest = whole.splitlines(keepends=True)
    for damaged in (second + first + "".join(rest), first + "".join(rest)):
        file.write_text(damaged)
        with pytest.raises(InputError, match=r"labels.jsonl is missing or damaged: it is not the file that its manif"):
            read_features(path)
    file.unlink()
    with pytest.raises(InputError, match=r"labels.jsonl is missing or damaged"):
        read_features(path)
    # A run that was killed while it added something leaves a longer list.
    file.write_text(whole + rest[-1].replace("rates", "more"))
    assert read_features(path).labels == features.labels


def test_ids_are_those_that_the_manifest_describes(features: Features, tmp_path: Path) -> None:
    path = tmp_path / "f"
    write_features(features, path)
    file = path / "texts-r00000000.safetensors"
    whole = file.read_bytes()
    for damaged in (whole[:-1], whole.replace(b"t59", b"t60")):
        file.write_bytes(damaged)
        with pytest.raises(InputError, match=r"texts-r00000000.safetensors is missing or damaged: it is not the file"):
            read_features(path)
    file.unlink()
    with pytest.raises(InputError, match=r"texts-r00000000.safetensors is missing or damaged"):
        read_features(path)


def test_a_shard_of_another_store_is_refused(features: Features, tmp_path: Path) -> None:
    write_features(features, tmp_path / "f")
    write_features(dataclasses.replace(features, ids=tuple(reversed(features.ids))), tmp_path / "g")
    for file in (tmp_path / "g").glob("*-r00000000*"):
        if not file.name.startswith("texts-"):
            (tmp_path / "f" / file.name).write_bytes(file.read_bytes())
    with pytest.raises(InputError, match=r"shard-r00000000.json is of other texts than those of its store"):
        read_features(tmp_path / "f")


def test_a_store_is_read_shard_by_shard(features: Features, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "BLOCK_TEXTS", 25)
    given = with_texts(features)
    write_features(given, tmp_path / "f")
    stored = StoredFeatures(tmp_path / "f")
    assert (len(stored), list(stored.shards), stored.labels) == (60, [(0, 25), (25, 50), (50, 60)], features.labels)
    again, whole = Features.joined(list(stored)), read_features(tmp_path / "f")
    assert again.ids == whole.ids == features.ids
    for name in ("entailment", "contradiction", "vectors"):
        assert torch.equal(getattr(again, name), getattr(whole, name))
    assert (again.words != whole.words).nnz == 0
    assert torch.equal(stored.shard(1).entailment, features.entailment[25:50])
    # One that is damaged does not stop the others.
    (tmp_path / "f" / "text-r00000050.safetensors").write_bytes(b"")
    stored = StoredFeatures(tmp_path / "f")
    assert stored.shard(0).ids == features.ids[:25]
    with pytest.raises(InputError, match=r"text-r00000050.safetensors is missing or damaged"):
        stored.shard(2)


def test_what_is_written_for_a_shard_does_not_grow_with_the_shards(
    features: Features, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "BLOCK_TEXTS", 5)
    real, written = store.write_manifest, []
    monkeypatch.setattr(
        store, "write_manifest", lambda *given, **named: (written.append(named.get("name")), real(*given, **named))
    )
    write_features(with_texts(features), tmp_path / "f")
    assert written.count(None) == 2  # an empty store, and one that counts its texts
    assert {name: written.count(name) for name in written if name} == {
        f"shard-r{row:08d}.json": 3 for row in range(0, 60, 5)
    }
    sizes = [file.stat().st_size for file in (tmp_path / "f").glob("shard-*.json")]
    assert max(sizes) - min(sizes) <= 2  # the first row and the last have one digit or two


def test_a_damaged_or_older_store_can_be_replaced(features: Features, tmp_path: Path) -> None:
    path = tmp_path / "f"
    for change in ({"version": 1}, {"shape": [3, 3]}):
        write_features(features, path, overwrite=True)
        content = json.loads((path / "manifest.json").read_text())
        (path / "manifest.json").write_text(json.dumps({**content, **change}))
        (path / "labels.jsonl").write_text("")
        with pytest.raises(InputError):
            read_features(path)
        write_features(features, path, overwrite=True)
        assert read_features(path).labels == features.labels


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
    assert read_manifest(tmp_path / "f", "features")["word_buckets"] == again.words.shape[1] == 2**18
    few = dataclasses.replace(given, words=word_counts(["gold"] * 60, buckets=64))
    write_features(few, tmp_path / "few")
    assert read_features(tmp_path / "few").words.shape == (60, 64)
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
    with pytest.raises(InputError, match=r"text-r00000000.safetensors is missing or damaged"):
        read_features(tmp_path / "f")
    file.unlink()
    with pytest.raises(InputError, match=r"text-r00000000.safetensors is missing or damaged"):
        read_features(tmp_path / "f")


def test_labels_with_synonyms_round_trip(features: Features, tmp_path: Path) -> None:
    synonyms = (("bullion",), (), (), ("maize", "cob"), (), ())
    labels = dataclasses.replace(features.labels, synonyms=synonyms)
    write_features(dataclasses.replace(features, labels=labels), tmp_path / "f")
    assert read_features(tmp_path / "f").labels == labels


def test_features_of_an_ensemble_are_written_as_what_its_parts_say_together(features: Features, tmp_path: Path) -> None:
    parts = {"a": {"name": "a", "seed": 1}, "b": {"name": "b", "seed": 2}}
    apart = {name: torch.stack([features.entailment, features.contradiction]) for name in parts}
    given = dataclasses.replace(
        features, scorer={"name": "a+b", "parts": parts, "template": "{}"}, parts=apart, vectors=torch.randn(60, 4)
    )
    write_features(given, tmp_path / "f")
    again = read_features(tmp_path / "f", parts=True)
    assert torch.equal(again.entailment, features.entailment)
    assert torch.equal(again.contradiction, features.contradiction)
    assert again.parts == {}
    assert again.vectors is not None
    assert again.vectors.shape == (60, 4)
    assert again.scorer == {"name": "a+b", "joined": parts, "template": "{}"}


def test_label_vectors_round_trip(features: Features, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "BLOCK_LABELS", 4)
    vectors = torch.randn(6, 3)
    write_features(dataclasses.replace(features, label_tensors={"vectors": vectors}), tmp_path / "f")
    assert len(list((tmp_path / "f").glob("label-*.safetensors"))) == 2
    assert torch.equal(read_features(tmp_path / "f").label_tensors["vectors"], vectors)


def test_parts_need_the_shape_of_the_scores(features: Features) -> None:
    with pytest.raises(InputError, match=r"scores of part 'a' have shape \(2, 60, 5\), not \(2, 60, 6\)"):
        dataclasses.replace(features, parts={"a": torch.zeros(2, 60, 5)})
    held = dataclasses.replace(features, parts={"a": torch.zeros(2, 60, 6)})
    assert held.rows(slice(0, 9)).parts["a"].shape == (2, 9, 6)
