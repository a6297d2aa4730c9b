"""Compact graphs are made once: the next process reads them, and a changed model has another one."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from bncl_pyg.scorers import SentenceEncoder, kept_graphs

TEXTS = ["gold rises", "wheat falls and corn"]


def graphs(folder: Path) -> list[str]:
    return sorted(file.name for file in (folder / "graphs").glob("*"))


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BNCL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_graph_is_made_once(tiny_encoder: Path, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = SentenceEncoder(tiny_encoder, backend="onnx-int8").encode(TEXTS)
    there = graphs(own)
    assert len(there) == 1
    monkeypatch.setattr(kept_graphs.bert, "bert_graph", lambda *_, **__: pytest.fail("it was made again"))
    assert torch.equal(SentenceEncoder(tiny_encoder, backend="onnx-int8").encode(TEXTS), first)
    assert graphs(own) == there


def test_another_pooling_or_configuration_is_another_graph(tiny_encoder: Path, own: Path, tmp_path: Path) -> None:
    SentenceEncoder(tiny_encoder, backend="onnx-int8")
    SentenceEncoder(tiny_encoder, backend="onnx-int8", pooling="cls")
    assert len(graphs(own)) == 2
    other = tmp_path / "other"
    shutil.copytree(tiny_encoder, other)
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "layer_norm_eps": 1e-3}))
    SentenceEncoder(other, backend="onnx-int8")
    assert len(graphs(own)) == 3


def test_without_a_place_to_keep_it_a_graph_is_made_each_time(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BNCL_CACHE", str(tmp_path / "file"))
    assert SentenceEncoder(tiny_encoder, backend="onnx-int8").encode(TEXTS).shape[0] == 2


def test_where_things_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("BNCL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert kept_graphs.cache_folder() == tmp_path / "bncl-pyg"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert kept_graphs.cache_folder() == tmp_path / "home" / ".cache" / "bncl-pyg"
