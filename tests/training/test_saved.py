"""A trained model as a folder: what is saved is what is loaded."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bncl_pyg.errors import InputError
from bncl_pyg.features import Features
from bncl_pyg.graph import SignedLabelGraph
from bncl_pyg.persistence import write_manifest
from bncl_pyg.priors import Priors
from bncl_pyg.training import (
    PAPER,
    REFERENCE,
    Annotated,
    DefaultRecipe,
    PriorEstimation,
    Recipe,
    SelfTraining,
    TrainedModel,
    find_recipe,
    save_recipe,
)
from tests.training.world import World, with_candidates

QUICK = replace(PAPER, epochs=2)


def train(
    recipe: Recipe,
    features: Features,
    graph: SignedLabelGraph,
    priors: Priors | None,
    annotated: Annotated | None = None,
) -> TrainedModel:
    return TrainedModel.fit(recipe, features, graph, priors, annotated, setting="domain-supervisor", seed=3)


def assert_same(again: TrainedModel, trained: TrainedModel, features: Features) -> None:
    one, two = (each.model.predict(features) for each in (trained, again))
    assert torch.equal(one.decisions, two.decisions)
    assert torch.allclose(one.probabilities, two.probabilities, atol=1e-6)
    assert torch.allclose(one.scores, two.scores, atol=1e-5)
    for name in ("recipe", "labels", "setting", "seed", "log", "annotated", "n_texts", "texts_digest", "candidates"):
        assert getattr(again, name) == getattr(trained, name)
    assert again.scorer_config == trained.scorer_config
    assert again.model.priors == trained.model.priors
    assert again.model.config() == trained.model.config()
    assert type(again.model) is type(trained.model)


@pytest.mark.parametrize("parts", [(), ("vectors",), ("words",), ("graph",), ("vectors", "words", "graph")])
def test_every_part_can_be_left_out_and_saved(world: World, parts: Any, tmp_path: Path) -> None:
    recipe = DefaultRecipe(self_training=SelfTraining(parts=parts))
    trained = train(recipe, world.train, world.graph, world.priors)
    trained.save(tmp_path / "m")
    assert trained.log
    assert_same(TrainedModel.load(tmp_path / "m"), trained, world.test)


@pytest.mark.parametrize("recipe", [DefaultRecipe(), QUICK, replace(REFERENCE, epochs=2)], ids=lambda one: one.name)
def test_a_model_with_annotated_texts_is_saved_whole(world: World, recipe: Recipe, tmp_path: Path) -> None:
    trained = train(recipe, world.train, world.graph, world.priors, world.annotated(50))
    trained.save(tmp_path / "m")
    again = TrainedModel.load(tmp_path / "m")
    assert_same(again, trained, world.test)
    assert len(again.annotated) == 50
    identifier, names = next(iter(again.annotated.items()))
    row = world.corpus.ids.index(identifier)
    assert [world.train.labels.place(name) for name in names] == np.flatnonzero(
        world.annotations[[row]].toarray()[0]
    ).tolist()
    again.save(tmp_path / "again")
    for file in sorted(path for path in (tmp_path / "m").rglob("*") if path.is_file()):
        assert file.read_bytes() == (tmp_path / "again" / file.relative_to(tmp_path / "m")).read_bytes()


@pytest.mark.parametrize("recipe", [DefaultRecipe(), QUICK], ids=lambda one: one.name)
def test_candidates_are_saved(world: World, recipe: Recipe, tmp_path: Path) -> None:
    trained = train(recipe, with_candidates(world.train, 5), world.graph, world.priors)
    trained.save(tmp_path / "m")
    again = TrainedModel.load(tmp_path / "m")
    assert again.candidates == 5
    assert_same(again, trained, with_candidates(world.test, 5))


def test_what_the_scorer_computed_of_labels_is_saved(world: World, tmp_path: Path) -> None:
    vectors = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
    tensors = {"light/vectors": vectors, "colbert/tokens": vectors.half(), "colbert/lengths": torch.ones(8).long()}
    train(QUICK, replace(world.train, label_tensors=tensors), world.graph, world.priors).save(tmp_path / "m")
    loaded = TrainedModel.load(tmp_path / "m").label_tensors
    assert loaded.keys() == tensors.keys()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in tensors.items())
    train(QUICK, world.train, world.graph, world.priors).save(tmp_path / "without")
    assert TrainedModel.load(tmp_path / "without").label_tensors == {}


def test_numbers_of_numpy_can_be_saved(world: World, tmp_path: Path) -> None:
    assert world.priors.cardinality is not None
    for cardinality in (np.float64(world.priors.cardinality), np.float32(world.priors.cardinality)):
        priors = Priors(cardinality, tuple(world.priors.shares))  # type: ignore[arg-type]
        for recipe in (DefaultRecipe(), QUICK):
            train(recipe, world.train, world.graph, priors).save(tmp_path / "m", overwrite=True)
            assert TrainedModel.load(tmp_path / "m").model.predict(world.test).decisions.any()


def test_every_number_reaches_the_manifest(world: World, tmp_path: Path) -> None:
    default = DefaultRecipe(self_training=SelfTraining(rounds=1), estimation=PriorEstimation(guess_power=2.0))
    for place, recipe in enumerate((default, replace(QUICK, decay=0.3, betas=(0.7, 0.8)))):
        folder = tmp_path / str(place)
        train(recipe, world.train, world.graph, Priors.nothing(8)).save(folder)
        manifest = json.loads((folder / "manifest.json").read_text())
        assert manifest["recipe"] == json.loads(json.dumps(save_recipe(recipe)))
        assert manifest["seed"] == 3
        assert manifest["setting"] == "domain-supervisor"
        assert TrainedModel.load(folder).recipe == recipe


@pytest.mark.parametrize("change", [{"warmth": 3}, {"estimation": None}])
def test_a_recipe_of_another_release_is_refused(world: World, change: dict[str, Any], tmp_path: Path) -> None:
    train(QUICK, world.train, world.graph, world.priors).save(tmp_path / "m")
    manifest = json.loads((tmp_path / "m" / "manifest.json").read_text())
    content = {key: manifest[key] for key in manifest if key not in ("format", "version", "files", "sha256")}
    for key, value in change.items():
        if value is None:
            del content["recipe"][key]
        else:
            content["recipe"][key] = value
    write_manifest(tmp_path / "m", "model", content)
    with pytest.raises(InputError, match=r"A saved PaperRecipe (lacks 'estimation'|has an unknown 'warmth')"):
        TrainedModel.load(tmp_path / "m")


def test_what_is_known_in_part_is_kept(world: World, tmp_path: Path) -> None:
    y: list[Any] = [None] * len(world.train)
    y[0], y[1], y[2] = ["gold", "wheat"], {"silver": True, "corn": False, "gold": False}, {"corn": True}
    annotated = Annotated.from_target(y, len(world.train), world.train.labels)
    recipe = find_recipe("paper", epochs=1)
    trained = TrainedModel.fit(
        recipe, world.train, world.graph, world.priors, annotated, setting="domain-supervisor", seed=0
    )
    trained.save(tmp_path / "model")
    loaded = TrainedModel.load(tmp_path / "model")
    names = world.train.ids
    assert trained.annotated == loaded.annotated
    assert loaded.annotated == {names[0]: ("gold", "wheat"), names[1]: ("silver",), names[2]: ("corn",)}
    assert loaded.not_labels == trained.not_labels == {names[1]: ("gold", "corn"), names[2]: ()}
