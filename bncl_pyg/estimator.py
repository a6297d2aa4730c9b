"""`BNCLClassifier`: the one place that joins the rooms, in scikit-learn's manner."""

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator
from torch import Tensor

from bncl_pyg.corpus import Corpus, LabelSet, RoughPriors, Supervision, digest, read_rows
from bncl_pyg.errors import InputError
from bncl_pyg.features import Features, pairs_of, score_texts
from bncl_pyg.graph import SignedLabelGraph, balanced_neighbourhoods, default_graph
from bncl_pyg.nn import BNCL, CollectiveModel, as_state, decided, from_state
from bncl_pyg.persistence import (
    local_folder,
    new_folder,
    read_manifest,
    sha256_of,
    write_json,
    write_jsonl,
    write_manifest,
)
from bncl_pyg.scorers import TEMPLATE, Scorer, load_scorer
from bncl_pyg.training import (
    AnyRecipe,
    Checkpoint,
    DefaultRecipe,
    DefaultTrainer,
    EpochLog,
    Recipe,
    Setting,
    StageLog,
    Trainer,
    check_given,
    find_recipe,
    recipe_from_dict,
    supervise,
)

log = logging.getLogger(__name__)

ROWS_AT_ONCE = 4096
CANDIDATE_ROWS_AT_ONCE = 128
"""Where a network works on the labels that occur among some texts: the fewer texts, the fewer labels."""


