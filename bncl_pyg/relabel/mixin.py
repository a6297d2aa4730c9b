"""`add_labels`, `remove_labels`, `rename_labels` and `merge_labels`, for a class that has learned a model."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from bncl_pyg.features import Features
from bncl_pyg.relabel.annotations import Names
from bncl_pyg.relabel.change import LabelChange
from bncl_pyg.relabel.retrain import Texts, Work, change_labels
from bncl_pyg.training import Progress, TrainedModel

if TYPE_CHECKING:
    from bncl_pyg.graph import SignedLabelGraph


class RelabelledModel:
    """Returns models with other labels; nothing is scored twice, and the model itself stays as it is."""

    def add_labels(
        self,
        labels: Any,
        features: Features | Path | str,
        texts: Texts | None = None,
        *,
        prevalence: Any = None,
        annotated: Names | None = None,
        graph: "SignedLabelGraph | None" = None,
        progress: Progress | None = None,
    ) -> Self:
        """Return a classifier that knows further labels, trained again on the same texts.

        Args:
            labels: the new ones: names, `{name: description}`, or a `LabelSet`.
            features: the scored texts that it was trained on, in memory or as a folder, to which the new columns are
                added.
            texts: these texts, since they are to be read for the new labels; not needed where the folder has the
                columns already.
            prevalence: how common the new labels are, `{name: share}` or what else a prevalence may be; estimated from
                the scores, beside the labels that are known, if not given.
            annotated: `{id: label names}` of annotated texts. Of the texts that were annotated before and are not
                among these, those that may well have a new label are left out.
            graph: of all labels; the new labels are joined to the one that there is, if not given.
            progress: told of every step of training.
        """
        change = LabelChange.adding(self._trained().labels, labels)
        return self._changed(change, Work(features, texts, prevalence, annotated, graph, progress=progress))

    def remove_labels(
        self,
        names: Iterable[str],
        features: Features | Path | str,
        *,
        graph: "SignedLabelGraph | None" = None,
        progress: Progress | None = None,
    ) -> Self:
        """Return a classifier without some labels, trained again; the arguments are those of `add_labels`."""
        change = LabelChange.removing(self._trained().labels, names)
        return self._changed(change, Work(features, graph=graph, progress=progress))

    def rename_labels(self, names: Mapping[str, str]) -> Self:
        """Return the same classifier with other names for labels, `{old: new}`; nothing is scored or trained."""
        return self._changed(LabelChange.renaming(self._trained().labels, names), Work())

    def merge_labels(
        self,
        names: Sequence[str],
        into: str,
        features: Features | Path | str,
        texts: Texts | None = None,
        *,
        description: str | None = None,
        graph: "SignedLabelGraph | None" = None,
        progress: Progress | None = None,
    ) -> Self:
        """Return a classifier with one label for several, trained again; see `add_labels` for the other arguments.

        An annotated text that has any of them has the merged one; how common it is follows from how common they are
        and from how often the model gives them together.

        Args:
            names: the labels to merge.
            into: what the merged label is called, which may be one of them.
            features: see `add_labels`.
            texts: likewise.
            description: what the merged label means; all that they mean, if not given.
            graph: see `add_labels`.
            progress: likewise.
        """
        change = LabelChange.merging(self._trained().labels, names, into, description)
        return self._changed(change, Work(features, texts, graph=graph, progress=progress))

    def _changed(self, change: LabelChange, work: Work) -> Self:
        trained, scorer = self._trained(), getattr(self, "scorer", None)
        if isinstance(scorer, str) and not Path(scorer).is_dir():
            # Who fits on features need not say what made them; they do. But who names their scorer allows to load it.
            named = scorer == trained.scorer_config.get("name") and scorer is not getattr(self, "_models_scorer", None)
            scorer = scorer if named else None
        work = replace(work, scorer=scorer, device=getattr(self, "device", None))
        changed = change_labels(trained, change, work)
        return self._with_trained(changed.trained)

    def _trained(self) -> TrainedModel:
        raise NotImplementedError

    def _with_trained(self, trained: TrainedModel) -> Self:
        raise NotImplementedError
