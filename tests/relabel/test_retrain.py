"""Models with other labels: nothing is scored twice, annotated texts and priors follow, and it is trained again."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bncl_cli.main import app
from torch import Tensor
from typer.testing import CliRunner, Result

from bncl_pyg import BNCLClassifier
from bncl_pyg.corpus import Corpus, LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.features import Features, featurize, read_features, score_texts, select_labels
from bncl_pyg.graph import SignedLabelGraph
from bncl_pyg.priors import Priors
from bncl_pyg.relabel.priors import merged_share
from bncl_pyg.scorers import Hypothesis, load_scorer, wordings_of

LABELS = LabelSet.of({"gold": "gold", "silver": "silver", "wheat": "wheat", "corn": "corn", "rates": "interest rates"})
SCORER = "words"


class WordScorer:
    """Says yes where a text has a word of a hypothesis, and counts what it is asked."""

    block_texts = 16

    def __init__(self) -> None:
        self.pairs: list[tuple[str, Hypothesis]] = []

    def config(self) -> dict[str, Any]:
        return {"name": SCORER}

    def score(self, texts: Sequence[str], hypotheses: Sequence[Hypothesis], pairs: Tensor | None = None) -> Tensor:
        self.pairs += [(text, hypothesis) for text in texts for hypothesis in hypotheses]
        entailment = torch.tensor([[self._share(text, one) for one in hypotheses] for text in texts])
        return torch.stack([entailment, 0.9 * (1 - entailment)])

    def _share(self, text: str, hypothesis: Hypothesis) -> float:
        words = {word for wording in wordings_of(hypothesis) for word in wording.rstrip(".").split()[3:]}
        return 0.1 + 0.7 * bool(words & set(text.split())) + 0.001 * (len(text) % 7)

    def vectors(self, texts: Sequence[str]) -> Tensor | None:
        return None

    def top_labels(self, texts: Sequence[str], hypotheses: Sequence[Hypothesis], k: int) -> Tensor:
        raise NotImplementedError

    def encode_labels(self, hypotheses: Sequence[Hypothesis]) -> dict[str, Tensor]:
        return {}

    def use_labels(self, hypotheses: Sequence[Hypothesis], tensors: Mapping[str, Tensor]) -> None: ...

    def reading(self, texts: Sequence[str]) -> None: ...


@pytest.fixture
def texts() -> Corpus:
    """Texts with one or two of seven words each."""
    words = ["gold", "silver", "wheat", "corn", "interest", "zinc", "rice"]
    generator = np.random.default_rng(0)
    chosen = [generator.choice(7, 2) for _ in range(70)]
    return Corpus.of([f"text {row} on {words[a]} and {words[b]}" for row, (a, b) in enumerate(chosen)])


@pytest.fixture
def scorer() -> WordScorer:
    return WordScorer()


@pytest.fixture
def store(texts: Corpus, scorer: WordScorer, tmp_path: Path) -> Path:
    featurize(lambda: zip(texts.ids, texts.texts, strict=True), LABELS, scorer, tmp_path / "features")
    scorer.pairs.clear()
    return tmp_path / "features"


@pytest.fixture
def own_graph() -> SignedLabelGraph:
    """Somebody's own edges, for which no encoder is loaded."""
    friends, enemies = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]), torch.tensor([[0, 2], [2, 0]])
    return SignedLabelGraph.from_edge_index(friends, enemies, label_names=LABELS.names)


@pytest.fixture
def classifier(store: Path, scorer: WordScorer, own_graph: SignedLabelGraph) -> BNCLClassifier:
    prevalence = dict.fromkeys(LABELS.names, 0.25)
    return BNCLClassifier(prevalence=prevalence, scorer=scorer, graph=own_graph).fit(read_features(store))


def annotations(texts: Corpus, labels: Sequence[str], count: int = 20) -> list[list[str] | None]:
    named = [[name for name in labels if name.split()[0] in text.split()] for text in texts.texts]
    return [row if place < count else None for place, row in enumerate(named)]


