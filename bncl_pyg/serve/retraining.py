"""Training behind the page: a thread that learns from answers, estimates what that gained and replaces the model."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bncl_pyg.errors import InputError
from bncl_pyg.estimator import BNCLClassifier
from bncl_pyg.evaluation import Metrics, evaluate
from bncl_pyg.features import Features, Predictions
from bncl_pyg.serve.answers import UNKNOWN, YES
from bncl_pyg.serve.engine import Engine
from bncl_pyg.serve.project import AnnotationProject

log = logging.getLogger(__name__)

FOLDS, LEAST = 3, 6
"""In how many parts the answers are held out by turns, and from how many on there is an estimate."""
SHOWN = ("ebF1", "miF1", "maF1")
MODEL = "model"
"""The folder of the last model, inside of the project's."""


class _Stopped(Exception):  # noqa: N818
    """The server stops: a training that runs is given up."""


@dataclass
class TrainingState:
    """What the training is doing.

    Args:
        step: what is being done; empty at rest.
        learned: how many answers the last training knew.
        problem: why the last training failed; empty if it did not.
    """

    step: str = ""
    learned: int = 0
    problem: str = ""


@dataclass(frozen=True)
class HeldOut:
    """Probabilities of answered texts by a model that did not know their answers.

    Args:
        rows: which texts, (answered,).
        probabilities: (answered, labels).
        answers: 1, 0, and -1 where nothing is known; (answered, labels).
        is_trained: whether by models trained on other answers; else by the one that the server started with.
    """

    rows: NDArray[np.int64]
    probabilities: NDArray[np.float32]
    answers: NDArray[np.int8]
    is_trained: bool


@dataclass
class _Fitted:
    """A model, the folds' predictions, and the texts that these are of."""

    classifier: BNCLClassifier
    rows: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    decisions: NDArray[np.bool_] | None = None
    probabilities: NDArray[np.float32] | None = None