class BNCLClassifier(BaseEstimator):
    """Multi-label classification of scored texts with little or no annotation.

    Args:
        setting: `annotation-free`, `scarce-annotation` or `domain-supervisor`.
        recipe: `default` (ours), `paper`, `reference` (the authors' code), or one of your own.
        graph: the signed label graph; built from the labels' embedded vectors if not given: up to 2,000 labels by the
            paper's percentiles, beyond by each label's 10 nearest and farthest, 10 at every hop (`default_graph`).
        seed: of the weights, the batches and the draw of annotated texts.
        scorer: what reads texts, where texts are given instead of features: `embedded`, a folder or a hub name.
        template: how a label becomes a hypothesis, likewise.

    Attributes:
        classes_: the labels' names, (labels,).
        labels_: the labels.
        graph_: the graph that was used.
        model_: the trained network.
        supervision_: the κ, λ and annotated texts that training saw.
        annotated_: the labels of these texts by id.
        texts_digest_: a hash of the training texts' ids.
        candidates_: how many of a text's labels are scored; `None` for all.
        hypotheses_: what the scorer's encoder makes of the labels, if the features knew.
        log_: what every stage (recipe `default`) or epoch found.
    """

    def __init__(
        self,
        setting: str = Setting.ANNOTATION_FREE,
        recipe: str | AnyRecipe = "default",
        graph: SignedLabelGraph | None = None,
        seed: int = 0,
        scorer: str = "embedded",
        template: str = TEMPLATE,
    ) -> None:
        self.setting = setting
        self.recipe = recipe
        self.graph = graph
        self.seed = seed
        self.scorer = scorer
        self.template = template

    def fit(
        self,
        texts: Corpus | Sequence[str] | Features,
        priors: Supervision | RoughPriors | Literal["auto"] | None = None,
        annotated: Corpus | None = None,
        annotations: int | None = None,
        *,
        labels: LabelSet | None = None,
        checkpoint: Path | None = None,
        progress: Callable[[Any], None] | None = None,
    ) -> "BNCLClassifier":
        """Train.

        Args:
            texts: the training texts, or their features; texts alone are called "0", "1", … where an id is needed.
            priors: κ and λ, where the setting takes them; what is only roughly known, or not at all (`auto`), is
                estimated from the scored texts.
            annotated: annotated texts, where the setting takes them; each must be among the features.
            annotations: how many of them to draw; all, if not given.
            labels: the labels, where texts are given; features know theirs.
            checkpoint: a file that is written after every epoch; if it is there already, training goes on from it. The
                recipe `default` has no epochs, and needs none.
            progress: told of every `EpochLog` or, with the recipe `default`, every `StageLog`.
        """
        setting = _setting(self.setting)
        recipe = find_recipe(self.recipe) if isinstance(self.recipe, str) else self.recipe
        features = self._scored(texts, labels)
        labels = features.labels
        graph = default_graph(labels) if self.graph is None else self.graph
        _check_graph(graph, labels)
        check_given(setting, priors=priors is not None, annotated=annotated is not None)
        if priors == "auto":
            priors = RoughPriors.nothing(len(labels))
        rough = priors if isinstance(priors, RoughPriors) else None
        default = None
        if isinstance(recipe, DefaultRecipe) or rough is not None:
            ours = recipe if isinstance(recipe, DefaultRecipe) else DefaultRecipe()
            default = DefaultTrainer(features, graph, ours, self.seed, progress)
        if isinstance(priors, RoughPriors):
            assert default is not None
            priors = default.settle(priors)
        replacement = isinstance(recipe, Recipe) and recipe.replacement
        supervision = supervise(setting, features, priors, annotated, annotations, self.seed, replacement=replacement)
        self.about_: dict[str, Any] = {}
        if isinstance(recipe, Recipe):
            self._fit_balanced(features, graph, supervision, recipe, checkpoint, progress)
        else:
            assert default is not None
            if features.vectors is None and features.words is None:
                log.warning(
                    "These features hold neither vectors nor words of the texts: only the scores are learned from. "
                    "'bncl featurize' adds them."
                )
            if rough is not None and rough.cardinality is None and supervision.annotations is not None:
                counted = supervision.annotations.nnz / len(supervision.annotated)
                supervision = replace(supervision, cardinality=max(counted, 0.1))
            self.model_: BNCL | CollectiveModel = default.run(
                supervision,
                estimated=priors is None or rough is not None,
                sure=None if rough is None else rough.sure,
                guess=None if rough is not None and rough.silent else priors,
            )
            self.log_: list[EpochLog] | list[StageLog] = default.log
            supervision = replace(supervision, prevalence=default.prevalence)
        self.labels_, self.graph_, self.recipe_, self.supervision_ = labels, graph, recipe, supervision
        self.scorer_ = features.scorer
        self.candidates_ = None if features.candidates is None else features.candidates.shape[1]
        self.hypotheses_ = features.hypotheses
        self.annotated_ = _annotated(supervision, features)
        self.texts_digest_ = digest(features.ids)
        self.about_ |= {
            "setting": str(setting),
            "seed": self.seed,
            "texts": len(features),
            "annotated_texts": len(supervision.annotated),
        }
        return self

    def _fit_balanced(
        self,
        features: Features,
        graph: SignedLabelGraph,
        supervision: Supervision,
        recipe: Recipe,
        checkpoint: Path | None,
        progress: Callable[[EpochLog], None] | None,
    ) -> None:
        """Train the paper's network."""
        model = _network(graph, recipe)
        trainer = Trainer(model, features, supervision, recipe, self.seed)
        if checkpoint is None:
            trainer.run(progress=progress)
        else:
            keeper = Checkpoint(checkpoint, _fingerprint(features, graph, supervision, recipe, self.seed))
            done = keeper.restore(trainer)
            if done:
                log.info("Going on after epoch %d of %d.", done, recipe.epochs)
            trainer.run(keeper, progress)
        self.model_, self.log_ = model.eval(), trainer.log
        self.about_["sharpness"] = trainer.loss.sharpness

    @property
    def classes_(self) -> NDArray[np.str_]:
        """The labels' names, (labels,)."""
        self._check_fitted()
        return np.array(self.labels_.names)

    def predict(self, texts: Corpus | Sequence[str] | Features) -> NDArray[np.bool_] | csr_array:
        """Return which labels each text has; boolean, (texts, labels), sparse where texts have candidates."""
        features = self._checked(texts)
        decided = [said for said, _, _ in self._parts(features)]
        return self._shaped(features, decided)

    def predict_proba(self, texts: Corpus | Sequence[str] | Features) -> NDArray[np.float32] | csr_array:
        """Return how probable each label is; (texts, labels), sparse where texts have candidates.

        With the recipe `default` they are calibrated, and a label may be predicted below a half: decisions, which aim
        at F1, come from steeper probabilities. With the others it is p / (p + p̄), which is above a half exactly
        where a label is predicted.
        """
        features = self._checked(texts)
        return self._shaped(features, [likely for _, likely, _ in self._parts(features)])

    def decision_function(self, texts: Corpus | Sequence[str] | Features) -> NDArray[np.float32] | csr_array:
        """Return what is above 0 where a label is predicted, and the higher the surer; (texts, labels), as above.

        It ranks a text's labels. A text without any such label is still given its best one, if texts always have one.
        """
        features = self._checked(texts)
        return self._shaped(features, [said for _, _, said in self._parts(features)])

    def predicted_rows(self, texts: Corpus | Sequence[str] | Features) -> Iterator[dict[str, Any]]:
        """Yield `{"id", "labels", "probabilities"}` for each text, the most probable label first."""
        features = self._checked(texts)
        rows = (row for said, likely, _ in self._parts(features) for row in zip(said, likely, strict=True))
        for number, (said, likely) in enumerate(rows):
            places = said.nonzero()[:, 0]
            places = places[torch.argsort(-likely[places], stable=True)]
            columns = places if features.candidates is None else features.candidates[number, places]
            yield {
                "id": features.ids[number],
                "labels": [self.labels_.names[column] for column in columns.tolist()],
                "probabilities": [round(share, 4) for share in likely[places].tolist()],
            }

    @staticmethod
    def _shaped(features: Features, parts: list[Tensor]) -> Any:
        values = torch.cat(parts) if parts else torch.zeros(features.entailment.shape)
        return values.numpy() if features.candidates is None else features.sparse(values)

    def save_pretrained(self, path: Path | str, *, overwrite: bool = False) -> None:
        """Write the model as a folder that is whole or absent: safetensors and JSON only."""
        self._check_fitted()
        with new_folder(Path(path), "model", overwrite=overwrite) as folder:
            weights = folder / "model.safetensors"
            tensors, network = _as_state(self.model_)
            save_file(tensors, weights)
            self.labels_.write(folder / "labels.jsonl")
            self.supervision_.write_priors(folder / "priors.json", self.labels_)
            rows = ({"id": identifier, "labels": list(names)} for identifier, names in self.annotated_.items())
            write_jsonl(folder / "annotated.jsonl", rows)
            if self.hypotheses_ is not None:
                save_file({"hypotheses": self.hypotheses_}, folder / "labels.safetensors")
            (folder / "graph").mkdir()
            self.graph_.write_into(folder / "graph")
            write_json(folder / "training.json", [asdict(entry) for entry in self.log_])
            content = {
                **self.about_,
                "texts_digest": self.texts_digest_,
                "recipe": self.recipe_.as_dict(),
                "network": network,
                "scorer": self.scorer_,
                "candidates": self.candidates_,
                "labels_sha256": sha256_of(folder / "labels.safetensors") if self.hypotheses_ is not None else None,
                "versions": {name: version(name) for name in ("bncl-pyg", "torch", "torch-geometric")},
                "sha256": sha256_of(weights),
            }
            write_manifest(folder, "model", content)

    @classmethod
    def from_pretrained(cls, name: Path | str) -> "BNCLClassifier":
        """Load a folder that `save_pretrained` wrote, or such a folder from the Hugging Face hub by name."""
        folder = local_folder(name, "a model")
        manifest = read_manifest(folder, "model")
        weights = folder / "model.safetensors"
        if not weights.is_file() or sha256_of(weights) != manifest.get("sha256"):
            raise InputError(f"{weights} is missing or damaged: it is not the file that its manifest describes.")
        recipe = recipe_from_dict(manifest["recipe"])
        graph = SignedLabelGraph.load(folder / "graph")
        made_by = manifest["scorer"]
        reader = {"scorer": made_by.get("name", "embedded"), "template": made_by.get("template", TEMPLATE)}
        loaded = cls(manifest["setting"], recipe, graph, manifest["seed"], **reader)
        loaded.labels_, loaded.graph_, loaded.recipe_ = LabelSet.read(folder / "labels.jsonl"), graph, recipe
        _check_graph(graph, loaded.labels_)
        priors = RoughPriors.read(folder / "priors.json", loaded.labels_)
        assert isinstance(priors, Supervision)
        loaded.supervision_ = priors
        entries = _read_log(folder / "training.json")
        if isinstance(recipe, Recipe):
            network = _network(graph, recipe)
            network.load_state_dict(load_file(weights))
            loaded.model_, loaded.log_ = network.eval(), [EpochLog(**entry) for entry in entries]
        else:
            loaded.model_ = from_state(load_file(weights), manifest["network"], graph.message_edges()[0]).eval()
            loaded.log_ = [StageLog(**entry) for entry in entries]
        rows = read_rows(folder / "annotated.jsonl")
        loaded.annotated_ = {row.identifier("id"): tuple(row.strings("labels")) for row in rows}
        loaded.texts_digest_ = manifest["texts_digest"]
        loaded.scorer_, loaded.candidates_ = made_by, manifest.get("candidates")
        loaded.hypotheses_ = _read_hypotheses(folder, manifest)
        known = ("sharpness", "setting", "seed", "texts", "annotated_texts")
        loaded.about_ = {key: manifest[key] for key in known if key in manifest}
        return loaded

    def _parts(self, features: Features) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield decisions, probabilities and the decision function of some texts at a time, as the scores are."""
        at_once = ROWS_AT_ONCE
        if features.candidates is not None and isinstance(self.model_, BNCL):
            at_once = CANDIDATE_ROWS_AT_ONCE
        for start in range(0, len(features), at_once):
            with torch.inference_mode():
                yield self._part(features, slice(start, start + at_once))

    def _part(self, features: Features, rows: slice) -> tuple[Tensor, Tensor, Tensor]:
        model, scores = self.model_, (features.entailment[rows], features.contradiction[rows])
        candidates = None if features.candidates is None else features.candidates[rows]
        if isinstance(model, CollectiveModel):
            pairs = pairs_of(candidates, len(scores[0]), len(self.labels_))
            vectors = None if features.vectors is None else features.vectors[rows]
            words = None if features.words is None else features.words[rows]
            logits = model(*scores, model.inputs(vectors, words, len(scores[0])), pairs)
            certain = model.certainty(logits, pairs)
            return decided(certain, at_least_one=model.at_least_one), model.probabilities(logits, pairs), certain
        assert isinstance(model, BNCL)
        p, against = model(*scores) if candidates is None else model.of_candidates(*scores, candidates)
        ties_count = isinstance(self.recipe_, Recipe) and self.recipe_.ties_count
        said = (torch.ge if ties_count else torch.gt)(p, against)
        return said, p / (p + against).clamp_min(1e-12), p - against

    def _scored(
        self, texts: Corpus | Sequence[str] | Features, labels: LabelSet | None, *, predicting: bool = False
    ) -> Features:
        """Return features as they are, and texts scored in memory."""
        if isinstance(texts, Features):
            return texts
        if labels is None:
            raise InputError("Training on texts needs labels; features know theirs.")
        if self.scorer != "embedded" and "/" not in self.scorer and not Path(self.scorer).is_dir():
            raise InputError(
                f"The model was trained with the scorer '{self.scorer}', which is not here; say where it lies with "
                f"--scorer FOLDER, or give features instead of texts."
            )
        corpus = texts if isinstance(texts, Corpus) else Corpus(tuple(map(str, range(len(texts)))), tuple(texts))
        reader = self._reader()
        if not predicting:
            return score_texts(corpus, labels, reader, self.template)
        # Another scorer's vectors of the labels would be nonsense beside this one's of the texts.
        same = {**reader.about(), "template": self.template} == self.scorer_
        known = self.hypotheses_ if same else None
        return score_texts(corpus, labels, reader, self.template, candidates=self.candidates_, hypotheses=known)

    def _check_candidates(self, features: Features) -> None:
        """Say that features hold more or fewer labels a text than those that the model was trained on."""
        usual, given = self.candidates_ or len(self.labels_), features.entailment.shape[1]
        if usual == given:
            return
        trained, hold = (
            f"{count} candidates" if count < len(self.labels_) else "all labels" for count in (usual, given)
        )
        sentence = f"The model was trained with {trained} a text, but these features hold {hold}."
        if isinstance(self.model_, BNCL):
            raise InputError(f"{sentence} Make them as those it was trained on, with bncl featurize.")
        log.warning(sentence)

    def _reader(self) -> Scorer:
        """Return what reads texts, which is loaded once."""
        options = self._scorer_options()
        key = self.scorer, tuple(sorted(options.items()))
        loaded: tuple[Any, Scorer] | None = getattr(self, "_loaded", None)
        if loaded is None or loaded[0] != key:
            loaded = key, load_scorer(self.scorer, **options)
            self._loaded = loaded
        return loaded[1]

    def _scorer_options(self) -> dict[str, Any]:
        """Return how the scorer of the training texts was set up, as far as its features say."""
        made_by = getattr(self, "scorer_", {})
        options = {key: made_by[key] for key in ("max_tokens", "backend") if key in made_by}
        if "label_map" in made_by:
            options["label_map"] = ",".join(f"{meaning}={place}" for meaning, place in made_by["label_map"].items())
        return options

    def _checked(self, texts: Corpus | Sequence[str] | Features) -> Features:
        self._check_fitted()
        features = self._scored(texts, self.labels_, predicting=True)
        self.labels_.check_same(features.labels, "the model", "the features")
        self._check_candidates(features)
        if features.scorer != self.scorer_:
            log.warning("These features were made by another scorer than the ones that the model was trained on.")
        if isinstance(self.model_, CollectiveModel):
            _check_texts_known(self.model_, features)
        return features

    def _check_fitted(self) -> None:
        if not hasattr(self, "model_"):
            raise InputError("This BNCLClassifier is not trained yet; call fit first.")


def _read_hypotheses(folder: Path, manifest: dict[str, Any]) -> Tensor | None:
    """Return the vectors of the labels' hypotheses, if the model has them."""
    expected = manifest.get("labels_sha256")
    if expected is None:
        return None
    file = folder / "labels.safetensors"
    if not file.is_file() or sha256_of(file) != expected:
        raise InputError(f"{file} is missing or damaged: it is not the file that its manifest describes.")
    return load_file(file)["hypotheses"]


