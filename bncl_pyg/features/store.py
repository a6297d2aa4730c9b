"""Features on disk: a folder of checksummed blocks that is filled bit by bit and can be left at any moment.

    FEATURES/
      manifest.json                        what made the scores, the grid of blocks, the SHA-256 of each block, of the
                                           texts and labels that it counts, and of the manifest itself
      texts.jsonl                          {"id", "sha256"} in the order of the rows
      labels.jsonl                         {"label", "description", …} in the order of the columns
      block-r00000000-c000000-PART.safetensors
                                           "entailment" and "contradiction", (rows, columns), of a part of the scorer
      label-c00000000-PART.safetensors     what that part computes of the labels' hypotheses: "vectors" (labels,
                                           dimensions), or "tokens" and "lengths"
      vectors-r00000000-PART.safetensors   "vectors" (rows, dimensions) of that part's encoder, if it has one
      text-r00000000.safetensors           words: "word_buckets", "word_counts" (entries,), "word_starts" (rows + 1,)

Rows and columns are cut into groups; a block is one group of rows by one group of columns. Texts and labels that come
later are groups of their own, so that what is there is never touched. A scorer is one part, an ensemble has several:
their scores are joined when they are read, and a part that comes later is scored alone. In a sparse store a block holds
each text's candidates instead: "labels", "entailment" and "contradiction", (rows, candidates).

A block is written under another name, synced and renamed; then the manifest is, with its digest. What the manifest
does not list does not count: a run that was killed may leave blocks and longer lists of texts and labels.
"""

import hashlib
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from scipy.sparse import csr_array, vstack
from torch import Tensor

from bncl_pyg.corpus import LabelSet, digest, read_rows
from bncl_pyg.errors import InputError
from bncl_pyg.features.features import Features
from bncl_pyg.persistence import (
    LOCK,
    MANIFEST,
    check_free,
    folder_lock,
    read_manifest,
    sha256_of,
    write_bytes,
    write_jsonl,
    write_manifest,
)
from bncl_pyg.scorers import join_scores, join_vectors

log = logging.getLogger(__name__)

Dtype = Literal["float16", "float32"]
DTYPES = {"float16": torch.float16, "float32": torch.float32}
BLOCK_TEXTS = 4096
"""How many texts a block has where the scores are there already."""
BLOCK_LABELS = 4096
"""How many labels' vectors are kept in one file."""
MOST_COUNT = 2**15 - 1
"""How often a word is counted in a text at most."""
TEXTS, LABELS = "texts.jsonl", "labels.jsonl"
Span = tuple[int, int]
"""The first row or column of a group and the one after its last."""


class StaleFeaturesError(InputError):
    """A store holds what was made from other texts, labels or by another scorer; it can only be made anew."""


@dataclass(frozen=True)
class TextIndex:
    """Which texts there are, without the texts: ids and hashes, in order."""

    ids: tuple[str, ...]
    hashes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ids)

    def as_dict(self) -> dict[str, str]:
        """Return the hash of each id."""
        return dict(zip(self.ids, self.hashes, strict=True))


def text_hash(text: str) -> str:
    """Return a text's SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass
class Grid:
    """How a store is cut into blocks."""

    rows: list[Span]
    columns: list[Span]

    def blocks(self) -> Iterator[tuple[Span, Span]]:
        """Yield every block, row group by row group."""
        for rows in self.rows:
            for columns in self.columns:
                yield rows, columns


def block_name(rows: Span, columns: Span, part: str) -> str:
    """Return the file name of a part's block."""
    return f"block-r{rows[0]:08d}-c{columns[0]:06d}-{_slug(part)}.safetensors"


def vectors_name(rows: Span, part: str) -> str:
    """Return the file name of a part's vectors of a group of texts."""
    return f"vectors-r{rows[0]:08d}-{_slug(part)}.safetensors"


def text_name(rows: Span) -> str:
    """Return the file name of what is known of a group of texts whatever scores them."""
    return f"text-r{rows[0]:08d}.safetensors"


