"""Each label's nearest and farthest labels: exactly by blocked products, or by faiss where there are very many."""

import importlib.util
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bncl_pyg.errors import InputError
from bncl_pyg.graph.blocks import Arrays, Held, Work, hash_of, tensor_of
from bncl_pyg.graph.edges import Edges, rows_at_once
from bncl_pyg.graph.walks import ENEMY, FRIEND

ROWS_A_SEARCH = 8192
"""How many labels faiss searches for at a time; it changes no result."""

_GROUP = 64
"""The largest of a row are looked for in its groups of so many: only the best groups' members are compared."""
_COSINE_TOLERANCE = 1e-6
"""How far two sums of the same products may differ."""


@dataclass(frozen=True)
class NearestSearch:
    """How the nearest and the farthest labels are searched for: exactly, or by faiss (IVF) where there are very many.

    Args:
        exact_labels: up to so many labels every pair is compared; beyond, only those within the most similar clusters.
        recall: which share of the true nearest, and of the true farthest, the search by clusters must find.
        sample: on how many labels the recall is measured.
        clusters: how many there are, as a multiple of √labels.
        points_a_cluster: on how many labels a cluster k-means is trained.
        iterations: of k-means.
        probe_growth: by how much the number of searched clusters grows until the recall is reached.
        seed: of k-means and of the sample.
    """

    exact_labels: int = 200_000
    recall: float = 0.95
    sample: int = 500
    clusters: float = 4
    points_a_cluster: int = 64
    iterations: int = 10
    probe_growth: float = 1.3
    seed: int = 0


DEFAULT_SEARCH = NearestSearch()


class Neighbours(NamedTuple):
    """Of some labels the best others, best first: their places, int32, and cosines, float32, both (labels, n)."""

    places: NDArray[np.int32]
    cosines: NDArray[np.float32]


def neighbour_edges(
    units: NDArray[np.float32], neighbours: int, search: NearestSearch, memory: float, work: Work
) -> tuple[Edges, dict[str, Any]]:
    """Return pairs of which one is the other's nearest (friends) or farthest (enemies), and their provenance.

    Args:
        units: vectors of length 1, (labels, dimensions).
        neighbours: how many nearest and how many farthest; equal cosines go by the labels' order.
        search: how they are searched for.
        memory: the budget in GB that decides how many rows are compared at a time.
        work: keeps finished blocks.
    """
    check_neighbours(len(units), neighbours, search)
    if len(units) <= search.exact_labels:
        rows, provenance = rows_at_once(len(units), memory), {"search": "exact"}
        find: Callable[[NDArray[np.int64]], Arrays] = AllPairs(units, neighbours).find
    else:
        clusters = Clusters(units, neighbours, search, rows_at_once(len(units), memory), work)
        rows, provenance, find = ROWS_A_SEARCH, clusters.provenance, clusters.find
    shape = (len(units), neighbours)
    nearest, farthest = (Neighbours(np.empty(shape, np.int32), np.empty(shape, np.float32)) for _ in range(2))
    made_from = hash_of(units, neighbours, rows, provenance)
    compute = RowBlocks(find, rows, len(units))
    for number, block in enumerate(work.blocks("nearest", made_from, math.ceil(len(units) / rows), compute)):
        here = slice(number * rows, (number + 1) * rows)
        nearest.places[here], nearest.cosines[here] = block["nearest"], block["nearest_cosines"]
        farthest.places[here], farthest.cosines[here] = block["farthest"], block["farthest_cosines"]
    return _join(nearest, farthest), provenance


def check_neighbours(labels: int, neighbours: int, search: NearestSearch) -> None:
    """Raise unless so many labels with a vector can have so many nearest and farthest, and what finds them is there."""
    most = (labels - 1) // 2
    if not 1 <= neighbours <= most:
        raise InputError(
            f"{neighbours} nearest and {neighbours} farthest neighbours were asked for, but each of {labels} labels "
            + (f"with a vector can have 1 to {most}." if most else "with a vector can have none: 3 labels are needed.")
        )
    if labels > search.exact_labels and importlib.util.find_spec("faiss") is None:
        raise InputError(f"The neighbours of {labels:,} labels need faiss: pip install 'bncl-pyg[scale]'.")


@dataclass(frozen=True)
class RowBlocks:
    """What is found of labels, a block of rows at a time.

    Args:
        find: from places of labels to what is found of them.
        rows: how many a block has.
        labels: how many there are.
    """

    find: Callable[[NDArray[np.int64]], Arrays]
    rows: int
    labels: int

    def __call__(self, number: int) -> Arrays:
        """Return what is found of a block."""
        return self.find(np.arange(number * self.rows, min((number + 1) * self.rows, self.labels)))


