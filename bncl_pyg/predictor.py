"""`Predictor`: a trained model and what reads texts for it, without what only training needs."""

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from bncl_pyg.active import Pool
from bncl_pyg.corpus import Corpus
from bncl_pyg.errors import InputError
from bncl_pyg.explanation import ExplainedText, Explanation, LabelExplanation, TextWords
from bncl_pyg.features import Choice, Features, Predictions, score_texts
from bncl_pyg.scorers import STRONG, TEMPLATE, Scorer, is_here, load_scorer, reload_options
from bncl_pyg.training import TrainedModel

log = logging.getLogger(__name__)


class Predictor:
    """Answers with a trained model, from texts or from features.

    Args:
        trained: the model and all that belongs to it.
        scorer: what reads texts: a name or a `Scorer`; the one that the model was trained with, if not given, which
            must then be on this machine: what is downloaded, no model decides.
        device: where scorer and model run; an accelerator for the scorer and the CPU for the model, if not given.

    Example::

        Predictor.load("model").predictions(["OPEC raises its output."])
    """

    def __init__(self, trained: TrainedModel, scorer: str | Scorer | None = None, device: str | None = None) -> None:
        self.trained, self.device, self._models_own = trained, device, scorer is None
        self.scorer: str | Scorer = trained.scorer_config.get("name", STRONG) if scorer is None else scorer
        self._loaded: Scorer | None = None
        if device is not None:
            trained.model.to(device)

    @classmethod
    def load(cls, name: Path | str, *, scorer: str | Scorer | None = None, device: str | None = None) -> "Predictor":
        """Load a folder that `BNCLClassifier.save_pretrained` wrote, or its hub name."""
        return cls(TrainedModel.load(name), scorer, device)

    def predictions(self, texts: Any) -> Predictions:
        """Return decisions, probabilities and scores of a list of texts, a pandas Series, a `Corpus` or `Features`."""
        texts = texts if isinstance(texts, Features) else Corpus.of(texts)
        if not len(texts):
            return Predictions.none(len(self.trained.labels), self.trained.candidates)
        features = texts if isinstance(texts, Features) else self.featurize(texts)
        self.trained.labels.check_same_meaning(features.labels, "the model", "the features")
        if features.scorer != self.trained.scorer_config:
            log.warning("These features were made by another scorer than the ones that the model was trained on.")
        return self.trained.model.predict(features)

    def predict_labels(
        self,
        texts: Any,
        *,
        threshold: float | None = None,
        top_k: int | None = None,
        precision: float | None = None,
    ) -> list[list[str]]:
        """Return the names of each text's labels, the most probable first; `Choice` says what the arguments do."""
        choice = Choice(threshold, top_k, precision)
        return self.predictions(texts).chosen(choice).names(self.trained.labels.names)

    def rows(self, texts: Any, choice: Choice | None = None) -> Iterator[dict[str, Any]]:
        """Yield `{"id", "labels", "probabilities"}` for each text, the most probable label first."""
        texts = texts if isinstance(texts, Features) else Corpus.of(texts)
        predicted = self.predictions(texts).chosen(choice or Choice())
        yield from predicted.rows(texts.ids, self.trained.labels.names)

    def explain(self, text: str | None, label: str | None = None, *, features: Features | None = None) -> Explanation:
        """Say why a text is given its labels.

        Args:
            text: which; `None` where only its features are known, and its words cannot be named.
            label: to explain this decision; if not given, all labels that the text is given, and the best that it is
                not given.
            features: of this one text, if it is scored already.
        """
        if features is None:
            if text is None:
                raise InputError("To explain a decision, give the text or its features.")
            features = self.featurize(Corpus.of([text]), parts=True)
        if len(features) != 1:
            raise InputError(f"One text is explained at a time, but these are the features of {len(features)}.")
        predictions, labels = self.predictions(features), self.trained.labels
        words = None if text is None or features.words is None else TextWords(text, features.words.shape[1])
        explained = ExplainedText(features, self.trained.graph, words)
        if label is None:
            wanted = _given_and_best(predictions)
        elif label not in labels:
            raise InputError(f"There is an {labels.unknown(label)}")
        else:
            wanted = [labels.place(label)]
        return Explanation(
            features.ids[0], text, tuple(self._explain(explained, predictions, place) for place in wanted)
        )

    def pool(self, features: Features) -> Pool:
        """Return scored texts as what strategies choose among; those that the model learned from are not chosen."""
        trained = self.trained
        predictions = self.predictions(features)
        return Pool.of(features, predictions, trained.model.priors, trained.annotated, trained.not_labels)

    def _explain(self, text: ExplainedText, predictions: Predictions, label: int) -> LabelExplanation:
        labels, place = self.trained.labels, text.place(label)
        if place is None:
            raise InputError(
                f"The label '{labels.names[label]}' is not among the {text.features.entailment.shape[1]} candidates of "
                f"this text: it is unknown there, and there is nothing to explain."
            )
        account = self.trained.model.explain(text, label)
        is_predicted, score = bool(predictions.decisions[0, place]), float(predictions.scores[0, place])
        return LabelExplanation(
            labels.names[label],
            labels.descriptions[label],
            is_predicted,
            float(predictions.probabilities[0, place]),
            account.contributions,
            account.threshold,
            "as the best label of a text that has no other" if is_predicted and score <= 0 else "",
        )

    def featurize(self, corpus: Corpus, *, parts: bool = False) -> Features:
        """Return texts scored in memory, as those of the training were; `parts` keeps what each scorer says."""
        trained = self.trained
        template = trained.scorer_config.get("template", TEMPLATE)
        if self._loaded is None:
            config = trained.scorer_config
            self._loaded = open_scorer(self.scorer, self.device, config, models_own=self._models_own)
        # What another scorer computed of the labels would be nonsense beside this one's vectors of the texts.
        is_same = {**self._loaded.config(), "template": template} == trained.scorer_config
        tensors = trained.label_tensors if is_same else None
        return score_texts(
            corpus,
            trained.labels,
            self._loaded,
            template,
            candidates=trained.candidates,
            label_tensors=tensors,
            parts=parts,
        )


