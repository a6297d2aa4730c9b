"""From features, a graph, priors and annotated texts to a trained model; no test label is reachable from here."""

from bncl_pyg.training.annotated import Annotated, draw, indicator_of
from bncl_pyg.training.calibration import Calibration
from bncl_pyg.training.checkpoint import Checkpoint
from bncl_pyg.training.correction import CorrectionFit
from bncl_pyg.training.decisions import Decisions
from bncl_pyg.training.default import DefaultRecipe
from bncl_pyg.training.default_model import DefaultModel
from bncl_pyg.training.estimation import MAX_PREVALENCE, PriorEstimation
from bncl_pyg.training.paper import PAPER, PAPER_LITERAL, REFERENCE, PaperModel, PaperRecipe
from bncl_pyg.training.prevalence import estimate_cardinality
from bncl_pyg.training.recipe import Model, Progress, Recipe, TrainingStep
from bncl_pyg.training.recipes import KINDS, RECIPES, find_recipe, load_recipe, save_recipe
from bncl_pyg.training.regression import PCAInputs, fit_logistic
from bncl_pyg.training.saved import TrainedModel
from bncl_pyg.training.self_training import SelfTraining
from bncl_pyg.training.settings import Setting, check_seed, setting_of
from bncl_pyg.training.start import recalibrate, shifted
from bncl_pyg.training.trainer import Trainer, TrainingNumbers

__all__ = [
    "KINDS",
    "MAX_PREVALENCE",
    "PAPER",
    "PAPER_LITERAL",
    "RECIPES",
    "REFERENCE",
    "Annotated",
    "Calibration",
    "Checkpoint",
    "CorrectionFit",
    "Decisions",
    "DefaultModel",
    "DefaultRecipe",
    "Model",
    "PCAInputs",
    "PaperModel",
    "PaperRecipe",
    "PriorEstimation",
    "Progress",
    "Recipe",
    "SelfTraining",
    "Setting",
    "TrainedModel",
    "Trainer",
    "TrainingNumbers",
    "TrainingStep",
    "check_seed",
    "draw",
    "estimate_cardinality",
    "find_recipe",
    "fit_logistic",
    "indicator_of",
    "load_recipe",
    "recalibrate",
    "save_recipe",
    "setting_of",
    "shifted",
]
