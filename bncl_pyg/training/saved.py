"""A trained model with all that belongs to it, as a folder: safetensors and JSON only."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from bncl_pyg.corpus import LabelSet, digest, read_rows
from bncl_pyg.errors import InputError
from bncl_pyg.features import Features
from bncl_pyg.graph import LazyGraph
from bncl_pyg.persistence import (
    CARD,
    MANIFEST,
    CardFacts,
    HubOptions,
    card_text,
    check_fields,
    local_folder,
    new_folder,
    read_json,
    read_manifest,
    with_data_license,
    with_evaluation,
    write_bytes,
    write_json,
    write_jsonl,
    write_manifest,
)
from bncl_pyg.priors import Priors
from bncl_pyg.training.annotated import Annotated
from bncl_pyg.training.describe import encoder_licenses, known_of_priors, languages_of, origin_of_graph, reading_of
from bncl_pyg.training.recipe import Model, Progress, Recipe, TrainingStep
from bncl_pyg.training.recipes import load_recipe, save_recipe

if TYPE_CHECKING:
    from bncl_pyg.graph import SignedLabelGraph

FIELDS: dict[str, Any] = {
    "recipe": dict,
    "model": dict,
    "setting": str,
    "seed": int,
    "texts": int,
    "texts_digest": str,
    "scorer": dict,
    "candidates": (int, type(None)),
}
"""What the manifest of a model says."""
PACKAGES = ("bncl-pyg", "torch", "torch-geometric")
"""Whose versions a saved model names."""
GIVEN = "given-priors.json"


@dataclass(frozen=True)
class TrainedModel:
    """A model and where it comes from.

    Args:
        model: what the recipe learned.
        recipe: that it learned by.
        labels: the labels.
        graph: the signed label graph; of a loaded model, one that becomes PyG's when it is asked for.
        setting: the setting.
        seed: the seed.
        log: the steps of training.
        annotated: the labels of the annotated texts by id.
        n_texts: how many training texts there were.
        texts_digest: a hash of the training texts' ids.
        scorer_config: what made the scores of the training texts.
        candidates: how many of a text's labels were scored; `None` for all.
        label_tensors: what the scorer computed of the labels alone, if the features knew.
        given_priors: κ and λ as they were given, with what was not known; `None` where none were, or where a model was
            saved before this was kept.
        not_labels: of texts that are annotated in part, by id, the labels that they are known not to have; those that
            `annotated` names besides are annotated wholly.
        card: the page for people as it was found in the folder; empty where it is still to be written from the run.
    """

    model: Model
    recipe: Recipe
    labels: LabelSet
    graph: "SignedLabelGraph | LazyGraph"
    setting: str
    seed: int
    log: list[TrainingStep]
    annotated: dict[str, tuple[str, ...]]
    n_texts: int
    texts_digest: str
    scorer_config: dict[str, Any]
    candidates: int | None
    label_tensors: dict[str, Tensor]
    given_priors: Priors | None = None
    not_labels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    card: str = ""

    @classmethod
    def fit(
        cls,
        recipe: Recipe,
        features: Features,
        graph: "SignedLabelGraph",
        priors: Priors | None,
        annotated: Annotated | None,
        *,
        setting: str,
        seed: int,
        progress: Progress | None = None,
        checkpoint: Path | None = None,
    ) -> "TrainedModel":
        """Have a recipe fit a model, and note where it comes from; see `Recipe.fit` for the arguments."""
        steps: list[TrainingStep] = []

        def tell(step: TrainingStep) -> None:
            steps.append(step)
            if progress is not None:
                progress(step)

        model = recipe.fit(features, graph, priors, annotated, seed=seed, progress=tell, checkpoint=checkpoint)
        return cls(
            model=model,
            recipe=recipe,
            labels=features.labels,
            graph=model.label_graph(graph),
            setting=setting,
            seed=seed,
            log=steps,
            annotated=_names_by_id(annotated, features),
            not_labels=_absent_by_id(annotated, features),
            n_texts=len(features.corpus_ids),
            texts_digest=digest(features.corpus_ids),
            scorer_config=features.scorer,
            candidates=None if features.candidates is None else features.candidates.shape[1],
            label_tensors=features.label_tensors,
            given_priors=priors,
        )

    def save(self, path: Path, *, overwrite: bool = False) -> None:
        """Write a folder that is whole or absent."""
        with new_folder(path, "model", overwrite=overwrite) as folder:
            tensors = {name: tensor.cpu() for name, tensor in self.model.tensors().items()}
            save_file(tensors, folder / "model.safetensors")
            if self.label_tensors:
                kept = {name: tensor.contiguous() for name, tensor in self.label_tensors.items()}
                save_file(kept, folder / "labels.safetensors")
            self.labels.write(folder / "labels.jsonl")
            self.model.priors.write(folder / "priors.json", self.labels)
            write_jsonl(folder / "annotated.jsonl", self._annotated_rows())
            if self.given_priors is not None:
                self.given_priors.write(folder / GIVEN, self.labels)
            write_json(folder / "training.json", {"steps": [asdict(step) for step in self.log]})
            graph = self.graph.graph if isinstance(self.graph, LazyGraph) else self.graph
            graph.save(folder / "graph")
            content = {
                "recipe": save_recipe(self.recipe),
                "model": self.model.config(),
                "setting": self.setting,
                "seed": self.seed,
                "texts": self.n_texts,
                "texts_digest": self.texts_digest,
                "scorer": self.scorer_config,
                "candidates": self.candidates,
                "versions": {name: version(name) for name in PACKAGES},
            }
            write_manifest(folder, "model", content)
            write_bytes(folder / CARD, self.with_card().card.encode())

    def _annotated_rows(self) -> Iterator[dict[str, Any]]:
        for identifier, names in self.annotated.items():
            absent = self.not_labels.get(identifier)
            yield {"id": identifier, "labels": list(names), **({} if absent is None else {"not_labels": list(absent)})}

    def with_card(
        self, *, evaluation: Mapping[str, Any] | None = None, data_license: str | None = None
    ) -> "TrainedModel":
        """Return the same with a card: the one that there is, or one that is written from the run.

        Args:
            evaluation: figures on test texts (`Evaluation.as_dict`) that it is to show.
            data_license: of the texts that the model learned from.
        """
        card = self.card or card_text(_facts(self))
        if evaluation is not None:
            card = with_evaluation(card, evaluation)
        if data_license is not None:
            card = with_data_license(card, data_license)
        return replace(self, card=card)

    @classmethod
    def load(cls, name: Path | str, options: HubOptions | None = None) -> "TrainedModel":
        """Read a folder that `save` wrote, or such a folder from the Hugging Face hub by name."""
        folder = local_folder(name, "a model", options=options)
        manifest = read_manifest(folder, "model")
        # The digests say that this is what somebody saved; whoever wrote them on purpose can have saved anything.
        check_fields(manifest, FIELDS, folder / MANIFEST)
        template = manifest["scorer"].get("template", "")
        if not isinstance(template, str) and not _are_strings(template):
            raise InputError(f"{folder / MANIFEST}: the template of 'scorer' must be a string, or several.")
        try:
            recipe = load_recipe(manifest["recipe"])
        except InputError as error:
            raise InputError(f"{folder} was saved by another release ({error}) and must be trained anew.") from None
        graph = LazyGraph.load(folder / "graph")
        labels = LabelSet.read(folder / "labels.jsonl")
        labels.check_same(LabelSet.of(graph.label_names), "the model", "its graph")
        priors = Priors.read(folder / "priors.json", labels)
        vectors = "labels.safetensors"
        annotated = list(read_rows(folder / "annotated.jsonl"))
        tensors = _read_tensors(folder / "model.safetensors")
        try:
            model = recipe.load(tensors, manifest["model"], graph, priors)
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            reason = next(iter(str(error).splitlines()), "")
            raise InputError(
                f"{folder} holds no model of the recipe {recipe.name} ({type(error).__name__}: {reason}); it must be "
                f"trained anew."
            ) from error
        return cls(
            model=model,
            recipe=recipe,
            labels=labels,
            graph=graph,
            setting=manifest["setting"],
            seed=manifest["seed"],
            log=_read_log(folder / "training.json"),
            annotated={row.identifier("id"): tuple(row.strings("labels")) for row in annotated},
            not_labels={
                row.identifier("id"): tuple(row.strings("not_labels"))
                for row in annotated
                if not row.is_missing("not_labels")
            },
            n_texts=manifest["texts"],
            texts_digest=manifest["texts_digest"],
            scorer_config=manifest["scorer"],
            candidates=manifest["candidates"],
            label_tensors=_read_tensors(folder / vectors) if vectors in manifest["files"] else {},
            given_priors=Priors.read(folder / GIVEN, labels) if GIVEN in manifest["files"] else None,
            card=_read_card(folder / CARD),
        )


def _are_strings(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)


def _read_tensors(file: Path) -> dict[str, Tensor]:
    """Return the tensors of a file, none of which may hold what is no number."""
    try:
        tensors = load_file(file)
    except (SafetensorError, OSError) as error:
        raise InputError(f"{file} is not a readable safetensors file ({error}).") from None
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise InputError(f"{file} holds '{name}' with numbers that are not finite; train the model anew.")
    return tensors


def _read_log(file: Path) -> list[TrainingStep]:
    steps = read_json(file).get("steps")
    try:
        return [TrainingStep(**step) for step in steps]  # type: ignore[union-attr]
    except TypeError:
        raise InputError(f"{file} does not hold the steps of a training.") from None


def _read_card(file: Path) -> str:
    """Return a card, which somebody may have edited, removed, or saved by an editor that does not write UTF-8."""
    return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""


def _facts(trained: TrainedModel) -> CardFacts:
    """Return what a card says of a model."""
    scorer, priors = trained.scorer_config, trained.model.priors
    provenance = (
        trained.graph.provenance if not isinstance(trained.graph, LazyGraph) else trained.graph.parts.provenance
    )
    assert priors.cardinality is not None
    return CardFacts(
        labels=trained.labels.names,
        prevalence=priors.shares.tolist(),
        cardinality=priors.cardinality,
        texts=trained.n_texts,
        annotated=len(trained.annotated),
        setting=trained.setting,
        priors=known_of_priors(trained.given_priors, trained.setting),
        recipe=trained.recipe.name,
        seed=trained.seed,
        scorer=str(scorer.get("name", "unknown")),
        reading=reading_of(scorer),
        encoders=encoder_licenses(scorer),
        graph=origin_of_graph(provenance),
        candidates=trained.candidates,
        languages=languages_of(scorer),
        versions={name: version(name) for name in PACKAGES},
    )


def _names_by_id(annotated: Annotated | None, features: Features) -> dict[str, tuple[str, ...]]:
    """Return the label names of the annotated texts by id."""
    if annotated is None:
        return {}
    columns = (annotated.labels[[row]].indices for row in range(len(annotated)))
    names = (tuple(features.labels.names[column] for column in sorted(row)) for row in columns)
    return dict(zip((features.corpus_ids[row] for row in annotated.rows), names, strict=True))


def _absent_by_id(annotated: Annotated | None, features: Features) -> dict[str, tuple[str, ...]]:
    """Return, by id, the labels that texts that are annotated in part are known not to have."""
    if annotated is None:
        return {}
    absent: dict[str, tuple[str, ...]] = {}
    for place in np.flatnonzero(~annotated.is_whole).tolist():
        columns = np.setdiff1d(annotated.known_of(place), annotated.labels[[place]].indices)
        absent[features.corpus_ids[annotated.rows[place]]] = tuple(features.labels.names[column] for column in columns)
    return absent
