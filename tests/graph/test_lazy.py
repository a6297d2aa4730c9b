"""A graph that is read without PyG is the graph that was saved."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from bncl_pyg.corpus import LabelSet
from bncl_pyg.graph.build import build_graph
from bncl_pyg.graph.embeddings import LabelVectors
from bncl_pyg.graph.lazy import LazyGraph
from bncl_pyg.graph.signed import SignedLabelGraph


@pytest.fixture(params=[False, True], ids=["whole", "pruned"])
def saved(request: pytest.FixtureRequest, labels: LabelSet, graph: SignedLabelGraph, tmp_path: Path) -> Path:
    if request.param:
        vectors = LabelVectors(np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32), "random")
        graph = build_graph(labels, vectors, neighbours=2, max_neighbours=1)
    graph.save(tmp_path / "graph")
    return tmp_path / "graph"


def test_it_becomes_the_graph_that_was_saved(saved: Path) -> None:
    whole, lazy = SignedLabelGraph.load(saved), LazyGraph.load(saved)
    for each in (lazy, pickle.loads(pickle.dumps(lazy))):
        assert list(each.label_names) == whole.label_names
        assert isinstance(each.graph, SignedLabelGraph)
        assert each.graph is each.graph
        for name in ("edge_index", "edge_sign", "edge_weight"):
            assert torch.equal(each.graph[name], whole[name])
        assert (each.graph.hops, each.graph.provenance) == (whole.hops, whole.provenance)
        assert len(each.graph.pruned) == len(whole.pruned)
