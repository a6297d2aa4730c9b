from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bncl_pyg.corpus import LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.graph import LabelVectors, SignedLabelGraph, balanced_neighbourhoods, build_graph

Vectors = NDArray[np.float32]


@st.composite
def unit_vectors(draw: st.DrawFn) -> Vectors:
    """Four halves have length 1: every cosine is exact, and many are equal, so that all rules of the order count."""
    generator = np.random.default_rng(draw(st.integers(0, 10_000)))
    units = generator.choice([-0.5, 0.5], (draw(st.integers(4, 14)), 4)).astype(np.float32)
    cosines = (units @ units.T)[np.triu_indices(len(units), k=1)]
    assume(np.percentile(cosines, 30) < np.percentile(cosines, 70))
    return units


def exact_graph(units: Vectors, most: int | None = None) -> SignedLabelGraph:
    names = [str(place) for place in range(len(units))]
    return build_graph(names, LabelVectors(units, "x"), (30, 70), hops=3, max_neighbours=most)


def by_hand(graph: SignedLabelGraph, units: NDArray[np.float32], most: int) -> list[NDArray[np.int64]]:
    """Friends' and enemies' walks at every hop, (2, sources, targets), each target's strongest only."""
    labels = graph.num_nodes
    signs = np.zeros((labels, labels), dtype=np.int64)
    signs[tuple(graph.edge_index.numpy())] = graph.edge_sign.numpy()

    def strongest(walks: NDArray[np.int64]) -> NDArray[np.int64]:
        kept = np.zeros_like(walks)
        for kind, sign in enumerate((1, -1)):
            for target in range(labels):
                sources = np.flatnonzero(walks[kind, :, target])
                key = {u: (-walks[kind, u, target], -sign * float(units[u] @ units[target]), u) for u in sources}
                for source in sorted(sources, key=key.__getitem__)[:most]:
                    kept[kind, source, target] = walks[kind, source, target]
        return kept

    first = strongest(np.stack([signs > 0, signs < 0]).astype(np.int64))
    hops = [first]
    while len(hops) < graph.hops:
        (friends, enemies), (friend_step, enemy_step) = hops[-1], first
        hops.append(
            strongest(
                np.stack([friend_step @ friends + enemy_step @ enemies, friend_step @ enemies + enemy_step @ friends])
            )
        )
    return hops


def arrays(graph: SignedLabelGraph) -> list[NDArray[np.int64]]:
    hops = balanced_neighbourhoods(graph)
    return [np.stack([one.friends.toarray(), one.enemies.toarray()]) for one in hops]


@settings(max_examples=80, deadline=None)
@given(unit_vectors(), st.integers(1, 5), st.sampled_from([1, 3, 1000]), st.sampled_from([1e-9, 1 / 8]))
def test_each_target_keeps_its_strongest(units: Vectors, most: int, rows: int, share: float) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("bncl_pyg.graph.prune.MOST_ROWS", rows)
        monkeypatch.setattr("bncl_pyg.graph.prune.BLOCK_SHARE", share)
        graph = exact_graph(units, most)
    for mine, expected in zip(arrays(graph), by_hand(graph, units, most), strict=True):
        assert (mine == expected).all()


@settings(max_examples=40, deadline=None)
@given(unit_vectors())
def test_nothing_to_prune_is_the_balanced_neighbourhoods(units: Vectors) -> None:
    for mine, expected in zip(arrays(exact_graph(units, 14)), arrays(exact_graph(units)), strict=True):
        assert (mine == expected).all()


def a_graph(labels: int = 60, hops: int = 3, **options: int) -> SignedLabelGraph:
    names = tuple(f"l{place}" for place in range(labels))
    vectors = np.random.default_rng(0).normal(size=(labels, 8)).astype(np.float32)
    return build_graph(LabelSet(names, names), LabelVectors(vectors, "random"), hops=hops, **options)


def test_a_pruned_graph_carries_its_neighbourhoods() -> None:
    graph = a_graph(neighbours=5, max_neighbours=4)
    assert graph.provenance["max_neighbours"] == 4
    for one in balanced_neighbourhoods(graph):
        for counts in (one.friends, one.enemies):
            assert np.bincount(counts.indices, minlength=60).max() == 4
    assert balanced_neighbourhoods(graph.clone(), 2)[1].friends.nnz == balanced_neighbourhoods(graph)[1].friends.nnz
    with pytest.raises(InputError, match="up to hop 3, but 4 hops were asked for: build it again with hops=4"):
        balanced_neighbourhoods(graph, 4)
    for one, simple in zip(balanced_neighbourhoods(graph), balanced_neighbourhoods(graph, simple=True), strict=True):
        expected = (one.friends.toarray() > 0) & ~np.eye(60, dtype=bool)
        assert (simple.friends.toarray() == expected).all()
    assert balanced_neighbourhoods(graph)[1].friends.diagonal().any()


def test_the_folder_keeps_them(tmp_path: Path) -> None:
    graph = a_graph(neighbours=5, max_neighbours=4)
    graph.save(tmp_path / "g")
    again = SignedLabelGraph.load(tmp_path / "g")
    assert len(again.pruned) == 3
    for mine, theirs in zip(graph.pruned, again.pruned, strict=True):
        for first, second in ((mine.friends, theirs.friends), (mine.enemies, theirs.enemies)):
            assert (first != second).nnz == 0
            assert first.dtype == second.dtype == np.int64
    unpruned = a_graph(neighbours=5)
    unpruned.save(tmp_path / "u")
    assert not (tmp_path / "u" / "neighbourhoods.safetensors").exists()
    assert SignedLabelGraph.load(tmp_path / "u").pruned == []


def test_damaged_neighbourhoods_are_named(tmp_path: Path) -> None:
    a_graph(neighbours=5, max_neighbours=4).save(tmp_path / "g")
    file = tmp_path / "g" / "neighbourhoods.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(InputError, match=r"neighbourhoods\.safetensors"):
        SignedLabelGraph.load(tmp_path / "g")


def test_too_little_memory_for_the_hops_is_said() -> None:
    with pytest.raises(
        InputError, match=r"hops 1 to 2 may keep .* but the memory budget is 0\.0002 GB: use a smaller max_neighbours"
    ):
        a_graph(neighbours=20, max_neighbours=50, memory=0.0002)
    with pytest.raises(InputError, match="at least 1 neighbour, but 0"):
        a_graph(max_neighbours=0)


@given(unit_vectors(), st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_messages_go_along_the_edges_that_are_kept(units: Vectors, most: int) -> None:
    graph = exact_graph(units)
    edges, friends = graph.message_edges()
    assert torch.equal(edges, graph.edge_index)
    assert torch.equal(edges[:, friends], graph.pos_edge_index)
    kept, are_friends = exact_graph(units, most).message_edges()
    key = kept[1] * graph.num_nodes + kept[0]
    assert bool((key[1:] > key[:-1]).all())
    signs = dict(zip(zip(*edges.tolist(), strict=True), friends.tolist(), strict=True))
    assert all(
        signs[edge] == sign for edge, sign in zip(zip(*kept.tolist(), strict=True), are_friends.tolist(), strict=True)
    )
    for wanted in (True, False):
        counts = torch.bincount(kept[1][are_friends == wanted], minlength=graph.num_nodes)
        offered = torch.bincount(edges[1][friends == wanted], minlength=graph.num_nodes)
        assert torch.equal(counts, offered.clamp(max=most))
