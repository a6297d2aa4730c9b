from pathlib import Path

import pytest
import torch

from bncl_pyg.corpus import Corpus, LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.features import score_texts
from bncl_pyg.scorers import BiEncoderScorer, CrossEncoderScorer, load_scorer, ranker_for

TEXTS = ("gold rises", "wheat falls and gold rises", "wheat")


def test_the_configuration_says_what_it_is(tiny_classifier: Path, tiny_encoder: Path) -> None:
    cross, bi = load_scorer(str(tiny_classifier)), load_scorer(str(tiny_encoder))
    assert isinstance(cross, CrossEncoderScorer)
    assert isinstance(bi, BiEncoderScorer)
    assert cross.about()["name"] == "tiny-classifier"
    assert bi.about()["name"] == "tiny-encoder"
    with pytest.raises(InputError, match="is a sentence encoder, which has no outputs that --label-map could name"):
        load_scorer(str(tiny_encoder), label_map="entailment=0,contradiction=1")


def test_offline_a_hub_name_is_refused_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match="someone/nothing is neither a folder nor a language model that the hub"):
        load_scorer("someone/nothing")
    with pytest.raises(InputError, match="none does not exist"):
        load_scorer(str(tmp_path / "none"))
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file, but a language model is a folder"):
        load_scorer(str(tmp_path / "file"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"config\.json does not exist"):
        load_scorer(str(tmp_path / "empty"))


def test_every_scorer_gives_features(tiny_classifier: Path, tiny_encoder: Path, labels: LabelSet) -> None:
    corpus = Corpus(("a", "b", "c"), TEXTS)
    for name in ("embedded", str(tiny_classifier), str(tiny_encoder)):
        found = score_texts(corpus, labels, load_scorer(name))
        assert found.entailment.shape == (3, 6)
        assert found.scorer["template"] == "This is about {}."
        pairs = torch.tensor([[0, 5], [1, 2], [3, 4]])
        hypotheses = [f"This is about {text}." for text in labels.descriptions]
        some = load_scorer(name).score(TEXTS, hypotheses, pairs)
        assert torch.allclose(some[0], found.entailment.gather(1, pairs), atol=1e-5)
        assert torch.allclose(some[1], found.contradiction.gather(1, pairs), atol=1e-5)


def test_identical_texts_are_encoded_once(tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = load_scorer(str(tiny_encoder))
    assert isinstance(scorer, BiEncoderScorer)
    real, seen = scorer.encoder.encode, []
    monkeypatch.setattr(scorer.encoder, "encode", lambda texts: (seen.append(len(texts)), real(texts))[1])
    found = scorer.score(["gold", "wheat", "gold"], ["gold", "wheat"])
    scorer.score(["gold"], ["gold", "wheat"])
    scorer.score(["corn", "gold"], ["gold", "wheat"])
    assert torch.allclose(scorer.vectors(["gold", "corn"]), real(["gold", "corn"]), atol=1e-6)
    assert seen == [2, 2, 1]  # two texts, two hypotheses; then one new text, and the rest is known
    assert torch.equal(found[:, 0], found[:, 2])


def test_the_embedded_scorer_knows_topics(labels: LabelSet) -> None:
    corpus = Corpus(
        ("a", "b"), ("The price of gold bullion rose in London.", "The central bank raised its interest rates.")
    )
    found = score_texts(corpus, labels, load_scorer())
    assert [labels.names[place] for place in found.entailment.argmax(dim=1).tolist()] == ["gold", "rates"]


def test_a_slow_scorers_candidates_are_chosen_as_featurize_chooses_them(tiny_classifier: Path) -> None:
    labels = LabelSet(("a", "b", "c"), ("sports and football", "crude oil prices", "banking"))
    corpus = Corpus(("1",), ("The price of crude oil rose.",))
    slow, quick = load_scorer(str(tiny_classifier)), load_scorer("embedded")
    assert ranker_for(quick) is quick
    asked: list[int] = []
    score = slow.score
    slow.score = lambda texts, said, pairs=None: asked.append(0 if pairs is None else 1) or score(texts, said, pairs)  # type: ignore[method-assign]
    found = score_texts(corpus, labels, slow, candidates=1)
    assert found.candidates is not None
    assert found.candidates.tolist() == [[1]]
    # Only the candidates were read by it.
    assert asked == [1]
