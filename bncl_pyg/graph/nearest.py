"""Each label's nearest and farthest labels: exactly by blocked products, or by faiss where there are very many."""

import importlib.util
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bncl_pyg.errors import InputError
from bncl_pyg.graph.blocks import Arrays, Work, hash_of
from bncl_pyg.graph.edges import Edges, rows_at_once
from bncl_pyg.graph.signed import ENEMY, FRIEND

EXACT_LABELS = 200_000
"""Up to so many labels every pair is compared; beyond, faiss compares only within the likeliest clusters."""
RECALL = 0.95
"""Which share of the true nearest and of the true farthest labels the search by faiss must find on a sample."""
SAMPLE = 500
ROWS_A_SEARCH = 8192

_GROUP = 64
"""The largest of a row are looked for among its groups of so many: only the best groups' members are compared."""
_POINTS_A_CLUSTER, _ROUNDS = 64, 10


class Found(NamedTuple):
    """Of some labels the best others, best first: their places, int32, and cosines, float32, both (labels, n)."""

    places: NDArray[np.int32]
    cosines: NDArray[np.float32]


def neighbour_edges(
    units: NDArray[np.float32], neighbours: int, memory: float, work: Work
) -> tuple[Edges, dict[str, Any]]:
    """Return pairs of which one label is among the other's nearest (friends) or farthest (enemies), and how found.

    Args:
        units: vectors of length 1, (labels, dimensions).
        neighbours: how many nearest and how many farthest; equal cosines go by the labels' order.
        memory: the budget in GB that decides how many rows are compared at a time.
        work: keeps finished blocks.
    """
    check_neighbours(len(units), neighbours)
    if len(units) <= EXACT_LABELS:
        rows, about = rows_at_once(len(units), memory), {"search": "exact"}
        search: Callable[[NDArray[np.int64]], Arrays] = AllPairs(units, neighbours).search
    else:
        clusters = Clusters(units, neighbours, rows_at_once(len(units), memory), work)
        rows, about, search = ROWS_A_SEARCH, clusters.about, clusters.search
    shape = (len(units), neighbours)
    nearest, farthest = (Found(np.empty(shape, np.int32), np.empty(shape, np.float32)) for _ in range(2))
    made_from = hash_of(units, neighbours, rows, about)

    def compute(number: int) -> Arrays:
        return search(np.arange(number * rows, min((number + 1) * rows, len(units))))

    for number, block in enumerate(work.blocks("nearest", made_from, math.ceil(len(units) / rows), compute)):
        here = slice(number * rows, (number + 1) * rows)
        nearest.places[here], nearest.cosines[here] = block["nearest"], block["nearest_cosines"]
        farthest.places[here], farthest.cosines[here] = block["farthest"], block["farthest_cosines"]
    return _joined(nearest, farthest), about


def check_neighbours(labels: int, neighbours: int) -> None:
    """Raise unless so many labels with a vector can have so many nearest and farthest, and what finds them is there."""
    most = (labels - 1) // 2
    if not 1 <= neighbours <= most:
        raise InputError(
            f"{neighbours} nearest and {neighbours} farthest neighbours were asked for, but each of {labels} labels "
            + (f"with a vector can have 1 to {most}." if most else "with a vector can have none: 3 labels are needed.")
        )
    if labels > EXACT_LABELS and importlib.util.find_spec("faiss") is None:
        raise InputError(f"The neighbours of {labels:,} labels need faiss: pip install 'bncl-pyg[scale]'.")


class AllPairs:
    """Compares labels with all others."""

    def __init__(self, units: NDArray[np.float32], neighbours: int) -> None:
        self.labels, self.neighbours = len(units), neighbours
        self.units = torch.zeros(math.ceil(len(units) / _GROUP) * _GROUP, units.shape[1])
        self.units[: len(units)] = torch.from_numpy(units)

    def search(self, places: NDArray[np.int64]) -> Arrays:
        """Return the nearest and the farthest of the labels at some places."""
        cosines = (self.units[places] @ self.units.T).clamp_(-1, 1)
        found: Arrays = {}
        for name, sign in (("nearest", 1), ("farthest", -1)):
            cosines *= sign
            # Nobody is their own neighbour, and what fills the last group is nobody.
            cosines[torch.arange(len(places)), torch.from_numpy(places)] = -math.inf
            cosines[:, self.labels :] = -math.inf
            values, best = largest(cosines, self.neighbours)
            found[name], found[f"{name}_cosines"] = best.numpy().astype(np.int32), values.numpy() * np.float32(sign)
        return found


