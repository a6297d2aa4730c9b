"""`BNCLClassifier`: scikit-learn's face. It turns texts into features, has a recipe fit a model, and asks the model."""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from bncl_pyg.active import DEFAULT, Strategy, suggest
from bncl_pyg.corpus import Corpus, LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.explanation import Explanation
from bncl_pyg.features import Features, Predictions, score_texts
from bncl_pyg.graph import LazyGraph
from bncl_pyg.predictor import Predictor, open_scorer
from bncl_pyg.priors import Priors
from bncl_pyg.relabel import RelabelledModel
from bncl_pyg.scorers import STRONG, TEMPLATE, Scorer
from bncl_pyg.sharing import SharedModel
from bncl_pyg.training import (
    Annotated,
    Progress,
    Recipe,
    TrainedModel,
    check_seed,
    find_recipe,
    indicator_of,
    setting_of,
)

if TYPE_CHECKING:
    from bncl_pyg.graph import SignedLabelGraph


class _LazyAttribute:
    """A graph; that of a loaded model becomes PyG's when it is first asked for, since PyG takes seconds to import."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        if self.name not in vars(instance):
            raise AttributeError(f"'{owner.__name__}' object has no attribute '{self.name}'")
        value = vars(instance)[self.name]
        return value.graph if isinstance(value, LazyGraph) else value

    def __set__(self, instance: Any, value: Any) -> None:
        vars(instance)[self.name] = value


class BNCLClassifier(SharedModel, RelabelledModel, ClassifierMixin, BaseEstimator):
    """Multi-label text classification from label names, with little or no annotation.

    Args:
        labels: label names, `{name: description}`, or a `LabelSet`; features know theirs.
        prevalence: what is known of how common labels are: `{name: share}`, where a share may also be an interval
            `(low, high)`, a word (`common`, `standard`, `uncommon`, `almost unseen`) or `None`; the same in the order
            of the labels; a `Priors`; or `None`, and it is estimated.
        cardinality: how many labels a text has on average; estimated if not given.
        scorer: what reads texts: `strong`, `light`, `fast`, a folder, a hub name, several of these joined by `+`, or a
            `Scorer`.
        recipe: `default` (ours), `paper` (as it can be trained), `paper-literal` (its printed formulas), `reference`
            (the authors' code), or a `Recipe` of your own.
        setting: `annotation-free`, `scarce-annotation` or `domain-supervisor`; what is given must then fit. If left
            out, what is given decides.
        graph: the signed label graph, used as it is; built from the labels if not given (`default_graph`), where the
            recipe `paper` chooses its percentiles.
        seed: of the weights, the batches and the folds.
        template: how a label becomes a hypothesis for the scorer; or several templates, whose scores are averaged.
        device: where the scorer and the trained model run; an accelerator for the scorer and the CPU for the model, if
            not given. Training runs on the CPU.

    Attributes:
        classes_: the labels' names, (labels,).
        labels_: the labels.
        model_: the trained model.
        priors_: the κ and λ that the model was trained with, in numbers.
        graph_: the graph that was used.
        recipe_: the recipe that was used.
        setting_, seed_: the setting and the seed.
        annotated_: the labels of the annotated texts by id.
        not_labels_: of texts that are annotated in part, by id, the labels that they are known not to have.
        log_: the steps of training.
        scorer_config_: what made the scores of the training texts.
        n_texts_, texts_digest_: how many training texts there were, and a hash of their ids.
        candidates_: how many of a text's labels were scored; `None` for all.
        label_tensors_: what the scorer computed of the labels alone, if the features knew.
        given_priors_: κ and λ as they were given, with what was not known.
        card_: the model card, where the model was loaded with one.

    Example::

        classifier = BNCLClassifier(labels=["sport", "crude oil", "banks"]).fit(texts)
        classifier.predict_labels(["OPEC raises its output."])
    """

    graph, graph_ = _LazyAttribute(), _LazyAttribute()
    _models_scorer: Any = None
    """The scorer's name where only a loaded model says it."""

    def __init__(
        self,
        labels: Any = None,
        prevalence: Any = None,
        cardinality: float | None = None,
        scorer: str | Scorer = STRONG,
        recipe: str | Recipe = "default",
        setting: str | None = None,
        graph: "SignedLabelGraph | LazyGraph | None" = None,
        seed: int = 0,
        template: str | Sequence[str] = TEMPLATE,
        device: str | None = None,
    ) -> None:
        self.labels = labels
        self.prevalence = prevalence
        self.cardinality = cardinality
        self.scorer = scorer
        self.recipe = recipe
        self.setting = setting
        self.graph = graph
        self.seed = seed
        self.template = template
        self.device = device

    def fit(
        self, texts: Any, y: Any = None, *, checkpoint: Path | None = None, progress: Progress | None = None
    ) -> "BNCLClassifier":
        """Train.

        Args:
            texts: a list of texts, a pandas Series, a `Corpus` or `Features`.
            y: the labels of annotated texts: a list of names a text, or `None` for a text that nobody annotated; or an
                indicator matrix, with a row of -1 likewise; or `Annotated`. `None` where no text is annotated. Of a
                text that is annotated in part, `{name: True or False}`, or -1 where nothing is known.
            checkpoint: a file from which a recipe with epochs goes on where training was stopped.
            progress: told of every `TrainingStep`.
        """
        # PyG takes seconds to import.
        from bncl_pyg.graph import graph_of

        recipe = find_recipe(self.recipe)
        check_seed(self.seed)
        features = texts if isinstance(texts, Features) else self._featurize(texts)
        labels = features.labels
        if self.labels is not None:
            LabelSet.of(self.labels).check_same(labels, "the classifier", "the features")
        texts_in_all = len(features.corpus_ids)
        if not texts_in_all:
            raise InputError("There is no text to train on.")
        annotated = y if isinstance(y, Annotated) else Annotated.from_target(y, texts_in_all, labels)
        known = self.prevalence is not None or self.cardinality is not None
        setting = setting_of(self.setting, priors=known, annotated=annotated is not None)
        priors = Priors.of(labels, self.prevalence, self.cardinality) if known or annotated is None else None
        if priors is not None:
            priors.warn_if_they_disagree()
        graph = graph_of(labels, self.graph)
        self._set_fitted(
            TrainedModel.fit(
                recipe,
                features,
                graph,
                priors,
                annotated,
                setting=str(setting),
                seed=self.seed,
                progress=progress,
                checkpoint=checkpoint,
            )
        )
        return self

    @property
    def classes_(self) -> NDArray[np.str_]:
        """The labels' names, (labels,)."""
        check_is_fitted(self, "model_")
        return np.array(self.labels_.names)

    @property
    def priors_(self) -> Priors:
        """The κ and λ that the model was trained with, in numbers."""
        check_is_fitted(self, "model_")
        priors: Priors = self.model_.priors
        return priors

    def predictions(self, texts: Any) -> Predictions:
        """Return decisions, probabilities and scores at once; see `predict` for the texts."""
        check_is_fitted(self, "model_")
        return self._predictor().predictions(texts)

    def featurize(self, texts: Any) -> Features:
        """Return texts scored as those of the training were; what predicts from texts predicts from these, too."""
        check_is_fitted(self, "model_")
        return self._predictor().featurize(Corpus.of(texts))

    def predict(self, texts: Any) -> Any:
        """Return which labels each text has; boolean, (texts, labels), sparse where texts have candidates.

        Args:
            texts: a list of texts, a pandas Series, a `Corpus` or `Features`.
        """
        return self.predictions(texts).indicator()

    def predict_labels(
        self,
        texts: Any,
        *,
        threshold: float | None = None,
        top_k: int | None = None,
        precision: float | None = None,
    ) -> list[list[str]]:
        """Return the names of each text's labels, the most probable first; as `predict` decides, if nothing is given.

        Args:
            texts: a list of texts, a pandas Series, a `Corpus` or `Features`.
            threshold: give the labels that are at least so probable.
            top_k: give the k most probable labels; beside `threshold` or `precision`, at most k.
            precision: give as many labels as can be while, by the probabilities, this share of them is right: those
                above the lowest threshold above which the mean probability, of all given texts together, is at least
                this (see `Choice`).
        """
        check_is_fitted(self, "model_")
        return self._predictor().predict_labels(texts, threshold=threshold, top_k=top_k, precision=precision)

    def predict_proba(self, texts: Any) -> Any:
        """Return how probable each label is; (texts, labels), sparse where texts have candidates.

        With the recipe `default` they are calibrated, and a label may be predicted below a half: decisions, which aim
        at F1, have another temperature. With `paper` it is p / (p + p̄), which is above a half exactly where a label is
        predicted; with `reference`, ties are predicted too.
        """
        return self.predictions(texts).probability_matrix()

    def decision_function(self, texts: Any) -> Any:
        """Return what is above 0 where a label is predicted, and the higher the surer; (texts, labels), as above.

        It ranks a text's labels, with candidates only those that are stored. A text without any such label is still
        given its best one, if texts always have one.
        """
        return self.predictions(texts).score_matrix()

    def explain(self, text: str | None, label: str | None = None, *, features: Features | None = None) -> Explanation:
        """Say why a text is given its labels: contributions that add up to the logit of each decision.

        Args:
            text: which; `None` where only its features are known, and its words cannot be named.
            label: to explain this decision; if not given, all labels that the text is given, and the best that it is
                not given.
            features: of this one text, if it is scored already.
        """
        check_is_fitted(self, "model_")
        return self._predictor().explain(text, label, features=features)

    def suggest(
        self, texts: Any, n: int = 20, *, strategy: str | Strategy = DEFAULT, seed: int = 0
    ) -> NDArray[np.int64]:
        """Return which texts to annotate next, by their places, those that teach most first; (n,) or fewer.

            rows = classifier.suggest(features, 20)
            [features.ids[row] for row in rows]

        Texts with the id of one that the classifier learned from are not suggested; texts in a list have their places
        as ids.

        Args:
            texts: a list of texts, a pandas Series, a `Corpus` or `Features`.
            n: how many.
            strategy: `representative`, `diverse`, `expected-change`, `least-sure`, `missing-examples`, `random`, or a
                `Strategy` of your own.
            seed: of all that is drawn.
        """
        check_is_fitted(self, "model_")
        predictor = self._predictor()
        features = texts if isinstance(texts, Features) else predictor.featurize(Corpus.of(texts))
        return suggest(predictor.pool(features), n, strategy, seed)

    def score(self, texts: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the F1 of all decisions together (miF1) on annotated texts; y is as in `fit`."""
        from sklearn.metrics import f1_score

        predicted = self.predict(texts)
        rows, truth = indicator_of(y, predicted.shape[0], self.labels_)
        weight = None if sample_weight is None else np.asarray(sample_weight)[rows]
        return float(f1_score(truth, predicted[rows], average="micro", zero_division=0, sample_weight=weight))

    def predict_rows(self, texts: Any) -> Iterator[dict[str, Any]]:
        """Yield `{"id", "labels", "probabilities"}` for each text, the most probable label first."""
        check_is_fitted(self, "model_")
        yield from self._predictor().rows(texts)

    @classmethod
    def _from_trained(cls, trained: TrainedModel, scorer: str | Scorer | None, device: str | None) -> "BNCLClassifier":
        """Return a classifier that has learned this."""
        config = trained.scorer_config
        loaded = cls(
            labels=trained.labels,
            scorer=config.get("name", STRONG) if scorer is None else scorer,
            recipe=trained.recipe,
            graph=trained.graph,
            seed=trained.seed,
            template=config.get("template", TEMPLATE),
            device=device,
        )
        loaded._models_scorer = loaded.scorer if scorer is None else None
        loaded._set_fitted(trained)
        return loaded

    def _set_fitted(self, trained: TrainedModel) -> None:
        """Take a trained model and all that belongs to it as what was learned."""
        for entry in fields(trained):
            setattr(self, f"{entry.name}_", getattr(trained, entry.name))
        if self.device is not None:
            self.model_.to(self.device)

    def _featurize(self, texts: Any) -> Features:
        """Return training texts scored in memory."""
        corpus = Corpus.of(texts)
        if self.labels is None:
            raise InputError("Training on texts needs labels; features know theirs.")
        key = self.scorer, self.device
        loaded: tuple[Any, Scorer] | None = getattr(self, "_loaded_scorer", None)
        if loaded is None or loaded[0] != key:
            self._loaded_scorer = loaded = key, open_scorer(self.scorer, self.device, {}, models_own=self._is_models())
        return score_texts(corpus, LabelSet.of(self.labels), loaded[1], self.template)

    def _with_trained(self, trained: TrainedModel) -> "BNCLClassifier":
        """Return a classifier with the same arguments that has learned this."""
        other = copy(self)  # without what was loaded: see `__getstate__`
        if trained.labels != self.labels_:
            other.set_params(labels=trained.labels, prevalence=None, cardinality=None, graph=None, setting=None)
        other._set_fitted(trained)
        return other

    def _trained(self) -> TrainedModel:
        """Return what was learned."""
        check_is_fitted(self, "model_")
        # As it is, not by the attribute: the graph of a loaded model is made only when it is asked for.
        return TrainedModel(**{entry.name: vars(self)[f"{entry.name}_"] for entry in fields(TrainedModel)})

    def _predictor(self) -> Predictor:
        """Return what answers, which keeps its scorer."""
        key = self.model_, self.scorer, self.device
        made: tuple[Any, Predictor] | None = getattr(self, "_made_predictor", None)
        if made is None or any(one is not other for one, other in zip(made[0], key, strict=True)):
            loaded: tuple[Any, Scorer] | None = getattr(self, "_loaded_scorer", None)
            known = loaded is not None and loaded[0] == (self.scorer, self.device)
            own = None if self._is_models() else self.scorer
            scorer = loaded[1] if loaded is not None and known else own
            self._made_predictor = made = key, Predictor(self._trained(), scorer, self.device)
        return made[1]

    def _is_models(self) -> bool:
        """Return whether a loaded model names the scorer, and nobody has named another since."""
        return self.scorer is not None and self._models_scorer is self.scorer

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: all but the loaded scorer, which is loaded again when it is needed."""
        state = dict(super().__getstate__())
        state.pop("_loaded_scorer", None)
        state.pop("_made_predictor", None)
        return state

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn: a multi-label classifier of texts that can do without y."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label, tags.classifier_tags.multi_class = True, False
        tags.input_tags.one_d_array, tags.input_tags.two_d_array, tags.input_tags.string = True, False, True
        tags.target_tags.required, tags.target_tags.multi_output = False, True
        tags.target_tags.single_output = False
        return tags
