"""The recipes by name."""

from collections.abc import Mapping
from typing import Any

from bncl_pyg.errors import InputError
from bncl_pyg.training.config import from_config
from bncl_pyg.training.default import DefaultRecipe
from bncl_pyg.training.paper import PAPER, PAPER_LITERAL, REFERENCE
from bncl_pyg.training.recipe import Recipe

RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in (DefaultRecipe(), PAPER, PAPER_LITERAL, REFERENCE)}
KINDS: dict[str, type] = {type(recipe).__name__: type(recipe) for recipe in RECIPES.values()}
"""The classes that a saved recipe can be of; one of your own is added here before its models are saved and loaded."""


def find_recipe(recipe: str | Recipe, **options: Any) -> Recipe:
    """Return a recipe by name, or the one that is given, perhaps with other options (see `Recipe.adapted`)."""
    if not isinstance(recipe, str):
        if not hasattr(recipe, "fit"):
            raise TypeError(f"recipe must be a name or a Recipe, but is {recipe!r}.")
        chosen = recipe
    elif recipe in RECIPES:
        chosen = RECIPES[recipe]
    else:
        raise InputError(f"There is no recipe '{recipe}'; there are: {', '.join(RECIPES)}.")
    return chosen.adapted(**options) if options else chosen


def save_recipe(recipe: Recipe) -> dict[str, Any]:
    """Return a recipe as JSON can hold it: its class and its numbers."""
    if type(recipe).__name__ not in KINDS:
        raise InputError(f"A model of the recipe {recipe.name} could not be loaded again: list its class in KINDS.")
    return {"kind": type(recipe).__name__, **recipe.config()}


def load_recipe(config: Mapping[str, Any]) -> Recipe:
    """Make the recipe that `save_recipe` described."""
    kind = config.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise InputError(f"There is no kind of recipe '{kind}'; there are: {', '.join(KINDS)}.")
    recipe: Recipe = from_config(KINDS[kind], {key: value for key, value in config.items() if key != "kind"})
    return recipe