def largest(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return each row's `count` largest values, largest first, and their places; equal ones by their place.

    The `count` groups with the largest maxima hold them all. `values` has a multiple of `_GROUP` columns.
    """
    groups = values.view(len(values), -1, _GROUP)
    if groups.shape[1] <= count:
        return topmost(values, count)
    _, chosen = topmost(groups.amax(dim=2), count)
    chosen = chosen.sort(dim=1).values
    members = groups.gather(1, chosen[:, :, None].expand(-1, -1, _GROUP)).flatten(1)
    found, within = topmost(members, count)
    return found, chosen.gather(1, within // _GROUP) * _GROUP + within % _GROUP


def topmost(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Do the same of any values; among equal ones `torch.topk` may take any, so that rows with such are sorted."""
    found, places = values.topk(min(count + 1, values.shape[1]), dim=1)
    equal = (found[:, 1:] == found[:, :-1]).any(dim=1)
    if bool(equal.any()):
        ordered = values[equal].sort(dim=1, descending=True, stable=True)
        found[equal], places[equal] = (part[:, : found.shape[1]] for part in ordered)
    return found[:, :count], places[:, :count]


def _joined(nearest: Found, farthest: Found) -> Edges:
    """Return each pair once, whoever of the two chose the other; one that is both stays a friend."""
    friends, friend_cosines = _pairs(nearest)
    enemies, enemy_cosines = _pairs(farthest)
    apart = ~np.isin(enemies, friends, assume_unique=True)
    keys = np.concatenate([friends, enemies[apart]])
    labels = len(nearest.places)
    return Edges(
        np.stack([keys // labels, keys % labels]).astype(np.int32),
        np.repeat(np.array([FRIEND, ENEMY], dtype=np.int8), [len(friends), int(apart.sum())]),
        np.concatenate([friend_cosines, enemy_cosines[apart]]),
    )


def _pairs(found: Found) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the pairs as sorted whole numbers, each once, with their cosines."""
    labels = len(found.places)
    others = found.places.astype(np.int64)
    own = np.arange(labels)[:, None]
    keys = (np.minimum(own, others) * labels + np.maximum(own, others)).ravel()
    keys, first = np.unique(keys, return_index=True)
    return keys, found.cosines.ravel()[first]


class Clusters:
    """Compares labels with those in the likeliest clusters, as many as the recall on a sample asks for (faiss's IVF).

    Attributes:
        about: how many clusters there are, in how many of them nearest and farthest are looked for, and their recall.
    """

    def __init__(self, units: NDArray[np.float32], neighbours: int, rows: int, work: Work) -> None:
        self.units, self.neighbours, self.rows = units, neighbours, rows
        self.clusters = round(4 * math.sqrt(len(units)))
        self._index: Any = None
        made_from = hash_of(units, neighbours, self.clusters, RECALL, SAMPLE)
        (trained,) = work.blocks("index", made_from, 1, self._train)
        if self._index is None:
            self._fill(trained["centroids"])
        self._probes: list[int] = trained["probes"].tolist()
        friends, enemies = trained["recall"].tolist()
        self.about = {
            "search": "faiss",
            "clusters": self.clusters,
            "probes": self._probes,
            "recall": {"friends": friends, "enemies": enemies, "sample": min(SAMPLE, len(units))},
        }

    def search(self, places: NDArray[np.int64]) -> Arrays:
        """Return the nearest and the farthest of the labels at some places."""
        nearest, farthest = (
            self._search(places, sign, probes) for sign, probes in zip((1, -1), self._probes, strict=True)
        )
        return {
            "nearest": nearest.places,
            "nearest_cosines": nearest.cosines,
            "farthest": farthest.places,
            "farthest_cosines": farthest.cosines,
        }

    def _train(self, _: int) -> Arrays:
        import faiss

        kmeans = faiss.Kmeans(
            self.units.shape[1],
            self.clusters,
            niter=_ROUNDS,
            spherical=True,
            seed=0,
            max_points_per_centroid=_POINTS_A_CLUSTER,
            min_points_per_centroid=1,
        )
        kmeans.train(self.units)
        centroids = np.asarray(kmeans.centroids)
        self._fill(centroids)
        probes, recalls = self._tuned()
        return {"centroids": centroids, "probes": np.array(probes), "recall": np.array(recalls)}

    def _fill(self, centroids: NDArray[np.float32]) -> None:
        import faiss

        quantizer = faiss.IndexFlatIP(self.units.shape[1])
        quantizer.add(centroids)
        index = faiss.IndexIVFFlat(quantizer, self.units.shape[1], self.clusters, faiss.METRIC_INNER_PRODUCT)
        index.is_trained = True
        index.add(self.units)
        self._quantizer, self._index = quantizer, index  # the index does not keep its quantizer alive

    def _search(self, places: NDArray[np.int64], sign: int, probes: int) -> Found:
        """Search with the labels' vectors, or with the opposite ones; in more clusters where too few are found."""
        self._index.nprobe = probes
        cosines, found = self._index.search(self.units[places] * np.float32(sign), self.neighbours + 1)
        absent = (found == places[:, None]) | (found < 0)
        order = np.lexsort((found, -cosines, absent))[:, : self.neighbours]
        found = np.take_along_axis(np.where(absent, -1, found), order, axis=1)
        cosines = np.clip(np.take_along_axis(cosines, order, axis=1), -1, 1) * np.float32(sign)
        few = (found < 0).any(axis=1)
        if probes < self.clusters and few.any():
            found[few], cosines[few] = self._search(places[few], sign, min(4 * probes, self.clusters))
        return Found(found.astype(np.int32), cosines)

    def _tuned(self) -> tuple[list[int], list[float]]:
        """Return in how many clusters the nearest and the farthest are to be looked for, and the recall on a sample."""
        sample = np.sort(np.random.default_rng(0).permutation(len(self.units))[:SAMPLE])
        exact = AllPairs(self.units, self.neighbours)
        parts = [exact.search(places) for places in np.split(sample, range(self.rows, len(sample), self.rows))]
        all_probes, recalls = [], []
        for name, sign in (("nearest", 1), ("farthest", -1)):
            worst = np.concatenate([part[f"{name}_cosines"][:, -1:] for part in parts]) * sign
            probes = 1
            while (recall := self._recall(sample, sign, probes, worst)) < RECALL and probes < self.clusters:
                probes = min(math.ceil(1.3 * probes), self.clusters)
            all_probes.append(probes)
            recalls.append(recall)
        return all_probes, recalls

    def _recall(self, sample: NDArray[np.int64], sign: int, probes: int, worst: NDArray[np.float32]) -> float:
        """Return which share of the true neighbours is found; `worst` is how near the last of them is."""
        found = self._search(sample, sign, probes)
        # Whoever is as near as the last true neighbour is as good; 1e-6 is how far two sums of the same may differ.
        right = found.cosines * sign >= worst - 1e-6
        return float(right.mean())