def label_name(columns: Span, part: str) -> str:
    """Return the file name of what a part computed of some labels."""
    return f"label-c{columns[0]:08d}-{_slug(part)}.safetensors"


def _slug(part: str) -> str:
    """Return a part's name as a file's name can hold it: hub names have a slash."""
    return re.sub(r"[^A-Za-z0-9.-]", "_", part)


def scorer_configs(scorer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the configuration of each part of a scorer, by name."""
    parts: dict[str, dict[str, Any]] | None = scorer.get("parts")
    return {str(scorer.get("name") or "scores"): scorer} if parts is None else parts


def cut(start: int, stop: int, size: int) -> list[Span]:
    """Cut a range into groups of at most `size`."""
    return [(first, min(first + size, stop)) for first in range(start, stop, size)]


@dataclass
class FeatureStore:
    """A store that is open for writing; made by `writing`, which holds its lock."""

    path: Path
    config: dict[str, Any]
    """What the content depends on; whoever adds to the store must have the same."""
    index: TextIndex
    labels: LabelSet
    grid: Grid
    checksums: dict[str, str] = field(default_factory=dict)
    verified: bool = False
    """Whether all files were compared with their checksums since the store was opened."""

    @cached_property
    def list_digests(self) -> dict[str, str]:
        """The digest of the texts and of the labels, in order; more lines in their files do not count."""
        texts = digest(part for pair in zip(self.index.ids, self.index.hashes, strict=True) for part in pair)
        return {TEXTS: texts, LABELS: self.labels.digest()}

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
            if any(block_name(rows, columns, part) not in self.checksums for part in wanted)
        ]

    def has_block(self, rows: Span, columns: Span, part: str) -> bool:
        """Return whether a part's block is there."""
        return block_name(rows, columns, part) in self.checksums

    def put(self, rows: Span, columns: Span, part: str, scores: dict[str, Tensor]) -> None:
        """Write one block of a part."""
        number_type = DTYPES[self.config["dtype"]]
        tensors = {
            name: (values.to(number_type) if values.is_floating_point() else values.to(torch.int32)).contiguous()
            for name, values in scores.items()
        }
        self._put(block_name(rows, columns, part), tensors)

    def get_candidates(self, rows: Span, columns: Span) -> Tensor | None:
        """Return the candidates of a group of texts from a part that has them; (rows, candidates)."""
        for part in self.parts:
            if self.has_block(rows, columns, part):
                return _read_block(self, rows, columns, part)["labels"].long()
        return None

    def missing_texts(self) -> list[Span]:
        """Return the groups of rows whose words are not there yet."""
        return [rows for rows in self.grid.rows if text_name(rows) not in self.checksums]

    def missing_vectors(self, part: str) -> list[Span]:
        """Return the groups of rows of which a part's vectors are not there yet."""
        return [rows for rows in self.grid.rows if vectors_name(rows, part) not in self.checksums]

    def label_groups(self) -> list[Span]:
        """Return the groups of labels of which a part's tensors lie in one file each."""
        return [group for columns in self.grid.columns for group in cut(*columns, BLOCK_LABELS)]

    def has_labels(self, columns: Span, part: str) -> bool:
        """Return whether what a part computed of a group of labels is there."""
        return label_name(columns, part) in self.checksums

    def put_labels(self, columns: Span, part: str, tensors: Mapping[str, Tensor]) -> None:
        """Write what a part computed of a group of labels."""
        self._put(label_name(columns, part), {name: tensor.contiguous() for name, tensor in tensors.items()})

    def label_tensors(self, part: str) -> dict[str, Tensor]:
        """Return what a part computed of all labels; nothing, unless all are there."""
        groups = self.label_groups()
        if not groups or not all(self.has_labels(group, part) for group in groups):
            return {}
        files = [_read_file(self, label_name(group, part)) for group in groups]
        tensors = {name: torch.cat([file[name] for file in files]) for name in files[0]}
        rows = tensors.get("vectors", tensors.get("lengths"))
        if rows is not None and len(rows) != len(self.labels):
            raise InputError(f"{self.path} is damaged: its files of labels hold {len(rows)} labels.")
        return tensors

    def put_vectors(self, rows: Span, part: str, vectors: Tensor) -> None:
        """Write a part's vectors of a group of texts."""
        self._put(vectors_name(rows, part), {"vectors": vectors.half().contiguous()})

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
        self.checksums[name] = hashlib.sha256(content).hexdigest()
        self.write_manifest()

    def get_row(self, row: int, columns: Span, part: str) -> dict[str, Tensor]:
        """Return one row of a part's block that is there, (columns or candidates,) each."""
        rows = next(group for group in self.grid.rows if group[0] <= row < group[1])
        place = row - rows[0]
        with safe_open(self.path / block_name(rows, columns, part), framework="pt") as file:
            return {name: file.get_slice(name)[place] for name in file.keys()}  # noqa: SIM118 (not a dictionary)

    def write_lists(self) -> None:
        """Write which texts and labels there are."""
        pairs = zip(self.index.ids, self.index.hashes, strict=True)
        write_jsonl(self.path / TEXTS, ({"id": name, "sha256": content} for name, content in pairs))
        self.labels.write(self.path / LABELS)

    def write_manifest(self) -> None:
        """Write the manifest as things stand."""
        content = {
            **self.config,
            "shape": [len(self.index), len(self.labels)],
            "rows": self.grid.rows,
            "columns": self.grid.columns,
            "lists": self.list_digests,
        }
        write_manifest(self.path, "features", content, self.checksums)

    def _forget_damaged(self) -> None:
        """Keep the checksums of whole blocks only, and clear away what a killed run left half written."""
        for name, expected in list(self.checksums.items()):
            file = self.path / name
            if not file.is_file() or sha256_of(file) != expected:
                log.warning("%s is %s and is scored again.", file, "damaged" if file.exists() else "missing")
                del self.checksums[name]
        self.verified = True
        for leftover in self.path.glob(".*.*"):
            if leftover.name.startswith((".block-", ".manifest", ".text", ".label", ".vectors")):
                leftover.unlink()


@contextmanager
def writing(
    path: Path, config: dict[str, Any], index: TextIndex, labels: LabelSet, block_texts: int, *, fresh: bool = False
) -> Iterator[FeatureStore]:
    """Open a store for these texts and labels, new or to be gone on with, and hold its lock.

    Args:
        path: the folder.
        config: what the content depends on: kind, dtype, scorer, template, candidates, word_buckets.
        index: the texts; those that are there already must be unchanged, others are added.
        labels: the labels; likewise.
        block_texts: how many texts a new group of rows has.
        fresh: drop what is there and start anew.
    """
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is there and is no folder, but features are one; choose another name.")
    parts = scorer_configs(config["scorer"])
    if len({_slug(part) for part in parts}) < len(parts):
        raise InputError(
            f"The parts of the scorer '{config['scorer'].get('name')}' have names that are too alike for files."
        )
    path.mkdir(parents=True, exist_ok=True)
    with folder_lock(path):
        if fresh and (path / MANIFEST).exists():
            check_free(path, "features", overwrite=True)
            _clear(path)
        if not (path / MANIFEST).exists():
            if any(not file.name.startswith(".") for file in path.iterdir()):
                raise InputError(f"{path} is not empty and is no bncl features folder; choose another name.")
            # An empty store first, which then grows: whenever a run is killed, what is there is a store.
            FeatureStore(path, config, TextIndex((), ()), LabelSet((), ()), Grid([], [])).write_manifest()
        yield _grown(path, config, index, labels, block_texts)


def _clear(path: Path) -> None:
    # The manifest goes last: until then this is a store, whose missing blocks would be scored again.
    for file in path.iterdir():
        if file.name not in (LOCK, MANIFEST):
            file.unlink()
    (path / MANIFEST).unlink()


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
    texts = _added(path, "text", "text", stored.index.as_dict(), index.as_dict())
    new_texts = TextIndex(tuple(texts), tuple(texts.values()))
    added = set(_added(path, "label", "description of label", stored.labels.meanings(), labels.meanings()))
    new_labels = labels.chosen(place for place, name in enumerate(labels.names) if name in added)
    if len(stored.labels) and len(new_labels) and config["kind"] == "sparse":
        raise StaleFeaturesError(
            f"{path} holds the best candidates among {len(stored.labels)} labels, and label '{new_labels.names[0]}' "
            f"is new: candidates must be chosen again; start anew with fresh=True."
        )
    rows, columns = len(stored.index), len(stored.labels)
    grid = Grid(
        [*stored.grid.rows, *cut(rows, rows + len(new_texts), block_texts)],
        [*stored.grid.columns, *cut(columns, columns + len(new_labels), max(len(new_labels), 1))],
    )
    index = TextIndex(stored.index.ids + new_texts.ids, stored.index.hashes + new_texts.hashes)
    store = FeatureStore(path, config, index, stored.labels.extended(new_labels), grid, stored.checksums)
    store._forget_damaged()
    if len(new_texts) or len(new_labels):
        # The lists come first: a manifest that counts more than its lists hold would be damage, the reverse is not.
        store.write_lists()
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


def _added(path: Path, what: str, changed: str, there: dict[str, str], given: dict[str, str]) -> dict[str, str]:
    """Return what is new in the input; raise an error that names what is gone or changed."""
    new = dict(given)
    for name, content in there.items():
        if name not in new:
            raise StaleFeaturesError(
                f"{path} has a {what} '{name}' that is not in the input; start anew with fresh=True."
            )
        if new.pop(name) != content:
            raise StaleFeaturesError(f"{path} was made with another {changed} '{name}'; start anew with fresh=True.")
    return new


def open_store(path: Path) -> FeatureStore:
    """Open a store; its manifest and its lists are checked, its blocks are not read yet."""
    manifest = read_manifest(path, "features", check_files=False)
    texts, columns = manifest["shape"]
    rows = list(read_rows(path / TEXTS)) if texts and (path / TEXTS).is_file() else []
    index = TextIndex(tuple(row.identifier("id") for row in rows), tuple(row.string("sha256") for row in rows))
    labels = LabelSet.read(path / LABELS) if columns and (path / LABELS).is_file() else LabelSet((), ())
    # A run that was killed while it added texts or labels may have left longer lists: the manifest counts.
    index = TextIndex(index.ids[:texts], index.hashes[:texts])
    labels = labels.chosen(range(min(columns, len(labels))))
    grid = Grid(*([(first, last) for first, last in manifest[axis]] for axis in ("rows", "columns")))
    own = {"format", "version", "shape", "rows", "columns", "lists", "files"}
    config = {key: value for key, value in manifest.items() if key not in own}
    store = FeatureStore(path, config, index, labels, grid, dict(manifest["files"]))
    for name, expected in store.list_digests.items():
        if manifest["lists"].get(name) != expected:
            raise InputError(f"{path / name} is missing or damaged: it is not the file that its manifest describes.")
    return store


def read_features(path: Path, *, parts: bool = False) -> Features:
    """Read a whole store; a file that is missing, damaged or of another shape is named and never used.

    Args:
        path: the folder.
        parts: whether the scores of each part of an ensemble are wanted too, which takes as much memory again for each.
    """
    store = open_store(path)
    missing = len(store.missing())
    if missing:
        total = len(store.grid.rows) * len(store.grid.columns)
        raise InputError(
            f"{path} is not complete: {missing} of {total} blocks are missing; featurize again to complete it."
        )
    sparse = store.config["kind"] == "sparse"
    width = store.config["candidates"] if sparse else len(store.labels)
    joint = torch.zeros(2, len(store.index), width)
    by_part = {name: torch.zeros_like(joint) for name in store.parts} if parts and len(store.parts) > 1 else {}
    candidates = torch.zeros(len(store.index), width, dtype=torch.int64) if sparse else None
    for rows, columns in store.grid.blocks():
        place = slice(*rows), slice(0, width) if sparse else slice(*columns)
        scores = {}
        for name in store.parts:
            block = _read_block(store, rows, columns, name)
            scores[name] = torch.stack([block["entailment"], block["contradiction"]]).float()
            if name in by_part:
                by_part[name][:, *place] = scores[name]
            if candidates is not None:
                candidates[place] = block["labels"].long()
        joint[:, *place] = join_scores(list(scores.values()))
    template = {"template": store.config["template"]} if store.config["template"] else {}
    return Features(
        store.index.ids,
        store.labels,
        joint[0],
        joint[1],
        {**store.config["scorer"], **template},
        _read_vectors(store),
        _read_words(store),
        candidates,
        _read_label_tensors(store),
        by_part,
    )


def _read_label_tensors(store: FeatureStore) -> dict[str, Tensor]:
    """Return what all parts computed of labels, as their ensemble names it."""
    alone = "parts" not in store.config["scorer"]
    return {
        name if alone else f"{part}/{name}": tensor
        for part in store.parts
        for name, tensor in store.label_tensors(part).items()
    }


def _read_vectors(store: FeatureStore) -> Tensor | None:
    """Return the parts' vectors beside each other, of the parts that have any."""
    vectors = []
    for part in store.parts:
        missing = len(store.missing_vectors(part))
        if missing == len(store.grid.rows):
            continue
        if missing:
            raise _incomplete(store, "vectors", missing)
        files = [_read_file(store, vectors_name(rows, part)) for rows in store.grid.rows]
        vectors.append(torch.cat([file["vectors"] for file in files]).float())
        if len(vectors[-1]) != len(store.index):
            raise InputError(f"{store.path} is damaged: its vectors are of {len(vectors[-1])} texts.")
    return join_vectors(vectors)


def _read_words(store: FeatureStore) -> csr_array | None:
    """Return the words, where all groups of rows have them."""
    missing = len(store.missing_texts())
    if missing == len(store.grid.rows):
        return None
    if missing:
        raise _incomplete(store, "words", missing)
    parts = [_read_file(store, text_name(rows)) for rows in store.grid.rows]
    starts = [part["word_starts"].numpy() for part in parts]
    words = vstack(
        [
            csr_array(
                (part["word_counts"].numpy().astype(np.float32), part["word_buckets"].numpy(), start),
                shape=(len(start) - 1, store.config["word_buckets"]),
            )
            for part, start in zip(parts, starts, strict=True)
        ],
        format="csr",
    )
    if words.shape[0] != len(store.index):
        raise InputError(f"{store.path} is damaged: its files of texts hold {words.shape[0]} texts.")
    return words


def _incomplete(store: FeatureStore, what: str, missing: int) -> InputError:
    return InputError(
        f"{store.path} is not complete: the {what} of {missing} of {len(store.grid.rows)} groups of texts are missing; "
        f"featurize again to complete it."
    )


def _read_file(store: FeatureStore, name: str) -> dict[str, Tensor]:
    file = store.path / name
    if not store.verified and (not file.is_file() or sha256_of(file) != store.checksums[name]):
        raise InputError(
            f"{file} is missing or damaged: it is not the file that its manifest describes; featurize again to make it "
            f"anew."
        )
    try:
        return load_file(file)
    except SafetensorError as error:
        raise InputError(f"{file} is not a safetensors file ({error}).") from None


def _read_block(store: FeatureStore, rows: Span, columns: Span, part: str) -> dict[str, Tensor]:
    file = store.path / block_name(rows, columns, part)
    scores = _read_file(store, file.name)
    sparse = store.config["kind"] == "sparse"
    shape = (rows[1] - rows[0], store.config["candidates"] if sparse else columns[1] - columns[0])
    for name in ("entailment", "contradiction", *(["labels"] if sparse else [])):
        if name not in scores or tuple(scores[name].shape) != shape:
            raise InputError(f"{file} must hold '{name}' of shape {shape}.")
    return scores


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
    index = TextIndex(features.ids, tuple(text_hash(name) for name in features.ids))
    with writing(path, config, index, features.labels, BLOCK_TEXTS, fresh=overwrite) as store:
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
