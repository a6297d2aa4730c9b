"""The paper's recipe in two readings, and its authors' code: the signed network and its training.

`paper` is what can be trained: where the printed loss has no lower bound, or weights that do not fit it, it does as the
authors do, it starts from scores that predict κ labels a text, and it chooses the label graph among the paper's three.
`paper-literal` is what the printed formulas mean, slips mended and nothing else; `reference` is the authors' code.

The schedule and the loss weights α are fields of `TrainingNumbers` (trainer.py), the loss is `CollectiveLoss` (nn),
where `choose_sharpness` is the procedure that chooses C, the start is in start.py, the choice of the graph in
graph_choice.py, and the rule of prediction, p > p̄, is `PaperModel`.

| | printed | meant (`paper-literal`) | authors' code (`reference`) | `paper` |
|---|---|---|---|---|
| κ | the mean number of labels a text | the same | the mean of all cells of Y | as meant |
| D^(2,−) | A⁻ᵀA⁻ + … | A⁺ᵀA⁻ + A⁻ᵀA⁺; counts, neighbours where above 0 | binary, diagonal 0 at every hop | as meant |
| the layer's sum | over v ∈ N_v | over u ∈ N_v | the same | as meant |
| sharpened sigmoid | sign | 1 / (1 + exp(−C (p − p̄))) | the same | the same |
| L1 | Σ_i of the 2-norm | the same | the sum of squares | as meant |
| L2 | over all of D | the same, with running counts | over each batch | as the authors |
| L4 | sign and index | −Σ y log p + (1 − y) log p̄, p ≤ 1 | cross-entropy of the sharpened sigmoid | as the authors |
| decision | p > p̄ | the same | p ≥ p̄ | as meant |
| annotated texts | drawn without replacement | the same | with replacement, in batches of their own | as meant |
| start | the scorer's q and q̄ | the same | the same | shifted to κ labels a text |
| percentiles | one of three pairs | 5/95 | 10/90 | chosen among the three |

Why as the authors: L2 over all of D is N / 128 times as heavy as over a batch, for which α₂ was tuned, and drowns L4;
the printed L4 has no lower bound and, with a cap at 1, no gradient where it matters, at states above 1.
"""

import logging
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
from bncl_pyg.features import Features, Predictions, pairs_of
from bncl_pyg.graph import LazyGraph
from bncl_pyg.persistence import MANIFEST, check_fields
from bncl_pyg.priors import Priors
from bncl_pyg.training.annotated import Annotated, draw
from bncl_pyg.training.checkpoint import Checkpoint, fingerprint
from bncl_pyg.training.config import to_config
from bncl_pyg.training.estimation import PriorEstimation
from bncl_pyg.training.graph_choice import GraphCandidate, HeldOut, Percentiles, candidate_graphs, micro_f1
from bncl_pyg.training.paper_explanation import explain_paper
from bncl_pyg.training.recipe import Progress
from bncl_pyg.training.self_training import SelfTraining
from bncl_pyg.training.stages import Stages
from bncl_pyg.training.start import recalibrate, shifted
from bncl_pyg.training.trainer import EPOCH, Trainer, TrainingNumbers

if TYPE_CHECKING:
    from bncl_pyg.graph import SignedLabelGraph
    from bncl_pyg.nn import BNCL

logger = logging.getLogger(__name__)

TEXTS_AT_ONCE, CANDIDATE_TEXTS_AT_ONCE = 4096, 128
"""Where a network works on the labels that occur among some texts: the fewer texts, the fewer labels."""


