"""From features, a graph and supervision to a trained model; no test label is reachable from here."""

from bncl_pyg.training.default import DefaultRecipe, DefaultTrainer, StageLog, Start
from bncl_pyg.training.priors import estimated_cardinality
from bncl_pyg.training.recipes import PAPER, RECIPES, AnyRecipe, Recipe, adapted_recipe, find_recipe, recipe_from_dict
from bncl_pyg.training.regression import Inputs, regress
from bncl_pyg.training.settings import Setting, check_given, supervise
from bncl_pyg.training.trainer import Checkpoint, EpochLog, Trainer

__all__ = [
    "PAPER",
    "RECIPES",
    "AnyRecipe",
    "Checkpoint",
    "DefaultRecipe",
    "DefaultTrainer",
    "EpochLog",
    "Inputs",
    "Recipe",
    "Setting",
    "StageLog",
    "Start",
    "Trainer",
    "adapted_recipe",
    "check_given",
    "estimated_cardinality",
    "find_recipe",
    "recipe_from_dict",
    "regress",
    "supervise",
]
