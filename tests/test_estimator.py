import dataclasses
import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from bncl_pyg import BNCLClassifier
from bncl_pyg.corpus import Corpus, LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.evaluation import evaluate_classifier
from bncl_pyg.features import Features, score_texts
from bncl_pyg.graph import LabelVectors, SignedLabelGraph, build_graph
from bncl_pyg.persistence import check_free
from bncl_pyg.priors import Priors
from bncl_pyg.scorers import load_scorer
from bncl_pyg.training import PAPER, Recipe, find_recipe

QUICK = dataclasses.replace(PAPER, epochs=60, decay_every=30, batch=16, learning_rate=1e-2)


@pytest.fixture
def fitted(graph: SignedLabelGraph, features: Features, priors: Priors) -> BNCLClassifier:
    return BNCLClassifier(prevalence=priors, recipe=QUICK, graph=graph).fit(features)


def test_it_predicts_like_scikit_learn(fitted: BNCLClassifier, features: Features, labels: LabelSet) -> None:
    assert fitted.classes_.tolist() == list(labels.names)
    predicted, shares = fitted.predict(features), fitted.predict_proba(features)
    assert predicted.shape == shares.shape == (60, 6)
    assert predicted.dtype == bool
    assert bool(((shares >= 0) & (shares <= 1)).all())
    assert (predicted == (shares > 0.5)).all()
    assert clone(fitted).get_params()["recipe"] is not None
    assert not hasattr(clone(fitted), "model_")


def test_names_by_a_rule_of_ones_own(fitted: BNCLClassifier, features: Features) -> None:
    shares, names = fitted.predict_proba(features), fitted.classes_
    given = fitted.predict_labels(features, threshold=0.4)
    assert [set(row) for row in given] == [set(names[row >= np.float32(0.4)]) for row in shares]
    assert all(len(row) == 2 for row in fitted.predict_labels(features, top_k=2))
    assert [row[0] for row in fitted.predict_labels(features, top_k=1)] == names[shares.argmax(axis=1)].tolist()
    wanted = float(np.sort(shares, axis=None)[-20:].mean())
    strict = fitted.predict_labels(features, precision=wanted)
    places = {name: place for place, name in enumerate(names)}
    kept = [shares[row, places[name]] for row, labels in enumerate(strict) for name in labels]
    assert len(kept) >= 20
    assert np.mean(kept) >= wanted - 1e-5
    assert len(kept) < sum(len(row) for row in fitted.predict_labels(features, precision=wanted - 0.1))
    with pytest.raises(InputError, match="top_k must be a whole number"):
        fitted.predict_labels(features, top_k=0)


def test_three_lines_from_a_data_frame() -> None:
    pandas = pytest.importorskip("pandas")
    words = ["The gold price rose", "A poor wheat harvest", "The bank raised its interest rate"]
    frame = pandas.DataFrame({"text": [f"{words[row % 3]} in week {row}." for row in range(45)]}, index=range(7, 52))
    classifier = BNCLClassifier(["gold", "wheat", "interest rates"], scorer="fast").fit(frame["text"])
    frame["labels"] = classifier.predict_labels(frame["text"], top_k=1)
    assert frame["labels"].tolist()[:3] == [["gold"], ["wheat"], ["interest rates"]]


def test_it_beats_the_scores_it_started_from(fitted: BNCLClassifier, features: Features, corpus: Corpus) -> None:
    found = evaluate_classifier(fitted, features, corpus)
    assert found.metrics.miF1 > found.baselines["zero-shot"].miF1 + 0.05
    assert set(found.ranking) == {"P@1", "P@3", "P@5", "coverage"}
    assert [row.label for row in found.labels] == fitted.classes_.tolist()


