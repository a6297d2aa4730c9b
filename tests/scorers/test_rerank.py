"""A cross-encoder for relevance: it reads labels and texts together, as transformers would."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from bncl_pyg.scorers import CosineHead, RelevanceScorer, rerank

TEXTS = ["gold rises and wheat falls", "wheat", "gold and gold", "gold " * 60]
HYPOTHESES = ["gold falls", "this is about wheat .", "and"]


@pytest.fixture
def scorer(tiny_reranker: Path) -> RelevanceScorer:
    return RelevanceScorer(tiny_reranker, CosineHead.symmetric(0.5, 0.2), "tiny", 32)


def by_hand(folder: Path, text: str, hypothesis: str) -> float:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    options = {"truncation": "only_second", "max_length": 32, "return_tensors": "pt"}
    with torch.no_grad():
        return float(model(**tokenizer(hypothesis, text, **options)).logits[0, 0])


def test_relevance_is_that_of_transformers(scorer: RelevanceScorer, tiny_reranker: Path) -> None:
    relevance = torch.tensor([[by_hand(tiny_reranker, text, one) for one in HYPOTHESES] for text in TEXTS])
    assert relevance.std() > 0.2
    z = 0.5 * (relevance - 0.2)
    expected = torch.softmax(torch.stack([z, torch.zeros_like(z), -z]), dim=0)[[0, 2]]
    assert torch.allclose(scorer.score(TEXTS, HYPOTHESES), expected, atol=0.05)


def test_candidates_are_columns_of_all_pairs(scorer: RelevanceScorer, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = scorer.score(TEXTS, HYPOTHESES)
    pairs = torch.tensor([[0, 2], [1, 2], [0, 1], [1, 2]])
    for size in (4096, 3):
        monkeypatch.setattr(rerank, "PAIRS_AT_ONCE", size)
        monkeypatch.setattr(rerank, "TOKENS_A_BATCH", 20 * size)
        some = scorer.score(TEXTS, HYPOTHESES, pairs)
        assert torch.allclose(some, whole.gather(2, pairs.expand(2, -1, -1)), atol=0.02)


def test_it_has_neither_vectors_nor_anything_of_labels_alone(scorer: RelevanceScorer) -> None:
    assert scorer.vectors(TEXTS) is None
    assert scorer.encode_labels(HYPOTHESES) == {}
    assert scorer.reading(TEXTS) is None
    best = scorer.top_labels(TEXTS, HYPOTHESES, 1)
    assert best[:, 0].tolist() == scorer.score(TEXTS, HYPOTHESES)[0].argmax(dim=1).tolist()
    assert scorer.score([], HYPOTHESES).shape == (2, 0, 3)
    config = scorer.config()
    assert (config["name"], config["max_tokens"], config["cosine_scale"]) == ("tiny", 32, 0.5)
