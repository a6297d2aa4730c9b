"""Several scorers as one: what they say together, and who is asked for what."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from bncl_pyg.corpus import Corpus, LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.features import score_texts
from bncl_pyg.scorers import (
    BiEncoderScorer,
    CrossEncoderScorer,
    EnsembleScorer,
    LateInteractionScorer,
    Scorer,
    join_scores,
    join_vectors,
    ranker_for,
    scorer_parts,
)

TEXTS = ["gold rises", "wheat falls and gold rises", "wheat", "this is about gold ."]
HYPOTHESES = ["gold", "wheat falls", "and", "this is about wheat ."]
MakeBi, MakeLate = Callable[..., BiEncoderScorer], Callable[..., LateInteractionScorer]


def random_scores(seed: int, *shape: int) -> Tensor:
    shares = torch.softmax(3 * torch.randn(3, *shape, generator=torch.Generator().manual_seed(seed)), dim=0)
    return shares[[0, 2]]


@pytest.fixture
def ensemble(make_bi: MakeBi, make_late: MakeLate) -> EnsembleScorer:
    """Two bi-encoders and late interaction."""
    return EnsembleScorer({"one": make_bi(1), "two": make_bi(2), "late": make_late()}, "three")


def test_joint_scores_are_the_normalised_geometric_mean() -> None:
    first, second = random_scores(1, 3, 4), random_scores(2, 3, 4)
    found = join_scores([first, second])
    for text in range(3):
        for label in range(4):
            shares = [
                (float(part[0, text, label] * 1.0), float(1 - part[:, text, label].sum()), float(part[1, text, label]))
                for part in (first, second)
            ]
            means = [(a * b) ** 0.5 for a, b in zip(*shares, strict=True)]
            expected = torch.tensor([means[0], means[2]]) / sum(means)
            assert torch.allclose(found[:, text, label], expected, atol=1e-5)


def test_joining_keeps_what_all_agree_on_and_needs_no_order() -> None:
    parts = [random_scores(seed, 2, 5) for seed in range(3)]
    assert torch.allclose(join_scores(parts), join_scores(parts[::-1]), atol=1e-6)
    assert torch.allclose(join_scores([parts[0]] * 3), parts[0], atol=1e-5)
    assert torch.equal(join_scores(parts[:1]), parts[0])


def test_a_scorer_that_is_quite_sure_gives_no_nan() -> None:
    sure = torch.tensor([[[1.0, 0.0, 0.0, 1.0]], [[0.0, 1.0, 0.0, 0.0]]])
    against = torch.tensor([[[0.0, 0.0, 0.0, 1.0]], [[1.0, 1.0, 0.0, 0.0]]])
    found = join_scores([sure, against])
    assert bool(((found >= 0) & (found.sum(dim=0) <= 1 + 1e-6)).all())
    assert found[0, 0, 0] == pytest.approx(found[1, 0, 0].item())  # one says yes, the other no
    assert found[1, 0, 1] > 0.99
    assert found[:, 0, 2].max() < 0.01
    # What rounding in a store leaves below zero is nothing.
    rounded = torch.tensor([[[0.7002]], [[0.3001]]])
    assert bool(join_scores([rounded, rounded]).isfinite().all())


def test_vectors_lie_beside_each_other() -> None:
    first, second = normalize(torch.randn(3, 4)), normalize(torch.randn(3, 2))
    joined = join_vectors([first, None, second])
    assert joined is not None
    assert torch.allclose(joined.norm(dim=1), torch.ones(3))
    assert torch.allclose(joined @ joined.t(), (first @ first.t() + second @ second.t()) / 2, atol=1e-6)
    assert join_vectors([None, None]) is None
    alone = join_vectors([first])
    assert alone is not None
    assert torch.equal(alone, first)


def test_an_ensemble_says_what_its_parts_say_together(ensemble: EnsembleScorer) -> None:
    parts = [part.score(TEXTS, HYPOTHESES) for part in ensemble.parts.values()]
    found = ensemble.score(TEXTS, HYPOTHESES)
    assert torch.allclose(found, join_scores(parts), atol=1e-6)
    turned = EnsembleScorer(dict(reversed(ensemble.parts.items())), "three")
    assert torch.allclose(turned.score(TEXTS, HYPOTHESES), found, atol=1e-5)
    pairs = torch.tensor([[0, 1], [1, 3], [2, 3], [0, 2]])
    some = ensemble.score(TEXTS, HYPOTHESES, pairs)
    assert torch.allclose(some, found.gather(2, pairs.expand(2, -1, -1)), atol=1e-4)
    vectors = ensemble.vectors(TEXTS)
    assert vectors is not None
    assert vectors.shape == (4, 32)
    assert scorer_parts(ensemble) == ensemble.parts
    assert scorer_parts(ensemble.parts["one"]) == {"bi1": ensemble.parts["one"]}


def test_only_bi_encoders_choose_candidates_and_only_candidates_are_compared_token_by_token(
    ensemble: EnsembleScorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, asked = ensemble.parts["late"], []
    assert isinstance(late, LateInteractionScorer)
    real = late.max_sim

    def watched(texts: list[str], hypotheses: list[str], pairs: Tensor | None = None) -> Tensor:
        asked.append(None if pairs is None else tuple(pairs.shape))
        return real(texts, hypotheses, pairs)

    monkeypatch.setattr(late, "max_sim", watched)
    chosen = ensemble.top_labels(TEXTS, HYPOTHESES, 2)
    assert asked == []
    total = torch.zeros(4, 4)
    for name in ("one", "two"):
        part = ensemble.parts[name]
        assert isinstance(part, BiEncoderScorer)
        cosines = part.cosines(TEXTS, HYPOTHESES)
        total += (cosines - cosines.mean()) / cosines.std()
    assert chosen.tolist() == total.topk(2).indices.sort(dim=1).values.tolist()

    labels = LabelSet(tuple("abcd"), tuple(HYPOTHESES))
    found = score_texts(Corpus.of(TEXTS), labels, ensemble, "{}", candidates=2, parts=True)
    assert asked == [(4, 2)]
    assert found.candidates is not None
    assert found.candidates.tolist() == chosen.tolist()
    assert {name: tuple(scores.shape) for name, scores in found.parts.items()} == dict.fromkeys(
        ensemble.parts, (2, 4, 2)
    )
    assert torch.equal(join_scores(list(found.parts.values()))[0], found.entailment)
    assert ranker_for(ensemble) is ensemble


def test_how_many_cosines_are_held_changes_no_shape(ensemble: EnsembleScorer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bncl_pyg.scorers.ensemble.COSINES_AT_ONCE", 4)
    assert ensemble.top_labels(TEXTS, HYPOTHESES, 4).tolist() == [[0, 1, 2, 3]] * 4
    assert ensemble.top_labels([], HYPOTHESES, 2).shape == (0, 2)
    assert ensemble.top_labels(TEXTS[:1], HYPOTHESES[:1], 1).tolist() == [[0]]  # a standard deviation of one number


def test_labels_are_encoded_by_each_part_and_given_back(
    ensemble: EnsembleScorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors = ensemble.encode_labels(HYPOTHESES)
    assert set(tensors) == {"one/vectors", "two/vectors", "late/tokens", "late/lengths"}
    expected = ensemble.score(TEXTS, HYPOTHESES)
    ensemble.score(TEXTS, ["something else"])
    for part in ensemble.parts.values():
        monkeypatch.setattr(part, "encode_labels", lambda _: pytest.fail("labels were encoded again"))
    ensemble.use_labels(HYPOTHESES, tensors)
    assert torch.allclose(ensemble.score(TEXTS, HYPOTHESES), expected, atol=1e-3)


def test_a_cross_encoder_among_them_sees_candidates_only(
    make_bi: MakeBi, tiny_classifier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cross = CrossEncoderScorer(tiny_classifier, max_tokens=32)
    both: EnsembleScorer = EnsembleScorer({"bi": make_bi(), "cross": cross}, "both")
    assert both.block_texts == cross.block_texts
    seen, real = [], cross._classify
    monkeypatch.setattr(cross, "_classify", lambda inputs: (seen.append(len(inputs["input_ids"])), real(inputs))[1])
    found = score_texts(Corpus.of(TEXTS), LabelSet(tuple("abcd"), tuple(HYPOTHESES)), both, "{}", candidates=1)
    assert sum(seen) == 4
    assert found.vectors is not None
    assert found.vectors.shape == (4, 16)


def test_without_bi_encoders_the_first_part_chooses(make_late: MakeLate, tiny_classifier: Path) -> None:
    late: Scorer = make_late()
    both = EnsembleScorer({"late": late, "cross": CrossEncoderScorer(tiny_classifier, max_tokens=32)}, "both")
    assert both.top_labels(TEXTS, HYPOTHESES, 2).tolist() == late.top_labels(TEXTS, HYPOTHESES, 2).tolist()
    assert both.pieces("gold rises") == ["gold", "rises"]


def test_what_decides_the_scores_is_known(ensemble: EnsembleScorer) -> None:
    config = ensemble.config()
    assert config == {"name": "three", "parts": {name: part.config() for name, part in ensemble.parts.items()}}
    reading = ensemble.reading(["gold " * 100])
    assert reading is not None
    assert reading.cut == 1.0
    with pytest.raises(InputError, match="An ensemble needs at least two scorers"):
        EnsembleScorer({"one": ensemble.parts["one"]}, "alone")
