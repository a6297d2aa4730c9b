"""The benchmark of pairs asked: a pair is asked once, and the page shows every way at its cost."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from benchmarks.budget import NONE, OPEN, RERANKED, Remembering, as_markdown


class Counting:
    block_texts = 8

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    def score(self, texts: Sequence[str], hypotheses: Sequence[Any], pairs: Tensor | None = None) -> Tensor:
        assert pairs is not None
        assert hypotheses
        self.asked += [(text, int(label)) for text, (label,) in zip(texts, pairs, strict=True)]
        yes = torch.tensor([[len(text) / 10 + float(label) / 100] for text, (label,) in zip(texts, pairs, strict=True)])
        return torch.stack([yes, 1 - yes])


def test_a_pair_is_asked_once() -> None:
    scorer = Counting()
    remembering = Remembering(scorer)  # type: ignore[arg-type]
    first = remembering.score(["a", "bb"], ["x", "y", "z"], torch.tensor([[0, 2], [1, 2]]))
    assert torch.allclose(first[0], torch.tensor([[0.1, 0.12], [0.21, 0.22]]))
    again = remembering.score(["bb", "a", "bb"], ["x", "y", "z"], torch.tensor([[1], [1], [1]]))
    assert torch.allclose(again[0], torch.tensor([[0.21], [0.11], [0.21]]))
    assert scorer.asked == [("a", 0), ("a", 2), ("bb", 1), ("bb", 2), ("a", 1)]


def test_the_page_has_a_row_for_every_way() -> None:
    about = {"command": "python", "python": "3", "torch": "2", "cores": 2, "commit": "x"}
    ways = [(NONE, 0), (RERANKED, 400), (OPEN, 400)]
    rows = [{"way": way, "pairs": pairs, "metrics": [0.5, 0.25, 0.125]} for way, pairs in ways]
    page = as_markdown({"sets": {"goemotions": {"texts": 200, "rows": rows}}, "sessions": [about]})
    assert "| nothing asked | 0 | 0.5000 | 0.2500 | 0.1250 |" in page
    assert "| `--candidates M --rerank` | 2 | 0.5000 | 0.2500 | 0.1250 |" in page
    assert "| `--budget` | 2 |" in page
