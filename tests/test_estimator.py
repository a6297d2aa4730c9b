import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from bncl_pyg import BNCLClassifier
from bncl_pyg.corpus import Corpus, LabelSet, Supervision
from bncl_pyg.errors import InputError
from bncl_pyg.estimator import _fingerprint
from bncl_pyg.evaluation import evaluate_classifier
from bncl_pyg.features import Features, score_texts
from bncl_pyg.graph import LabelVectors, SignedLabelGraph, build_graph
from bncl_pyg.persistence import check_free
from bncl_pyg.scorers import hypotheses_of, load_scorer
from bncl_pyg.training import RECIPES, Recipe

QUICK = dataclasses.replace(RECIPES["paper"], epochs=60, decay_every=30, batch=16, learning_rate=1e-2)


@pytest.fixture
def fitted(graph: SignedLabelGraph, features: Features, priors: Supervision) -> BNCLClassifier:
    return BNCLClassifier(recipe=QUICK, graph=graph).fit(features, priors)


def test_it_predicts_like_scikit_learn(fitted: BNCLClassifier, features: Features, labels: LabelSet) -> None:
    assert fitted.classes_.tolist() == list(labels.names)
    predicted, shares = fitted.predict(features), fitted.predict_proba(features)
    assert predicted.shape == shares.shape == (60, 6)
    assert predicted.dtype == bool
    assert bool(((shares >= 0) & (shares <= 1)).all())
    assert (predicted == (shares > 0.5)).all()
    assert clone(fitted).get_params()["recipe"] is not None
    assert not hasattr(clone(fitted), "model_")


def test_it_beats_the_scores_it_started_from(fitted: BNCLClassifier, features: Features, corpus: Corpus) -> None:
    found = evaluate_classifier(fitted, features, corpus)
    assert found.metrics.miF1 > found.baselines["zero-shot"].miF1 + 0.1
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
    assert again.supervision_.cardinality == fitted.supervision_.cardinality
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
        ".safetensors",
    }


@pytest.mark.parametrize("recipe", [QUICK, "default"], ids=["paper", "default"])
def test_a_pruned_graph_is_kept_with_the_model(
    recipe: Recipe | str, features: Features, priors: Supervision, labels: LabelSet, tmp_path: Path
) -> None:
    vectors = LabelVectors(np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32), "random")
    graph = build_graph(labels, vectors, neighbours=2, max_neighbours=1)
    fitted = BNCLClassifier(recipe=recipe, graph=graph).fit(features, priors)
    fitted.save_pretrained(tmp_path / "m")
    again = BNCLClassifier.from_pretrained(tmp_path / "m")
    assert (again.predict_proba(features) == fitted.predict_proba(features)).all()
    assert [hood.friends.nnz for hood in again.graph_.pruned] == [hood.friends.nnz for hood in graph.pruned]
    assert np.bincount(again.graph_.pruned[1].friends.indices).max() == 1