@dataclass(frozen=True)
class PaperRecipe(TrainingNumbers):
    """The paper's training (see `TrainingNumbers`), its start and graph, and what is done where κ and λ are not known.

    Args:
        name: what it is called.
        start: whether the network starts from the scores as they are, or shifted so that before training κ labels a
            text are predicted (see `recalibrate`).
        percentiles: among which the label graph's are chosen, where nobody asked for some (see `default_graph`); of one
            pair there is nothing to choose, and with none, or another graph, the graph is used as it is given.
        held_out: on which share of the texts the percentiles are chosen. Of annotated texts: the graph whose model,
            trained without their annotations, has the highest miF1 there. Where too few are annotated, of the others:
            the graph whose model, trained without these texts, has the lowest loss there, the mean of
            L1 + α₂ L2 + α₃ L3 over batches, which needs no label. Training on everything follows.
        fewest_annotated: with how many annotated texts the choice is made on them.
        estimation: of κ and λ where they are not known in numbers, which the paper does not do.
        self_training: likewise, for what is known in words.
    """

    name: str = "paper"
    start: Literal["as scored", "cardinality"] = "cardinality"
    percentiles: tuple[Percentiles, ...] = ((5.0, 95.0), (10.0, 90.0), (30.0, 70.0))
    held_out: float = 0.2
    fewest_annotated: int = 50
    estimation: PriorEstimation = field(default_factory=PriorEstimation)
    self_training: SelfTraining = field(default_factory=SelfTraining)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.held_out < 1:
            raise InputError(f"The share that is held out must lie between 0 and 1, but is {self.held_out:g}.")
        if self.fewest_annotated < 2:
            raise InputError(f"At least 2 texts are needed to hold some out, but {self.fewest_annotated} were named.")

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
        assert known.cardinality is not None
        keeper = None
        if checkpoint is not None:
            made_from = fingerprint(features, graph, known, annotated, self.config(), seed)
            keeper = Checkpoint(checkpoint, made_from, features.ranks)
        offset = None
        if self.start == "cardinality":
            offset = recalibrate(features.entailment, features.contradiction, known.cardinality, features.ranks)
        start = features if offset is None else shifted(features, offset)
        training = _Training(self, start, known, annotated, seed, Stages(keeper, progress))
        chosen, trainer = training.run(candidate_graphs(graph, self.percentiles))
        return self.model(trainer, features, known, offset, chosen.percentiles)

    def model(
        self,
        trainer: Trainer,
        features: Features,
        priors: Priors,
        offset: float | None = None,
        percentiles: Percentiles | None = None,
    ) -> "PaperModel":
        """Return the model of a network as its training has it now; see `PaperModel`."""
        return PaperModel(
            trainer.model,
            priors,
            sharpness=trainer.loss.sharpness,
            candidates=features.entailment.shape[1],
            ties_count=self.ties_count,
            offset=offset,
            percentiles=percentiles,
        ).eval()

    def _known(
        self, features: Features, graph: "SignedLabelGraph", priors: Priors | None, annotated: Annotated | None
    ) -> Priors:
        """Return κ and λ in numbers: as they are known, as the annotated texts have them, or estimated."""
        if priors is None:
            if annotated is None:
                raise InputError("Training needs priors or annotated texts.")
            return _counted(annotated)
        if priors.is_exact:
            return priors
        return self.estimation.resolve(self.self_training.prepare(features, graph), priors, self.self_training)

    def network(self, graph: "SignedLabelGraph") -> "BNCL":
        """Return the network over a label graph, not trained yet."""
        # PyG takes seconds to import.
        from bncl_pyg.graph import balanced_neighbourhoods
        from bncl_pyg.nn import BNCL

        return BNCL(balanced_neighbourhoods(graph, simple=self.simple_hops))

    def load(
        self, tensors: Mapping[str, Tensor], config: Mapping[str, Any], graph: LazyGraph, priors: Priors
    ) -> "PaperModel":
        """Make a saved model again; see `Recipe`."""
        kinds: dict[str, Any] = {"sharpness": float, "candidates": int}
        optional: dict[str, Any] = {"offset": (float, type(None)), "percentiles": (list, type(None))}
        check_fields(config, {**kinds, **optional}, Path(MANIFEST))
        network = self.network(graph.graph)
        network.load_state_dict(dict(tensors))
        percentiles = config["percentiles"]
        return PaperModel(
            network,
            priors,
            sharpness=config["sharpness"],
            candidates=config["candidates"],
            ties_count=self.ties_count,
            offset=config["offset"],
            percentiles=None if percentiles is None else (percentiles[0], percentiles[1]),
        ).eval()

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
PAPER_LITERAL = PaperRecipe(
    name="paper-literal",
    prevalence_over="corpus",
    annotation="likelihood",
    start="as scored",
    percentiles=((5.0, 95.0),),
)
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
    start="as scored",
    percentiles=((10.0, 90.0),),
)


class _Training:
    """One call of `fit`: trains with each graph, if there are several, and with the one that was chosen.

    Args:
        recipe: by which.
        features: the training texts, as the network starts from them.
        priors: κ and λ in numbers.
        annotated: annotated texts, if there are any.
        seed: of the weights, the batches and what is held out.
        stages: told of every step.
    """

    def __init__(
        self,
        recipe: PaperRecipe,
        features: Features,
        priors: Priors,
        annotated: Annotated | None,
        seed: int,
        stages: Stages,
    ) -> None:
        self.recipe, self.features, self.priors = recipe, features, priors
        self.annotated, self.seed, self.stages = annotated, seed, stages

    def run(self, candidates: list[GraphCandidate]) -> tuple[GraphCandidate, Trainer]:
        """Return the graph that was chosen, and what was trained with it on everything."""
        chosen, (texts,) = candidates[0], self.features.ranks.total(len(self.features))
        if len(candidates) > 1 and texts > 1:
            chosen = self._choose(candidates)
            logger.info("The label graph was chosen: %s.", chosen)
        return chosen, self._train(chosen, self.features, self.annotated)

    def _choose(self, candidates: list[GraphCandidate]) -> GraphCandidate:
        """Train with each graph on what is not held out, and return the one that does best on what is."""
        held = HeldOut.of(self.features, self.annotated, self.recipe.held_out, self.recipe.fewest_annotated, self.seed)
        figures = []
        for place, candidate in enumerate(candidates, start=1):
            result = self.stages.finished(_stage(candidate), str(candidate))
            if result is None:
                trainer = self._train(candidate, held.rest, held.annotated, _stage(candidate))
                model = self.recipe.model(trainer, self.features, self.priors)
                if held.truth is None:
                    figure = {"loss": self._loss(model, trainer, held.texts)}
                else:
                    decisions = model.predict(held.texts).indicator()
                    figure = {"miF1": micro_f1(held.truth, decisions, held.known, self.features.ranks)}
                result = candidate.result(place, len(candidates), figure)
                self.stages.end(result)
            figures.append(-result.figures["loss"] if held.truth is None else result.figures["miF1"])
        return candidates[int(np.argmax(figures))]

    @torch.no_grad()
    def _loss(self, model: "PaperModel", trainer: Trainer, texts: Features) -> float:
        """Return the mean over batches of L1 + α₂ L2 + α₃ L3 of texts without labels."""
        everything = np.arange(int(texts.ranks.total(len(texts))[0]))
        losses = []
        for start in range(0, len(everything), self.recipe.batch):
            batch = texts.rows(texts.held_rows(everything[start : start + self.recipe.batch]))
            pairs = pairs_of(batch.candidates, batch.entailment, len(batch.labels), texts.ranks)
            states = model.states(batch) if len(batch) else (batch.entailment, batch.contradiction)
            losses.append(float(trainer.loss.total(trainer.sum_parts(trainer.loss(*states, pairs=pairs)[0]))))
        return sum(losses) / len(losses)

    def _train(
        self, candidate: GraphCandidate, features: Features, annotated: Annotated | None, stage: str = EPOCH
    ) -> Trainer:
        network = self.recipe.network(candidate.graph)
        trainer = Trainer(network, features, self.priors, annotated, self.recipe, self.seed)
        self.stages.train(trainer, stage)
        return trainer