def test_truth_is_matched_by_id_and_must_be_complete(
    fitted: BNCLClassifier, features: Features, corpus: Corpus
) -> None:
    assert corpus.annotations is not None
    turned = Corpus(corpus.ids[::-1], corpus.texts[::-1], corpus.annotations[::-1])
    assert evaluate_classifier(fitted, features, turned) == evaluate_classifier(fitted, features, corpus)
    fewer = Corpus(corpus.ids[1:], corpus.texts[1:], corpus.annotations[1:])
    with pytest.raises(InputError, match="The truth has no text with id 't0'"):
        evaluate_classifier(fitted, features, fewer)
    shorter = dataclasses.replace(
        features, ids=features.ids[1:], entailment=features.entailment[1:], contradiction=features.contradiction[1:]
    )
    with pytest.raises(InputError, match="The folder of features has no text with id 't0'"):
        evaluate_classifier(fitted, shorter, corpus)


def test_folder_round_trip(fitted: BNCLClassifier, features: Features, tmp_path: Path) -> None:
    fitted.save_pretrained(tmp_path / "m")
    again = BNCLClassifier.from_pretrained(tmp_path / "m")
    assert (again.predict_proba(features) == fitted.predict_proba(features)).all()
    assert again.log_ == fitted.log_
    assert len(again.log_) == 60
    assert again.priors_ == fitted.priors_
    again.save_pretrained(tmp_path / "again")
    for file in sorted(path for path in (tmp_path / "m").rglob("*") if path.is_file()):
        assert file.read_bytes() == (tmp_path / "again" / file.relative_to(tmp_path / "m")).read_bytes()
    manifest = json.loads((tmp_path / "m" / "manifest.json").read_text())
    assert manifest["setting"] == "annotation-free"
    assert manifest["scorer"] == {"name": "made up"}
    assert set(manifest["versions"]) == {"bncl-pyg", "torch", "torch-geometric"}
    assert {path.suffix for path in (tmp_path / "m").rglob("*") if path.is_file()} == {
        ".json",
        ".jsonl",
        ".md",
        ".safetensors",
    }


@pytest.mark.parametrize("recipe", [QUICK, "default"], ids=["paper", "default"])
def test_a_pruned_graph_is_kept_with_the_model(
    recipe: Recipe | str, features: Features, priors: Priors, labels: LabelSet, tmp_path: Path
) -> None:
    vectors = LabelVectors(np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32), "random")
    graph = build_graph(labels, vectors, neighbours=2, max_neighbours=1)
    fitted = BNCLClassifier(prevalence=priors, recipe=recipe, graph=graph).fit(features)
    fitted.save_pretrained(tmp_path / "m")
    again = BNCLClassifier.from_pretrained(tmp_path / "m")
    assert (again.predict_proba(features) == fitted.predict_proba(features)).all()
    assert [hood.friends.nnz for hood in again.graph_.pruned] == [hood.friends.nnz for hood in graph.pruned]
    assert np.bincount(again.graph_.pruned[1].friends.indices).max() == 1


def test_a_loaded_model_keeps_its_graph_without_its_folder(
    features: Features, priors: Priors, graph: SignedLabelGraph, tmp_path: Path
) -> None:
    fitted = BNCLClassifier(prevalence=priors, graph=graph).fit(features)
    fitted.save_pretrained(tmp_path / "m")
    again = BNCLClassifier.from_pretrained(tmp_path / "m")
    shutil.rmtree(tmp_path / "m")
    for each in (again, pickle.loads(pickle.dumps(again))):
        assert isinstance(each.graph_, SignedLabelGraph)
        assert each.graph is each.graph_
        assert each.get_params()["graph"] is each.graph_
        assert torch.equal(each.graph_.edge_index, graph.edge_index)
    refitted = clone(again).set_params(prevalence=priors).fit(features)
    assert (refitted.predict_proba(features) == fitted.predict_proba(features)).all()
    assert not hasattr(BNCLClassifier(), "graph_")


