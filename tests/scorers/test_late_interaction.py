"""MaxSim is what a plain double loop says, for all labels and for candidates."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from bncl_pyg.errors import InputError
from bncl_pyg.scorers import CosineHead, LateInteractionScorer, TokenEncoder, late_interaction

Make = Callable[..., LateInteractionScorer]
TEXTS = ["gold rises and wheat falls", "wheat", "gold and gold falls", "wheat falls " * 8, ""]
HYPOTHESES = ["this is about gold .", "wheat", "this is about wheat and gold .", "and", "gold falls"]


def by_hand(scorer: LateInteractionScorer, text: str, hypothesis: str) -> float:
    """Compute MaxSim of one pair, token by token."""
    (tokens,) = scorer.encoder.token_vectors([text])
    (asked,) = scorer._of_hypotheses.token_vectors([hypothesis])
    best = [max(float(ours @ theirs) for ours in tokens) for theirs in asked.half().float()]
    return sum(best) / len(best)


def test_it_is_the_mean_of_the_best_cosines(make_late: Make) -> None:
    scorer = make_late()
    found = scorer.max_sim(TEXTS, HYPOTHESES)
    expected = torch.tensor([[by_hand(scorer, text, hypothesis) for hypothesis in HYPOTHESES] for text in TEXTS])
    assert torch.allclose(found, expected, atol=0.02)  # in 8 bits, company changes states a little
    assert found.std(dim=0).min() > 0.02


def test_in_torch_it_is_exact(tiny_encoder: Path) -> None:
    of_texts, of_hypotheses = (TokenEncoder(tiny_encoder, 32, "torch", marker=marker) for marker in (4, 1))
    scorer = LateInteractionScorer(of_texts, of_hypotheses, CosineHead.symmetric(10.0, 0.5), "late")
    found = scorer.max_sim(TEXTS, HYPOTHESES)
    expected = torch.tensor([[by_hand(scorer, text, hypothesis) for hypothesis in HYPOTHESES] for text in TEXTS])
    assert torch.allclose(found, expected, atol=1e-5)
    z = 10.0 * (expected - 0.5)
    shares = torch.softmax(torch.stack([z, torch.zeros_like(z), -z]), dim=0)
    assert torch.allclose(scorer.score(TEXTS, HYPOTHESES), shares[[0, 2]], atol=1e-4)


def test_candidates_are_columns_of_all_pairs(make_late: Make) -> None:
    scorer = make_late()
    pairs = torch.tensor([[0, 4], [1, 2], [3, 0], [2, 4], [1, 3]])
    whole = scorer.score(TEXTS, HYPOTHESES)
    assert torch.allclose(scorer.score(TEXTS, HYPOTHESES, pairs), whole.gather(2, pairs.expand(2, -1, -1)), atol=1e-5)
    with pytest.raises(InputError, match=r"a row for each of the 5 texts, not \(1, 2\)"):
        scorer.score(TEXTS, HYPOTHESES, pairs[:1])


def test_how_many_products_are_held_changes_nothing(make_late: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = make_late()
    whole = scorer.max_sim(TEXTS, HYPOTHESES)
    for size in (1, 300, 1000):
        monkeypatch.setattr(late_interaction, "PRODUCTS_AT_ONCE", size)
        assert torch.allclose(scorer.max_sim(TEXTS, HYPOTHESES), whole, atol=1e-5)


def test_the_best_window_of_a_text_counts(make_late: Make) -> None:
    # Room for 16 words of 19 tokens; the next window begins after 12.
    several, one = make_late(19, windows=5), make_late(19)
    words = ("gold rises and wheat falls this is about " * 4).split()
    parts = [" ".join(words[start : start + 16]) for start in (0, 12, 24)]
    found = several.max_sim([" ".join(words), "wheat"], HYPOTHESES)
    assert torch.allclose(found[0], one.max_sim(parts, HYPOTHESES).amax(dim=0), atol=0.02)
    assert torch.allclose(found[1], one.max_sim(["wheat"], HYPOTHESES)[0], atol=0.02)
    pairs = torch.tensor([[0, 2], [1, 3]])
    some = several.max_sim([" ".join(words), "wheat"], HYPOTHESES, pairs)
    assert torch.allclose(some, found.gather(1, pairs), atol=1e-5)


def test_threads_change_nothing(make_late: Make, threads: Callable[[int], None]) -> None:
    scorer = make_late()
    threads(1)
    alone = scorer.max_sim(TEXTS * 40, HYPOTHESES)
    threads(3)
    assert torch.allclose(scorer.max_sim(TEXTS * 40, HYPOTHESES), alone, atol=1e-5)


def test_what_was_computed_of_labels_is_used_again(make_late: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = make_late(), make_late()
    tensors = first.encode_labels(HYPOTHESES)
    assert len(tensors["tokens"]) == int(tensors["lengths"].sum())
    assert len(tensors["lengths"]) == len(HYPOTHESES)
    joined = {
        name: torch.cat(
            [part[name] for part in (first.encode_labels(HYPOTHESES[:2]), first.encode_labels(HYPOTHESES[2:]))]
        )
        for name in tensors
    }
    monkeypatch.setattr(second._of_hypotheses, "token_vectors", lambda _: pytest.fail("labels were encoded again"))
    second.use_labels(HYPOTHESES, joined)
    assert torch.allclose(second.score(TEXTS, HYPOTHESES), first.score(TEXTS, HYPOTHESES), atol=0.02)


def test_the_sides_have_markers_of_their_own(make_late: Make) -> None:
    scorer = make_late()
    (text,), (hypothesis,) = (side.token_vectors(["gold"]) for side in (scorer.encoder, scorer._of_hypotheses))
    assert text.shape == hypothesis.shape == (4, 16)  # [CLS], the marker, the word, [SEP]
    assert not torch.allclose(text, hypothesis, atol=1e-2)


def test_nothing_to_score(make_late: Make) -> None:
    scorer = make_late()
    assert scorer.score([], HYPOTHESES).shape == (2, 0, 5)
    assert scorer.score(TEXTS, []).shape == (2, 5, 0)
    assert scorer.vectors(TEXTS) is None
    best = scorer.top_labels(TEXTS, HYPOTHESES, 2)
    assert best.tolist() == scorer.max_sim(TEXTS, HYPOTHESES).topk(2).indices.sort(dim=1).values.tolist()
    assert scorer.config()["kind"] == "late interaction"
