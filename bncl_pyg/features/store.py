"""Features on disk: a folder of checksummed shards that is filled bit by bit and can be left at any moment.

    FEATURES/
      manifest.json                        what made the scores, which texts and labels there are and how they are cut
                                           into shards, with digests of both and of the manifest itself
      texts-r00000000.safetensors          ids and hashes of the texts (`features.index`), a file a growth
      labels.jsonl                         {"label", "description", …} in the order of the columns
      shard-r00000000.json                 a group of rows: the digest of its texts, the SHA-256 of each of its files
      block-r00000000-c000000-PART.safetensors
                                           "entailment" and "contradiction", (rows, columns), of a part of the scorer
      vectors-r00000000-PART.safetensors   "vectors" (rows, dimensions) of that part's encoder, if it has one
      text-r00000000.safetensors           words: "word_buckets", "word_counts" (entries,), "word_starts" (rows + 1,)
      shard-c00000000.json                 a group of labels, likewise
      label-c00000000-PART.safetensors     what that part computes of the labels' hypotheses: "vectors" (labels,
                                           dimensions), or "tokens" and "lengths"

Rows and columns are cut into groups; a block is one group of rows by one group of columns, and all files of a group of
rows are a shard. Texts and labels that come later are groups of their own, so that what is there is never touched. A
scorer is one part, an ensemble has several: their scores are joined when they are read, and a part that comes later is
scored alone. In a sparse store a block holds each text's candidates instead: "labels", "entailment" and
"contradiction", (rows, candidates).

A file is written under another name, synced and renamed; then the manifest of its shard is, with its digest. What no
manifest lists does not count: a run that was killed may leave files and a longer list of labels. The manifest of the
store is written when texts, labels or parts come, and never while they are scored: whoever has the folder in reach, on
this machine or another, can write shards, and their manifests join them.

50 million texts, ids of 10 bytes, 28 labels, three parts with 384 + 384 + 128 dimensions, 1024 texts a shard:

    shards            50e6 / 1024                      48,829, with 8 files each: 390,632 files
    shard manifests   48,829 × 1.0 KB                  49 MB, each written at most 7 times: 0.34 GB in all
    the same in one   7 × 48,829 writes of up to 39 MB 6.7 TB, which is what the square of the shards comes to
    index of texts    50e6 × (10 + 56) bytes           3.3 GB, mapped; in memory while it is sorted: 50e6 × 24 = 1.2 GB
    scores            50e6 × 28 × 2 × 4 bytes × 3      33.6 GB in float32, 16.8 GB in float16
    vectors           50e6 × 896 × 2 bytes             89.6 GB
    words             50e6 × about 20 × 6 bytes        6.0 GB

`benchmarks/store_growth.py` measures 2 million.
"""

import hashlib
import json
import logging
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from scipy.sparse import csr_array
from torch import Tensor

from bncl_pyg.corpus import LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.features.features import Features
from bncl_pyg.features.index import IndexPiece, Span, TextIndex, match, text_hash
from bncl_pyg.persistence import (
    MANIFEST,
    check_fields,
    check_free,
    folder_lock,
    read_manifest,
    sha256_of,
    write_bytes,
    write_manifest,
)

log = logging.getLogger(__name__)

Dtype = Literal["float16", "float32"]
DTYPES = {"float16": torch.float16, "float32": torch.float32}
BLOCK_TEXTS = 4096
"""How many texts a block has where the scores are there already."""
BLOCK_LABELS = 4096
"""How many labels' vectors are kept in one file."""
MOST_COUNT = 2**15 - 1
"""How often a word is counted in a text at most."""
MOST_BUCKETS = 2**31 - 1
"""How many buckets of words there can be: their numbers are kept in 32 bits."""
LABELS = "labels.jsonl"
SHARD = "features-shard"
"""The kind of manifest that a shard has."""


