"""What a recipe is, and what it returns: the two protocols that hold training, prediction and saving together."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bncl_pyg.explanation import Account, ExplainedText
from bncl_pyg.features import Features, Predictions
from bncl_pyg.graph import LazyGraph
from bncl_pyg.priors import Priors
from bncl_pyg.training.annotated import Annotated

if TYPE_CHECKING:
    from bncl_pyg.graph import SignedLabelGraph


@dataclass(frozen=True)
class TrainingStep:
    """One finished step of training: a stage, or an epoch.

    Args:
        number: of the step, from 1.
        of: how many there are.
        what: was done.
        figures: what came of it, such as the loss.
    """

    number: int
    of: int
    what: str
    figures: dict[str, float] = field(default_factory=dict)


Progress = Callable[[TrainingStep], None]
"""Told of every finished step."""


class Model(Protocol):
    """What a recipe learned: a `torch.nn.Module` that predicts from features and can be saved.

    Attributes:
        priors: the κ and λ that it was trained with, in numbers.
    """

    priors: Priors

    def predict(self, features: Features) -> Predictions:
        """Predict; features that lack what the model looks at raise an `InputError`."""
        ...

    def label_graph(self, graph: "SignedLabelGraph") -> "SignedLabelGraph":
        """Return the label graph that it was trained with, given the one that its recipe was given."""
        ...

    def explain(self, text: ExplainedText, label: int) -> Account:
        """Say what a decision consists of: contributions that add up to the decision function plus the threshold.

        Args:
            text: what is known of the text.
            label: which one; where the text has candidates, one of them.
        """
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Return its state, for safetensors."""
        ...

    def config(self) -> dict[str, Any]:
        """Return the rest of its state, as JSON can hold it."""
        ...

    def to(self, device: Any) -> Any:
        """Move it to a device."""
        ...


class Recipe(Protocol):
    """How to train. To add one, write a frozen dataclass with these methods and list it in `recipes.py`:
    in `RECIPES` to find it by name, or in `KINDS` if only its models are to be saved and loaded.

    Attributes:
        name: what it is called.
        resumes: whether a training that was stopped goes on from its checkpoint.
    """

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def resumes(self) -> bool:
        """Whether a training that was stopped goes on from its checkpoint."""
        ...

    def fit(
        self,
        features: Features,
        graph: "SignedLabelGraph",
        priors: Priors | None,
        annotated: Annotated | None = None,
        *,
        seed: int = 0,
        progress: Progress | None = None,
        checkpoint: Path | None = None,
    ) -> Model:
        """Train.

        Args:
            features: the training texts.
            graph: the signed label graph. One that `default_graph` made is what nobody asked for: a recipe may take
                other percentiles, and its model says which (`Model.label_graph`).
            priors: κ and λ as far as they are known; `None` where they are to be estimated from annotated texts.
            annotated: annotated texts among the training texts, if there are any.
            seed: of all that is drawn.
            progress: told of every finished step.
            checkpoint: a file in which a recipe that `resumes` leaves off and goes on; others do not look at it.
        """
        ...

    def load(self, tensors: Mapping[str, Tensor], config: Mapping[str, Any], graph: LazyGraph, priors: Priors) -> Model:
        """Make the model again whose `tensors` and `config` were saved.

        `graph.graph` is the label graph; who does not ask for it does not wait until PyG is imported.
        """
        ...

    def draw(self, texts: int, count: int, seed: int) -> NDArray[np.int64]:
        """Return which of so many annotated texts to learn from, where not all are wanted."""
        ...

    def adapted(self, **options: Any) -> "Recipe":
        """Return the recipe with other options; one that it does not have raises an `InputError`."""
        ...

    def config(self) -> dict[str, Any]:
        """Return every number of the recipe, as JSON can hold it."""
        ...
