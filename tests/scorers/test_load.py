import shutil
from pathlib import Path

import pytest
import torch

from bncl_pyg.corpus import Corpus, LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.features import score_texts
from bncl_pyg.scorers import (
    BiEncoderScorer,
    CrossEncoderScorer,
    EnsembleScorer,
    LateInteractionScorer,
    RelevanceScorer,
    SentenceEncoder,
    is_here,
    load_scorer,
    ranker_for,
    reads_english_only,
    reload_options,
    scorer_is_quick,
    with_reranker,
)

TEXTS = ("gold rises", "wheat falls and gold rises", "wheat")
TOPICS = Corpus(
    ("a", "b"), ("The price of gold bullion rose in London.", "The central bank raised its interest rates.")
)


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
    for name in ("light", str(tiny_classifier), str(tiny_encoder)):
        found = score_texts(corpus, labels, load_scorer(name))
        assert found.entailment.shape == (3, 6)
        assert found.scorer["template"] == "This is about {}."
        pairs = torch.tensor([[0, 5], [1, 2], [3, 4]])
        hypotheses = [f"This is about {text}." for text in labels.descriptions]
        some = load_scorer(name).score(TEXTS, hypotheses, pairs)
        # An encoder in 8 bits rounds a text together with its company.
        assert torch.allclose(some[0], found.entailment.gather(1, pairs), atol=1e-3)
        assert torch.allclose(some[1], found.contradiction.gather(1, pairs), atol=1e-3)


