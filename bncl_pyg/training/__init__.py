"""From features, a graph and supervision to a trained model; no test label is reachable from here."""

from bncl_pyg.training.default import DefaultRecipe, DefaultTrainer, StageLog, Start
from bncl_pyg.training.recipes import RECIPES, Recipe, adapted_recipe, find_recipe
from bncl_pyg.training.settings import Setting, check_given, supervise
from bncl_pyg.training.trainer import Checkpoint, EpochLog, Trainer

__all__ = [
    "RECIPES",
    "Checkpoint",
    "DefaultRecipe",
    "DefaultTrainer",
    "EpochLog",
    "Recipe",
    "Setting",
    "StageLog",
    "Start",
    "Trainer",
    "adapted_recipe",
    "check_given",
    "find_recipe",
    "supervise",
]
