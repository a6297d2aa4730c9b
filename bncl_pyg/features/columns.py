"""Labels that change: columns are found by what a language model reads of a label, and only new ones are scored."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from bncl_pyg.corpus import Corpus, LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.features.features import Features
from bncl_pyg.features.featurize import Featurized, featurize
from bncl_pyg.features.score import score_texts
from bncl_pyg.features.store import open_store
from bncl_pyg.scorers import TEMPLATE, Progress, Scorer

Phrases = tuple[str, ...]


def missing_labels(labels: LabelSet, there: LabelSet) -> LabelSet | None:
    """Return the labels that mean something that none of those that are there means; `None` where there are none."""
    known = set(there.phrases())
    places = [place for place, phrases in enumerate(labels.phrases()) if phrases not in known]
    return labels.chosen(places) if places else None


def select_labels(features: Features, labels: LabelSet) -> Features:
    """Return the columns of these labels, in their order and under their names.

    A column is found by what was read of its label, description and synonyms, whatever its name is.
    """
    columns = _columns(features.labels, labels)
    if features.candidates is not None:
        if columns != list(range(len(features.labels))):
            raise InputError(
                "These features hold each text's best candidates among all labels: other labels need other candidates; "
                "featurize the texts again with the new labels."
            )
        return replace(features, labels=labels)
    index = torch.tensor(columns)
    return replace(
        features,
        labels=labels,
        entailment=features.entailment[:, index],
        contradiction=features.contradiction[:, index],
        label_tensors=_select_tensors(features.label_tensors, columns),
        parts={name: scores[:, :, index] for name, scores in features.parts.items()},
    )


def add_columns(features: Features, texts: Corpus, labels: LabelSet, scorer: Scorer) -> Features:
    """Return features with further labels, whose columns alone are scored, in memory."""
    _check_dense(features.candidates is not None)
    if texts.ids != features.ids:
        raise InputError("The texts must be those of the features, in their order and with their ids.")
    template = features.scorer.get("template", TEMPLATE)
    if {**scorer.config(), "template": template} != features.scorer:
        raise InputError("New labels must be scored by the scorer that made the features, but this is another.")
    more = score_texts(texts, labels, scorer, template, parts=bool(features.parts))
    tensors = features.label_tensors
    if tensors.keys() != more.label_tensors.keys():
        tensors = {}
    return replace(
        features,
        labels=features.labels.extended(_free_names(labels, features.labels)),
        entailment=torch.cat([features.entailment, more.entailment], dim=1),
        contradiction=torch.cat([features.contradiction, more.contradiction], dim=1),
        label_tensors={name: torch.cat([tensor, more.label_tensors[name]]) for name, tensor in tensors.items()},
        parts={name: torch.cat([scores, more.parts[name]], dim=2) for name, scores in features.parts.items()},
    )


def add_stored_columns(
    path: Path,
    texts: Callable[[], Iterable[tuple[str, str]]],
    labels: LabelSet,
    scorer: Scorer,
    *,
    start: Callable[[int, int], None] | None = None,
    progress: Progress | None = None,
) -> Featurized:
    """Score further labels into a store; what is there stays as it is.

    Args:
        path: the store.
        texts: gives (id, text) of all its texts anew each time it is called.
        labels: the new ones. A name that the store has for something else gets a number there.
        scorer: the one that made the store.
        start: see `featurize`.
        progress: likewise.
    """
    store = open_store(path)
    _check_dense(store.config["kind"] == "sparse")
    return featurize(
        texts,
        store.labels.extended(_free_names(labels, store.labels)),
        scorer,
        path,
        template=store.config["template"],
        dtype=store.config["dtype"],
        start=start,
        progress=progress,
    )


def stored_labels(path: Path) -> LabelSet:
    """Return the labels of a store; its scores are not read."""
    return open_store(path).labels


def _columns(there: LabelSet, wanted: LabelSet) -> list[int]:
    by_meaning: dict[Phrases, int] = {}
    phrases = there.phrases()
    for place, meaning in enumerate(phrases):
        by_meaning.setdefault(meaning, place)
    columns = []
    for name, meaning in zip(wanted.names, wanted.phrases(), strict=True):
        if meaning not in by_meaning:
            raise InputError(f"The features hold no scores of label '{name}' as it is described.")
        same = name in there and phrases[there.place(name)] == meaning
        columns.append(there.place(name) if same else by_meaning[meaning])
    return columns


def _select_tensors(tensors: Mapping[str, Tensor], columns: Sequence[int]) -> dict[str, Tensor]:
    """Return what a scorer computed of some of the labels; token vectors are as many as their lengths say."""
    index = torch.tensor(columns)
    chosen = {}
    for name, tensor in tensors.items():
        lengths = tensors.get(f"{name.removesuffix('tokens')}lengths") if name.endswith("tokens") else None
        if lengths is None:
            chosen[name] = tensor[index]
        else:
            pieces = tensor.split(lengths.tolist())
            chosen[name] = torch.cat([pieces[column] for column in columns])
    return chosen


def _free_names(labels: LabelSet, taken: LabelSet) -> LabelSet:
    """Return labels under names that are not taken: of those that are, followed by a number."""
    names: list[str] = []
    for name in labels.names:
        free, number = name, 2
        while free in taken or free in names:
            free, number = f"{name} ({number})", number + 1
        names.append(free)
    return replace(labels, names=tuple(names))


def _check_dense(sparse: bool) -> None:
    if sparse:
        raise InputError(
            "These features hold each text's best candidates, which must be chosen again where labels are new: "
            "featurize the texts again with the new labels."
        )
