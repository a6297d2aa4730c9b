from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bncl_pyg.corpus import LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.graph import LabelVectors, SignedLabelGraph, balanced_neighbourhoods, build_graph, prune
from bncl_pyg.graph.blocks import Work
from bncl_pyg.graph.prune import pruned_neighbourhoods

Case = tuple[SignedLabelGraph, NDArray[np.float32]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A random signed graph with vectors that have nothing to do with its edges; some cosines are equal."""
    labels, seed = draw(st.integers(2, 12)), draw(st.integers(0, 10_000))
    generator = np.random.default_rng(seed)
    # Four halves have length 1, and every cosine is exact.
    units = generator.choice([-0.5, 0.5], (labels, 4)).astype(np.float32)
    pairs = np.stack(np.triu_indices(labels, k=1))
    signs = generator.choice([-1, 0, 1], pairs.shape[1])
    pairs, signs = pairs[:, signs != 0], signs[signs != 0]
    graph = SignedLabelGraph.from_pairs(
        tuple(map(str, range(labels))),
        torch.from_numpy(pairs),
        torch.from_numpy(signs),
        torch.from_numpy((units @ units.T)[tuple(pairs)]),
        hops=3,
    )
    return graph, units


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
    found = [first]
    while len(found) < graph.hops:
        (friends, enemies), (friend_step, enemy_step) = found[-1], first
        found.append(
            strongest(
                np.stack([friend_step @ friends + enemy_step @ enemies, friend_step @ enemies + enemy_step @ friends])
            )
        )
    return found


def arrays(graph: SignedLabelGraph, units: NDArray[np.float32], most: int) -> list[NDArray[np.int64]]:
    hops = pruned_neighbourhoods(graph, units, most, 8, Work())
    return [np.stack([hood.friends.toarray(), hood.enemies.toarray()]) for hood in hops]


@settings(max_examples=80, deadline=None)
@given(cases(), st.integers(1, 5), st.sampled_from([1, 3, 1000]), st.sampled_from([1e-9, 1 / 8]))
def test_each_target_keeps_its_strongest(case: Case, most: int, rows: int, share: float) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(prune, "MOST_ROWS", rows)
        monkeypatch.setattr(prune, "BLOCK_SHARE", share)
        found = arrays(*case, most)
    for mine, expected in zip(found, by_hand(*case, most), strict=True):
        assert (mine == expected).all()


@settings(max_examples=40, deadline=None)
@given(cases())
def test_nothing_to_prune_is_the_balanced_neighbourhoods(case: Case) -> None:
    for mine, hood in zip(arrays(*case, most=12), balanced_neighbourhoods(case[0]), strict=True):
        assert (mine[0] == hood.friends.toarray()).all()
        assert (mine[1] == hood.enemies.toarray()).all()


def a_graph(labels: int = 60, hops: int = 3, **options: int) -> SignedLabelGraph:
    names = tuple(f"l{place}" for place in range(labels))
    vectors = np.random.default_rng(0).normal(size=(labels, 8)).astype(np.float32)
    return build_graph(LabelSet(names, names), LabelVectors(vectors, "random"), hops=hops, **options)


def test_a_pruned_graph_carries_its_neighbourhoods() -> None:
    graph = a_graph(neighbours=5, max_neighbours=4)
    assert graph.provenance["max_neighbours"] == 4
    for hood in balanced_neighbourhoods(graph):
        for counts in (hood.friends, hood.enemies):
            assert np.bincount(counts.indices, minlength=60).max() == 4
    assert balanced_neighbourhoods(graph.clone(), 2)[1].friends.nnz == balanced_neighbourhoods(graph)[1].friends.nnz
    with pytest.raises(InputError, match="up to hop 3, but 4 hops were asked for: build it again with --hops 4"):
        balanced_neighbourhoods(graph, 4)
    for hood, simple in zip(balanced_neighbourhoods(graph), balanced_neighbourhoods(graph, simple=True), strict=True):
        expected = (hood.friends.toarray() > 0) & ~np.eye(60, dtype=bool)
        assert (simple.friends.toarray() == expected).all()
    assert balanced_neighbourhoods(graph)[1].friends.diagonal().any()


def test_the_folder_keeps_them_and_their_hash(tmp_path: Path) -> None:
    graph = a_graph(neighbours=5, max_neighbours=4)
    graph.save(tmp_path / "g")
    again = SignedLabelGraph.load(tmp_path / "g")
    assert len(again.pruned) == 3
    for mine, theirs in zip(graph.pruned, again.pruned, strict=True):
        for first, second in ((mine.friends, theirs.friends), (mine.enemies, theirs.enemies)):
            assert (first != second).nnz == 0
            assert first.dtype == second.dtype == np.int64
    file = tmp_path / "g" / "neighbourhoods.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(InputError, match=r"neighbourhoods\.safetensors is missing or damaged"):
        SignedLabelGraph.load(tmp_path / "g")
    unpruned = a_graph(neighbours=5)
    unpruned.save(tmp_path / "u")
    assert not (tmp_path / "u" / "neighbourhoods.safetensors").exists()
    assert SignedLabelGraph.load(tmp_path / "u").pruned == []


def test_too_little_memory_for_the_hops_is_said() -> None:
    with pytest.raises(
        InputError, match=r"hops 1 to 2 may keep .* but the memory budget is 0\.0002 GB: use a smaller --max-n"
    ):
        a_graph(neighbours=20, max_neighbours=50, memory=0.0002)
    with pytest.raises(InputError, match="at least 1 neighbour, but 0"):
        a_graph(max_neighbours=0)


@given(cases(), st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_labels_hear_from_those_they_keep(case: Case, most: int) -> None:
    graph, units = case
    edges, friends = graph.heard()
    assert torch.equal(edges, graph.edge_index)
    graph.pruned = pruned_neighbourhoods(graph, units, most, 1.0, Work())
    kept, are_friends = graph.heard()
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
