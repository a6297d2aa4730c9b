"""How to train: ours, the paper, and the authors' code where it departs from the paper."""

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from bncl_pyg.errors import InputError
from bncl_pyg.training.default import DefaultRecipe


@dataclass(frozen=True)
class Recipe:
    """Everything that is chosen before training; the defaults are the paper's.

    Args:
        name: what it is called on the command line.
        epochs: passes over the texts.
        batch: texts a step.
        learning_rate: of Adam, at first.
        betas: of Adam.
        decay_every: epochs between two decays of the learning rate.
        decay: what it is multiplied with.
        loss_weights: α₂ (prevalence), α₃ (cardinality), α₄ (annotation).
        sharpness: C of the sharpened sigmoid; `auto` chooses it by the paper's procedure.
        shuffle: whether batches are drawn anew every epoch.
        prevalence_over: whether L2 counts over the whole corpus or over each batch alone.
        hesitation: see `CollectiveLoss`.
        annotation: see `CollectiveLoss`.
        annotated_apart: whether annotated texts have batches of their own after the others, or stand among them.
        simple_hops: see `balanced_neighbourhoods`.
        cardinality_a_cell: whether κ is divided by the number of labels, as the authors' code does.
        ties_count: whether p = p̄ is a prediction.
        replacement: whether annotated texts are drawn with replacement.
    """

    name: str
    epochs: int = 30
    batch: int = 128
    learning_rate: float = 1e-3
    betas: tuple[float, float] = (0.8, 0.9)
    decay_every: int = 10
    decay: float = 0.1
    loss_weights: tuple[float, float, float] = (0.1, 0.5, 100.0)
    sharpness: int | Literal["auto"] = 10
    shuffle: bool = True
    prevalence_over: Literal["corpus", "batch"] = "corpus"
    hesitation: Literal["norm", "squares"] = "norm"
    annotation: Literal["likelihood", "literal", "sharpened"] = "likelihood"
    annotated_apart: bool = False
    simple_hops: bool = False
    cardinality_a_cell: bool = False
    ties_count: bool = False
    replacement: bool = False

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise InputError(f"Training needs at least 1 epoch, but {self.epochs} were asked for.")
        if self.batch < 1:
            raise InputError(f"A batch needs at least 1 text, but {self.batch} were asked for.")
        if self.sharpness != "auto" and self.sharpness < 1:
            raise InputError(f"The sharpness must be at least 1, but is {self.sharpness}.")

    def as_dict(self) -> dict[str, Any]:
        """Return the recipe as JSON can hold it."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}


PAPER = Recipe("paper")
REFERENCE = replace(
    PAPER,
    name="reference",
    shuffle=False,
    prevalence_over="batch",
    hesitation="squares",
    annotation="sharpened",
    annotated_apart=True,
    simple_hops=True,
    cardinality_a_cell=True,
    ties_count=True,
    replacement=True,
)

AnyRecipe = Recipe | DefaultRecipe
RECIPES: dict[str, AnyRecipe] = {recipe.name: recipe for recipe in (DefaultRecipe(), PAPER, REFERENCE)}


def recipe_from_dict(content: dict[str, Any]) -> AnyRecipe:
    """Make the recipe that `as_dict` described."""
    fields: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in content.items()}
    return DefaultRecipe(**fields) if "rounds" in fields else Recipe(**fields)


def find_recipe(name: str) -> AnyRecipe:
    """Return a recipe by name."""
    if name not in RECIPES:
        raise InputError(f"There is no recipe '{name}'; there are: {', '.join(RECIPES)}.")
    return RECIPES[name]


def adapted_recipe(name: str, *, epochs: int | None = None, sharpness: str | None = None) -> AnyRecipe:
    """Return a recipe by name, perhaps with another sharpness or number of epochs.

    Args:
        name: of the recipe.
        epochs: the decays of the learning rate are spread over them as they were over the recipe's own.
        sharpness: a whole number or `auto`.
    """
    recipe = find_recipe(name)
    if isinstance(recipe, DefaultRecipe):
        for option, value in (("epochs", epochs), ("sharpness", sharpness)):
            if value is not None:
                raise InputError(f"The recipe {name} has no --{option}; paper and reference have.")
        return recipe
    if epochs is not None:
        recipe = replace(recipe, epochs=epochs, decay_every=max(1, epochs * recipe.decay_every // recipe.epochs))
    if sharpness == "auto":
        return replace(recipe, sharpness="auto")
    if sharpness is None:
        return recipe
    if not sharpness.isdecimal():
        raise InputError(f"The sharpness must be a whole number or 'auto', but is '{sharpness}'.")
    return replace(recipe, sharpness=int(sharpness))