class Retrainer:
    """Learns from a project's answers whenever there are enough new ones, on a thread of its own.

    The estimate is of F1 on answered texts, each predicted by a model that knows the answers of other folds only;
    beside it stands the same of the model that the server started with. These texts were chosen, not drawn by chance:
    neither figure is quite that of all texts.

    Args:
        engine: which model answers.
        features: of the project's texts.
        project: which keeps the answers.
        every: so many new answers start a training.
        done: called after a model was replaced.
    """

    def __init__(
        self,
        engine: Engine,
        features: Features,
        project: AnnotationProject,
        *,
        every: int,
        done: Callable[[], None],
    ) -> None:
        self._engine, self._features, self._project, self._every, self._done = engine, features, project, every, done
        self._places = {identifier: row for row, identifier in enumerate(features.ids)}
        self._base = engine.base.classifier.predictions(features)
        self._changed, self._is_wanted, self._is_stopping = threading.Condition(), False, False
        self.held_out: HeldOut | None = None
        self.state = TrainingState(learned=engine.live.answers)
        self._thread = threading.Thread(target=self._work, name="bncl-training", daemon=True)
        self._thread.start()

    def note_answer(self) -> None:
        """Start a training, if there are enough new answers; returns at once."""
        if abs(self._count() - self.state.learned) >= self._every:
            self.start()

    def start(self) -> None:
        """Start a training when the one that runs, if any, has ended; returns at once."""
        with self._changed:
            self._is_wanted = True
            self._changed.notify_all()

    def stop(self) -> None:
        """Give up what is running, and end the thread."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        self._thread.join()

    def target(self) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
        """Return which rows are answered, and 1, 0 or -1 of each pair; (answered,), (answered, labels).

        What the first model was annotated with counts, too, where these texts are in the project.
        """
        labels, answers = self._engine.labels, self._project.answers()
        known = {self._places[one.text]: one.pairs(labels) for one in answers.values() if self._is_known(one)}
        for identifier, names in self._engine.base.classifier.annotated_.items():
            row = self._places.get(identifier)
            if row is not None and row not in known:
                known[row] = np.isin(labels.names, names).astype(np.int8)
        rows = np.array(list(known), dtype=np.int64)
        return rows, np.array(list(known.values()), dtype=np.int8).reshape(len(rows), len(labels))

    def judged(self) -> HeldOut:
        """Return the wholly answered texts with probabilities that owe nothing to their answers."""
        if self.held_out is not None:
            return self.held_out
        rows, answers = wholly_answered(*self.target())
        probabilities = _dense(self._base, rows)[1]
        return HeldOut(rows, probabilities, answers, is_trained=False)

    def _is_known(self, answer: Any) -> bool:
        return answer.says_something and answer.text in self._places

    def _count(self) -> int:
        return sum(self._is_known(answer) for answer in self._project.answers().values())

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._is_wanted and not self._is_stopping:
                    self._changed.wait()
                if self._is_stopping:
                    return
                self._is_wanted = False
            try:
                self._train()
                self.state.problem = ""
            except _Stopped:
                return
            except InputError as error:
                self.state.problem = str(error)
                log.warning("The answers could not be learned from: %s", error)
            except Exception:
                self.state.problem = "The training failed; the log of the server says why."
                log.exception("The training failed.")
            finally:
                self.state.step = ""

    def _train(self) -> None:
        began, count = time.perf_counter(), self._count()
        rows, answers = self.target()
        # Asked before it is known whether it works: what failed is not tried again with the same answers.
        self.state.learned = count
        if not (answers == YES).any():
            raise InputError("No answered text has a label yet: there is nothing to learn from.")
        estimate: dict[str, Any] | None = None
        # Of a text that is answered in part, what is known is learned; nothing can be measured with it.
        whole = wholly_answered(rows, answers)
        if len(whole[0]) >= LEAST:
            self.state.step = "estimating"
            self.held_out, estimate = self._cross_validated(*whole)
        self.state.step = "training"
        classifier = self._fit(rows, answers)
        classifier.save_pretrained(self._project.folder / MODEL, overwrite=True)
        self._engine.replace(classifier, count)
        seconds = round(time.perf_counter() - began, 2)
        self._project.note_training({"answers": count, "texts": len(rows), "seconds": seconds, "estimate": estimate})
        log.info("Learned from %d answered texts in %.1f seconds.", len(rows), seconds)
        self._done()

    def _cross_validated(self, rows: NDArray[np.int64], answers: NDArray[np.int8]) -> tuple[HeldOut, dict[str, Any]]:
        """Return what models say of texts whose answers they do not know, and how good that is."""
        fold = np.random.default_rng(0).permutation(len(rows)) % FOLDS
        decisions = np.zeros(answers.shape, dtype=bool)
        probabilities = np.zeros(answers.shape, dtype=np.float32)
        for one in range(FOLDS):
            self.state.step = f"estimating, part {one + 1} of {FOLDS}"
            inside = fold == one
            if not (answers[~inside] == YES).any():
                decided, probable = _dense(self._base, rows[inside])
            else:
                model = self._fit(rows[~inside], answers[~inside])
                decided, probable = _dense(model.predictions(self._features.rows(rows[inside])), None)
            decisions[inside], probabilities[inside] = decided, probable
        truth = answers == YES
        after, before = evaluate(truth, decisions), evaluate(truth, _dense(self._base, rows)[0])
        held_out = HeldOut(rows, probabilities, answers, is_trained=True)
        return held_out, {"after": _figures(after), "before": _figures(before)}

    def _fit(self, rows: NDArray[np.int64], answers: NDArray[np.int8]) -> BNCLClassifier:
        base = self._engine.base.classifier
        given = base.given_priors_
        is_known = given is not None and (given.cardinality is not None or given.knows_labels)
        target = np.full((len(self._features), len(self._engine.labels)), UNKNOWN, dtype=np.int8)
        target[rows] = answers
        classifier = BNCLClassifier(
            labels=self._engine.labels,
            prevalence=given if is_known else None,
            scorer=self._engine.scorer,
            recipe=base.recipe_,
            graph=base.graph_,
            seed=base.seed_,
            template=base.template,
            device=base.device,
        )
        return classifier.fit(self._features, target, progress=self._go_on)

    def _go_on(self, _: object) -> None:
        if self._is_stopping:
            raise _Stopped


def wholly_answered(rows: NDArray[np.int64], answers: NDArray[np.int8]) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Return the texts of which every pair is answered: what predictions can be measured with."""
    whole = (answers != UNKNOWN).all(axis=1)
    return rows[whole], answers[whole]


def _dense(predictions: Predictions, rows: NDArray[np.int64] | None) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
    """Return decisions and probabilities of some texts, or of all, with a column a label."""
    matrices = (predictions.indicator(), predictions.probability_matrix())
    chosen = matrices if rows is None else (matrices[0][rows], matrices[1][rows])
    decisions, probabilities = (one if isinstance(one, np.ndarray) else one.toarray() for one in chosen)
    return decisions, probabilities


def _figures(metrics: Metrics) -> dict[str, float]:
    return {name: round(float(getattr(metrics, name)), 4) for name in SHOWN}
