"""Several templates and synonyms of a label are averaged, whatever reads them."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.nn.functional import normalize

from bncl_pyg.corpus import Corpus, LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.features import score_texts
from bncl_pyg.scorers import (
    BiEncoderScorer,
    CosineHead,
    CrossEncoderScorer,
    LateInteractionScorer,
    RelevanceScorer,
    best_candidates,
    hypotheses_of,
    wordings_of,
)

TEXTS = ["gold rises", "wheat falls and gold rises", "wheat"]
SEVERAL = ["wheat", ("gold", "this is about gold .", "rises"), ("and", "falls")]
PLAIN = ["wheat", "gold", "this is about gold .", "rises", "and", "falls"]


def mean_over_wordings(scores: torch.Tensor) -> torch.Tensor:
    """Average columns of PLAIN into those of SEVERAL."""
    return torch.stack([scores[..., 0], scores[..., 1:4].mean(-1), scores[..., 4:].mean(-1)], dim=-1)


def test_phrases_by_templates() -> None:
    assert hypotheses_of(["gold {x}", "b"], "About {}!") == ["About gold {x}!", "About b!"]
    found = hypotheses_of([("gold", "bullion"), "wheat"], ["{}", "About {}."])
    assert found == [("gold", "About gold.", "bullion", "About bullion."), ("wheat", "About wheat.")]
    assert hypotheses_of([("gold",)], ["{}"]) == ["gold"]
    assert wordings_of("a") == ("a",)
    assert wordings_of(("a", "b")) == ("a", "b")
    for wrong in ("About", "{} or {}"):
        with pytest.raises(InputError, match=r"must hold '\{\}' exactly once"):
            hypotheses_of(["a"], ["{}", wrong])
    with pytest.raises(InputError, match="At least one template is needed"):
        hypotheses_of(["a"], [])


def test_a_bi_encoder_averages_vectors(make_bi: Callable[..., BiEncoderScorer]) -> None:
    scorer = make_bi()
    plain = scorer.encode_labels(PLAIN)["vectors"]
    found = scorer.encode_labels(SEVERAL)["vectors"]
    expected = torch.stack([plain[0], plain[1:4].mean(dim=0), plain[4:].mean(dim=0)])
    assert torch.allclose(found, normalize(expected), atol=1e-3)
    assert torch.allclose(found.norm(dim=1), torch.ones(3))
    assert torch.allclose(scorer.score(TEXTS, SEVERAL), scorer.head(scorer.vectors(TEXTS), found), atol=1e-6)


def test_late_interaction_averages_over_the_tokens_of_all_wordings(
    make_late: Callable[..., LateInteractionScorer],
) -> None:
    scorer = make_late()
    plain = scorer.max_sim(TEXTS, PLAIN)
    lengths = scorer.encode_labels(PLAIN)["lengths"].float()
    assert scorer.encode_labels(SEVERAL)["lengths"].tolist() == [lengths[0], lengths[1:4].sum(), lengths[4:].sum()]
    groups = (slice(0, 1), slice(1, 4), slice(4, 6))
    expected = [(plain[:, group] * lengths[group]).sum(dim=1) / lengths[group].sum() for group in groups]
    found = scorer.max_sim(TEXTS, SEVERAL)
    assert torch.allclose(found, torch.stack(expected, dim=1), atol=0.02)
    pairs = torch.tensor([[1, 2], [0, 1], [0, 2]])
    assert torch.allclose(scorer.max_sim(TEXTS, SEVERAL, pairs), found.gather(1, pairs), atol=1e-5)


def test_a_cross_encoder_averages_scores(tiny_classifier: Path) -> None:
    scorer = CrossEncoderScorer(tiny_classifier, max_tokens=32)
    found = scorer.score(TEXTS, SEVERAL)
    assert torch.allclose(found, mean_over_wordings(scorer.score(TEXTS, PLAIN)), atol=1e-5)
    pairs = torch.tensor([[1, 2], [0, 1], [0, 2]])
    assert torch.allclose(scorer.score(TEXTS, SEVERAL, pairs), found.gather(2, pairs.expand(2, -1, -1)), atol=1e-5)
    assert scorer.score([], SEVERAL).shape == (2, 0, 3)


def test_a_reranker_averages_relevance(tiny_reranker: Path) -> None:
    scorer = RelevanceScorer(tiny_reranker, CosineHead.symmetric(0.5, 0.0), "rerank", 32)

    def relevance(scores: torch.Tensor) -> torch.Tensor:
        return (scores[0] / scores[1]).log() / 2 / 0.5  # the head turned around: z, 0, −z with z = relevance / 2

    found = relevance(scorer.score(TEXTS, SEVERAL))
    assert torch.allclose(found, mean_over_wordings(relevance(scorer.score(TEXTS, PLAIN))), atol=0.05)


def test_synonyms_and_sentences_are_read_by_the_scorer(make_bi: Callable[..., BiEncoderScorer]) -> None:
    scorer = make_bi()
    labels = LabelSet(("g", "w"), ("gold rises", "wheat"), (("gold", "gold falls"), ()))
    found = score_texts(Corpus.of(TEXTS), labels, scorer, ["{}", "this is about {} ."])
    wordings = ("gold rises", "this is about gold rises .", "gold", "this is about gold .", "gold falls")
    expected = scorer.score(TEXTS, [(*wordings, "this is about gold falls ."), ("wheat", "this is about wheat .")])
    assert torch.allclose(found.entailment, expected[0], atol=1e-3)
    assert found.scorer["template"] == ["{}", "this is about {} ."]
    assert not torch.allclose(found.entailment[:, 0], scorer.score(TEXTS, ["gold rises"])[0, :, 0], atol=1e-3)


def test_the_best_candidates_are_in_the_order_of_their_columns() -> None:
    scores = torch.tensor([[0.1, 0.9, 0.5], [0.7, 0.2, 0.6]])
    assert best_candidates(scores, 2).tolist() == [[1, 2], [0, 2]]