def test_identical_texts_are_encoded_once(tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = load_scorer(str(tiny_encoder), backend="torch")
    assert isinstance(scorer, BiEncoderScorer)
    real, seen, windows = scorer.encoder.encode, [], scorer.encoder.encode_windows
    monkeypatch.setattr(
        scorer.encoder, "encode_windows", lambda texts, *more: (seen.append(len(texts)), windows(texts, *more))[1]
    )
    found = scorer.score(["gold", "wheat", "gold"], ["gold", "wheat"])
    scorer.score(["gold"], ["gold", "wheat"])
    scorer.score(["corn", "gold"], ["gold", "wheat"])
    vectors = scorer.vectors(["gold", "corn"])
    assert seen == [2, 2, 1]  # two texts, two hypotheses; then one new text, and the rest is known
    assert torch.allclose(vectors, real(["gold", "corn"]), atol=1e-6)
    assert torch.equal(found[:, 0], found[:, 2])


@pytest.mark.parametrize("name", ["strong", "light", "fast", "bge", "colbert", "ms-marco"])
def test_known_scorers_know_topics(labels: LabelSet, name: str) -> None:
    scorer = load_scorer(name)
    found = score_texts(TOPICS, labels, scorer)
    assert [labels.names[place] for place in found.entailment.argmax(dim=1).tolist()] == ["gold", "rates"]
    assert scorer.config()["name"] == name
    assert reads_english_only(scorer)
    assert is_here(name)


def test_the_default_is_three_encoders(labels: LabelSet) -> None:
    scorer = load_scorer()
    assert isinstance(scorer, EnsembleScorer)
    light, bge, colbert = scorer.parts.values()
    assert list(scorer.parts) == ["light", "bge", "colbert"]
    assert isinstance(light, BiEncoderScorer)
    assert isinstance(bge, BiEncoderScorer)
    assert isinstance(bge.encoder, SentenceEncoder)
    assert bge.encoder.pooling == "cls"
    assert isinstance(colbert, LateInteractionScorer)
    assert scorer_is_quick(scorer)
    # A part is the same scorer as when it is loaded alone: a store that it made can be continued.
    assert light.config() == load_scorer("light").config()
    few = score_texts(TOPICS, labels, scorer, candidates=2)
    assert few.candidates is not None
    assert labels.place("gold") in few.candidates[0].tolist()
    assert labels.place("rates") in few.candidates[1].tolist()
    assert few.vectors is not None
    assert few.vectors.shape == (2, 768)
    assert set(few.label_tensors) == {"light/vectors", "bge/vectors", "colbert/tokens", "colbert/lengths"}


def test_scorers_are_joined_by_name(tiny_encoder: Path, tiny_static: Path) -> None:
    both = load_scorer(f"{tiny_encoder}+{tiny_static}")
    assert isinstance(both, EnsembleScorer)
    assert both.config()["name"] == "tiny-encoder+tiny-static"
    assert list(both.parts) == ["tiny-encoder", "tiny-static"]
    assert list(load_scorer(f"fast+{tiny_static}").parts) == ["fast", "tiny-static"]  # type: ignore[attr-defined]
    assert not reads_english_only(both)
    assert load_scorer(both) is both
    with pytest.raises(TypeError, match="scorer must be a name, a folder or a Scorer, but is 3"):
        load_scorer(3)  # type: ignore[arg-type]
    # A folder may have such a name.
    plus = tiny_static.rename(tiny_static.parent / "light+static")
    assert isinstance(load_scorer(str(plus)), BiEncoderScorer)


@pytest.mark.parametrize("wrong", ["fast+", "+", "fast+fast", "strong+light"])
def test_a_name_twice_or_none_is_refused(wrong: str) -> None:
    with pytest.raises(InputError, match=r"must join different names with '\+'"):
        load_scorer(wrong)


def test_folders_of_the_same_name_are_not_taken_for_one(tiny_static: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_static, tmp_path / "other" / tiny_static.name)
    with pytest.raises(InputError, match=r"must join different names with '\+'"):
        load_scorer(f"{tiny_static}+{tmp_path / 'other' / tiny_static.name}")


def test_a_reranker_joins_and_reads_candidates_only(tiny_encoder: Path, tiny_classifier: Path) -> None:
    quick = load_scorer(str(tiny_encoder))
    found = with_reranker(quick, str(tiny_classifier), max_tokens=32)
    assert list(found.parts) == ["tiny-encoder", "tiny-classifier"]
    assert found.config()["name"] == "tiny-encoder+tiny-classifier"
    assert found.parts["tiny-encoder"] is quick
    assert ranker_for(found) is found
    usual = with_reranker(found)
    assert list(usual.parts) == ["tiny-encoder", "tiny-classifier", "ms-marco"]
    assert isinstance(usual.parts["ms-marco"], RelevanceScorer)
    with pytest.raises(InputError, match="'light' reads texts and labels apart; only a cross-encoder can rerank"):
        with_reranker(quick, "light")


def test_a_label_map_goes_to_the_classifier(tiny_encoder: Path, tiny_classifier: Path) -> None:
    mapped = "entailment=0,neutral=1,contradiction=2"
    both = load_scorer(f"{tiny_encoder}+fast+{tiny_classifier}", label_map=mapped)
    assert both.config()["parts"]["tiny-classifier"]["label_map"]["entailment"] == 0
    for name in ("strong", "light", f"fast+{tiny_encoder}"):
        with pytest.raises(InputError, match="has no outputs that a label map could name"):
            load_scorer(name, label_map=mapped)


@pytest.mark.parametrize(
    ("names", "options"),
    [
        (["light"], {"max_tokens": 40}),
        (["light"], {"windows": 3}),
        (["strong"], {"max_tokens": 40, "windows": 2}),
        (["fast"], {}),
        (["ms-marco"], {"max_tokens": 40}),
        (["tiny_encoder"], {"cosine_scale": 5.0, "cosine_middle": 0.1, "backend": "torch"}),
        (["tiny_classifier"], {"label_map": "entailment=0,neutral=1,contradiction=2"}),
        (["light", "tiny_classifier"], {}),
        (["tiny_encoder", "light"], {"max_tokens": 99}),
        (["light", "tiny_multilingual"], {"windows": 2}),
        (["fast", "tiny_static"], {"cosine_scale": 5.0, "cosine_middle": 0.1}),
        (["strong", "ms-marco"], {}),
    ],
)
def test_a_scorer_is_set_up_again_from_its_configuration(
    names: list[str], options: dict[str, object], request: pytest.FixtureRequest
) -> None:
    known = [str(request.getfixturevalue(name)) if name.startswith("tiny") else name for name in names]
    config = load_scorer("+".join(known), **options).config()  # type: ignore[arg-type]
    assert load_scorer("+".join(known), **reload_options(config)).config() == config


def test_where_a_scorer_can_be_looked_for(tiny_static: Path) -> None:
    for name in (
        "strong",
        "light",
        "fast",
        "strong+ms-marco",
        "someone/model",
        str(tiny_static),
        f"fast+{tiny_static}",
    ):
        assert is_here(name)
    for name in ("tiny-static", "embedded", "light+tiny-static"):
        assert not is_here(name)
    assert is_here(str(tiny_static.rename(tiny_static.parent / "a+b")))


def test_an_encoder_for_other_languages_is_loaded_from_its_folder(tiny_multilingual: Path) -> None:
    scorer = load_scorer(str(tiny_multilingual), windows=2)
    assert isinstance(scorer, BiEncoderScorer)
    assert scorer.config()["backend"] == "torch"
    assert not reads_english_only(scorer)
    corpus = Corpus(("a", "b", "c"), ("золото", "小麦", "gold " * 50))
    labels = LabelSet(("g", "w"), ("золото", "小麦"))
    found = score_texts(corpus, labels, scorer, "{}")
    assert found.entailment.shape == (3, 2)
    assert [found.entailment[0].argmax(), found.entailment[1].argmax()] == [0, 1]
    assert scorer.pieces("золото") == ["▁золото"]
    reading = scorer.reading(corpus.texts)
    assert reading is not None
    assert reading.longer == pytest.approx(1 / 3)
    both = load_scorer(f"fast+{tiny_multilingual}")
    assert not reads_english_only(both)
    assert both.score(corpus.texts, ["золото"]).shape == (2, 3, 1)


def test_windows_reach_every_part(tiny_encoder: Path) -> None:
    long = "The weather was fine. " * 60 + "The price of gold bullion rose."
    for name in ("light", "bge", "colbert"):
        one, several = (load_scorer(name, max_tokens=64, windows=windows) for windows in (1, 8))
        assert several.score([long], ["This is about gold."])[0] > one.score([long], ["This is about gold."])[0]
        assert several.config() == {**one.config(), "windows": 8}


def test_the_window_that_speaks_most_for_a_label_is_scored(tiny_encoder: Path) -> None:
    one, several = (load_scorer(str(tiny_encoder), max_tokens=22, windows=count, backend="torch") for count in (1, 9))
    words = ("gold rises and wheat falls " * 12).split()
    parts = [" ".join(words[start : start + 20]) for start in (0, 15, 30, 45)]
    texts, hypotheses = ["wheat", " ".join(words)], ["gold rises", "wheat falls", "and"]
    apart = one.score(parts, hypotheses)
    found = several.score(texts, hypotheses)
    for label in range(3):
        best = int((apart[0, :, label] / apart[1, :, label]).argmax())
        assert torch.allclose(found[:, 1, label], apart[:, best, label], atol=1e-5)
    assert torch.allclose(found[:, 0], one.score(["wheat"], hypotheses)[:, 0], atol=1e-5)
    pairs = torch.tensor([[2, 0], [1, 2]])
    assert torch.allclose(several.score(texts, hypotheses, pairs), found.gather(2, pairs.expand(2, 2, 2)), atol=1e-5)
    # Texts that were read last are not read again, in whichever order they come.
    again = several.score([texts[1], "gold", texts[0]], hypotheses)
    assert torch.allclose(again[:, [2, 0]], found, atol=1e-5)
    assert isinstance(several, BiEncoderScorer)
    assert isinstance(one, BiEncoderScorer)
    assert torch.allclose(several.cosines(texts, hypotheses)[1], one.cosines(parts, hypotheses).amax(dim=0), atol=1e-5)


def test_a_slow_scorers_candidates_are_chosen_as_featurize_chooses_them(tiny_classifier: Path) -> None:
    labels = LabelSet(("a", "b", "c"), ("sports and football", "crude oil prices", "banking"))
    corpus = Corpus(("1",), ("The price of crude oil rose.",))
    slow, quick = load_scorer(str(tiny_classifier)), load_scorer("light")
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
