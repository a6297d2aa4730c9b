"""A store read: all of it, one shard after the other, or the rows of one of several processes."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import overload

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack
from torch import Tensor

from bncl_pyg.errors import InputError
from bncl_pyg.features.features import Features
from bncl_pyg.features.index import Span, TextIndex
from bncl_pyg.features.pairs import WHOLE_ROWS
from bncl_pyg.features.store import FeatureStore, open_store, text_name, vectors_name
from bncl_pyg.ranks import Ranks
from bncl_pyg.scorers import join_scores, join_vectors

IDS_AT_ONCE = 4096


class StoredFeatures:
    """A whole store on disk, of which nothing is read before it is asked for.

        for features in StoredFeatures(path):  # Features of some texts, in the order of the rows
            ...

    Args:
        path: the folder.
        check: whether the ids are compared with their checksum first, which reads all of them; each file of a shard is
            compared when the shard is read.
    """

    def __init__(self, path: Path, *, check: bool = True) -> None:
        self._reader = _Reader(open_store(path, check=check))
        store = self._reader.store
        self.path, self.labels, self.scorer = path, store.labels, _scorer(store)
        self.shards: Sequence[Span] = store.grid.rows
        """The first row of each shard and the one after its last."""

    def __len__(self) -> int:
        """Return how many texts there are."""
        return len(self._reader.store.index)

    def shard(self, number: int, *, parts: bool = False) -> Features:
        """Return the features of a shard's texts.

        Args:
            number: which shard.
            parts: see `read_features`.
        """
        return self._reader.read([self.shards[number]], parts=parts)

    def __iter__(self) -> Iterator[Features]:
        """Yield the features of one shard after the other."""
        return (self.shard(number) for number in range(len(self.shards)))

    @property
    def ids(self) -> "StoredIds":
        """The ids of all texts, which are read when they are asked for."""
        return StoredIds(self._reader.store.index)

    def rows(self, first: int, last: int) -> Features:
        """Return the features of a range of rows; only the shards that hold them are read."""
        shards = [span for span in self.shards if span[0] < last and first < span[1]]
        read = self._reader.read(shards, parts=False)
        start = shards[0][0] if shards else 0
        if (start, start + len(read)) == (first, last):
            return read
        return read.rows(slice(first - start, last - start))

    def held_by(self, ranks: Ranks) -> Features:
        """Return the features of the texts that one of several processes holds: about as many as each other does.

        Processes hold texts in the order of the rows; a shard on the border of two is read by both.
        """
        if 0 < len(self) < ranks.size:
            raise InputError(f"{self.path} holds {len(self)} texts, which is fewer than the {ranks.size} processes.")
        first, last = (_border(len(self), rank, ranks.size) for rank in (ranks.rank, ranks.rank + 1))
        return replace(self.rows(first, last), ranks=ranks, all_ids=self.ids)


def _border(texts: int, rank: int, size: int) -> int:
    """Return the first row of a process: where blocks of rows begin, so that each is computed as one process would."""
    border = texts * rank // size
    return border - border % WHOLE_ROWS if rank < size and texts >= WHOLE_ROWS * size else border


class StoredIds(Sequence[str]):
    """The ids of a store's texts, mapped from disk: none of them is held in memory.

    Args:
        index: of the store.
    """

    def __init__(self, index: TextIndex) -> None:
        self._index = index

    def __len__(self) -> int:
        return len(self._index)

    @overload
    def __getitem__(self, row: int) -> str: ...

    @overload
    def __getitem__(self, row: slice) -> tuple[str, ...]: ...

    def __getitem__(self, row: int | slice) -> str | tuple[str, ...]:
        if isinstance(row, slice):
            return tuple(self._index.id(place) for place in range(*row.indices(len(self))))
        return self._index.id(range(len(self))[row])

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), IDS_AT_ONCE):
            yield from self._index.ids((first, min(first + IDS_AT_ONCE, len(self))))

    def places(self, wanted: Sequence[str]) -> NDArray[np.int64]:
        """Return each wanted id's row; raise an error that names the first that is not there."""
        rows = np.array([self._index.find(identifier) for identifier in wanted], dtype=np.int64)
        if (rows < 0).any():
            raise InputError(f"The set of training texts has no text with id '{wanted[int((rows < 0).argmax())]}'.")
        return rows


