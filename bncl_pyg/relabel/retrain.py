"""From a model and changed labels to another model: what is new is scored, the graph extended, and it is trained."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bncl_pyg.corpus import Corpus, LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.features import (
    Features,
    add_columns,
    add_stored_columns,
    missing_labels,
    read_features,
    select_labels,
    stored_labels,
)
from bncl_pyg.graph import LazyGraph
from bncl_pyg.predictor import open_scorer
from bncl_pyg.priors import Priors
from bncl_pyg.relabel.annotations import Names, doubtful, followed, followed_absent
from bncl_pyg.relabel.change import LabelChange
from bncl_pyg.relabel.priors import changed_priors, guessed_shares
from bncl_pyg.scorers import STRONG, Scorer
from bncl_pyg.training import Annotated, Progress, Setting, TrainedModel

if TYPE_CHECKING:
    from bncl_pyg.graph import SignedLabelGraph

log = logging.getLogger(__name__)

Texts = Corpus | Iterable[str] | Callable[[], Iterable[tuple[str, str]]]
"""The training texts: in the order of the features, with their ids, or as what gives (id, text) anew at each call."""


@dataclass(frozen=True)
class Changed:
    """What came of a change of labels.

    Args:
        trained: the model with the changed labels.
        scored: the labels whose columns were scored now.
        edges: how many edges the label graph had, and has.
        left_out: annotated texts that may have a new label, though nobody said so, and are no longer annotated.
        is_retrained: whether it was trained again.
    """

    trained: TrainedModel
    scored: tuple[str, ...]
    edges: tuple[int, int]
    left_out: tuple[str, ...]
    is_retrained: bool


@dataclass(frozen=True)
class Work:
    """What a change of labels needs besides the model.

    Args:
        features: the scored training texts, as a folder that is extended or in memory.
        texts: the training texts, where a label is new.
        prevalence: what is known of how common new labels are, by name; estimated, where nothing is.
        annotated: the labels of annotated texts by id, joined with those that the model knows.
        graph: of the changed labels; the model's is extended, if not given.
        scorer: what reads texts, where it is elsewhere than when the model was trained.
        device: where it runs.
        start: told how many texts there are to score, and how many are done.
        scoring: told of texts that were scored.
        progress: told of every step of training.
    """

    features: Features | Path | str | None = None
    texts: Texts | None = None
    prevalence: Any = None
    annotated: Names | None = None
    graph: "SignedLabelGraph | None" = None
    scorer: str | Scorer | None = None
    device: str | None = None
    start: Callable[[int, int], None] | None = None
    scoring: Callable[[int], None] | None = None
    progress: Progress | None = None


def change_labels(trained: TrainedModel, change: LabelChange, work: Work | None = None) -> Changed:
    """Return the model with changed labels."""
    work = work or Work()
    graph = trained.graph.graph if isinstance(trained.graph, LazyGraph) else trained.graph
    if change.only_names:
        return _renamed(trained, change, graph)
    if work.features is None:
        raise InputError("The model must be trained again, which needs the features that it was trained on.")
    given = _prevalence_of(change, work.prevalence)
    features, scored = _scored(trained, change, work)
    if len(features) != trained.n_texts:
        log.info("The model was trained on %d texts, and is now on %d.", trained.n_texts, len(features))
    from bncl_pyg.graph import extend_graph, graph_of

    new = select_labels(features, change.labels)
    own = work.graph or extend_graph(graph, change.labels, change.kept_origins())
    changed_graph = graph_of(change.labels, own)
    priors, setting, annotated, left_out = _known(trained, change, work, features, new, given)
    made = TrainedModel.fit(
        trained.recipe,
        new,
        changed_graph,
        priors,
        Annotated.from_names(
            annotated, new.ids, new.labels, followed_absent(trained.not_labels, change, work.annotated)
        ),
        setting=str(setting),
        seed=trained.seed,
        progress=work.progress,
    )
    return Changed(made, scored, (_edges(graph), _edges(changed_graph)), left_out, True)


def _renamed(trained: TrainedModel, change: LabelChange, graph: "SignedLabelGraph") -> Changed:
    """Return the same model under other names."""
    names, other = change.renamed(), graph.clone()
    other.label_names = list(change.labels.names)
    annotated, absent = (
        {name: tuple(names[label] for label in labels) for name, labels in given.items()}
        for given in (trained.annotated, trained.not_labels)
    )
    made = replace(trained, labels=change.labels, graph=other, annotated=annotated, not_labels=absent, card="")
    return Changed(made, (), (_edges(graph), _edges(graph)), (), False)


def _scored(trained: TrainedModel, change: LabelChange, work: Work) -> tuple[Features, tuple[str, ...]]:
    """Return features with all labels of before and after; only columns that are not there are scored."""
    source = Path(work.features) if isinstance(work.features, str) else work.features
    assert source is not None
    there = stored_labels(source) if isinstance(source, Path) else source.labels
    lost = missing_labels(change.before, there)
    if lost is not None:
        raise InputError(
            f"The features hold no scores of the model's label '{lost.names[0]}': give those that it was trained on."
        )
    new = missing_labels(change.labels, there)
    features = read_features(source) if isinstance(source, Path) and new is None else source
    if isinstance(features, Features) and features.scorer != trained.scorer_config:
        raise InputError("These features were made by another scorer than the ones that the model was trained on.")
    if new is None:
        assert isinstance(features, Features)
        return features, ()
    if work.texts is None:
        raise InputError(f"Label '{new.names[0]}' must be scored: give the training texts with texts=\"TEXTS\".")
    config = trained.scorer_config
    name = work.scorer or config.get("name", STRONG)
    scorer = open_scorer(name, work.device, config, models_own=work.scorer is None)
    if isinstance(source, Path):
        add_stored_columns(source, _pairs(work.texts, source), new, scorer, start=work.start, progress=work.scoring)
        return read_features(source), new.names
    return add_columns(source, _corpus(work.texts, source.ids), new, scorer), new.names


def _pairs(texts: Texts, path: Path) -> Callable[[], Iterable[tuple[str, str]]]:
    if callable(texts):
        return texts
    corpus = texts if isinstance(texts, Corpus) else _corpus(texts, read_features(path).ids)
    return lambda: zip(corpus.ids, corpus.texts, strict=True)


def _corpus(texts: Texts, ids: Sequence[str]) -> Corpus:
    if callable(texts):
        pairs = list(texts())
        return Corpus.of([text for _, text in pairs], ids=[name for name, _ in pairs])
    return texts if isinstance(texts, Corpus) else Corpus.of(texts, ids=ids)


def _known(
    trained: TrainedModel,
    change: LabelChange,
    work: Work,
    features: Features,
    new: Features,
    given: Mapping[str, Any],
) -> tuple[Priors | None, Setting, dict[str, tuple[str, ...]], tuple[str, ...]]:
    """Return priors, setting and annotated texts of the changed labels, and which annotated texts are left out."""
    resolved = trained.model.priors
    annotated = followed(trained.annotated, change, work.annotated)
    # Of texts that are annotated in part, nothing was said of a new label, and nothing is assumed.
    looked_at: dict[str, Sequence[str]] = {**trained.not_labels, **(work.annotated or {})}
    silent = [name for name in trained.annotated if name not in looked_at] if change.added else []
    base = trained.given_priors or resolved
    if trained.setting == Setting.SCARCE_ANNOTATION:
        if not silent and not given:
            return None, Setting.SCARCE_ANNOTATION, annotated, ()
        # Annotated texts that say nothing of a label cannot say how common it is.
        base = resolved
    guessed = None
    if any(given.get(name) is None or isinstance(given.get(name), str) for name in change.added):
        guessed = guessed_shares(change, trained, new)
    decisions = None
    if any(len(origin) > 1 for origin in change.origins):
        decisions = np.asarray(trained.model.predict(select_labels(features, change.before)).decisions.numpy())
    priors = changed_priors(change, base, resolved, decisions, given, guessed)
    left_out: set[str] = set()
    if silent:
        numbers = np.where(priors.has_share, priors.shares, 0.0 if guessed is None else guessed)
        shares = {name: float(numbers[change.labels.place(name)]) for name in change.added}
        left_out = doubtful(annotated, change, looked_at, new, shares)
    rest = {name: labels for name, labels in annotated.items() if name not in left_out}
    if annotated and not rest:
        raise InputError(
            f"All annotated texts may have the label '{change.added[0]}', and nobody said whether they do: annotate "
            f"them anew."
        )
    setting = Setting.DOMAIN_SUPERVISOR if rest else Setting.ANNOTATION_FREE
    return priors, setting, rest, tuple(name for name in annotated if name in left_out)


def _prevalence_of(change: LabelChange, prevalence: Any) -> dict[str, Any]:
    """Return what is known of each new label."""
    if prevalence is None:
        return {}
    if not isinstance(prevalence, Mapping):
        if len(change.added) != 1:
            raise InputError("The prevalence must name its label where more than one is new: {name: share}.")
        prevalence = {change.added[0]: prevalence}
    added = LabelSet.of(list(change.added) or [""]) if change.added else None
    for name in prevalence:
        if added is None or name not in added:
            raise InputError(f"The prevalence of '{name}' is given, but that is no new label.")
    return dict(prevalence)


def _edges(graph: "SignedLabelGraph") -> int:
    """Return how many pairs of labels a graph joins."""
    return int(graph.edge_index.shape[1]) // 2