def test_adding_scores_the_new_column_alone(
    classifier: BNCLClassifier, scorer: WordScorer, store: Path, texts: Corpus
) -> None:
    classifier.set_params(graph=None).fit(read_features(store))
    before = {file.name: file.read_bytes() for file in store.glob("block-*")}
    probabilities = classifier.predict_proba(read_features(store))
    more = classifier.add_labels({"zinc": "zinc"}, store, texts, prevalence=0.25)
    assert len(scorer.pairs) == 70
    assert {hypothesis for _, hypothesis in scorer.pairs} == {"This is about zinc."}
    assert all((store / name).read_bytes() == content for name, content in before.items())
    assert more.classes_.tolist() == [*LABELS.names, "zinc"]
    assert more.priors_.cardinality == pytest.approx(1.5)
    assert more.given_priors_.prevalence == (0.25,) * 6
    has_zinc = np.array(["zinc" in text for text in texts.texts])
    predicted = more.predict(read_features(store))[:, -1]
    assert (predicted == has_zinc).mean() > 0.9
    assert more.graph_.label_names == [*LABELS.names, "zinc"]
    # The old one is as it was, and so are its edges in the new graph.
    assert classifier.labels_ == LABELS
    assert (classifier.predict_proba(select_labels(read_features(store), LABELS)) == probabilities).all()
    edges = set(map(tuple, classifier.graph_.edge_index.T.tolist()))
    assert edges == {pair for pair in map(tuple, more.graph_.edge_index.T.tolist()) if max(pair) < 5}
    # From the same features in memory comes the same model.
    old = select_labels(read_features(store), LABELS)
    again = classifier.add_labels({"zinc": "zinc"}, old, texts, prevalence={"zinc": 0.25})
    assert np.allclose(again.predict_proba(read_features(store)), more.predict_proba(read_features(store)), atol=1e-5)


def test_what_is_not_known_of_a_new_label_is_estimated(
    classifier: BNCLClassifier, store: Path, texts: Corpus, scorer: WordScorer, own_graph: SignedLabelGraph
) -> None:
    more = classifier.add_labels({"zinc": "zinc"}, store, texts)
    share = more.priors_.shares[-1]
    assert 0.05 < share < 0.6
    assert more.priors_.cardinality == pytest.approx(1.25 + share)
    with pytest.raises(InputError, match="'rice' is given in a word, but those of the other labels in numbers"):
        more.add_labels({"rice": "rice"}, store, texts, prevalence="common")
    roughly = BNCLClassifier(prevalence=dict.fromkeys(LABELS.names, "common"), scorer=scorer, graph=own_graph)
    roughly.fit(select_labels(read_features(store), LABELS))
    words = roughly.add_labels({"zinc": "zinc"}, store, prevalence="common")
    assert words.given_priors_ == Priors(None, ("common",) * 6)
    nothing = BNCLClassifier(scorer=scorer, graph=own_graph).fit(select_labels(read_features(store), LABELS))
    assert nothing.add_labels({"zinc": "zinc"}, store).given_priors_ == Priors.nothing(6)


def test_removing_scores_nothing_and_comes_back_for_free(
    classifier: BNCLClassifier, scorer: WordScorer, store: Path
) -> None:
    fewer = classifier.remove_labels(["silver", "corn"], store)
    assert fewer.classes_.tolist() == ["gold", "wheat", "rates"]
    assert fewer.priors_.cardinality == pytest.approx(0.75)
    kept = fewer.add_labels({"corn again": "corn"}, store, prevalence=0.25)
    assert kept.classes_.tolist() == ["gold", "wheat", "rates", "corn again"]
    assert not scorer.pairs


def test_renaming_is_the_same_model(
    classifier: BNCLClassifier, store: Path, scorer: WordScorer, texts: Corpus, tmp_path: Path
) -> None:
    renamed = classifier.rename_labels({"gold": "Au"})
    assert renamed.model_ is classifier.model_
    assert renamed.classes_[0] == "Au"
    assert not scorer.pairs
    renamed.save_pretrained(tmp_path / "m")
    loaded = BNCLClassifier.from_pretrained(tmp_path / "m", scorer=scorer)
    features = select_labels(read_features(store), loaded.labels_)
    assert (loaded.predict_proba(features) == classifier.predict_proba(read_features(store))).all()
    assert "Au" in loaded.card_
    # Another label takes the name that is free, under another name in the store.
    again = loaded.add_labels({"gold": "rice"}, store, texts, prevalence=0.2)
    assert again.classes_.tolist()[-1] == "gold"
    assert read_features(store).labels.names[-1] == "gold (2)"


def test_merging_unites(store: Path, scorer: WordScorer, texts: Corpus, own_graph: SignedLabelGraph) -> None:
    features = read_features(store)
    classifier = BNCLClassifier(prevalence=dict.fromkeys(LABELS.names, 0.25), scorer=scorer, graph=own_graph)
    classifier.fit(features, annotations(texts, LABELS.names))
    merged = classifier.merge_labels(["wheat", "corn"], "grain", store, texts)
    assert merged.classes_.tolist() == ["gold", "silver", "grain", "rates"]
    assert {hypothesis for _, hypothesis in scorer.pairs} == {("This is about wheat.", "This is about corn.")}
    assert 0.25 < merged.priors_.shares[2] <= 0.5
    assert merged.priors_.cardinality == pytest.approx(0.75 + merged.priors_.shares[2])
    for name, labels in classifier.annotated_.items():
        expected = {"grain" if label in ("wheat", "corn") else label for label in labels}
        assert set(merged.annotated_[name]) == expected
    assert merged.setting_ == "domain-supervisor"


