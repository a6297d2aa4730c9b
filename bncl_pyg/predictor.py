"""`Predictor`: a trained model and what reads texts for it, without what only training needs."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bncl_pyg.corpus import Corpus
from bncl_pyg.errors import InputError
from bncl_pyg.features import Choice, Features, Predictions, score_texts
from bncl_pyg.scorers import STRONG, TEMPLATE, Scorer, is_here, load_scorer, reload_options
from bncl_pyg.training import TrainedModel

log = logging.getLogger(__name__)


class Predictor:
    """Answers with a trained model, from texts or from features.

    Args:
        trained: the model and all that belongs to it.
        scorer: what reads texts: a name or a `Scorer`; the one that the model was trained with, if not given.
        device: where scorer and model run; an accelerator for the scorer and the CPU for the model, if not given.

    Example::

        Predictor.load("model").predictions(["OPEC raises its output."])
    """

    def __init__(self, trained: TrainedModel, scorer: str | Scorer | None = None, device: str | None = None) -> None:
        self.trained, self.device = trained, device
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

    def featurize(self, corpus: Corpus) -> Features:
        """Return texts scored in memory, as those of the training were."""
        trained = self.trained
        template = trained.scorer_config.get("template", TEMPLATE)
        if self._loaded is None:
            self._loaded = open_scorer(self.scorer, self.device, trained.scorer_config)
        # What another scorer computed of the labels would be nonsense beside this one's vectors of the texts.
        is_same = {**self._loaded.config(), "template": template} == trained.scorer_config
        tensors = trained.label_tensors if is_same else None
        return score_texts(
            corpus, trained.labels, self._loaded, template, candidates=trained.candidates, label_tensors=tensors
        )


def open_scorer(scorer: str | Scorer, device: str | None, config: dict[str, Any]) -> Scorer:
    """Load a scorer by name, set up as the one with this configuration was; a `Scorer` is returned as it is."""
    if not isinstance(scorer, str):
        return load_scorer(scorer)
    if not is_here(scorer):
        raise InputError(
            f"The scorer '{scorer}', which the texts are to be read by, is not here; say where it lies with "
            f'scorer="FOLDER", or give features instead of texts.'
        )
    # Another scorer than the one that the model was trained with has its own options.
    same = "name" not in config or config["name"] in (scorer, Path(scorer).name)
    return load_scorer(scorer, device=device, **(reload_options(config) if same else {}))