def test_half_a_model_is_never_there(fitted: BNCLClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("bncl_pyg.training.saved.write_json", full)
    with pytest.raises(OSError, match="No space left"):
        fitted.save_pretrained(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_damage_is_named(fitted: BNCLClassifier, tmp_path: Path) -> None:
    fitted.save_pretrained(tmp_path / "m")
    (tmp_path / "m" / "model.safetensors").write_bytes(b"x")
    with pytest.raises(InputError, match=r"model\.safetensors is missing or damaged"):
        BNCLClassifier.from_pretrained(tmp_path / "m")
    with pytest.raises(InputError, match="does not exist"):
        BNCLClassifier.from_pretrained(tmp_path / "none")


def test_whoever_swaps_two_lines_is_caught(fitted: BNCLClassifier, tmp_path: Path) -> None:
    fitted.save_pretrained(tmp_path / "m")
    labels = tmp_path / "m" / "labels.jsonl"
    first, second, *rest = labels.read_text().splitlines(keepends=True)
    labels.write_text("".join([second, first, *rest]))
    with pytest.raises(InputError, match=r"labels\.jsonl is missing or damaged"):
        BNCLClassifier.from_pretrained(tmp_path / "m")
    labels.write_text("".join([first, second, *rest]))
    BNCLClassifier.from_pretrained(tmp_path / "m")
    manifest = tmp_path / "m" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"epochs": 60', '"epochs": 61'))
    with pytest.raises(InputError, match=r"manifest\.json is"):
        BNCLClassifier.from_pretrained(tmp_path / "m")
    check_free(tmp_path / "m", "model", overwrite=True)


def test_a_model_of_an_earlier_release_is_refused_but_can_be_replaced(fitted: BNCLClassifier, tmp_path: Path) -> None:
    fitted.save_pretrained(tmp_path / "m")
    manifest = tmp_path / "m" / "manifest.json"
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**content, "version": 3}))
    with pytest.raises(InputError, match="model format version 3, but this release reads 4; make it anew"):
        BNCLClassifier.from_pretrained(tmp_path / "m")
    check_free(tmp_path / "m", "model", overwrite=True)


def test_a_model_from_the_hub_is_taken_from_its_cache(
    fitted: BNCLClassifier, features: Features, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    repository = tmp_path / "models--someone--topics"
    fitted.save_pretrained(repository / "snapshots" / ("0" * 40))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40)
    monkeypatch.setattr("huggingface_hub._snapshot_download.constants.HF_HUB_CACHE", str(tmp_path))
    again = BNCLClassifier.from_pretrained("someone/topics")
    assert (again.predict(features) == fitted.predict(features)).all()
    with pytest.raises(InputError, match="someone/else is neither a folder nor a model that the hub could give"):
        BNCLClassifier.from_pretrained("someone/else")


def test_the_reference_counts_ties(graph: SignedLabelGraph, features: Features, priors: Priors) -> None:
    tied = dataclasses.replace(
        features, entailment=features.entailment * 0 + 0.4, contradiction=features.contradiction * 0 + 0.4
    )
    for name, expected in (("paper-literal", 0), ("reference", 1)):
        recipe = find_recipe(name, epochs=1)
        classifier = BNCLClassifier(prevalence=priors, recipe=recipe, graph=graph).fit(features)
        for weight in classifier.model_.parameters():
            weight.data.zero_()
        assert (classifier.predict(tied) == expected).all()


def test_other_labels_and_other_scorers(
    fitted: BNCLClassifier, features: Features, caplog: pytest.LogCaptureFixture, graph: SignedLabelGraph
) -> None:
    other = dataclasses.replace(features, labels=LabelSet(tuple("abcdef"), tuple("abcdef")))
    with pytest.raises(InputError, match="Label 'gold' of the model is not in the features"):
        fitted.predict(other)
    with pytest.raises(InputError, match="Label 'a' of the features is not in the graph"):
        BNCLClassifier(graph=graph).fit(other)
    fitted.predict(dataclasses.replace(features, scorer={"name": "another"}))
    assert "made by another scorer" in caplog.text