def test_merged_shares_are_bounded() -> None:
    shares = np.array([0.3, 0.2])
    same = np.array([[1, 1], [1, 1], [0, 0]], dtype=bool)
    apart = np.array([[1, 0], [0, 1], [0, 0]], dtype=bool)
    assert merged_share(shares, same) == pytest.approx(0.3)
    assert merged_share(shares, apart) == pytest.approx(0.5)
    assert merged_share(shares, np.zeros((2, 2), dtype=bool)) == pytest.approx(0.44)
    assert merged_share(np.array([0.8, 0.7]), apart) == 1.0


def test_annotated_texts_that_say_nothing_of_a_new_label(
    store: Path, scorer: WordScorer, texts: Corpus, own_graph: SignedLabelGraph
) -> None:
    features = read_features(store)
    classifier = BNCLClassifier(scorer=scorer, graph=own_graph).fit(features, annotations(texts, LABELS.names))
    assert classifier.setting_ == "scarce-annotation"
    more = classifier.add_labels({"zinc": "zinc"}, store, texts, prevalence=0.27)
    has_zinc = {name for name, text in zip(texts.ids[:20], texts.texts, strict=False) if "zinc" in text}
    assert has_zinc
    assert set(classifier.annotated_) - set(more.annotated_) >= has_zinc
    assert more.annotated_
    assert more.setting_ == "domain-supervisor"
    said = dict(zip(texts.ids, annotations(texts, [*LABELS.names, "zinc"]), strict=True))
    complete = {name: names for name, names in said.items() if names is not None}
    whole = classifier.add_labels({"zinc": "zinc"}, store, annotated=complete)
    assert whole.setting_ == "scarce-annotation"
    assert {name for name, names in whole.annotated_.items() if "zinc" in names} == has_zinc
    with pytest.raises(InputError, match="The annotated text '3': unknown label 'tin'"):
        classifier.add_labels({"zinc": "zinc"}, store, annotated={"3": ["tin"]})


def test_what_is_missing_is_said(classifier: BNCLClassifier, store: Path, texts: Corpus, features: Features) -> None:
    with pytest.raises(InputError, match="Label 'zinc' must be scored: give the training texts"):
        classifier.add_labels(["zinc"], store)
    with pytest.raises(InputError, match="hold no scores of the model's label"):
        classifier.add_labels(["zinc"], features, texts)
    with pytest.raises(InputError, match="The prevalence of 'tin' is given, but that is no new label"):
        classifier.add_labels(["zinc"], store, texts, prevalence={"tin": 0.1})


@pytest.fixture
def folder(texts: Corpus, tmp_path: Path) -> Path:
    """A store and a model of the real scorer `light`, as the commands make them."""
    scorer, some = load_scorer("light"), texts.rows(np.arange(24))
    rows = [f'{{"id": "{name}", "text": "{text}"}}' for name, text in zip(some.ids, some.texts, strict=True)]
    (tmp_path / "texts.jsonl").write_text("\n".join(rows) + "\n")
    featurize(lambda: zip(some.ids, some.texts, strict=True), LABELS, scorer, tmp_path / "features")
    prevalence = dict.fromkeys(LABELS.names, 0.25)
    classifier = BNCLClassifier(prevalence=prevalence, scorer="light").fit(read_features(tmp_path / "features"))
    classifier.save_pretrained(tmp_path / "model")
    return tmp_path


def bncl(*words: object) -> Result:
    return CliRunner().invoke(app, ["labels", *map(str, words)], catch_exceptions=False)


def test_texts_are_any_table(folder: Path) -> None:
    corpus, table = Corpus.read(folder / "texts.jsonl"), folder / "table.csv"
    rows = [f"{name};{text}" for name, text in zip(corpus.ids, corpus.texts, strict=True)]
    table.write_text("\n".join(["number;words", *rows]) + "\n")
    columns = ["--texts", table, "--text", "words", "--id", "number", "--out", folder / "more"]
    added = bncl("add", folder / "model", "zinc=Zinc", "--features", folder / "features", *columns)
    assert "more: 6 labels, trained again on 24 texts, in " in added.stdout


