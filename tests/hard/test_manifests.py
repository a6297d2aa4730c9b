"""Manifests that somebody wrote on purpose, with digests that are right: believed only where they can be true."""

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from bncl_pyg.classify import classify_table
from bncl_pyg.corpus import LabelSet, TextTable
from bncl_pyg.errors import InputError
from bncl_pyg.features import StoredFeatures, read_features
from bncl_pyg.graph import SignedLabelGraph
from bncl_pyg.persistence import read_manifest, write_json, write_manifest
from bncl_pyg.training import TrainedModel
from tests.hard.attacks import LONG, READERS, TRIED, Bncl, Made, content_of, refused, rewrite, sentence

WRONG_TYPES = (None, True, -1, 1e300, "x", [], ["x"], {}, {"x": 1}, [[[]]])


def answers(folder: Path, kind: str) -> str:
    """Return what a folder answers, so that two answers can be compared."""
    loaded = READERS[kind](folder)
    if kind == "features":
        return repr([loaded.ids, loaded.entailment.tolist(), loaded.contradiction.tolist(), loaded.labels])
    if kind == "graph":
        return repr([loaded.label_names, loaded.edge_index.tolist(), loaded.edge_sign.tolist(), loaded.hops])
    features = read_features(folder.parent / "features")
    return repr(loaded.model.predict(features).probabilities.tolist())


@pytest.mark.parametrize("name", ["features", "graph", "model", "paper"])
def test_missing_and_mistyped_fields_are_told(made: Made, name: str) -> None:
    """Each field is left out, and then given each kind of value: an InputError, or the same answers as before."""
    kind, folder = made.parts[name], made.folder / name
    whole, before, told = content_of(folder), answers(folder, kind), 0
    for field in whole:
        values = [value for value in WRONG_TYPES if type(value) is not type(whole[field])]
        for changed in ({}, *({field: value} for value in values)):
            TRIED["test_manifests"] += 1
            rewrite(folder, kind, {**{key: value for key, value in whole.items() if key != field}, **changed})
            try:
                assert answers(folder, kind) == before, (field, changed)
            except InputError:
                told += 1
    assert told >= 10 * len(whole) // 2
    rewrite(folder, kind, whole)
    assert answers(folder, kind) == before


@pytest.mark.parametrize("name", ["model", "paper"])
@pytest.mark.parametrize("part", ["recipe", "model", "scorer"])
def test_what_lies_deeper_in_a_models_manifest_is_told(made: Made, name: str, part: str) -> None:
    folder = made.folder / name
    whole, before = content_of(folder), answers(folder, "model")
    inner = whole[part]
    for field in inner:
        # A recipe has many numbers, and the paper's network takes long to be made.
        for value in (None, "x", [], {"x": 1}, -1.5)[: 5 if part == "model" or LONG else 2]:
            rewrite(folder, "model", {**whole, part: {**inner, field: value}})
            try:
                TrainedModel.load(folder)
            except InputError:
                continue
            # A number may be another number; whatever is answered, it is finite, or refused.
            try:
                assert "nan" not in answers(folder, "model")
            except InputError:
                continue
    rewrite(folder, "model", whole)
    assert answers(folder, "model") == before


def test_extra_fields_change_no_answer(made: Made) -> None:
    for name, kind in made.parts.items():
        folder = made.folder / name
        before = answers(folder, kind)
        rewrite(folder, kind, {**content_of(folder), "more": {"hops": 3}})
        assert answers(folder, kind) == before


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"columns": []}, "'columns' are 0, but the shape says 6"),
        ({"columns": [[0, 3], [4, 6]]}, "groups that follow each other"),
        ({"columns": [[0, 6], [0, 6]]}, "groups that follow each other"),
        ({"rows": []}, "'rows' are 0, but the shape says 40"),
        ({"rows": [[0, 40, 0]]}, "groups that follow each other"),
        ({"rows": [[0, 10**15, 1]], "shape": [10**15, 6]}, "its index holds 40 texts"),
        ({"shape": [40]}, "'shape' must be two numbers"),
        ({"shape": [40, 5]}, "'columns' are 6, but the shape says 5"),
        ({"kind": "sparse"}, "has no 'candidates'"),
        ({"kind": "sparse", "candidates": 10**9}, "there cannot be 1000000000 candidates of 6 labels"),
        ({"kind": "cubic"}, "there is no kind 'cubic'"),
        ({"dtype": "float128"}, "numbers of type 'float128'"),
        ({"word_buckets": 10**18}, "buckets of words"),
        ({"scorer": {"parts": [1]}}, "the parts of 'scorer' must be objects"),
        ({"labels": "0" * 64}, "labels.jsonl is missing or damaged"),
    ],
)
def test_a_store_that_contradicts_itself_is_told(made: Made, change: dict[str, Any], told: str) -> None:
    folder = made.folder / "features"
    rewrite(folder, "features", {**content_of(folder), **change})
    assert told in refused(lambda: read_features(folder))
    assert told in refused(lambda: StoredFeatures(folder))


@pytest.mark.parametrize("hops", [0, -1, 65, 1_000_000, 10**30, 2.0, True, None, "2"])
def test_hops_have_a_limit(made: Made, bncl: Bncl, hops: object) -> None:
    rewrite(made.folder / "graph", "graph", {**content_of(made.folder / "graph"), "hops": hops})
    assert "'hops'" in refused(lambda: SignedLabelGraph.load(made.folder / "graph"))
    assert "'hops'" in sentence(bncl("graph", "stats", made.folder / "graph"))