def _given_and_best(predictions: Predictions) -> list[int]:
    """Return the labels that a text is given, the most probable first, and the best that it is not given."""
    places = predictions.best_first(0)[0].tolist()
    rest = predictions.scores[0].masked_fill(predictions.decisions[0], -torch.inf)
    if bool(torch.isfinite(rest).any()):
        best = int(rest.argmax())
        places.append(best if predictions.candidates is None else int(predictions.candidates[0, best]))
    return places


def open_scorer(
    scorer: str | Scorer, device: str | None, config: dict[str, Any], *, models_own: bool = False
) -> Scorer:
    """Load a scorer by name, set up as the one with this configuration was; a `Scorer` is returned as it is.

    Args:
        scorer: the name.
        device: where it runs.
        config: of the scorer that a model was trained with.
        models_own: whether a model names it, and nobody else: then it must be on this machine already.
    """
    if not isinstance(scorer, str):
        if models_own:
            raise InputError("The model does not name the scorer that it was trained with.")
        return load_scorer(scorer)
    if models_own and not all(_NAME.fullmatch(part) for part in scorer.split("+")):
        raise InputError(
            f"The model names the scorer {scorer!a}, which is no name of a scorer; say where it lies with "
            f'scorer="FOLDER", or give features instead of texts.'
        )
    if not is_here(scorer):
        raise InputError(
            f"The scorer '{scorer}', which the texts are to be read by, is not here; say where it lies with "
            f'scorer="FOLDER", or give features instead of texts.'
        )
    # Another scorer than the one that the model was trained with has its own options.
    same = "name" not in config or config["name"] in (scorer, Path(scorer).name)
    try:
        options = reload_options(config) if same else {}
        return load_scorer(scorer, device=device, **options, local_files_only=models_own)
    except InputError as error:
        if not models_own:
            raise
        raise InputError(
            f"{error} The model was trained with the scorer '{scorer}', and a model that is loaded downloads nothing "
            f'by itself: allow it with scorer="{scorer}".'
        ) from error
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        if not models_own:
            raise
        raise InputError(f"The model describes no scorer '{scorer}' of this release ({error}).") from error


_NAME = re.compile(r"[\w-][\w. -]*(/[\w-][\w.-]*)?")
"""What a model may call its scorer: a known one, a folder here, or a name on the hub; never a path."""