def test_half_a_model_is_never_there(fitted: BNCLClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("bncl_pyg.estimator.write_json", full)
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


def test_a_model_of_an_earlier_release_is_refused_but_can_be_replaced(fitted: BNCLClassifier, tmp_path: Path) -> None:
    fitted.save_pretrained(tmp_path / "m")
    manifest = tmp_path / "m" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"version": 4', '"version": 3'))
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


def test_the_reference_counts_ties(graph: SignedLabelGraph, features: Features, priors: Supervision) -> None:
    tied = dataclasses.replace(
        features, entailment=features.entailment * 0 + 0.4, contradiction=features.contradiction * 0 + 0.4
    )
    for name, expected in (("paper", 0), ("reference", 1)):
        recipe = dataclasses.replace(RECIPES[name], epochs=1)
        classifier = BNCLClassifier(recipe=recipe, graph=graph).fit(features, priors)
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


def test_bad_arguments_are_named(graph: SignedLabelGraph, features: Features, priors: Supervision) -> None:
    with pytest.raises(InputError, match="There is no setting 'free'; there are: annotation-free"):
        BNCLClassifier("free", graph=graph).fit(features, priors)
    with pytest.raises(InputError, match="There is no recipe 'x'"):
        BNCLClassifier(recipe="x", graph=graph).fit(features, priors)
    with pytest.raises(InputError, match="not trained yet"):
        BNCLClassifier(graph=graph).predict(features)
    with pytest.raises(InputError, match="at least 1 epoch"):
        Recipe("short", epochs=0)


def test_without_a_graph_the_embedded_encoder_makes_one(features: Features, priors: Supervision) -> None:
    found = BNCLClassifier(recipe=dataclasses.replace(QUICK, epochs=1)).fit(features, priors)
    assert found.graph_.provenance["embeddings"] == "embedded"
    assert found.graph_.num_nodes == 6


def test_predicted_rows_name_the_best_first(fitted: BNCLClassifier, features: Features) -> None:
    rows = list(fitted.predicted_rows(features))
    predicted = fitted.predict(features)
    assert [row["id"] for row in rows] == list(features.ids)
    for row, flags in zip(rows, predicted, strict=True):
        assert set(row["labels"]) == set(fitted.classes_[flags])
        assert row["probabilities"] == sorted(row["probabilities"], reverse=True)
    assert np.concatenate([row["probabilities"] for row in rows]).min() >= 0.5


def test_a_checkpoint_of_other_inputs_is_refused(
    graph: SignedLabelGraph, features: Features, priors: Supervision, tmp_path: Path
) -> None:
    file = tmp_path / "c.safetensors"
    quick = dataclasses.replace(QUICK, epochs=2)
    BNCLClassifier(recipe=quick, graph=graph).fit(features, priors, checkpoint=file)
    kept = tmp_path / "kept"
    shutil.copy(file, kept)
    changed = dataclasses.replace(features, entailment=features.entailment * 0.9)
    with pytest.raises(InputError, match="another features"):
        BNCLClassifier(recipe=quick, graph=graph).fit(changed, priors, checkpoint=file)
    with pytest.raises(InputError, match="another seed"):
        BNCLClassifier(recipe=quick, graph=graph, seed=1).fit(features, priors, checkpoint=file)
    other = Supervision(priors.cardinality, priors.prevalence * 0.9)
    with pytest.raises(InputError, match="another priors"):
        BNCLClassifier(recipe=quick, graph=graph).fit(features, other, checkpoint=file)
    assert file.read_bytes() == kept.read_bytes()


def test_the_labels_of_an_earlier_training_are_forgotten() -> None:
    texts = ["The team won the football match.", "Crude oil prices rose.", "The bank lowered its rates."] * 4
    first = LabelSet(("x", "y", "z"), ("gardening", "weather", "music"))
    second = LabelSet(("sport", "oil", "bank"), ("football", "crude oil", "banks"))
    known = Supervision(1.0, np.full(3, 1 / 3))
    scorer = load_scorer("embedded")
    scored = score_texts(Corpus(tuple(map(str, range(12))), tuple(texts)), first, scorer, candidates=2)
    hypotheses = scorer.vectors(hypotheses_of(first.descriptions))
    classifier = BNCLClassifier().fit(dataclasses.replace(scored, hypotheses=hypotheses), known)
    assert (classifier.candidates_, classifier.hypotheses_ is None) == (2, False)
    classifier.fit(texts, known, labels=second)
    assert (classifier.candidates_, classifier.hypotheses_) == (None, None)
    assert classifier.predict(texts[:3]).tolist() == np.eye(3, dtype=bool).tolist()


def test_the_annotations_are_part_of_what_a_checkpoint_depends_on(
    graph: SignedLabelGraph, features: Features, priors: Supervision, corpus: Corpus
) -> None:
    assert corpus.annotations is not None
    known = priors.with_annotated(np.array([0, 1]), corpus.annotations[[0, 1]])
    other = priors.with_annotated(np.array([0, 1]), corpus.annotations[[1, 2]])
    found = [_fingerprint(features, graph, one, QUICK, 0) for one in (known, known, other)]
    assert found[0] == found[1]
    assert found[0]["annotated texts"] != found[2]["annotated texts"]
