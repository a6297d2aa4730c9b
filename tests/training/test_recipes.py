"""Recipes by name, with other options, to JSON and back; none knows of another."""

import ast
import json
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from bncl_pyg.errors import InputError
from bncl_pyg.training import (
    KINDS,
    PAPER,
    PAPER_LITERAL,
    RECIPES,
    REFERENCE,
    DefaultRecipe,
    PaperRecipe,
    Recipe,
    find_recipe,
    load_recipe,
    save_recipe,
)

Where = tuple[str, ...]


def numbers_of(recipe: Any, *path: str) -> Iterator[tuple[Where, Any]]:
    """Yield every number of a recipe and where it is."""
    for field in fields(recipe):
        value = getattr(recipe, field.name)
        if is_dataclass(value):
            yield from numbers_of(value, *path, field.name)
        else:
            yield (*path, field.name), value


def another(value: Any) -> Any:
    """Return another value of the same type."""
    if isinstance(value, bool):
        return not value
    if value == "f1":
        return "prevalence"
    if isinstance(value, str):
        return f"{value}-other"
    if isinstance(value, tuple):
        return value[:-1] if isinstance(value[0], str | tuple) else tuple(number + 1 for number in value)
    return value / 2 if isinstance(value, float) else value + 1


def changed(recipe: Any, path: Where, value: Any) -> Any:
    first, *rest = path
    inner = changed(getattr(recipe, first), tuple(rest), value) if rest else value
    return replace(recipe, **{first: inner})


def through_json(recipe: Recipe) -> Recipe:
    return load_recipe(json.loads(json.dumps(save_recipe(recipe))))


EVERY_NUMBER = [
    pytest.param(recipe, path, value, id=f"{recipe.name}-{'.'.join(path)}")
    for recipe in (DefaultRecipe(), PAPER)
    for path, value in numbers_of(recipe)
]


def test_recipes_are_found_by_name() -> None:
    assert list(RECIPES) == ["default", "paper", "paper-literal", "reference"]
    assert find_recipe("default") == DefaultRecipe()
    assert find_recipe("paper") is PAPER
    assert find_recipe("paper-literal") is PAPER_LITERAL
    assert find_recipe("reference") is REFERENCE
    mine = replace(PAPER, name="mine")
    assert find_recipe(mine) is mine
    with pytest.raises(
        InputError, match="There is no recipe 'papr'; there are: default, paper, paper-literal, reference"
    ):
        find_recipe("papr")


def test_recipes_with_other_options() -> None:
    with pytest.raises(InputError, match="The recipe default has no epochs; paper, paper-literal and reference have"):
        find_recipe("default", epochs=3)
    with pytest.raises(InputError, match="The recipe paper has no folds; it has epochs and sharpness"):
        find_recipe("paper", folds=3)
    longer = find_recipe("paper", epochs=120, sharpness="25")
    assert longer == replace(PAPER, epochs=120, decay_every=40, sharpness=25)
    assert find_recipe("paper", epochs=2) == replace(PAPER, epochs=2, decay_every=1)
    assert find_recipe("reference", sharpness="auto") == replace(REFERENCE, sharpness="auto")
    assert find_recipe("paper", sharpness=7) == replace(PAPER, sharpness=7)
    for wrong in ("ten", "-3", "0", "1.5", True):
        with pytest.raises(InputError, match="sharpness must be"):
            find_recipe("paper", sharpness=wrong)


@pytest.mark.parametrize(("name", "message"), [("epochs", "at least 1 epoch"), ("batch", "at least 1 text")])
def test_numbers_that_make_no_training_are_refused(name: str, message: str) -> None:
    with pytest.raises(InputError, match=f"{message}, but 0 were asked for"):
        replace(PAPER, **{name: 0})


def test_the_reference_is_the_paper_with_what_its_authors_code_does_otherwise() -> None:
    differences = {path[0] for path, value in numbers_of(REFERENCE) if dict(numbers_of(PAPER_LITERAL))[path] != value}
    assert differences == {
        "annotation",
        "cardinality_per_cell",
        "hesitation",
        "name",
        "percentiles",
        "prevalence_over",
        "replacement",
        "separate_annotated",
        "shuffle",
        "simple_hops",
        "ties_count",
    }


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_a_recipe_is_saved_and_loaded(recipe: Recipe) -> None:
    again = through_json(recipe)
    assert again == recipe
    assert type(again) is type(recipe)
    assert hash(again) == hash(recipe)


@pytest.mark.parametrize(("recipe", "path", "value"), EVERY_NUMBER)
def test_every_number_is_saved_and_loaded(recipe: Recipe, path: Where, value: Any) -> None:
    other = changed(recipe, path, another(value))
    assert other != recipe
    assert save_recipe(other) != save_recipe(recipe)
    assert through_json(other) == other


@pytest.mark.parametrize("recipe", [DefaultRecipe(), PAPER], ids=["default", "paper"])
def test_an_unknown_or_missing_number_is_refused(recipe: Recipe) -> None:
    for path in ((), ("self_training",), ("estimation",)):
        content = json.loads(json.dumps(save_recipe(recipe)))
        inner = content
        for key in path:
            inner = inner[key]
        inner["warmth"] = 3
        with pytest.raises(InputError, match=r"A saved \w+ has an unknown 'warmth'"):
            load_recipe(content)
        del inner["warmth"]
        missing = next(key for key in inner if key != "kind")
        del inner[missing]
        with pytest.raises(InputError, match=rf"A saved \w+ lacks '{missing}'"):
            load_recipe(content)


@dataclass(frozen=True)
class Mine(PaperRecipe):
    """A recipe of one's own."""

    name: str = "mine"


def test_a_recipe_of_ones_own_is_listed_before_it_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="the recipe mine could not be loaded again: list its class in KINDS"):
        save_recipe(Mine())
    with pytest.raises(InputError, match="There is no kind of recipe 'Mine'; there are: DefaultRecipe, PaperRecipe"):
        load_recipe({"kind": "Mine"})
    with pytest.raises(InputError, match="There is no kind of recipe 'None'"):
        load_recipe({"rounds": 3})
    monkeypatch.setitem(KINDS, "Mine", Mine)
    assert load_recipe(save_recipe(Mine(epochs=3))) == Mine(epochs=3)


def test_annotated_texts_are_drawn_with_replacement_by_the_reference_only() -> None:
    assert len(set(PAPER.draw(60, 60, 0).tolist())) == len(set(DefaultRecipe().draw(60, 60, 0).tolist())) == 60
    assert len(set(REFERENCE.draw(60, 60, 0).tolist())) < 60


def test_only_recipes_with_epochs_resume() -> None:
    assert [recipe.resumes for recipe in RECIPES.values()] == [False, True, True, True]


def reached(module: str) -> set[str]:
    """Return which modules of training a module imports, and these import, and so on."""
    seen, waiting = set(), [module]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        spec = find_spec(f"bncl_pyg.training.{name}")
        assert spec is not None
        assert spec.origin is not None
        nodes = ast.walk(ast.parse(Path(spec.origin).read_text(encoding="utf-8")))
        modules = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
        waiting += [target.rpartition(".")[2] for target in modules if target.startswith("bncl_pyg.training.")]
    return seen


def test_no_recipe_knows_of_another() -> None:
    of_default, of_paper = reached("default"), reached("paper")
    assert {"self_training", "correction", "default_model"} <= of_default
    assert {"trainer", "checkpoint", "estimation"} <= of_paper
    assert not of_default & {"paper", "trainer", "checkpoint", "recipes"}
    assert not of_paper & {"default", "default_model", "correction", "scarce", "calibration", "decisions", "recipes"}