def test_bad_arguments_are_named(graph: SignedLabelGraph, features: Features, priors: Priors, corpus: Corpus) -> None:
    truth = corpus.annotations
    with pytest.raises(InputError, match="There is no setting 'free'; there are: annotation-free"):
        BNCLClassifier(setting="free", graph=graph).fit(features)
    with pytest.raises(InputError, match="There is no recipe 'x'"):
        BNCLClassifier(recipe="x", graph=graph).fit(features)
    with pytest.raises(NotFittedError):
        BNCLClassifier(graph=graph).predict(features)
    with pytest.raises(InputError, match="annotation-free takes no annotated texts"):
        BNCLClassifier(setting="annotation-free", graph=graph).fit(features, truth)
    with pytest.raises(InputError, match="scarce-annotation needs annotated texts"):
        BNCLClassifier(setting="scarce-annotation", graph=graph).fit(features)
    with pytest.raises(InputError, match="scarce-annotation estimates cardinality"):
        BNCLClassifier(prevalence=priors, setting="scarce-annotation", graph=graph).fit(features, truth)
    with pytest.raises(InputError, match="domain-supervisor needs cardinality or prevalence"):
        BNCLClassifier(setting="domain-supervisor", graph=graph).fit(features, truth)
    with pytest.raises(InputError, match="y has 59 rows, but there are 60 texts"):
        BNCLClassifier(graph=graph).fit(features, truth[:59])
    with pytest.raises(InputError, match=r"unknown label 'glod' \(did you mean 'gold'"):
        BNCLClassifier(graph=graph).fit(features, [["glod"]] + [None] * 59)
    with pytest.raises(InputError, match="unknown label 'glod'"):
        BNCLClassifier(prevalence={"glod": 0.1}, graph=graph).fit(features)


def test_arguments_of_another_type_are_named(features: Features, graph: SignedLabelGraph) -> None:
    for wrong in (-1, 1.5, "a", True, None):
        with pytest.raises(InputError, match="seed must be a whole number of at least 0"):
            BNCLClassifier(graph=graph, seed=wrong).fit(features)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="graph must be a SignedLabelGraph"):
        BNCLClassifier(graph="folder").fit(features)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="recipe must be a name or a Recipe, but is None"):
        BNCLClassifier(graph=graph, recipe=None).fit(features)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="scorer must be a name, a folder or a Scorer, but is 3"):
        BNCLClassifier(labels=["a", "b"], scorer=3).fit(["x"])  # type: ignore[arg-type]


@pytest.mark.parametrize("recipe", ["default", dataclasses.replace(QUICK, epochs=1)], ids=["default", "paper"])
def test_two_labels_are_enough(recipe: Recipe | str) -> None:
    texts = ["The team won the football match.", "Crude oil prices rose.", "She won the tennis final.", "OPEC met."] * 3
    fitted = BNCLClassifier(["sport", "crude oil"], cardinality=1.0, recipe=recipe).fit(texts)
    assert fitted.graph_.num_edges == 0
    assert fitted.predict(texts).shape == (12, 2)
    one = BNCLClassifier(["sport"], prevalence=[0.5]).fit(texts)
    assert one.predict(texts).tolist() == [[True], [False]] * 6


def test_what_is_given_decides_the_setting(
    graph: SignedLabelGraph, features: Features, priors: Priors, corpus: Corpus
) -> None:
    for known, truth, expected in (
        (None, None, "annotation-free"),
        (priors, None, "annotation-free"),
        (None, corpus.annotations, "scarce-annotation"),
        (priors, corpus.annotations, "domain-supervisor"),
    ):
        fitted = BNCLClassifier(prevalence=known, graph=graph).fit(features, truth)
        assert fitted.setting_ == expected
        assert len(fitted.annotated_) == (0 if truth is None else 60)
        assert fitted.priors_.is_exact


def test_every_form_of_y_is_the_same(graph: SignedLabelGraph, features: Features, corpus: Corpus) -> None:
    assert corpus.annotations is not None
    dense = corpus.annotations.toarray()
    names = [[features.labels.names[place] for place in np.flatnonzero(row)] for row in dense]
    partly = np.where(np.arange(60)[:, None] < 30, dense, -1).astype(int)
    every = [BNCLClassifier(graph=graph).fit(features, y) for y in (dense, corpus.annotations, names, dense.tolist())]
    some = [BNCLClassifier(graph=graph).fit(features, y) for y in (partly, [*names[:30], *[None] * 30])]
    for group, count in ((every, 60), (some, 30)):
        expected = group[0].predict_proba(features)
        for one in group:
            assert len(one.annotated_) == count
            assert (one.predict_proba(features) == expected).all()


