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
    assert cross.config()["name"] == "tiny-classifier"
    assert bi.config()["name"] == "tiny-encoder"
    with pytest.raises(InputError, match="is a sentence encoder, which has no outputs that a label map could name"):
        load_scorer(str(tiny_encoder), label_map="entailment=0,contradiction=1")


def test_the_numbers_of_a_cosine_are_part_of_the_configuration(tiny_encoder: Path) -> None:
    usual, other = load_scorer(str(tiny_encoder)), load_scorer(str(tiny_encoder), cosine_scale=5.0, cosine_middle=0.9)
    assert (usual.config()["cosine_scale"], usual.config()["cosine_middle"]) == (20.0, 0.38)
    assert (other.config()["cosine_scale"], other.config()["cosine_middle"]) == (5.0, 0.9)
    cosine = other.vectors(["gold"]) @ other.vectors(["wheat"]).t()
    z = 5.0 * (cosine.item() - 0.9)
    expected = torch.softmax(torch.tensor([z, 0.0, -z]), dim=0)
    assert torch.allclose(other.score(["gold"], ["wheat"]).flatten(), expected[[0, 2]], atol=1e-6)


@pytest.mark.parametrize("kind", ["encoder", "classifier"])
def test_a_device_can_be_chosen(tiny_classifier: Path, tiny_encoder: Path, kind: str) -> None:
    name = str({"encoder": tiny_encoder, "classifier": tiny_classifier}[kind])
    chosen = load_scorer(name, device="cpu")
    assert chosen.config() == load_scorer(name).config()
    assert "device" not in chosen.config()
    assert chosen.score(TEXTS, ["gold"]).device.type == "cpu"
    with pytest.raises(InputError, match="The device 'toaster' cannot be used here"):
        load_scorer(name, device="toaster")


def test_no_text_gives_features_of_the_right_shape(tiny_classifier: Path, tiny_encoder: Path, labels: LabelSet) -> None:
    for name in (str(tiny_classifier), str(tiny_encoder)):
        empty = score_texts(Corpus.of([]), labels, load_scorer(name))
        assert empty.entailment.shape == empty.contradiction.shape == (0, 6)
        assert empty.words is not None
        assert empty.words.shape == (0, 2**18)
    few = score_texts(Corpus.of([]), labels, load_scorer(str(tiny_encoder)), candidates=2)
    assert few.entailment.shape == (0, 2)


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
    slow.score = lambda texts, labels, pairs=None: (
        asked.append(0 if pairs is None else 1) or score(texts, labels, pairs)
    )  # type: ignore[method-assign]
    found = score_texts(corpus, labels, slow, candidates=1)
    assert found.candidates is not None
    assert found.candidates.tolist() == [[1]]
    # Only the candidates were read by it.
    assert asked == [1]