class StaleFeaturesError(InputError):
    """A store holds what was made from other texts, labels or by another scorer; it can only be made anew."""


@dataclass(frozen=True)
class Grid:
    """How a store is cut into blocks.

    Args:
        runs: of rows that came together: the first, the one after the last, and how many are a group.
        columns: the groups of columns.
    """

    runs: tuple[tuple[int, int, int], ...] = ()
    columns: tuple[Span, ...] = ()

    @cached_property
    def rows(self) -> list[Span]:
        """The groups of rows."""
        return [group for start, stop, size in self.runs for group in cut(start, stop, size)]

    def blocks(self) -> Iterator[tuple[Span, Span]]:
        """Yield every block, row group by row group."""
        for rows in self.rows:
            for columns in self.columns:
                yield rows, columns

    def rows_with(self, row: int) -> Span:
        """Return the group that has a row."""
        return self.rows[bisect_right(self.rows, (row, len(self.rows) and self.rows[-1][1])) - 1]


def block_name(rows: Span, columns: Span, part: str) -> str:
    """Return the file name of a part's block."""
    return f"block-r{rows[0]:08d}-c{columns[0]:06d}-{_slug(part)}.safetensors"


def aside_name(rows: Span, columns: Span, part: str) -> str:
    """Return the file name of what a block will be made of when the blocks that it copies from are there."""
    return f".aside-{block_name(rows, columns, part)}"


def vectors_name(rows: Span, part: str) -> str:
    """Return the file name of a part's vectors of a group of texts."""
    return f"vectors-r{rows[0]:08d}-{_slug(part)}.safetensors"


def text_name(rows: Span) -> str:
    """Return the file name of what is known of a group of texts whatever scores them."""
    return f"text-r{rows[0]:08d}.safetensors"


def label_name(columns: Span, part: str) -> str:
    """Return the file name of what a part computed of some labels."""
    return f"label-c{columns[0]:08d}-{_slug(part)}.safetensors"


def index_name(first: int) -> str:
    """Return the file name of the ids and hashes of the texts that came together, from this row on."""
    return f"texts-r{first:08d}.safetensors"


def shard_key(rows: Span) -> str:
    """Return by what a group of rows is named."""
    return f"r{rows[0]:08d}"


def label_key(columns: Span) -> str:
    """Return by what a group of labels is named."""
    return f"c{columns[0]:08d}"


def _key_of(name: str) -> str:
    """Return the group that a file belongs to."""
    return name.removesuffix(".safetensors").split("-")[1]


def _slug(part: str) -> str:
    """Return a part's name as a file's name can hold it: hub names have a slash."""
    return re.sub(r"[^A-Za-z0-9.-]", "_", part)


