"""What changes about labels: which there are afterwards, and which earlier ones each comes from."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bncl_pyg.corpus import LabelSet
from bncl_pyg.errors import InputError


@dataclass(frozen=True)
class LabelChange:
    """A change of labels.

    Args:
        before: the labels that there were.
        labels: the labels that there are afterwards.
        origins: which of the earlier labels each of these comes from: one that stays or is renamed, several that are
            merged, none that is new.
    """

    before: LabelSet
    labels: LabelSet
    origins: tuple[tuple[str, ...], ...]

    @property
    def added(self) -> tuple[str, ...]:
        """The labels that come from no earlier one."""
        return tuple(name for name, origin in zip(self.labels.names, self.origins, strict=True) if not origin)

    @property
    def only_names(self) -> bool:
        """Whether nothing but names changes, so that nothing is scored and nothing is trained."""
        return self.origins == tuple((name,) for name in self.before.names)

    def kept_origins(self) -> list[str | None]:
        """Return each label's earlier name, `None` for a label that is new or merged."""
        return [origin[0] if len(origin) == 1 else None for origin in self.origins]

    def renamed(self) -> dict[str, str]:
        """Return the new name of each earlier label that is part of one."""
        pairs = zip(self.labels.names, self.origins, strict=True)
        return {earlier: name for name, origin in pairs for earlier in origin}

    @classmethod
    def adding(cls, before: LabelSet, labels: Any) -> "LabelChange":
        """Add labels: names, `{name: description}` or a `LabelSet`."""
        new = LabelSet.of(labels)
        for name in new.names:
            _check_free(name, before)
        _check_meanings(new, before)
        return cls(before, before.extended(new), (*((name,) for name in before.names), *(() for _ in new.names)))

    @classmethod
    def removing(cls, before: LabelSet, names: Iterable[str]) -> "LabelChange":
        """Remove labels."""
        gone = set(_known(names, before))
        if len(gone) == len(before):
            raise InputError("No label would be left: at least one must stay.")
        kept = before.chosen(place for place, name in enumerate(before.names) if name not in gone)
        return cls(before, kept, tuple((name,) for name in kept.names))

    @classmethod
    def renaming(cls, before: LabelSet, names: Mapping[str, str]) -> "LabelChange":
        """Rename labels; descriptions stay."""
        _known(names, before)
        new = tuple(names.get(name, name) for name in before.names)
        for name in names.values():
            if not isinstance(name, str) or not name.strip():
                raise InputError(f"A label's new name must be a string that is not blank, but is {name!r}.")
            if new.count(name) > 1:
                raise InputError(f"There would be two labels '{name}'; to make one of several, merge them.")
        return cls(before, replace(before, names=new), tuple((name,) for name in before.names))

    @classmethod
    def merging(
        cls, before: LabelSet, names: Sequence[str], into: str, description: str | None = None
    ) -> "LabelChange":
        """Make one label of several, at the place of the first.

        Args:
            before: the labels.
            names: those to merge.
            into: what the merged label is called, which may be one of them.
            description: what it means; if not given, what all of them mean: the others' phrases become synonyms.
        """
        merged = _known(names, before)
        if len(merged) < 2:
            raise InputError("At least two labels can be merged.")
        if into not in merged:
            _check_free(into, before)
        phrases = before.phrases()
        every = tuple(dict.fromkeys(phrase for name in merged for phrase in phrases[before.place(name)]))
        words = (description, ()) if description else (every[0], every[1:])
        one = LabelSet.of({into: {"description": words[0], "synonyms": list(words[1])}})
        first = min(before.place(name) for name in merged)
        head = [place for place in range(first) if before.names[place] not in merged]
        tail = [place for place in range(first, len(before)) if before.names[place] not in merged]
        labels = before.chosen(head).extended(one).extended(before.chosen(tail))
        origins = (
            *((before.names[place],) for place in head),
            tuple(merged),
            *((before.names[place],) for place in tail),
        )
        return cls(before, labels, origins)


def _known(names: Iterable[str], labels: LabelSet) -> list[str]:
    """Return names in order, once each; raise where there is no such label, or none is named."""
    if isinstance(names, str):
        raise TypeError(f"The labels must be named in a list, but are the string '{names}'.")
    known = list(dict.fromkeys(names))
    if not known:
        raise InputError("No label is named.")
    for name in known:
        if name not in labels:
            sentence = labels.unknown(str(name))
            raise InputError(f"{sentence[0].upper()}{sentence[1:]}")
    return known


def _check_free(name: str, labels: LabelSet) -> None:
    if not isinstance(name, str) or not name.strip():
        raise InputError(f"A label's name must be a string that is not blank, but is {name!r}.")
    if name in labels:
        raise InputError(f"There is a label '{name}' already.")


def _check_meanings(new: LabelSet, labels: LabelSet) -> None:
    """Raise where a new label is described like one that is there: nobody could tell them apart."""
    meanings = dict(zip(labels.phrases(), labels.names, strict=True))
    for name, phrases in zip(new.names, new.phrases(), strict=True):
        if phrases in meanings:
            raise InputError(f"Label '{name}' is described just like '{meanings[phrases]}', which is there already.")
