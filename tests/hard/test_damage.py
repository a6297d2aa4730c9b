"""Files that are cut, flipped or swapped: discovered every time, never another answer."""

import contextlib
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.torch import save_file

from bncl_pyg.corpus import Corpus
from bncl_pyg.errors import InputError
from bncl_pyg.features import read_features
from bncl_pyg.graph import load_word_vectors
from bncl_pyg.persistence import ArraySpool, map_arrays, write_arrays
from bncl_pyg.training import PAPER, TrainedModel
from tests.hard.attacks import (
    LONG,
    READERS,
    TRIED,
    Bncl,
    Made,
    content_of,
    flipped,
    make_inputs,
    refused,
    rewrite,
    sentence,
)

TIMES = 100 if LONG else 10
"""How often each file is cut, and how often one of its bits is flipped."""


@pytest.mark.parametrize("name", ["features", "graph", "model", "paper"])
def test_every_cut_and_every_flipped_bit_is_discovered(made: Made, name: str) -> None:
    kind, folder, draw = made.parts[name], made.folder / name, random.Random(name)
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name != "README.md")
    assert len(files) >= 2
    before = READERS[kind](folder)
    for file in files:
        whole = file.read_bytes()
        half = TIMES // 2 if whole else 0  # of nothing, nothing can be cut
        for damaged in (
            *(whole[: draw.randrange(len(whole))] for _ in range(half)),
            *(flipped(whole, draw) for _ in range(half)),
            whole + b"\0",
        ):
            file.write_bytes(damaged)
            TRIED["test_damage"] += 1
            told = _discovered(folder, kind)
            if not told and file.name == "labels.jsonl":
                # Of a store's labels, the meaning has a digest, not the bytes: a blank may be another.
                assert READERS[kind](folder).labels == before.labels
                continue
            assert told, f"{file}: {len(damaged)} of {len(whole)} bytes were believed"
        file.unlink()
        assert _discovered(folder, kind), f"{file} is not missed"
        file.write_bytes(whole)
    READERS[kind](folder)


def _discovered(folder: Path, kind: str) -> str:
    """Return what is told of a folder; nothing where it is believed."""
    try:
        READERS[kind](folder)
    except InputError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", ["features", "graph", "model"])
def test_files_of_another_folder_are_discovered(made: Made, name: str) -> None:
    one, two = made.folder / name, made.folder / f"{name}2"
    swapped = 0
    for file in sorted(path for path in one.rglob("*") if path.is_file() and path.name != "README.md"):
        other = two / file.relative_to(one)
        mine = file.read_bytes()
        if not other.is_file() or other.read_bytes() == mine or file == one / "manifest.json":
            continue
        file.write_bytes(other.read_bytes())
        assert _discovered(one, made.parts[name]), file
        file.write_bytes(mine)
        swapped += 1
    assert swapped >= 1
    READERS[made.parts[name]](one)


@pytest.mark.parametrize("command", ["predict", "graph stats", "train"])
def test_commands_refuse_what_is_damaged_in_one_sentence(made: Made, bncl: Bncl, command: str, tmp_path: Path) -> None:
    model, features, graph = (made.folder / name for name in ("model", "features", "graph"))
    words = {
        "predict": ["predict", model, features, "--out", tmp_path / "o.jsonl"],
        "graph stats": ["graph", "stats", graph],
        "train": ["train", features, "--graph", graph, "--priors", "auto", "--out", tmp_path / "m"],
    }[command]
    file = {"predict": model / "model.safetensors", "graph stats": graph / "graph.safetensors"}.get(
        command, next(features.glob("block-*"))
    )
    file.write_bytes(flipped(file.read_bytes(), random.Random(0)))
    assert str(file) in sentence(bncl(*words))
    assert not (tmp_path / "o.jsonl").exists()
    assert not (tmp_path / "m").exists()


def lying_header(header: bytes, content: bytes = b"\0" * 64) -> bytes:
    return len(header).to_bytes(8, "little") + header + content


LIES = {
    "longer than the file": (2**62).to_bytes(8, "little") + b"{}",
    "no JSON": lying_header(b"nonsense"),
    "deep": lying_header(b'{"a":' + b"[" * 50_000),
    "a list": lying_header(b"[]"),
    "huge shape": lying_header(b'{"ends":{"dtype":"I64","shape":[1152921504606846976],"data_offsets":[0,8]}}'),
    "negative": lying_header(b'{"ends":{"dtype":"I64","shape":[-1],"data_offsets":[0,-8]}}'),
    "beyond the end": lying_header(b'{"ends":{"dtype":"I64","shape":[1000],"data_offsets":[0,8000]}}'),
    "unknown type": lying_header(b'{"ends":{"dtype":"X","shape":[1],"data_offsets":[0,8]}}'),
    "unhashable type": lying_header(b'{"ends":{"dtype":[],"shape":[1],"data_offsets":[0,8]}}'),
    "no offsets": lying_header(b'{"ends":{"dtype":"I64","shape":[1]}}'),
    "offsets of three": lying_header(b'{"ends":{"dtype":"I64","shape":[1],"data_offsets":[0,8,16]}}'),
    "entry is a number": lying_header(b'{"ends":3}'),
    "digits": lying_header(b'{"ends":' + b"9" * 5000 + b"}"),
    "no UTF-8": lying_header(b"\xff\xfe"),
    "empty": b"",
    "a pickle": b"\x80\x04\x95\x1d\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x8c\x06system\x93\x94\x8c\x04true\x85R.",
}