def _check_texts_known(model: CollectiveModel, features: Features) -> None:
    """Refuse features that lack what the model looks at besides scores, or hold another encoder's vectors."""
    lacking = []
    if model.vectors and features.vectors is None:
        lacking.append("the encoder's vectors")
    if model.axes is not None and features.words is None:
        lacking.append("the words")
    if lacking:
        raise InputError(
            f"The model was trained with {' and '.join(lacking)} of the texts, which these features do not hold: run "
            f"bncl featurize again, which adds them."
        )
    if model.vectors and features.vectors is not None and features.vectors.shape[1] != model.vector_length:
        raise InputError(
            f"The model was trained with vectors of {model.vector_length} numbers a text, but these features hold "
            f"vectors of {features.vectors.shape[1]}: they are another encoder's."
        )


def _as_state(model: BNCL | CollectiveModel) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return a network as tensors and as what JSON can hold."""
    return as_state(model) if isinstance(model, CollectiveModel) else (model.state_dict(), {})


def _setting(name: str) -> Setting:
    try:
        return Setting(name)
    except ValueError:
        raise InputError(f"There is no setting '{name}'; there are: {', '.join(Setting)}.") from None


def _annotated(supervision: Supervision, features: Features) -> dict[str, tuple[str, ...]]:
    """Return the labels of the annotated texts by id."""
    if supervision.annotations is None:
        return {}
    columns = (supervision.annotations[[row]].indices for row in range(len(supervision.annotated)))
    names = (tuple(features.labels.names[column] for column in sorted(found)) for found in columns)
    return dict(zip((features.ids[row] for row in supervision.annotated), names, strict=True))


def _network(graph: SignedLabelGraph, recipe: Recipe) -> BNCL:
    return BNCL(balanced_neighbourhoods(graph, simple=recipe.simple_hops))


def _check_graph(graph: SignedLabelGraph, labels: LabelSet) -> None:
    of_graph = LabelSet(tuple(graph.label_names), tuple(graph.label_names))
    labels.check_same(of_graph, "the features", "the graph")


def _fingerprint(
    features: Features, graph: SignedLabelGraph, supervision: Supervision, recipe: Recipe, seed: int
) -> dict[str, Any]:
    annotations = supervision.annotations
    return {
        "features": _digest(features.entailment, features.contradiction, *_whose(features)) + features.labels.digest(),
        "graph": _digest(graph.edge_index, graph.edge_sign) + f"-{graph.hops}-{graph.provenance.get('max_neighbours')}",
        "priors": _digest(torch.from_numpy(supervision.prevalence)) + f"-{supervision.cardinality!r}",
        "annotated texts": _digest(
            torch.from_numpy(supervision.annotated),
            *([] if annotations is None else _sparse_parts(annotations)),
        ),
        "recipe": recipe.as_dict(),
        "seed": seed,
    }


def _sparse_parts(matrix: csr_array) -> list[Tensor]:
    ordered = csr_array(matrix, copy=True)
    ordered.sort_indices()
    return [torch.from_numpy(part.astype(np.int64)) for part in (ordered.indptr, ordered.indices)]


def _whose(features: Features) -> list[Tensor]:
    return [] if features.candidates is None else [features.candidates]


def _digest(*tensors: Tensor) -> str:
    total = hashlib.sha256()
    for tensor in tensors:
        total.update(str(tuple(tensor.shape)).encode())
        total.update(tensor.contiguous().numpy().tobytes())
    return total.hexdigest()


def _read_log(path: Path) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return entries