class AllPairs:
    """Compares labels with all others."""

    def __init__(self, units: NDArray[np.float32], neighbours: int) -> None:
        self.labels, self.neighbours = len(units), neighbours
        self.units = np.zeros((math.ceil(len(units) / _GROUP) * _GROUP, units.shape[1]), dtype=np.float32)
        self.units[: len(units)] = units

    def find(self, places: NDArray[np.int64]) -> Arrays:
        """Return the nearest and the farthest of the labels at some places."""
        units = tensor_of(self.units)
        cosines = (units[places] @ units.T).clamp_(-1, 1)
        block: Arrays = {}
        for name, sign in (("nearest", 1), ("farthest", -1)):
            cosines *= sign
            # Nobody is their own neighbour, and what fills the last group is nobody.
            cosines[torch.arange(len(places)), torch.from_numpy(places)] = -math.inf
            cosines[:, self.labels :] = -math.inf
            values, best = largest(cosines, self.neighbours)
            block[name], block[f"{name}_cosines"] = best.numpy().astype(np.int32), values.numpy() * np.float32(sign)
        return block


def largest(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return each row's `count` largest values, largest first, and their places; equal ones by their place.

    The `count` groups with the largest maxima hold them all. `values` has a multiple of `_GROUP` columns.
    """
    groups = values.view(len(values), -1, _GROUP)
    if groups.shape[1] <= count:
        return top_k(values, count)
    _, chosen = top_k(groups.amax(dim=2), count)
    chosen = chosen.sort(dim=1).values
    members = groups.gather(1, chosen[:, :, None].expand(-1, -1, _GROUP)).flatten(1)
    top, within = top_k(members, count)
    return top, chosen.gather(1, within // _GROUP) * _GROUP + within % _GROUP


def top_k(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the same of any values; of equal ones `torch.topk` may take any, so that rows with such are sorted."""
    top, places = values.topk(min(count + 1, values.shape[1]), dim=1)
    equal = (top[:, 1:] == top[:, :-1]).any(dim=1)
    if bool(equal.any()):
        ordered = values[equal].sort(dim=1, descending=True, stable=True)
        top[equal], places[equal] = (part[:, : top.shape[1]] for part in ordered)
    return top[:, :count], places[:, :count]


def _join(nearest: Neighbours, farthest: Neighbours) -> Edges:
    """Return each pair once, whoever of the two chose the other; one that is both stays a friend."""
    friends, friend_cosines = _pairs(nearest)
    enemies, enemy_cosines = _pairs(farthest)
    only_enemies = ~np.isin(enemies, friends, assume_unique=True)
    keys = np.concatenate([friends, enemies[only_enemies]])
    labels = len(nearest.places)
    return Edges(
        np.stack([keys // labels, keys % labels]).astype(np.int32),
        np.repeat(np.array([FRIEND, ENEMY], dtype=np.int8), [len(friends), int(only_enemies.sum())]),
        np.concatenate([friend_cosines, enemy_cosines[only_enemies]]),
    )


def _pairs(chosen: Neighbours) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the pairs as sorted whole numbers, each once, with their cosines."""
    labels = len(chosen.places)
    others = chosen.places.astype(np.int64)
    own = np.arange(labels)[:, None]
    keys = (np.minimum(own, others) * labels + np.maximum(own, others)).ravel()
    keys, first = np.unique(keys, return_index=True)
    return keys, chosen.cosines.ravel()[first]


class IndexShard:
    """The index of some labels (faiss's IVF, without compression): searches among them, cluster by cluster.

    Args:
        units: their vectors, (labels of the shard, dimensions).
        begin: the place of the first.
        clusters: the cluster of each.
        centroids: of all clusters.
    """

    def __init__(
        self,
        units: NDArray[np.float32],
        begin: int,
        clusters: NDArray[np.int64],
        centroids: NDArray[np.float32],
    ) -> None:
        import faiss

        dimensions = units.shape[1]
        # The index does not keep its quantizer alive.
        self._quantizer = faiss.IndexFlatIP(dimensions)
        self._quantizer.add(centroids)
        # Its Python methods take arrays, unlike what their types say.
        self._index: Any = faiss.IndexIVFFlat(self._quantizer, dimensions, len(centroids), faiss.METRIC_INNER_PRODUCT)
        self._index.is_trained = True
        places, own = np.arange(begin, begin + len(units)), np.ascontiguousarray(clusters)
        vectors = np.ascontiguousarray(units)
        pointers = (faiss.swig_ptr(array) for array in (vectors, places, own))
        self._index.add_core(len(units), *pointers)
        self.labels = len(units)

    def __call__(self, queries: NDArray[np.float32], clusters: NDArray[np.int64], count: int) -> Arrays:
        """Return the `count` nearest in given clusters, nearest first, equal ones by their place.

        Args:
            queries: (queries, dimensions).
            clusters: of each query those to search, (queries, probes).
            count: how many.

        Returns:
            "cosines" and "places", (queries, count); -1 is the place of nobody.
        """
        return self._search(queries, clusters, count, count + 1)

    def _search(self, queries: NDArray[np.float32], clusters: NDArray[np.int64], count: int, asked: int) -> Arrays:
        """Ask for more than are wanted: of those as near as the last, faiss returns any."""
        self._index.nprobe = clusters.shape[1]
        # What a vector's product with the centroid is does not matter here.
        near = np.zeros(clusters.shape, dtype=np.float32)
        cosines, places = self._index.search_preassigned(queries, asked, clusters, near)
        order = np.lexsort((places, -cosines, places < 0))
        cosines, places = (np.take_along_axis(part, order, axis=1) for part in (cosines, places))
        cut = (places[:, -1] >= 0) & (cosines[:, -1] == cosines[:, count - 1])
        cosines, places, last = cosines[:, :count], places[:, :count], asked >= self.labels
        if cut.any() and not last:
            more = self._search(queries[cut], clusters[cut], count, min(4 * asked, self.labels))
            cosines[cut], places[cut] = more["cosines"], more["places"]
        return {"cosines": cosines, "places": places}


def merge_shards(results: Sequence[Arrays], count: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the `count` nearest of what shards returned, as one index of all labels would; cosines and places."""
    cosines, places = (np.concatenate([part[name] for part in results], axis=1) for name in ("cosines", "places"))
    order = np.lexsort((places, -cosines, places < 0))[:, :count]
    return np.take_along_axis(cosines, order, axis=1), np.take_along_axis(places, order, axis=1)


@dataclass(frozen=True)
class ClusterSearch:
    """Compares labels with those in the most similar clusters.

    Args:
        units: vectors of length 1, (labels, dimensions).
        centroids: (clusters, dimensions).
        shards: the indices that hold the labels.
        neighbours: how many nearest and farthest are wanted.
        probes: in how many clusters each of both is searched for.
    """

    units: NDArray[np.float32]
    centroids: NDArray[np.float32]
    shards: Held
    neighbours: int
    probes: tuple[int, int] = (1, 1)

    def find(self, places: NDArray[np.int64]) -> Arrays:
        """Return the nearest and the farthest of the labels at some places."""
        nearest, farthest = (
            self.search(places, sign, probes) for sign, probes in zip((1, -1), self.probes, strict=True)
        )
        return {
            "nearest": nearest.places,
            "nearest_cosines": nearest.cosines,
            "farthest": farthest.places,
            "farthest_cosines": farthest.cosines,
        }

    def search(self, places: NDArray[np.int64], sign: int, probes: int) -> Neighbours:
        """Search with the labels' vectors, or with the opposite ones; in more clusters where these hold too few."""
        queries = self.units[places] * np.float32(sign)
        clusters = nearest_clusters(queries, self.centroids, probes)
        results = self.shards.ask(queries, clusters, self.neighbours + 1)
        cosines, others = merge_shards(results, self.neighbours + 1)
        absent = (others == places[:, None]) | (others < 0)
        order = np.lexsort((others, -cosines, absent))[:, : self.neighbours]
        others = np.take_along_axis(np.where(absent, -1, others), order, axis=1)
        cosines = np.clip(np.take_along_axis(cosines, order, axis=1), -1, 1) * np.float32(sign)
        few = (others < 0).any(axis=1)
        if probes < len(self.centroids) and few.any():
            others[few], cosines[few] = self.search(places[few], sign, min(4 * probes, len(self.centroids)))
        return Neighbours(others.astype(np.int32), cosines)


def nearest_clusters(queries: NDArray[np.float32], centroids: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Return the `count` clusters with the nearest centroids of each query, nearest first, equal ones by number."""
    _, clusters = top_k(tensor_of(queries) @ tensor_of(centroids).T, count)
    return np.ascontiguousarray(clusters.numpy())


@dataclass(frozen=True)
class Assigned:
    """The cluster of each label, a block of labels at a time.

    Args:
        units: vectors of length 1, (labels, dimensions).
        centroids: (clusters, dimensions).
        rows: how many labels a block has.
    """

    units: NDArray[np.float32]
    centroids: NDArray[np.float32]
    rows: int

    def __call__(self, number: int) -> Arrays:
        """Return the clusters of a block."""
        here = self.units[number * self.rows : (number + 1) * self.rows]
        return {"clusters": nearest_clusters(here, self.centroids, 1)[:, 0]}


class Clusters:
    """Compares labels with those in the most similar clusters, as many as the recall on a sample needs (faiss's IVF).

    Clusters are trained here; which one each label belongs to is computed block by block, and the index is cut into as
    many shards of labels as the work has parts. That changes no result.

    Attributes:
        provenance: how many clusters there are, in how many of them nearest and farthest are looked for, their recall,
            and the settings of the search.
        find: see `ClusterSearch`.
    """

    def __init__(
        self, units: NDArray[np.float32], neighbours: int, settings: NearestSearch, rows: int, work: Work
    ) -> None:
        self.units, self.neighbours, self.settings, self.rows = units, neighbours, settings, rows
        self.clusters = round(settings.clusters * math.sqrt(len(units)))
        made_from = hash_of(units, neighbours, settings)
        (trained,) = work.blocks("centroids", made_from, 1, self._train, here=True)
        centroids = trained["centroids"]
        count = math.ceil(len(units) / ROWS_A_SEARCH)
        by_block = hash_of(made_from, centroids, ROWS_A_SEARCH)
        blocks = work.blocks("clusters", by_block, count, Assigned(units, centroids, ROWS_A_SEARCH))
        assigned = [block["clusters"] for block in blocks]
        shards = work.hold(_shard_makers(units, np.concatenate(assigned), centroids, work.parts))
        search = ClusterSearch(units, centroids, shards, neighbours)
        tune = partial(self._tune, search)
        (tuned,) = work.blocks("probes", hash_of(made_from, centroids), 1, tune, here=True)
        probes = tuned["probes"].tolist()
        friends, enemies = tuned["recall"].tolist()
        self.find = ClusterSearch(units, centroids, shards, neighbours, tuple(probes)).find
        self.provenance = {
            "search": "faiss",
            "search_settings": asdict(settings),
            "clusters": self.clusters,
            "probes": probes,
            "recall": {"friends": friends, "enemies": enemies, "sample": min(settings.sample, len(units))},
        }

    def _train(self, _: int) -> Arrays:
        import faiss

        kmeans = faiss.Kmeans(
            self.units.shape[1],
            self.clusters,
            niter=self.settings.iterations,
            spherical=True,
            seed=self.settings.seed,
            max_points_per_centroid=self.settings.points_a_cluster,
            min_points_per_centroid=1,
        )
        kmeans.train(self.units)
        return {"centroids": np.asarray(kmeans.centroids)}

    def _tune(self, search: ClusterSearch, _: int) -> Arrays:
        """Return in how many clusters the nearest and the farthest are to be looked for, and the recall on a sample."""
        generator = np.random.default_rng(self.settings.seed)
        sample = np.sort(generator.permutation(len(self.units))[: self.settings.sample])
        exact = AllPairs(self.units, self.neighbours)
        parts = [exact.find(places) for places in np.split(sample, range(self.rows, len(sample), self.rows))]
        all_probes, recalls = [], []
        for name, sign in (("nearest", 1), ("farthest", -1)):
            worst = np.concatenate([part[f"{name}_cosines"][:, -1:] for part in parts]) * sign
            probes = 1
            while (recall := _recall(search, sample, sign, probes, worst)) < self.settings.recall:
                if probes == self.clusters:
                    break
                probes = min(math.ceil(self.settings.probe_growth * probes), self.clusters)
            all_probes.append(probes)
            recalls.append(recall)
        return {"probes": np.array(all_probes), "recall": np.array(recalls)}


def _shard_makers(
    units: NDArray[np.float32], clusters: NDArray[np.int64], centroids: NDArray[np.float32], parts: int
) -> list[Callable[[], IndexShard]]:
    """Return what makes the shards of an index, of about as many labels each."""
    cuts = [round(len(units) * part / parts) for part in range(parts + 1)]
    return [
        partial(IndexShard, units[begin:end], begin, clusters[begin:end], centroids)
        for begin, end in pairwise(cuts)
        if end > begin
    ]


def _recall(
    search: ClusterSearch, sample: NDArray[np.int64], sign: int, probes: int, worst: NDArray[np.float32]
) -> float:
    """Return the share of true neighbours that a search returns; `worst` is how near the last of them is."""
    # Whoever is as near as the last true neighbour is as good.
    right = search.search(sample, sign, probes).cosines * sign >= worst - _COSINE_TOLERANCE
    return float(right.mean())