def read_features(path: Path, *, parts: bool = False) -> Features:
    """Read a whole store; a file that is missing, damaged or of another shape is named and never used.

    Args:
        path: the folder.
        parts: whether the scores of each part of an ensemble are wanted too, which takes as much memory again for each.
    """
    reader = _Reader(open_store(path))
    return reader.read(reader.store.grid.rows, parts=parts)


def _check_complete(store: FeatureStore) -> None:
    missing = len(store.missing())
    if missing:
        total = len(store.grid.rows) * len(store.grid.columns)
        raise InputError(
            f"{store.path} is not complete: {missing} of {total} blocks are missing; featurize again to complete it."
        )


def _scorer(store: FeatureStore) -> dict[str, object]:
    template = {"template": store.config["template"]} if store.config["template"] else {}
    return {**store.config["scorer"], **template}


class _Reader:
    """Reads groups of rows; what is the same for all of them is found out once."""

    def __init__(self, store: FeatureStore) -> None:
        _check_complete(store)
        self.store = store
        self.label_tensors = _read_label_tensors(store)
        groups = {part: len(store.missing_vectors(part)) for part in store.parts}
        self.with_vectors = [part for part, missing in groups.items() if _is_there(store, "vectors", missing)]
        self.has_words = _is_there(store, "words", len(store.missing_texts()))

    def read(self, groups: Sequence[Span], *, parts: bool) -> Features:
        """Read groups of rows that follow each other."""
        store = self.store
        span = (groups[0][0], groups[-1][1]) if groups else (0, 0)
        sparse = store.config["kind"] == "sparse"
        width = store.config["candidates"] if sparse else len(store.labels)
        joint = torch.zeros(2, span[1] - span[0], width)
        by_part = {name: torch.zeros_like(joint) for name in store.parts} if parts and len(store.parts) > 1 else {}
        candidates = torch.zeros(span[1] - span[0], width, dtype=torch.int64) if sparse else None
        for rows, columns in ((rows, columns) for rows in groups for columns in store.grid.columns):
            place = slice(rows[0] - span[0], rows[1] - span[0]), slice(0, width) if sparse else slice(*columns)
            scores = []
            for name in store.parts:
                block = store.read_block(rows, columns, name)
                scores.append(torch.stack([block["entailment"], block["contradiction"]]).float())
                if name in by_part:
                    by_part[name][:, *place] = scores[-1]
                if candidates is not None:
                    candidates[place] = block["labels"].long()
            joint[:, *place] = join_scores(scores)
        return Features(
            store.index.ids(span),
            store.labels,
            joint[0],
            joint[1],
            _scorer(store),
            join_vectors([_read_vectors(store, groups, part) for part in self.with_vectors]),
            _read_words(store, groups) if self.has_words else None,
            candidates,
            self.label_tensors,
            by_part,
        )


def _is_there(store: FeatureStore, what: str, missing: int) -> bool:
    """Return whether something is there of all texts; of none is fine too, of some is not."""
    if 0 < missing < len(store.grid.rows):
        raise InputError(
            f"{store.path} is not complete: the {what} of {missing} of {len(store.grid.rows)} groups of texts are "
            f"missing; featurize again to complete it."
        )
    return not missing and bool(store.grid.rows)


def _read_label_tensors(store: FeatureStore) -> dict[str, Tensor]:
    """Return what all parts computed of labels, as their ensemble names it."""
    alone = "parts" not in store.config["scorer"]
    return {
        name if alone else f"{part}/{name}": tensor
        for part in store.parts
        for name, tensor in store.label_tensors(part).items()
    }


def _read_vectors(store: FeatureStore, groups: Sequence[Span], part: str) -> Tensor:
    """Return the vectors of a part."""
    count = sum(last - first for first, last in groups)
    vectors = torch.cat([store.read_file(vectors_name(rows, part))["vectors"] for rows in groups]).float()
    if len(vectors) != count:
        raise InputError(f"{store.path} is damaged: its vectors are of {len(vectors)} texts, not {count}.")
    return vectors


def _read_words(store: FeatureStore, groups: Sequence[Span]) -> csr_array:
    """Return the words."""
    count = sum(last - first for first, last in groups)
    parts = [store.read_file(text_name(rows)) for rows in groups]
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
    if words.shape[0] != count:
        raise InputError(f"{store.path} is damaged: its files of texts hold {words.shape[0]} texts, not {count}.")
    return words