def scorer_configs(scorer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the configuration of each part of a scorer, by name."""
    parts: dict[str, dict[str, Any]] | None = scorer.get("parts")
    return {str(scorer.get("name") or "scores"): scorer} if parts is None else parts


def _hash(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def cut(start: int, stop: int, size: int) -> list[Span]:
    """Cut a range into groups of at most `size`."""
    return [(first, min(first + size, stop)) for first in range(start, stop, size)]


@dataclass
class FeatureStore:
    """A store that is open; for writing, it is made by `writing`, which holds its lock."""

    path: Path
    config: dict[str, Any]
    """What the content depends on; whoever adds to the store must have the same."""
    index: TextIndex
    labels: LabelSet
    grid: Grid
    index_files: dict[str, str]
    """The SHA-256 of the files of the index."""

    def __post_init__(self) -> None:
        self._shards: dict[str, dict[str, str]] = {}
        self._verified: set[str] = set()

    def files_of(self, key: str) -> dict[str, str]:
        """Return the SHA-256 of each file of a shard that counts, by name."""
        if key not in self._shards:
            self._shards[key] = self._read_shard(key)
        return self._shards[key]

    def _read_shard(self, key: str) -> dict[str, str]:
        name = f"shard-{key}.json"
        if not (self.path / name).is_file():
            return {}
        manifest = read_manifest(self.path, SHARD, check_files=False, name=name)
        expected = self._shard_content(key)
        made_by, known = manifest.get("made_by", {}), expected.pop("made_by")
        if any(manifest.get(field) != value for field, value in expected.items()):
            raise InputError(f"{self.path / name} is of other texts than those of its store; make {self.path} anew.")
        # Parts and labels that came later are not in it yet; what is in it must be what the store has.
        if not isinstance(made_by, dict) or any(known.get(what) != digest for what, digest in made_by.items()):
            raise InputError(
                f"{self.path / name} was made by another scorer, or of other labels; make {self.path} anew."
            )
        return dict(manifest["files"])

    def _shard_content(self, key: str) -> dict[str, Any]:
        made_by = {"made_by": self._made_by}
        if key.startswith("c"):
            return made_by
        rows = self.grid.rows_with(int(key[1:]))
        return {"rows": list(rows), "texts": self.index.digest(rows), **made_by}

    @cached_property
    def _made_by(self) -> dict[str, str]:
        """What the files of a shard depend on besides its texts: parts of the scorer and groups of labels, hashed."""
        options = {name: self.config.get(name) for name in ("kind", "dtype", "template", "candidates", "word_buckets")}
        parts = {f"part {name}": _hash(config) for name, config in scorer_configs(self.config["scorer"]).items()}
        groups = {
            f"labels {first}": self.labels.chosen(range(first, last)).digest() for first, last in self.grid.columns
        }
        return {"options": _hash(options), **parts, **groups}

    def has_file(self, name: str) -> bool:
        """Return whether a file is there and counts."""
        return name in self.files_of(_key_of(name))

    def forget_shards(self) -> None:
        """Look at the manifests of the shards again when they are asked for: others may have written them."""
        self._shards = {}

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The parts of the scorer."""
        return tuple(scorer_configs(self.config["scorer"]))

    def missing(self, parts: Sequence[str] | None = None) -> list[tuple[Span, Span]]:
        """Return the blocks of which a part is still to be scored, in the order of the rows."""
        wanted = self.parts if parts is None else parts
        return [
            (rows, columns)
            for rows, columns in self.grid.blocks()
            if not all(self.has_block(rows, columns, part) for part in wanted)
        ]

    def has_block(self, rows: Span, columns: Span, part: str) -> bool:
        """Return whether a part's block is there."""
        return self.has_file(block_name(rows, columns, part))

    def put(self, rows: Span, columns: Span, part: str, scores: dict[str, Tensor]) -> None:
        """Write one block of a part."""
        number_type = DTYPES[self.config["dtype"]]
        for name in ("entailment", "contradiction"):
            self._check_numbers(rows, f"{name} by '{part}'", scores[name])
        tensors = {
            name: (values.to(number_type) if values.is_floating_point() else values.to(torch.int32)).contiguous()
            for name, values in scores.items()
        }
        self._put(block_name(rows, columns, part), tensors)

    def get_candidates(self, rows: Span, columns: Span) -> Tensor | None:
        """Return the candidates of a group of texts from a part that has them; (rows, candidates)."""
        for part in self.parts:
            if self.has_block(rows, columns, part):
                return self.read_block(rows, columns, part)["labels"].long()
        return None

    def get_aside(self, rows: Span, columns: Span, part: str) -> dict[str, Tensor] | None:
        """Return the scores of those texts of a block that are no copies, if they were set aside."""
        file = self.path / aside_name(rows, columns, part)
        # It was renamed when it was whole; that it is, no manifest says.
        return load_file(file) if file.is_file() else None

    def put_aside(self, rows: Span, columns: Span, part: str, scores: dict[str, Tensor]) -> None:
        """Keep scores of a block that waits for others."""
        file = self.path / aside_name(rows, columns, part)
        if not file.is_file():
            write_bytes(file, save({name: values.contiguous() for name, values in scores.items()}))

    def has_texts(self, rows: Span) -> bool:
        """Return whether the words of a group of rows are there."""
        return self.has_file(text_name(rows))

    def has_vectors(self, rows: Span, part: str) -> bool:
        """Return whether a part's vectors of a group of rows are there."""
        return self.has_file(vectors_name(rows, part))

    def missing_texts(self) -> list[Span]:
        """Return the groups of rows whose words are not there yet."""
        return [rows for rows in self.grid.rows if not self.has_texts(rows)]

    def missing_vectors(self, part: str) -> list[Span]:
        """Return the groups of rows of which a part's vectors are not there yet."""
        return [rows for rows in self.grid.rows if not self.has_vectors(rows, part)]

    def label_groups(self) -> list[Span]:
        """Return the groups of labels of which a part's tensors lie in one file each."""
        return [group for columns in self.grid.columns for group in cut(*columns, BLOCK_LABELS)]

    def has_labels(self, columns: Span, part: str) -> bool:
        """Return whether what a part computed of a group of labels is there."""
        return self.has_file(label_name(columns, part))

    def put_labels(self, columns: Span, part: str, tensors: Mapping[str, Tensor]) -> None:
        """Write what a part computed of a group of labels."""
        self._put(label_name(columns, part), {name: tensor.contiguous() for name, tensor in tensors.items()})

    def label_tensors(self, part: str) -> dict[str, Tensor]:
        """Return what a part computed of all labels; nothing, unless all are there."""
        groups = self.label_groups()
        if not groups or not all(self.has_labels(group, part) for group in groups):
            return {}
        files = [self.read_file(label_name(group, part)) for group in groups]
        tensors = {name: torch.cat([file[name] for file in files]) for name in files[0]}
        rows = tensors.get("vectors", tensors.get("lengths"))
        if rows is not None and len(rows) != len(self.labels):
            raise InputError(f"{self.path} is damaged: its files of labels hold {len(rows)} labels.")
        return tensors

    def put_vectors(self, rows: Span, part: str, vectors: Tensor) -> None:
        """Write a part's vectors of a group of texts."""
        self._check_numbers(rows, f"vector by '{part}'", vectors.half())
        self._put(vectors_name(rows, part), {"vectors": vectors.half().contiguous()})

    def _check_numbers(self, rows: Span, what: str, numbers: Tensor) -> None:
        """Raise where a number is not finite, or would not be when it is stored, and name its text."""
        outside = ~numbers.isfinite()
        if bool(outside.any()):
            text = self.index.id(rows[0] + int(outside.nonzero()[0][0]))
            raise InputError(
                f"The {what} of text '{text}' holds a number that is not finite, or too large for half precision."
            )

    def put_texts(self, rows: Span, words: csr_array) -> None:
        """Write the words of a group of texts."""
        self._put(
            text_name(rows),
            {
                "word_buckets": torch.from_numpy(words.indices.astype(np.int32)),
                "word_counts": torch.from_numpy(np.minimum(words.data, MOST_COUNT).astype(np.int16)),
                "word_starts": torch.from_numpy(words.indptr.astype(np.int32)),
            },
        )

    def _put(self, name: str, tensors: dict[str, Tensor]) -> None:
        content = save(tensors)
        write_bytes(self.path / name, content)
        key = _key_of(name)
        self._shards[key] = {**self.files_of(key), name: hashlib.sha256(content).hexdigest()}
        self._write_shard(key)

    def _write_shard(self, key: str) -> None:
        write_manifest(self.path, SHARD, self._shard_content(key), self._shards[key], name=f"shard-{key}.json")

    def get_row(self, row: int, columns: Span, part: str) -> dict[str, Tensor]:
        """Return one row of a part's block that is there, (columns or candidates,) each."""
        rows = self.grid.rows_with(row)
        place = row - rows[0]
        with safe_open(self.path / block_name(rows, columns, part), framework="pt") as file:
            return {name: file.get_slice(name)[place] for name in file.keys()}  # noqa: SIM118 (not a dictionary)

    def write_manifest(self) -> None:
        """Write the manifest as things stand."""
        content = {
            **self.config,
            "shape": [len(self.index), len(self.labels)],
            "rows": self.grid.runs,
            "columns": self.grid.columns,
            "labels": self.labels.digest(),
        }
        write_manifest(self.path, "features", content, self.index_files)

    def verify(self, key: str) -> None:
        """Keep the checksums of a shard's whole files only; what is not whole is missing from now on."""
        try:
            files = self.files_of(key)
        except InputError as error:
            log.warning("%s What it lists is scored again.", error)
            files = self._shards[key] = {}
        whole = {name: expected for name, expected in files.items() if self._is_whole(name, expected)}
        if len(whole) < len(files):
            self._shards[key] = whole
            self._write_shard(key)
        self._verified.add(key)

    def _is_whole(self, name: str, expected: str) -> bool:
        file = self.path / name
        if file.is_file() and sha256_of(file) == expected:
            return True
        log.warning("%s is %s and is scored again.", file, "damaged" if file.exists() else "missing")
        return False

    def keys(self) -> list[str]:
        """Return the names of all shards."""
        return [*map(shard_key, self.grid.rows), *map(label_key, self.label_groups())]

    def clear_leftovers(self) -> None:
        """Remove what a killed run left half written, or whole but listed nowhere."""
        for leftover in self.path.glob(".*.*"):
            if leftover.name.startswith((".aside-", ".block-", ".manifest", ".text", ".label", ".vectors", ".shard-")):
                leftover.unlink()
        for file in self.path.glob("texts-r*.safetensors"):
            if file.name not in self.index_files:
                file.unlink()

    def read_file(self, name: str) -> dict[str, Tensor]:
        """Return the tensors of a file that counts, mapped into memory; one that is not whole is named and never used.

        A file is compared with its checksum once, when it is first read.
        """
        file, key = self.path / name, _key_of(name)
        if key not in self._verified and (not file.is_file() or sha256_of(file) != self.files_of(key).get(name)):
            raise InputError(
                f"{file} is missing or damaged: it is not the file that its manifest describes; featurize again to "
                f"make it anew."
            )
        try:
            return load_file(file)
        except SafetensorError as error:
            raise InputError(f"{file} is not a safetensors file ({error}).") from None

    def read_block(self, rows: Span, columns: Span, part: str) -> dict[str, Tensor]:
        """Return a part's block, (rows, columns) or (rows, candidates) each."""
        name = block_name(rows, columns, part)
        scores = self.read_file(name)
        sparse = self.config["kind"] == "sparse"
        shape = (rows[1] - rows[0], self.config["candidates"] if sparse else columns[1] - columns[0])
        for needed in ("entailment", "contradiction", *(["labels"] if sparse else [])):
            if needed not in scores or tuple(scores[needed].shape) != shape:
                raise InputError(f"{self.path / name} must hold '{needed}' of shape {shape}.")
        return scores


@contextmanager
def writing(
    path: Path,
    config: dict[str, Any],
    texts: Iterable[tuple[str, str]],
    labels: LabelSet,
    block_texts: int,
    *,
    fresh: bool = False,
    verify: bool = True,
) -> Iterator[FeatureStore]:
    """Open a store for these texts and labels, new or to be gone on with, and hold its lock.

    Args:
        path: the folder.
        config: what the content depends on: kind, dtype, scorer, template, candidates, word_buckets.
        texts: id and SHA-256 of each; those that are there already must be unchanged, others are added.
        labels: the labels; likewise.
        block_texts: how many texts a new group of rows has.
        fresh: drop what is there and start anew.
        verify: whether to compare all files with their checksums now; whoever does not must `verify` each shard.
    """
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is there and is no folder, but features are one; choose another name.")
    parts = scorer_configs(config["scorer"])
    if len({_slug(part) for part in parts}) < len(parts):
        raise InputError(
            f"The parts of the scorer '{config['scorer'].get('name')}' have names that are too alike for files."
        )
    given = _index_of(texts, path)
    with folder_lock(path):
        there = (path / MANIFEST).exists()
        if there and fresh:
            check_free(path, "features", overwrite=True)
        elif not there and any(not file.name.startswith(".") for file in path.iterdir()):
            raise InputError(f"{path} is not empty and is no bncl features folder; choose another name.")
        if fresh or not there:
            # An empty store first, which then grows: whenever a run is killed, what is there is a store.
            FeatureStore(path, config, TextIndex(), LabelSet((), ()), Grid(), {}).write_manifest()
        if read_manifest(path, "features", check_files=False).get("shape") == [0, 0]:
            # Nothing counts in an empty store; a run that started anew may have been killed before it removed this.
            _clear(path)
        store = _grown(path, config, given, labels, block_texts)
        store.clear_leftovers()
        if verify:
            for key in store.keys():  # noqa: SIM118 (not a dictionary)
                store.verify(key)
        yield store


def _index_of(texts: Iterable[tuple[str, str]], path: Path) -> TextIndex:
    """Return the index of texts; where they cannot be used, no folder is left that was not there."""
    is_new = not path.exists()
    path.mkdir(parents=True, exist_ok=True)
    try:
        index = TextIndex.of(texts, path)
        index.check_unique()
    except BaseException:
        if is_new:
            path.rmdir()
        raise
    return index


def _clear(path: Path) -> None:
    """Remove what a store holds besides its manifest; other people's files stay."""
    for file in path.iterdir():
        own = file.name == LABELS or file.name.startswith(("block-", "label-", "shard-", "text-", "texts-", "vectors-"))
        if own and file.is_file():
            file.unlink()


def _grown(path: Path, config: dict[str, Any], index: TextIndex, labels: LabelSet, block_texts: int) -> FeatureStore:
    """Open a store that is there, with groups for the texts and labels that are new."""
    stored = open_store(path)
    changed = sorted(key for key in config if config[key] != stored.config.get(key))
    if "scorer" in changed and _only_adds_parts(stored.config["scorer"], config["scorer"]):
        changed.remove("scorer")
    if "ranker" in changed and _only_adds_parts(stored.config.get("ranker", {}), config["ranker"]):
        # Candidates stay those that they are, and whoever chose them goes on choosing.
        changed.remove("ranker")
        config = {**config, "ranker": stored.config["ranker"]}
    if changed:
        raise StaleFeaturesError(_made_otherwise(path, changed, stored.config, config))
    new, wrong = match(stored.index, index)
    if wrong is not None:
        row, given = wrong
        name = stored.index.id(row)
        raise StaleFeaturesError(
            f"{path} was made with another text '{name}'; start anew with fresh=True."
            if given
            else f"{path} has a text '{name}' that is not in the input; start anew with fresh=True."
        )
    added = set(_added(path, stored.labels.meanings(), labels.meanings()))
    new_labels = labels.chosen(place for place, name in enumerate(labels.names) if name in added)
    if len(stored.labels) and len(new_labels) and config["kind"] == "sparse":
        raise StaleFeaturesError(
            f"{path} holds the best candidates among {len(stored.labels)} labels, and label '{new_labels.names[0]}' "
            f"is new: candidates must be chosen again; start anew with fresh=True."
        )
    rows, columns, more = len(stored.index), len(stored.labels), len(new_labels)
    pieces, files = stored.index.pieces, stored.index_files
    # The lists come first: a manifest that counts more than its lists hold would be damage, the reverse is not.
    if len(new):
        file = path / index_name(rows)
        (index.pieces[0] if len(new) == len(index) else index.chosen(new, path)).write(file)
        pieces, files = (*pieces, IndexPiece.read(file)), {**files, file.name: sha256_of(file)}
    known = stored.labels.extended(new_labels)
    if more:
        known.write(path / LABELS)
    grid = Grid(
        (*stored.grid.runs, *([(rows, rows + len(new), block_texts)] if len(new) else [])),
        (*stored.grid.columns, *cut(columns, columns + more, max(more, 1))),
    )
    store = FeatureStore(path, config, TextIndex(pieces), known, grid, files)
    store.write_manifest()
    return store


def _only_adds_parts(there: dict[str, Any], given: dict[str, Any]) -> bool:
    """Return whether a scorer has all parts of the one that made a store, and perhaps more."""
    wanted = scorer_configs(given)
    return all(wanted.get(name) == config for name, config in scorer_configs(there).items())


def _made_otherwise(path: Path, changed: list[str], there: dict[str, Any], given: dict[str, Any]) -> str:
    """Say what a store was made with that is not what is given now."""
    rest = [name for name in changed if name != "scorer"]
    what = [f"another {', '.join(rest)}"] if rest else []
    if "scorer" in changed:
        old, new = (str(config["scorer"].get("name")) for config in (there, given))
        what.insert(0, f"another configuration of '{old}'" if old == new else f"the scorer '{old}', not '{new}'")
    return f"{path} was made with {', and '.join(what)}; start anew with fresh=True, or choose another name."


def _added(path: Path, there: dict[str, str], given: dict[str, str]) -> dict[str, str]:
    """Return which labels are new in the input; raise an error that names what is gone or changed."""
    new = dict(given)
    for name, content in there.items():
        if name not in new:
            raise StaleFeaturesError(
                f"{path} has a label '{name}' that is not in the input; start anew with fresh=True."
            )
        if new.pop(name) != content:
            raise StaleFeaturesError(
                f"{path} was made with another description of label '{name}'; start anew with fresh=True."
            )
    return new


def open_store(path: Path, *, check: bool = True) -> FeatureStore:
    """Open a store; its manifest and its lists are checked, its shards are not read yet.

    Args:
        path: the folder.
        check: whether the index of the texts is compared with its checksum, which reads all of it.
    """
    manifest = read_manifest(path, "features", check_files=check)
    texts, columns = _check_manifest(manifest, path / MANIFEST)
    labels = LabelSet.read(path / LABELS) if columns and (path / LABELS).is_file() else LabelSet((), ())
    # A run that was killed while it added labels may have left a longer list: the manifest counts.
    labels = labels.chosen(range(min(columns, len(labels))))
    if labels.digest() != manifest["labels"]:
        raise InputError(f"{path / LABELS} is missing or damaged: it is not the file that its manifest describes.")
    runs = tuple((first, last, size) for first, last, size in manifest["rows"])
    index = TextIndex([IndexPiece.read(path / index_name(run[0])) for run in runs])
    if [len(piece) for piece in index.pieces] != [last - first for first, last, _ in runs]:
        raise InputError(f"{path} is damaged: its index holds {len(index)} texts, but its manifest says {texts}.")
    grid = Grid(runs, tuple((first, last) for first, last in manifest["columns"]))
    own = {"format", "version", "shape", "rows", "columns", "labels", "files"}
    config = {key: value for key, value in manifest.items() if key not in own}
    return FeatureStore(path, config, index, labels, grid, dict(manifest["files"]))


def _check_manifest(manifest: dict[str, Any], where: Path) -> tuple[int, int]:
    """Raise unless a manifest describes a store; return how many texts and labels it has.

    Its digest says that nobody changed it by accident; whoever wrote it on purpose can write anything.
    """
    lists = dict.fromkeys(("shape", "rows", "columns"), list)
    strings = dict.fromkeys(("labels", "kind", "dtype"), str)
    check_fields(manifest, {**lists, **strings, "scorer": dict, "template": (str, list)}, where)
    shape = manifest["shape"]
    if not _are_numbers(shape, 2):
        raise InputError(f"{where}: 'shape' must be two numbers.")
    for name, total, length in (("rows", shape[0], 3), ("columns", shape[1], 2)):
        end = 0
        for group in manifest[name]:
            if not _are_numbers(group, length) or group[0] != end or group[1] <= end or group[-1] < 1:
                raise InputError(f"{where}: '{name}' must be groups that follow each other.")
            end = group[1]
        if end != total:
            raise InputError(f"{where}: '{name}' are {end}, but the shape says {total}.")
    kind, dtype, parts = manifest["kind"], manifest["dtype"], manifest["scorer"].get("parts", {})
    if kind not in ("dense", "sparse") or dtype not in DTYPES:
        raise InputError(f"{where}: there is no kind '{kind}' of features with numbers of type '{dtype}'.")
    if not isinstance(parts, dict) or not all(isinstance(part, dict) for part in parts.values()):
        raise InputError(f"{where}: the parts of 'scorer' must be objects.")
    if kind == "sparse":
        check_fields(manifest, {"candidates": int}, where)
        if manifest["candidates"] < 1 or 0 < shape[1] < manifest["candidates"]:
            raise InputError(f"{where}: there cannot be {manifest['candidates']} candidates of {shape[1]} labels.")
    if "word_buckets" in manifest:
        check_fields(manifest, {"word_buckets": int}, where)
        if not 1 <= manifest["word_buckets"] <= MOST_BUCKETS:
            raise InputError(f"{where}: there cannot be {manifest['word_buckets']} buckets of words.")
    return shape[0], shape[1]


def _are_numbers(values: Any, count: int) -> bool:
    return isinstance(values, list) and len(values) == count and all(type(one) is int and one >= 0 for one in values)


def write_features(features: Features, path: Path, *, dtype: Dtype = "float32", overwrite: bool = False) -> None:
    """Write features that were scored elsewhere as a store; a folder that is there is replaced only if asked."""
    if path.exists() and not overwrite:
        raise InputError(f"{path} already exists; choose another name, or replace it with overwrite=True.")
    scorer = dict(features.scorer)
    template = scorer.pop("template", "")
    # What an ensemble's parts said is not kept with features in memory: the store has one part, what they said
    # together.
    part = str(scorer.get("name") or "scores")
    if "parts" in scorer:
        scorer = {"name": part, "joined": scorer["parts"]}
    config = {"kind": "dense", "dtype": dtype, "template": template, "scorer": scorer}
    if features.candidates is not None:
        config |= {"kind": "sparse", "candidates": features.candidates.shape[1], "ranker": scorer}
    if features.words is not None:
        config["word_buckets"] = features.words.shape[1]
    # Where only ids are known, an id stands for its text.
    texts = ((name, text_hash(name)) for name in features.ids)
    with writing(path, config, texts, features.labels, BLOCK_TEXTS, fresh=overwrite) as store:
        for rows in store.grid.rows:
            if features.vectors is not None:
                store.put_vectors(rows, part, features.vectors[slice(*rows)])
            if features.words is not None:
                store.put_texts(rows, features.words[slice(*rows)])
        vectors = features.label_tensors.get("vectors")
        if vectors is not None:
            for group in store.label_groups():
                store.put_labels(group, part, {"vectors": vectors[slice(*group)]})
        for rows, columns in store.missing():
            place = slice(*rows), slice(*columns) if features.candidates is None else slice(None)
            scores = {"entailment": features.entailment[place], "contradiction": features.contradiction[place]}
            if features.candidates is not None:
                scores["labels"] = features.candidates[place]
            store.put(rows, columns, part, scores)