@pytest.mark.parametrize("lie", LIES)
def test_a_header_that_lies_is_told(made: Made, lie: str, tmp_path: Path) -> None:
    """The same bytes as every safetensors file that is read, with digests that are right."""
    file = tmp_path / "a.safetensors"
    file.write_bytes(LIES[lie])
    assert str(file) in refused(lambda: map_arrays(file))
    for folder, name, kind in (
        (made.folder / "model", "model.safetensors", "model"),
        (made.folder / "graph", "graph.safetensors", "graph"),
    ):
        (folder / name).write_bytes(LIES[lie])
        rewrite(folder, kind, content_of(folder))
        assert name in refused(lambda folder=folder, kind=kind: READERS[kind](folder))
    index = next((made.folder / "features").glob("texts-*"))
    index.write_bytes(LIES[lie])
    assert index.name in refused(lambda: read_features(made.folder / "features"))


def test_arrays_that_are_no_index_are_told(made: Made, tmp_path: Path) -> None:
    from bncl_pyg.persistence import sha256_of, write_manifest

    folder = made.folder / "features"
    index = next(folder.glob("texts-*"))
    arrays = {name: np.array(array) for name, array in map_arrays(index).items()}
    for change in (
        {"ends": arrays["ends"][:-1]},
        {"ids": arrays["ids"][:-1]},
        {"sha256": arrays["sha256"][:, :31].copy()},
        {"places": arrays["places"].astype(np.uint64)},
        {"more": arrays["keys"]},
    ):
        write_arrays(index, {**arrays, **change})
        write_manifest(folder, "features", content_of(folder), {index.name: sha256_of(index)})
        assert str(index) in refused(lambda: read_features(folder))
    with ArraySpool(tmp_path) as spool:
        assert spool.array("none", "<i8", (0,)).shape == (0,)


def test_a_checkpoint_that_is_damaged_is_told(tmp_path: Path) -> None:
    features, graph, priors = make_inputs(0)
    file, draw = tmp_path / "c.safetensors", random.Random(0)
    recipe = type(PAPER)(**{**vars(PAPER), "epochs": 2})

    def stop(step: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        recipe.fit(features, graph, priors, progress=stop, checkpoint=file)
    whole = file.read_bytes()
    for damaged in (whole[:-5], whole[:100], b"", *(flipped(whole, draw) for _ in range(TIMES))):
        file.write_bytes(damaged)
        assert str(file) in refused(lambda: recipe.fit(features, graph, priors, checkpoint=file))
    file.write_bytes(whole)
    resumed = recipe.fit(features, graph, priors, checkpoint=file)
    fresh = recipe.fit(features, graph, priors)
    assert all((resumed.tensors()[name] == tensor).all() for name, tensor in fresh.tensors().items())


def test_corrupt_parquet_is_told(tmp_path: Path) -> None:
    draw, file = random.Random(1), tmp_path / "t.parquet"
    rows = [{"id": f"t{place}", "text": f"some text {place}"} for place in range(500)]
    pq.write_table(pa.Table.from_pylist(rows), file, compression="snappy")
    whole, expected = file.read_bytes(), Corpus.read(file).texts
    same = 0
    for damaged in (
        *(whole[: draw.randrange(len(whole))] for _ in range(2 * TIMES)),
        *(flipped(whole, draw) for _ in range(4 * TIMES)),
    ):
        file.write_bytes(damaged)
        # Parquet has no checksums: a letter may be another, but nothing worse may happen.
        with contextlib.suppress(InputError):
            same += len(Corpus.read(file)) == len(expected)
    assert same < 4 * TIMES


def npy(header: str, content: bytes = b"\0" * 80) -> bytes:
    line = header.encode()
    return b"\x93NUMPY\x01\x00" + len(line).to_bytes(2, "little") + line + content


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("w.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 300), }\n")),
        ("w.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-5, -4), }\n")),
        ("w.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (5, 5), }\n")),
        ("w.npy", npy("{'descr': '|O', 'fortran_order': False, 'shape': (5, 4), }\n")),
        ("w.npy", npy("{'descr': '<U9', 'fortran_order': False, 'shape': (5, 4), }\n")),
        ("w.npy", npy("(" * 9000)),
        ("w.npy", npy("[]\n")),
        ("w.npy", b""),
        ("w.npy", LIES["a pickle"]),
        ("w.bin", b"1000000000000 300\ngold \0\0\0\0"),
        ("w.bin", b"5 4\ngold "),
        ("w.bin", b"-5 4\n"),
        ("w.bin", b"5\n"),
        ("w.bin", b"x" * 1000),
        ("w.bin", b""),
        ("w.bin", LIES["a pickle"]),
        ("w.kv", LIES["a pickle"]),
        ("w.kv", b"nonsense"),
        ("w.kv", b""),
        ("w.kv", b"\x80\x04" + b"(" * 1000 + b"."),
        ("w.kv", b"cnumpy\nndarray\n((I1000000000000000\nttR."),
        ("w.txt", b"gold 1e999x 2\n"),
        ("w.txt", b"5 4\n"),
        ("w.txt", b"\xff\xff\n"),
        ("w.txt", b""),
        ("w.txt.gz", b"nonsense"),
        ("w.bin.gz", b"nonsense"),
    ],
)
def test_word_vectors_that_lie_are_told(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / "w.vocab.txt").write_text("a\nb\nc\nd\ne\n")
    (tmp_path / name).write_bytes(content)
    assert name in refused(lambda: load_word_vectors(str(tmp_path / name)))


def test_safetensors_with_other_tensors_in_a_store_are_told(made: Made) -> None:
    import torch

    folder = made.folder / "features"
    block = next(folder.glob("block-*"))
    save_file({"entailment": torch.zeros(2, 2)}, block)
    assert block.name in refused(lambda: read_features(folder))
    assert TrainedModel.load(made.folder / "model").labels.names[0] == "gold"