def _counted(annotated: Annotated) -> Priors:
    """Return κ and λ as annotated texts have them: of each label, the share of the texts of which it is known."""
    whole = Priors.from_annotations(annotated.labels)
    if annotated.known is None:
        return whole
    shares = np.asarray(annotated.labels.sum(axis=0), dtype=np.float64) / np.maximum(annotated.known_counts, 1)
    return Priors.exact(float(shares.sum()), shares)


def _stage(candidate: GraphCandidate) -> str:
    """Return what the epochs are called in which a graph is tried."""
    return f"{EPOCH} with {candidate}"


class PaperModel(torch.nn.Module):
    """The paper's network with its decision rule: a label is predicted where p > p̄.

    Args:
        network: from q and q̄ to p and p̄.
        priors: κ and λ that it was trained with.
        sharpness: C that it was trained with.
        candidates: how many labels a training text had.
        ties_count: whether p = p̄ is a prediction.
        offset: by which scores are shifted before the network (see `recalibrate`); `None` for as they are.
        percentiles: of its label graph, if its recipe chose them; `None` where the graph was used as given.
    """

    def __init__(
        self,
        network: "BNCL",
        priors: Priors,
        *,
        sharpness: float,
        candidates: int,
        ties_count: bool,
        offset: float | None = None,
        percentiles: Percentiles | None = None,
    ) -> None:
        super().__init__()
        self.network, self.priors = network, priors
        self.sharpness, self.candidates, self.ties_count = sharpness, candidates, ties_count
        self.offset, self.percentiles = offset, percentiles

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

    def states(self, features: Features) -> tuple[Tensor, Tensor]:
        """Return p and p̄, as the scores are."""
        device = next(iter(self.network.parameters())).device
        start = features if self.offset is None else shifted(features, self.offset)
        scores = start.entailment.to(device), start.contradiction.to(device)
        if features.candidates is None:
            states: tuple[Tensor, Tensor] = self.network(*scores)
            return states
        return self.network.of_candidates(*scores, features.candidates.to(device))

    def _predict(self, features: Features) -> Predictions:
        p, against = self.states(features)
        decisions = (torch.ge if self.ties_count else torch.gt)(p, against)
        probabilities = p / (p + against).clamp_min(1e-12)
        return Predictions(
            decisions.cpu(), probabilities.cpu(), (p - against).cpu(), len(features.labels), features.candidates
        )

    def label_graph(self, graph: "SignedLabelGraph") -> "SignedLabelGraph":
        """Return the graph that it was trained with; see `Model`."""
        if self.percentiles is None:
            return graph
        # PyG takes seconds to import.
        from bncl_pyg.graph import with_percentiles

        return with_percentiles(graph, self.percentiles)

    def explain(self, text: ExplainedText, label: int) -> Account:
        """Say what p − p̄ consists of, by signed paths; see `Model`."""
        if self.offset is not None:
            text = replace(text, features=shifted(text.features, self.offset))
        return explain_paper(self.network, text, label)

    def tensors(self) -> dict[str, Tensor]:
        """Return the weights; the label graph is not among them."""
        return dict(self.network.state_dict())

    def config(self) -> dict[str, Any]:
        """Return the rest of the state."""
        return {
            "sharpness": self.sharpness,
            "candidates": self.candidates,
            "offset": self.offset,
            "percentiles": None if self.percentiles is None else list(self.percentiles),
        }


def _sharpness(value: Any) -> int | Literal["auto"]:
    if value == "auto":
        return "auto"
    if isinstance(value, bool) or not str(value).isdecimal():
        raise InputError(f"The sharpness must be a whole number or 'auto', but is '{value}'.")
    return int(value)