def test_hops_that_are_asked_for_have_one_too(made: Made, bncl: Bncl, tmp_path: Path) -> None:
    assert "at most 64 hops" in sentence(bncl("graph", "stats", made.folder / "graph", "--hops", 1_000_000))
    (tmp_path / "labels.txt").write_text("a\nb\nc\n")
    words = ["graph", "build", tmp_path / "labels.txt", "--out", tmp_path / "g", "--hops", 10**9]
    assert "at most 64 hops" in sentence(bncl(*words))
    assert not (tmp_path / "g").exists()


@pytest.mark.parametrize("name", ["../outside", "/etc/hostname", "a/../../b", "./x", "", "a//b", "a\0b"])
def test_a_manifest_names_no_file_outside_of_its_folder(tmp_path: Path, name: str) -> None:
    write_manifest(tmp_path, "graph", {}, {name: "0" * 64})
    assert "cannot lie in" in refused(lambda: read_manifest(tmp_path, "graph"))
    assert "cannot lie in" in refused(lambda: read_manifest(tmp_path, "graph", check_files=False))


def test_digests_are_strings(tmp_path: Path) -> None:
    write_manifest(tmp_path, "graph", {}, {"x": 3})  # type: ignore[dict-item]
    assert "lists a file 'x'" in refused(lambda: read_manifest(tmp_path, "graph"))


def test_names_that_change_places_are_told(made: Made) -> None:
    """Two names swapped in labels.jsonl and in the graph, each folder rewritten so that its digests are right."""
    model = made.folder / "model"
    lines = (model / "labels.jsonl").read_text().splitlines(keepends=True)
    (model / "labels.jsonl").write_text("".join([lines[1], lines[0], *lines[2:]]))
    assert "labels.jsonl is missing or damaged" in refused(lambda: TrainedModel.load(model))
    rewrite(model, "model", content_of(model))
    assert "in another order" in refused(lambda: TrainedModel.load(model))


@pytest.mark.parametrize("file", ["model.safetensors", "graph/graph.safetensors"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_told(made: Made, file: str, value: float) -> None:
    model = made.folder / "model"
    tensors = load_file(model / file)
    name = next(name for name, tensor in tensors.items() if tensor.is_floating_point() and tensor.numel())
    tensors[name].view(-1)[0] = value
    save_file(tensors, model / file)
    rewrite(model / "graph", "graph", content_of(model / "graph"))
    rewrite(model, "model", content_of(model))
    assert str(model / file) in refused(lambda: TrainedModel.load(model))


def test_tensors_that_lack_or_do_not_fit_are_told(made: Made) -> None:
    for name in ("model", "paper"):
        folder = made.folder / name
        tensors = load_file(folder / "model.safetensors")
        for gone in tensors:
            save_file({key: value for key, value in tensors.items() if key != gone}, folder / "model.safetensors")
            rewrite(folder, "model", content_of(folder))
            try:
                answers(folder, "model")
            except InputError:
                continue
            except (RuntimeError, AttributeError, KeyError) as error:
                pytest.fail(f"without {gone}: {error}")


def test_edges_of_labels_that_there_are_not_are_told(made: Made) -> None:
    graph = made.folder / "graph"
    whole = load_file(graph / "graph.safetensors")
    for change in (
        {"pairs": whole["pairs"] + 100},
        {"pairs": whole["pairs"] - 100},
        {"pairs": whole["pairs"].float()},
        {"pairs": whole["pairs"].flatten()},
        {"sign": whole["sign"] * 3},
        {"sign": whole["sign"][:1]},
        {"weight": whole["weight"] / 0},
        {"more": whole["weight"].clone()},
    ):
        save_file({**whole, **change}, graph / "graph.safetensors")
        rewrite(graph, "graph", content_of(graph))
        assert "graph.safetensors" in refused(lambda: SignedLabelGraph.load(graph))


def test_shards_of_another_store_are_told(made: Made) -> None:
    """Whole shards, manifests and all, that come from a store of the same texts with other labels or scorer."""
    one, two = made.folder / "features", made.folder / "features2"
    content = content_of(two)
    rewrite(two, "features", {**content, "scorer": {"name": "another"}})
    for file in (*one.glob("shard-*"), *one.glob("block-*"), *one.glob("vectors-*"), *one.glob("text-*")):
        (two / file.name).write_bytes(file.read_bytes())
    assert "made by another scorer" in refused(lambda: read_features(two))
    rewrite(two, "features", content)
    read_features(two)  # of the same texts, by the same scorer: nobody can tell them apart, nor need to


def test_a_work_folder_is_checked(made: Made, tmp_path: Path) -> None:
    work, texts = tmp_path / "work", tmp_path / "t.csv"
    texts.write_text("text\nGold is up.\nSilver is down.\n")
    work.mkdir()
    write_manifest(work, "work", {"made_from": ["x"]}, {})
    table = TextTable(texts)
    told = refused(lambda: classify_table(table, LabelSet.of(["gold", "silver"]), work, scorer="fast"))
    assert "'made_from' cannot be" in told


@pytest.mark.parametrize("kind", ["features", "graph", "model"])
@pytest.mark.parametrize("text", ["", "null", "[]", "{", "[" * 100_000, '{"version": ' + "9" * 5000 + "}", "\udcff"])
def test_a_manifest_that_is_no_manifest_is_told(made: Made, kind: str, text: str) -> None:
    folder = made.folder / kind
    (folder / "manifest.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert str(folder) in refused(lambda: READERS[kind](folder))


def test_an_edited_number_is_told(made: Made) -> None:
    for name, kind in made.parts.items():
        file = made.folder / name / "manifest.json"
        manifest = json.loads(file.read_text())
        field = next(key for key, value in manifest.items() if isinstance(value, int) and key != "version")
        write_json(file, {**manifest, field: manifest[field] + 1})
        assert "is damaged or was edited" in refused(lambda kind=kind, file=file: READERS[kind](file.parent))
