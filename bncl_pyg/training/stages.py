"""Several trainings after one another, told and kept as one: a run that is stopped in any of them goes on there."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from torch import Tensor

from bncl_pyg.training.checkpoint import Checkpoint
from bncl_pyg.training.recipe import Progress, TrainingStep
from bncl_pyg.training.trainer import EPOCH, Trainer


class Stages:
    """The steps of all stages so far.

    A stage is a training, whose epochs are told under its name, and ends with a step of its own that says what came of
    it. The checkpoint holds all steps, and the weights of the stage that was under way.

    Args:
        checkpoint: what an earlier run left, and where this one is kept; or `None`.
        progress: told of every step, also of those that an earlier run did.
    """

    def __init__(self, checkpoint: Checkpoint | None, progress: Progress | None) -> None:
        self._checkpoint, self._progress = checkpoint, progress
        kept = None if checkpoint is None else checkpoint.load()
        self._tensors, self._kept = kept if kept is not None else ({}, [])
        self.steps: list[TrainingStep] = []

    def train(self, trainer: Trainer, name: str = EPOCH) -> None:
        """Train the epochs that are not done yet, under the name of the stage."""
        done = [replace(step, what=EPOCH) for step in self._kept if step.what == name]
        if done:
            trainer.load_state(self._tensors, done)
        trainer.run(_Stage(self._checkpoint, list(self.steps), name), lambda step: self.tell(replace(step, what=name)))

    def tell(self, step: TrainingStep) -> None:
        """Note a finished step."""
        self.steps.append(step)
        if self._progress is not None:
            self._progress(step)

    def finished(self, name: str, ending: str) -> TrainingStep | None:
        """Return the step with which an earlier run ended a stage, and tell of all its steps; `None` if it did not.

        Args:
            name: of the stage.
            ending: what its last step is called.
        """
        last = next((step for step in self._kept if step.what == ending), None)
        if last is not None:
            for step in self._kept:
                if step.what in (name, ending):
                    self.tell(step)
        return last

    def end(self, step: TrainingStep) -> None:
        """Note the step with which a stage ends, on disk too; its weights are not needed any more."""
        self.tell(step)
        if self._checkpoint is not None:
            self._checkpoint.save({}, self.steps)


class _Stage:
    """The checkpoint of one stage: it keeps the steps of the stages before it, too."""

    def __init__(self, checkpoint: Checkpoint | None, before: list[TrainingStep], name: str) -> None:
        self._checkpoint, self._before, self._name = checkpoint, before, name

    def save(self, tensors: Mapping[str, Tensor], log: Sequence[TrainingStep]) -> None:
        if self._checkpoint is not None:
            self._checkpoint.save(tensors, [*self._before, *(replace(step, what=self._name) for step in log)])
