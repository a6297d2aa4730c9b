"""Static vectors are a plain mean over a text's tokens."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.nn.functional import normalize

from bncl_pyg.errors import InputError
from bncl_pyg.scorers import BiEncoderScorer, StaticEncoder, load_scorer, static

Make = Callable[..., Path]
GOLD, RISES, WHEAT = 5, 6, 7
TABLE = torch.randn(14, 4, generator=torch.Generator().manual_seed(1))


def test_the_mean_of_the_tokens_vectors(make_static: Make) -> None:
    found = StaticEncoder(make_static(embeddings=TABLE)).encode(["gold rises gold", "wheat"])
    assert torch.allclose(found[0], normalize(TABLE[[GOLD, RISES, GOLD]].mean(dim=0), dim=0), atol=1e-6)
    assert torch.allclose(found[1], normalize(TABLE[WHEAT], dim=0), atol=1e-6)


def test_weights_and_mapping(make_static: Make) -> None:
    """A token's weight is its own; the row of its vector is what the mapping says."""
    weights = torch.linspace(0.1, 1.4, 14, dtype=torch.float64)
    mapping = torch.tensor([0, 0, 0, 0, 0, 2, 1, 2, *[0] * 6])
    folder = make_static(embeddings=TABLE[:3].half(), weights=weights, mapping=mapping)
    found = StaticEncoder(folder).encode(["gold rises wheat"])[0]
    rows = TABLE[:3].half().float()
    expected = weights[GOLD] * rows[2] + weights[RISES] * rows[1] + weights[WHEAT] * rows[2]
    assert torch.allclose(found, normalize(expected.float(), dim=0), atol=1e-5)


@pytest.mark.parametrize("texts", [[""], ["", "zzz"], ["gold", "", "zzz", "wheat"], []])
def test_a_text_without_known_words_is_zero_and_no_nan(tiny_static: Path, texts: list[str]) -> None:
    encoder = StaticEncoder(tiny_static)
    found = encoder.encode(texts)
    assert found.shape == (len(texts), 4)
    for text, vector in zip(texts, found, strict=True):
        expected = torch.zeros(4) if text in ("", "zzz") else encoder.encode([text])[0]
        assert torch.equal(vector, expected)
    scores = load_scorer(str(tiny_static)).score(texts, ["gold", "zzz"])
    assert bool(scores.isfinite().all())


def test_unknown_words_do_not_count(tiny_static: Path) -> None:
    encoder = StaticEncoder(tiny_static)
    assert torch.equal(encoder.encode(["gold zzz [UNK]"]), encoder.encode(["gold"]))


def test_blocks_change_nothing(tiny_static: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts, told = ["gold", "wheat falls", "", "and gold", "rises"], []
    whole = StaticEncoder(tiny_static).encode(texts)
    monkeypatch.setattr(static, "TEXTS_AT_ONCE", 2)
    assert torch.allclose(StaticEncoder(tiny_static).encode(texts, told.append), whole)
    assert told == [2, 2, 1]


def test_a_folder_of_static_vectors_is_a_scorer(tiny_static: Path) -> None:
    scorer = load_scorer(str(tiny_static))
    assert isinstance(scorer, BiEncoderScorer)
    assert isinstance(scorer.encoder, StaticEncoder)
    assert scorer.config()["name"] == "tiny-static"
    assert scorer.config()["kind"] == "static"
    assert scorer.reading(["gold " * 999]) is None
    assert scorer.pieces("gold rises") == ["gold", "rises"]


def test_what_holds_no_vectors_is_refused(make_static: Make) -> None:
    folder = make_static(weights=torch.ones(14))
    with pytest.raises(InputError, match=r"model\.safetensors holds no static vectors \(embeddings\)\."):
        load_scorer(str(folder))
