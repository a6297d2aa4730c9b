"""The live model: predicts, explains and tries labels by name alone; another model can take its place at any time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bncl_pyg.corpus import Corpus, LabelSet, TextCleaner
from bncl_pyg.errors import InputError
from bncl_pyg.estimator import BNCLClassifier
from bncl_pyg.features import Choice, score_texts
from bncl_pyg.predictor import open_scorer
from bncl_pyg.scorers import STRONG, Scorer


@dataclass(frozen=True)
class TextPrediction:
    """What the model says of one text.

    Args:
        decisions: which labels, or candidates, it has; boolean.
        probabilities: likewise.
        candidates: which labels the columns are, where these are not all.
    """

    decisions: NDArray[np.bool_]
    probabilities: NDArray[np.float32]
    candidates: NDArray[np.int64] | None = None

    def chosen(self, choice: Choice) -> list[tuple[int, float]]:
        """Return the chosen labels with their probabilities, the most probable first; see `Choice`."""
        order = np.argsort(-self.probabilities, kind="stable")
        if choice.is_models_own:
            order = order[self.decisions[order]]
        if choice.threshold is not None:
            order = order[self.probabilities[order] >= choice.threshold]
        order = order if choice.top_k is None else order[: choice.top_k]
        labels = order if self.candidates is None else self.candidates[order]
        return list(zip(labels.tolist(), self.probabilities[order].tolist(), strict=True))

    def best(self, count: int) -> list[tuple[int, float]]:
        """Return the most probable labels."""
        return self.chosen(Choice(top_k=count))


@dataclass(frozen=True)
class LiveModel:
    """A model that answers.

    Args:
        classifier: trained.
        version: 0 for the model that the server started with, and one more with every training.
        answers: how many answered texts it learned from.
    """

    classifier: BNCLClassifier
    version: int = 0
    answers: int = 0


@dataclass(frozen=True)
class TriedLabel:
    """A label that somebody thinks of: new, or another wording of one that is there.

    Args:
        name: of the label.
        description: what the scorer reads; the name, if it is empty.
    """

    name: str
    description: str = ""


class Engine:
    """Answers with the live model; all methods that read texts are for one thread.

    Args:
        classifier: trained.
        scorer: what reads texts, loaded once.

    Attributes:
        base: the model that the server started with.
        live: the one that answers now.
    """

    def __init__(self, classifier: BNCLClassifier, scorer: Scorer) -> None:
        self.scorer = scorer
        self.base = self.live = LiveModel(classifier)
        self._cleaner = TextCleaner()

    @classmethod
    def load(cls, model: str, *, scorer: str | None = None, device: str | None = None) -> "Engine":
        """Load a model and its scorer, and read a first text, so that nobody waits for what is made once."""
        config = BNCLClassifier.from_pretrained(model).scorer_config_
        loaded = open_scorer(scorer or config.get("name", STRONG), device, config, models_own=not scorer)
        engine = cls(BNCLClassifier.from_pretrained(model, scorer=loaded, device=device), loaded)
        engine.predict(["A first text."])
        engine.explain("A first text.")
        return engine

    @property
    def labels(self) -> LabelSet:
        """The labels, which stay the same."""
        labels: LabelSet = self.base.classifier.labels_
        return labels

    def replace(self, classifier: BNCLClassifier, answers: int) -> LiveModel:
        """Let another model of the same labels answer from now on."""
        self.labels.check_same_meaning(classifier.labels_, "the model that is served", "the model that takes its place")
        self.live = LiveModel(classifier, self.live.version + 1, answers)
        return self.live

    def clean(self, text: str) -> str:
        """Return a text as it is read."""
        return self._cleaner.clean(text)

    def predict(self, texts: Sequence[str]) -> list[TextPrediction]:
        """Return what the live model says of texts."""
        predictions = self.live.classifier.predictions([self.clean(text) for text in texts])
        candidates = None if predictions.candidates is None else predictions.candidates.numpy()
        decisions, probabilities = predictions.decisions.numpy(), predictions.probabilities.numpy()
        return [
            TextPrediction(decisions[row], probabilities[row], None if candidates is None else candidates[row])
            for row in range(len(texts))
        ]

    def explain(self, text: str, label: str | None = None) -> dict[str, Any]:
        """Say why a text is given its labels, as JSON can hold it; see `Explanation`."""
        return self.live.classifier.explain(self.clean(text), label).as_dict()

    def try_labels(self, text: str, tried: Sequence[TriedLabel]) -> list[dict[str, Any]]:
        """Score a text with labels that the model does not know, from their words alone, without training.

        Beside each stands, where the label is there in another wording, the same score of that wording: the two can be
        compared with each other, but not with the probabilities of a trained model.
        """
        described = self.labels.as_dict()
        wordings: list[str] = []
        for label in tried:
            if not label.name.strip():
                raise InputError("A label must have a name.")
            wordings += [label.description.strip() or label.name, described.get(label.name, "")]
        asked = list(dict.fromkeys(filter(None, wordings)))
        if not asked:
            return []
        template = self.base.classifier.scorer_config_.get("template", "{}")
        features = score_texts(Corpus.of([self.clean(text)]), LabelSet.of(asked), self.scorer, template)
        scores = dict(zip(asked, features.zero_shot_probabilities()[0].tolist(), strict=True))
        return [
            {
                "label": label.name,
                "description": wordings[2 * place],
                "probability": scores[wordings[2 * place]],
                "before": scores.get(wordings[2 * place + 1]),
                "is_new": label.name not in described,
            }
            for place, label in enumerate(tried)
        ]