def test_without_a_graph_the_embedded_encoder_makes_one(features: Features, priors: Priors) -> None:
    found = BNCLClassifier(prevalence=priors, recipe=dataclasses.replace(QUICK, epochs=1)).fit(features)
    assert found.graph_.provenance["embeddings"] == "embedded"
    assert found.graph_.num_nodes == 6


def test_rows_name_the_best_first(fitted: BNCLClassifier, features: Features) -> None:
    rows = list(fitted.predict_rows(features))
    predicted = fitted.predict(features)
    assert [row["id"] for row in rows] == list(features.ids)
    for row, flags in zip(rows, predicted, strict=True):
        assert set(row["labels"]) == set(fitted.classes_[flags])
        assert row["probabilities"] == sorted(row["probabilities"], reverse=True)
    assert np.concatenate([row["probabilities"] for row in rows]).min() >= 0.5


def test_a_checkpoint_of_other_inputs_is_refused(
    graph: SignedLabelGraph, features: Features, priors: Priors, corpus: Corpus, tmp_path: Path
) -> None:
    file = tmp_path / "c.safetensors"
    quick = dataclasses.replace(QUICK, epochs=2)
    truth = np.full((60, 6), -1)
    truth[:2] = corpus.annotations.toarray()[:2]  # type: ignore[union-attr]
    other_truth = np.roll(truth, 1, axis=1)

    def fit(features: Features, priors: Priors, y: object = truth, seed: int = 0) -> None:
        BNCLClassifier(prevalence=priors, recipe=quick, graph=graph, seed=seed).fit(features, y, checkpoint=file)

    fit(features, priors)
    kept = file.read_bytes()
    with pytest.raises(InputError, match="another features"):
        fit(dataclasses.replace(features, entailment=features.entailment * 0.9), priors)
    with pytest.raises(InputError, match="another seed"):
        fit(features, priors, seed=1)
    with pytest.raises(InputError, match="another priors"):
        fit(features, Priors.exact(priors.cardinality or 1.0, priors.shares * 0.9))
    with pytest.raises(InputError, match="another annotated texts"):
        fit(features, priors, other_truth)
    fit(features, priors)
    assert file.read_bytes() == kept


def test_the_labels_of_an_earlier_training_are_forgotten() -> None:
    texts = ["The team won the football match.", "Crude oil prices rose.", "The bank lowered its rates."] * 4
    first = LabelSet(("x", "y", "z"), ("gardening", "weather", "music"))
    second = LabelSet(("sport", "oil", "bank"), ("football", "crude oil", "banks"))
    scored = score_texts(Corpus.of(texts), first, load_scorer("light"), candidates=2)
    classifier = BNCLClassifier(scorer="light", cardinality=1.0).fit(scored)
    assert (classifier.candidates_, set(classifier.label_tensors_)) == (2, {"vectors"})
    before = classifier.label_tensors_["vectors"]
    classifier.set_params(labels=second, prevalence=[1 / 3] * 3).fit(texts)
    assert classifier.candidates_ is None
    assert not torch.equal(classifier.label_tensors_["vectors"], before)
    assert classifier.predict(texts[:3]).tolist() == np.eye(3, dtype=bool).tolist()


def test_what_to_annotate_next(features: Features, corpus: Corpus, graph: SignedLabelGraph, priors: Priors) -> None:
    assert corpus.annotations is not None
    y: list[object] = [None] * 60
    y[4], y[9] = ["gold"], {"silver": False}
    classifier = BNCLClassifier(prevalence=priors, graph=graph).fit(features, y)
    rows = classifier.suggest(features, 58)
    assert set(rows.tolist()) == set(range(60)) - {4, 9}
    assert len(classifier.suggest(features)) == 20
    for strategy in ("random", "expected-change"):
        assert len(set(classifier.suggest(features, 7, strategy=strategy, seed=3).tolist())) == 7
    with pytest.raises(InputError, match="Unknown strategy"):
        classifier.suggest(features, strategy="best")
