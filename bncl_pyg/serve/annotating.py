"""Texts to annotate one after the other: which comes next, what was answered, how far one is, what it gained."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bncl_pyg.active import DEFAULT, Pool, Strategy, suggest
from bncl_pyg.corpus import Corpus
from bncl_pyg.errors import InputError
from bncl_pyg.estimator import BNCLClassifier
from bncl_pyg.features import Choice, Features, Predictions
from bncl_pyg.serve.answers import YES, Answer
from bncl_pyg.serve.engine import Engine, TextPrediction
from bncl_pyg.serve.formats import export_answers, import_answers
from bncl_pyg.serve.project import AnnotationProject
from bncl_pyg.serve.retraining import MODEL, Retrainer

log = logging.getLogger(__name__)

FIRST_LABELS, AT_ONCE = 9, 256
"""How many labels are offered first, and how many texts are scored at once."""
NEXT_TEXTS = 200
"""How many texts are put in order at a time; those after them are seldom reached before the next training."""
STEPS = 100
"""In how many steps a threshold moves."""


class AnnotationSession:
    """People and a model annotate the texts of a project.

    Args:
        engine: with the live model.
        corpus: the texts.
        project: which keeps the answers.
        strategy: which texts come first, a name of `bncl_pyg.active.STRATEGIES` or a `Strategy`.
        every: so many new answers start a training.

    Attributes:
        features: of the texts.
        texts: by id.
    """

    def __init__(
        self,
        engine: Engine,
        corpus: Corpus,
        project: AnnotationProject,
        *,
        strategy: str | Strategy = DEFAULT,
        every: int = 10,
    ) -> None:
        self.engine, self.project, self._strategy = engine, project, strategy
        self.corpus = Corpus(corpus.ids, tuple(map(engine.clean, corpus.texts)))
        self.texts = dict(zip(self.corpus.ids, self.corpus.texts, strict=True))
        self._places = {identifier: row for row, identifier in enumerate(self.corpus.ids)}
        self.features = _scored(engine.base.classifier, self.corpus)
        self._resume(project.folder / MODEL)
        self.predictions = self._update()
        self.retrainer = Retrainer(engine, self.features, project, every=every, done=self._updated)
        self.retrainer.note_answer()

    def _resume(self, folder: Path) -> None:
        """Go on with the model that learned from earlier answers."""
        if not folder.exists():
            return
        classifier = BNCLClassifier.from_pretrained(folder, scorer=self.engine.scorer)
        trainings = self.project.trainings()
        if classifier.labels_.meanings() != self.engine.labels.meanings():
            log.warning("%s has other labels than the model that is served; it is not used.", folder)
            return
        self.engine.replace(classifier, trainings[-1]["answers"] if trainings else 0)

    def _update(self) -> Predictions:
        """Predict all texts with the live model, and put those that teach most first."""
        classifier = self.engine.live.classifier
        self.predictions = classifier.predictions(self.features)
        answers = {one: answer for one, answer in self.project.answers().items() if answer.says_something}
        absent = {one: answer.no for one, answer in answers.items() if not answer.is_whole}
        known = {one: answer.yes for one, answer in answers.items()}
        pool = Pool.of(self.features, self.predictions, classifier.priors_, known, absent)
        count = min(NEXT_TEXTS, len(pool.open))
        order = suggest(pool, count, self._strategy) if count else pool.open
        # Those that are not put in order yet, or are answered now and undone later, come last.
        rest = np.setdiff1d(np.arange(len(self.corpus)), order)
        self._order = [self.corpus.ids[row] for row in (*order.tolist(), *rest.tolist())]
        return self.predictions

    def _updated(self) -> None:
        self._update()

    def next(self, holder: str) -> dict[str, Any] | None:
        """Return the next text for somebody, and keep it for them; `None` where all are answered or taken.

        Whoever asks again without an answer gets the same one.
        """
        held = self.project.held_by(holder)
        identifier = held if held is not None else self.project.lease(self._open_texts(), holder)
        return None if identifier is None else self.shown(identifier)

    def _open_texts(self) -> Iterator[str]:
        """Yield texts that are not answered; those that were skipped come last."""
        answers = self.project.answers()
        yield from (one for one in self._order if one not in answers)
        yield from (one for one, answer in answers.items() if answer.kind == "skip" and one in self.texts)

    def shown(self, identifier: str, answer: Answer | None = None) -> dict[str, Any]:
        """Return a text with its most probable labels; with what was answered, where that is known."""
        names, descriptions = self.engine.labels.names, self.engine.labels.descriptions
        prediction = self.prediction(self._places[identifier])
        given = {place for place, _ in prediction.chosen(Choice())}
        labels = [
            {
                "label": names[place],
                "description": descriptions[place],
                "probability": round(share, 4),
                "is_given": place in given,
            }
            for place, share in prediction.best(FIRST_LABELS)
        ]
        before = None if answer is None else answer.as_dict()
        return {"id": identifier, "text": self.texts[identifier], "labels": labels, "answer": before}

    def prediction(self, row: int) -> TextPrediction:
        """Return what the live model says of a text of the project."""
        of_all = self.predictions
        candidates = None if of_all.candidates is None else of_all.candidates[row].numpy()
        return TextPrediction(of_all.decisions[row].numpy(), of_all.probabilities[row].numpy(), candidates)

    def answer(self, answer: Answer, *, annotator: str, holder: str, key: str) -> None:
        """Keep an answer, which is on the disk when this returns."""
        if answer.text not in self.texts:
            raise InputError(f"There is no text with id '{answer.text}'.")
        self.project.add(answer.checked(self.engine.labels), annotator=annotator, key=key, holder=holder)
        self.retrainer.note_answer()

    def undo(self, annotator: str, holder: str) -> dict[str, Any] | None:
        """Take back somebody's last answer and show its text again; `None` where there is none."""
        answer = self.project.undo(annotator)
        if answer is None or answer.text not in self.texts:
            return None
        if self.project.lease([answer.text], holder) is None:
            return None
        return self.shown(answer.text, answer)

    def progress(self) -> dict[str, Any]:
        """Return how far one is, how fast, and what the model gained."""
        kinds = {"whole": 0, "partial": 0, "unsure": 0, "skipped": 0}
        for answer in self.project.answers().values():
            if answer.text in self.texts:
                kind = "skipped" if answer.kind == "skip" else answer.kind
                kinds[("whole" if answer.is_whole else "partial") if kind == "answer" else kind] += 1
        state, live = self.retrainer.state, self.engine.live
        return {
            "texts": len(self.corpus),
            "answered": kinds["whole"] + kinds["partial"] + kinds["unsure"],
            **kinds,
            "a_minute": round(self.project.answers_a_minute(), 1),
            "training": {"step": state.step, "problem": state.problem},
            "model": {"version": live.version, "answers": live.answers},
            "trainings": self.project.trainings(),
        }

    def export(self, name: str) -> str:
        """Return all answers as the content of a file; see `export_answers`."""
        return export_answers(name, self.project.answers().values(), self.texts, self.engine.labels)

    def take_in(self, name: str, content: str) -> int:
        """Keep the answers of a file, all or none; return how many were new. See `import_answers`."""
        answers = import_answers(name, content, self.texts, self.engine.labels)
        new = self.project.add_many(answers, annotator="import")
        self.retrainer.note_answer()
        return new

    def precision_and_recall(self) -> dict[str, Any]:
        """Return precision and recall of all decisions on answered texts by threshold."""
        judged = self.retrainer.judged()
        truth, thresholds = judged.answers == YES, np.arange(STEPS + 1) / STEPS
        steps = []
        for threshold in thresholds.tolist():
            given = judged.probabilities >= threshold
            hits, chosen = int((given & truth).sum()), int(given.sum())
            precision, recall = hits / chosen if chosen else None, hits / max(int(truth.sum()), 1)
            steps.append({"threshold": threshold, "precision": precision, "recall": recall, "given": chosen})
        return {"texts": len(judged.rows), "is_held_out": judged.is_trained, "steps": steps if len(judged.rows) else []}

    def texts_of(self, label: str, most: int) -> list[dict[str, Any]]:
        """Return texts of a label, the surest first: those that were answered with it, and those that are given it."""
        labels = self.engine.labels
        if label not in labels:
            raise InputError(f"There is an {labels.unknown(label)}")
        place, answers = labels.place(label), self.project.answers()
        columns = self.predictions.probability_matrix(), self.predictions.indicator()
        shares, given = (_column(matrix, place) for matrix in columns)
        texts = []
        for row in np.argsort(-shares, kind="stable").tolist():
            answer = answers.get(self.corpus.ids[row])
            value = None if answer is None else int(answer.pairs(labels)[place])
            if given[row] or value == YES:
                text = {"id": self.corpus.ids[row], "text": self.corpus.texts[row][:2000]}
                answered = None if value in (None, -1) else value == YES
                texts.append({**text, "probability": round(float(shares[row]), 4), "answered": answered})
        return texts[:most]

    def stop(self) -> None:
        """End the training thread and close the project."""
        self.retrainer.stop()
        self.project.close()


def _column(matrix: Any, place: int) -> Any:
    return matrix[:, place] if isinstance(matrix, np.ndarray) else matrix[:, [place]].toarray()[:, 0]


def _scored(classifier: BNCLClassifier, corpus: Corpus) -> Features:
    if not len(corpus):
        raise InputError("There is no text to annotate.")
    rows = [np.arange(first, min(first + AT_ONCE, len(corpus))) for first in range(0, len(corpus), AT_ONCE)]
    return Features.joined([classifier.featurize(corpus.rows(some)) for some in rows])