def test_the_commands_with_a_real_scorer(folder: Path) -> None:
    model, features, texts = folder / "model", folder / "features", folder / "texts.jsonl"
    added = bncl("add", model, "zinc=Zinc", "--features", features, "--texts", texts, "--out", folder / "more")
    assert added.exit_code == 0, added.output
    assert "more: 6 labels, trained again on 24 texts, in " in added.stdout
    assert "zinc; the scores of the other 5 labels were there." in added.stdout
    assert "Taken to be as common as: zinc 0." in added.stdout
    scored = read_features(features)
    corpus = Corpus.read(texts)
    whole = score_texts(corpus, scored.labels, load_scorer("light"))
    # In 8 bits, what else is in a batch moves the second digit.
    assert torch.allclose(scored.entailment, whole.entailment, atol=0.08)
    renamed = bncl("rename", folder / "more", "zinc", "Zn", "--overwrite")
    assert "more: 6 labels; nothing was scored or trained." in renamed.stdout
    removed = bncl("remove", folder / "more", "Zn", "--features", features, "--out", folder / "fewer")
    assert "5 labels, trained again" in removed.stdout
    assert "Nothing was scored." in removed.stdout
    words = ["merge", model, "gold", "silver", "--into", "metals", "--features", features, "--texts", texts]
    merged = bncl(*words, "--out", folder / "merged")
    assert merged.exit_code == 0, merged.output
    names = BNCLClassifier.from_pretrained(folder / "merged").classes_.tolist()
    assert names == ["metals", "wheat", "corn", "rates"]


def test_commands_refuse_in_one_sentence(classifier: BNCLClassifier, store: Path, tmp_path: Path) -> None:
    classifier.save_pretrained(tmp_path / "m")
    manifest = (tmp_path / "m" / "manifest.json").read_bytes()
    out = ["--out", tmp_path / "new"]
    for words, sentence in (
        (["remove", tmp_path / "m", "gold", "--features", store], "Say where the changed model goes: --out FOLDER"),
        (["remove", tmp_path / "m", "tin", "--features", store, *out], "Unknown label 'tin'."),
        (["remove", tmp_path / "m", *LABELS.names, "--features", store, *out], "No label would be left"),
        (["rename", tmp_path / "m", "gold", "corn", *out], "There would be two labels 'corn'"),
        (["rename", tmp_path / "m", "gold", "Au", "--out", tmp_path / "m"], "already exists; choose another name"),
        (["add", tmp_path / "m", "gold", "--features", store, *out], "There is a label 'gold' already."),
        (["add", tmp_path / "m", "a", "b", "--features", store, "--prevalence", "0.1", *out], "must name its label"),
        (["add", tmp_path / "m", "tin", "--features", tmp_path / "none", *out], "none does not exist."),
        (["merge", tmp_path / "m", "gold", "--into", "x", "--features", store, *out], "At least two labels"),
    ):
        result = bncl(*words)
        assert result.exit_code == 2, (words, result.output)
        assert sentence in result.stderr, (words, result.stderr)
        assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "new").exists()
    assert (tmp_path / "m" / "manifest.json").read_bytes() == manifest


def test_texts_annotated_in_part_follow(
    store: Path, scorer: WordScorer, texts: Corpus, own_graph: SignedLabelGraph
) -> None:
    y: list[Any] = [*annotations(texts, LABELS.names)]
    y[30], y[31] = {"gold": True, "wheat": False, "corn": False}, {"wheat": False, "silver": False}
    classifier = BNCLClassifier(prevalence=dict.fromkeys(LABELS.names, 0.25), scorer=scorer, graph=own_graph)
    classifier.fit(read_features(store), y)
    assert classifier.not_labels_ == {texts.ids[30]: ("wheat", "corn"), texts.ids[31]: ("silver", "wheat")}
    renamed = classifier.rename_labels({"wheat": "grain"})
    assert renamed.not_labels_ == {texts.ids[30]: ("grain", "corn"), texts.ids[31]: ("silver", "grain")}
    merged = classifier.merge_labels(["wheat", "corn"], "grain", store, texts)
    # Of the second it is not known whether it is about corn.
    assert merged.not_labels_ == {texts.ids[30]: ("grain",), texts.ids[31]: ("silver",)}
    more = classifier.add_labels({"zinc": "zinc"}, store, texts, prevalence=0.27)
    assert more.not_labels_ == classifier.not_labels_
    removed = classifier.remove_labels(["wheat", "silver"], store)
    assert removed.not_labels_ == {texts.ids[30]: ("corn",)}
    assert texts.ids[31] not in removed.annotated_
