"""The vectors of very many labels in shards, each in a faiss index on an actor, for workers that choose candidates.

    OUT.input/labels.safetensors   "0", "1", …: the labels' vectors of each encoder that chooses, (labels, dimensions)

The driver writes them once. A shard's actor reads its part of them, those of all encoders beside each other; workers
map the file, so that a machine has it in memory once, and only as far as candidates are looked at.
"""

import warnings
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bncl_pyg.distributed.ray_graph import RayBlocks
from bncl_pyg.errors import InputError, missing_extra
from bncl_pyg.graph import Held
from bncl_pyg.persistence import map_arrays, write_arrays

LABELS = "labels.safetensors"


def check_label_shards(shards: int | None, candidates: int | None) -> None:
    """Raise, before anything is loaded, if labels cannot be searched in shards."""
    if shards is None:
        return
    if shards < 1:
        raise InputError(f"label_shards must be at least 1, but is {shards}.")
    if candidates is None:
        raise InputError("label_shards is for candidates: without, every text is scored with every label.")
    if find_spec("faiss") is None:
        raise missing_extra("Searching labels in shards", "faiss", "scale")


def write_label_vectors(folder: Path, vectors: Sequence[Tensor]) -> None:
    """Write the labels' vectors of each encoder."""
    write_arrays(folder / LABELS, {str(place): part.contiguous().numpy() for place, part in enumerate(vectors)})


def label_vectors(folder: Path) -> list[Tensor]:
    """Return the labels' vectors of each encoder, mapped."""
    arrays = map_arrays(folder / LABELS)
    with warnings.catch_warnings():
        # Nobody writes to them.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable", category=UserWarning)
        return [torch.from_numpy(arrays[str(place)]) for place in range(len(arrays))]


class LabelShard:
    """Searches exactly among some labels (faiss's flat index).

    Args:
        folder: where the vectors lie.
        begin: the first of the labels.
        end: where the next shard begins.
    """

    def __init__(self, folder: Path, begin: int, end: int) -> None:
        import faiss

        vectors = torch.cat([part[begin:end] for part in label_vectors(folder)], dim=1)
        self._begin, self._index = begin, faiss.IndexFlatIP(vectors.shape[1])
        self._index.add(vectors.numpy())

    def __call__(self, queries: NDArray[np.float32], count: int) -> dict[str, NDArray[Any]]:
        """Return the highest products and the places of at most `count` labels, (queries, labels)."""
        products, places = self._index.search(queries, min(count, self._index.ntotal))
        return {"products": products, "places": places + self._begin}


class ShardedLabels:
    """What workers ask for the nearest labels: a `NearestLabels` over all shards.

    Args:
        shards: the actors.
    """

    def __init__(self, shards: Held) -> None:
        self._shards = shards

    def __call__(self, queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Return products, highest first, and places, (queries, count) each."""
        results = self._shards.ask(queries.contiguous().numpy(), count)
        products, places = (
            torch.from_numpy(np.concatenate([part[name] for part in results], axis=1))
            for name in ("products", "places")
        )
        best = products.topk(count, dim=1)
        return best.values, places.gather(1, best.indices)


def hold_labels(engine: RayBlocks, folder: Path, labels: int, shards: int) -> ShardedLabels:
    """Have actors hold the labels whose vectors lie in a folder.

    Args:
        engine: of the cluster.
        folder: the vectors, which all machines reach.
        labels: how many there are.
        shards: into how many shards they are cut.
    """
    cuts = np.linspace(0, labels, min(shards, labels) + 1).round().astype(int).tolist()
    makers = [partial(LabelShard, folder, begin, end) for begin, end in pairwise(cuts)]
    return ShardedLabels(engine.hold(makers))
