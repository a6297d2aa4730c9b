"""The paper's recipe, and its authors' code where that departs from the paper: the signed network and its training.

The schedule and the loss weights α are fields of `TrainingNumbers` (trainer.py), the loss is `CollectiveLoss` (nn),
where `choose_sharpness` is the procedure that chooses C, and the rule of prediction, p > p̄, is `PaperModel`. Where the
printed formulas have slips, this is what is meant, and what the authors' code (recipe `reference`) does:

| | printed | meant (`paper`) | authors' code (`reference`) |
|---|---|---|---|
| κ | the mean number of labels a text | the same | the mean of all cells of Y |
| D^(2,−) | A⁻ᵀA⁻ + … | A⁺ᵀA⁻ + A⁻ᵀA⁺; counts, neighbours where above 0 | binary, diagonal 0 at every hop |
| the layer's sum | over v ∈ N_v | over u ∈ N_v | the same |
| sharpened sigmoid | sign | 1 / (1 + exp(−C (p − p̄))) | the same |
| L1 | Σ_i of the 2-norm | the same | the sum of squares |
| L2 | over all of D | the same, with running counts | over each batch |
| L4 | sign and index | −Σ y log p + (1 − y) log p̄, states capped at 1 | cross-entropy of the sharpened sigmoid |
| decision | p > p̄ | the same | p ≥ p̄ |
| annotated texts | drawn without replacement | the same | with replacement, in batches of their own |
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bncl_pyg.errors import InputError
from bncl_pyg.explanation import Account, ExplainedText
from bncl_pyg.features import Features, Predictions
from bncl_pyg.graph import LazyGraph
from bncl_pyg.priors import Priors
from bncl_pyg.training.annotated import Annotated, draw
from bncl_pyg.training.checkpoint import Checkpoint, fingerprint
from bncl_pyg.training.config import to_config
from bncl_pyg.training.estimation import PriorEstimation
from bncl_pyg.training.paper_explanation import explain_paper
from bncl_pyg.training.recipe import Progress
from bncl_pyg.training.self_training import SelfTraining
from bncl_pyg.training.trainer import Trainer, TrainingNumbers

if TYPE_CHECKING:
    from bncl_pyg.graph import SignedLabelGraph
    from bncl_pyg.nn import BNCL

TEXTS_AT_ONCE, CANDIDATE_TEXTS_AT_ONCE = 4096, 128
"""Where a network works on the labels that occur among some texts: the fewer texts, the fewer labels."""


@dataclass(frozen=True)
class PaperRecipe(TrainingNumbers):
    """The paper's training (see `TrainingNumbers`), and what is done where κ and λ are not known in numbers.

    Args:
        name: what it is called.
        estimation: of κ and λ where they are not known in numbers, which the paper does not do.
        self_training: likewise, for what is known in words.
    """

    name: str = "paper"
    estimation: PriorEstimation = field(default_factory=PriorEstimation)
    self_training: SelfTraining = field(default_factory=SelfTraining)

    @property
    def resumes(self) -> bool:
        """Training that was stopped goes on after the last whole epoch."""
        return True

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
    ) -> "PaperModel":
        """Train; see `Recipe`. The same inputs and seed give the same weights."""
        known = self._known(features, graph, priors, annotated)
        network = self._network(graph)
        trainer = Trainer(network, features, known, annotated, self, seed)
        keeper = None
        if checkpoint is not None:
            keeper = Checkpoint(checkpoint, fingerprint(features, graph, known, annotated, self.config(), seed))
            kept = keeper.load()
            if kept is not None:
                trainer.load_state(*kept)
        trainer.run(keeper, progress)
        return PaperModel(network, known, trainer.loss.sharpness, features.entailment.shape[1], self.ties_count).eval()

    def _known(
        self, features: Features, graph: "SignedLabelGraph", priors: Priors | None, annotated: Annotated | None
    ) -> Priors:
        """Return κ and λ in numbers: as they are known, as the annotated texts have them, or estimated."""
        if priors is None:
            if annotated is None:
                raise InputError("Training needs priors or annotated texts.")
            return Priors.from_annotations(annotated.labels)
        if priors.is_exact:
            return priors
        return self.estimation.resolve(self.self_training.prepare(features, graph), priors, self.self_training)

    def _network(self, graph: "SignedLabelGraph") -> "BNCL":
        # PyG takes seconds to import.
        from bncl_pyg.graph import balanced_neighbourhoods
        from bncl_pyg.nn import BNCL

        return BNCL(balanced_neighbourhoods(graph, simple=self.simple_hops))

    def load(
        self, tensors: Mapping[str, Tensor], config: Mapping[str, Any], graph: LazyGraph, priors: Priors
    ) -> "PaperModel":
        """Make a saved model again; see `Recipe`."""
        network = self._network(graph.graph)
        network.load_state_dict(dict(tensors))
        return PaperModel(network, priors, config["sharpness"], config["candidates"], self.ties_count).eval()

    def draw(self, texts: int, count: int, seed: int) -> NDArray[np.int64]:
        """Draw annotated texts; see `Recipe`."""
        return draw(texts, count, seed, replacement=self.replacement)

    def adapted(self, **options: Any) -> "PaperRecipe":
        """Return the recipe with another number of epochs or another sharpness.

        The decays of the learning rate are spread over the epochs as they were over the recipe's own. A sharpness is a
        whole number or `auto`, perhaps as text.
        """
        recipe = self
        for name, value in options.items():
            if name == "epochs":
                recipe = replace(recipe, epochs=value, decay_every=max(1, value * self.decay_every // self.epochs))
            elif name == "sharpness":
                recipe = replace(recipe, sharpness=_sharpness(value))
            else:
                raise InputError(f"The recipe {self.name} has no {name}; it has epochs and sharpness.")
        return recipe

    def config(self) -> dict[str, Any]:
        """Return every number; see `Recipe`."""
        numbers: dict[str, Any] = to_config(self)
        return numbers


PAPER = PaperRecipe()
REFERENCE = PaperRecipe(
    name="reference",
    shuffle=False,
    prevalence_over="batch",
    hesitation="squares",
    annotation="sharpened",
    separate_annotated=True,
    simple_hops=True,
    cardinality_per_cell=True,
    ties_count=True,
    replacement=True,
)


class PaperModel(torch.nn.Module):
    """The paper's network with its decision rule: a label is predicted where p > p̄.

    Args:
        network: from q and q̄ to p and p̄.
        priors: κ and λ that it was trained with.
        sharpness: C that it was trained with.
        candidates: how many labels a training text had.
        ties_count: whether p = p̄ is a prediction.
    """

    def __init__(self, network: "BNCL", priors: Priors, sharpness: float, candidates: int, ties_count: bool) -> None:
        super().__init__()
        self.network, self.priors = network, priors
        self.sharpness, self.candidates, self.ties_count = sharpness, candidates, ties_count

    @torch.inference_mode()
    def predict(self, features: Features) -> Predictions:
        """Predict, some texts at a time; probabilities are p / (p + p̄)."""
        if features.entailment.shape[1] != self.candidates:
            raise InputError(
                f"{features.other_candidates(self.candidates)} Featurize the texts as those it was trained on."
            )
        at_once = TEXTS_AT_ONCE if features.candidates is None else CANDIDATE_TEXTS_AT_ONCE
        starts = range(0, max(len(features), 1), at_once)
        return Predictions.joined([self._predict(features.rows(slice(at, at + at_once))) for at in starts])

    def _predict(self, features: Features) -> Predictions:
        device = next(iter(self.network.parameters())).device
        scores = features.entailment.to(device), features.contradiction.to(device)
        if features.candidates is None:
            p, against = self.network(*scores)
        else:
            p, against = self.network.of_candidates(*scores, features.candidates.to(device))
        decisions = (torch.ge if self.ties_count else torch.gt)(p, against)
        probabilities = p / (p + against).clamp_min(1e-12)
        return Predictions(
            decisions.cpu(), probabilities.cpu(), (p - against).cpu(), len(features.labels), features.candidates
        )

    def explain(self, text: ExplainedText, label: int) -> Account:
        """Say what p − p̄ consists of, by signed paths; see `Model`."""
        return explain_paper(self.network, text, label)

    def tensors(self) -> dict[str, Tensor]:
        """Return the weights; the label graph is not among them."""
        return dict(self.network.state_dict())

    def config(self) -> dict[str, Any]:
        """Return the rest of the state."""
        return {"sharpness": self.sharpness, "candidates": self.candidates}


def _sharpness(value: Any) -> int | Literal["auto"]:
    if value == "auto":
        return "auto"
    if isinstance(value, bool) or not str(value).isdecimal():
        raise InputError(f"The sharpness must be a whole number or 'auto', but is '{value}'.")
    return int(value)
