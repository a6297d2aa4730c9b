"""Training on a store, in one process or in several, each of which reads only the rows that it holds."""

from dataclasses import dataclass, field
from pathlib import Path

import torch

from bncl_pyg.corpus import Corpus
from bncl_pyg.errors import InputError
from bncl_pyg.estimator import BNCLClassifier
from bncl_pyg.features import Features, StoredFeatures
from bncl_pyg.graph import LazyGraph
from bncl_pyg.priors import Priors
from bncl_pyg.ranks import ALONE, Ranks
from bncl_pyg.training import Annotated, DefaultRecipe, Progress, Recipe

ERRORS = "errors"


@dataclass(frozen=True)
class TrainingJob:
    """What is trained, by what, and where it goes; every process of a training has the same.

    Args:
        features: the store of the scored training texts, which all processes must reach.
        out: the folder of the model, which the first process writes.
        recipe: by which.
        priors: κ and λ as far as they are known.
        setting: see `BNCLClassifier`.
        graph: a folder with the label graph, used as it is; the default graph, if not given.
        annotated: annotated texts, which are found by id among the scored ones.
        annotations: how many of these to draw; all, if not given.
        seed: of all that is drawn.
        fresh: whether not to go on from an unfinished training.
        overwrite: whether to replace a model that is there.
    """

    features: Path
    out: Path
    recipe: Recipe = field(default_factory=DefaultRecipe)
    priors: Priors | None = None
    setting: str | None = None
    graph: Path | None = None
    annotated: Corpus | None = None
    annotations: int | None = None
    seed: int = 0
    fresh: bool = False
    overwrite: bool = False

    @property
    def checkpoint(self) -> Path:
        """The file in which a recipe that resumes leaves off and goes on."""
        return self.out.with_name(f"{self.out.name}.checkpoint.safetensors")

    @property
    def sequel(self) -> str:
        """What happens when a training that was stopped is started again."""
        if self.recipe.resumes:
            return "goes on after the last whole epoch"
        return f"starts anew: the recipe {self.recipe.name} has no epochs to go on from"

    def run(self, ranks: Ranks = ALONE, progress: Progress | None = None) -> BNCLClassifier:
        """Train as one of these processes; the first writes the model. All of them return it.

        Args:
            ranks: all processes of the training; each must run the same job.
            progress: told of every finished step.
        """
        if self.fresh and not ranks.rank:
            self.checkpoint.unlink(missing_ok=True)
        features = self._read(ranks)
        annotated = None
        if self.annotated is not None:
            annotated = Annotated.among(self.annotated, features.corpus_ids)
            if self.annotations is not None:
                annotated = annotated.drawn(self.recipe.draw(len(annotated), self.annotations, self.seed))
        classifier = BNCLClassifier(
            prevalence=self.priors,
            recipe=self.recipe,
            setting=self.setting,
            graph=None if self.graph is None else LazyGraph.load(self.graph),
            seed=self.seed,
        )
        classifier.fit(features, annotated, checkpoint=self.checkpoint, progress=progress)
        if not ranks.rank:
            classifier.save_pretrained(self.out, overwrite=self.overwrite)
            self.checkpoint.unlink(missing_ok=True)
        return classifier

    def _read(self, ranks: Ranks) -> Features:
        """Read the rows that this process holds; what one process cannot read, all of them say."""
        read, error = None, ""
        try:
            read = StoredFeatures(self.features).held_by(ranks)
        except InputError as wrong:
            error = str(wrong)
        told = ranks.gather(torch.tensor(list(f"{error}\n".encode()), dtype=torch.uint8), ERRORS)
        errors = bytes(told.tolist()).decode().splitlines()
        if read is None or any(errors):
            raise InputError(next(line for line in errors if line))
        return read
