"""The labels: a name that identifies, a description and synonyms that a language model reads."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

from bncl_pyg.corpus.sentences import split_sentences
from bncl_pyg.corpus.tables import Row, Table, read_lines
from bncl_pyg.errors import InputError
from bncl_pyg.persistence import parse_json, write_jsonl

_SHOWN = 60
"""How many letters of a meaning an error message shows."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ufffe\uffff]")
"""What no name can hold: XML cannot write it down, and a terminal may obey it."""


@dataclass(frozen=True)
class LabelSet:
    """An ordered set of labels; a label's place is its column in every matrix.

    Args:
        names: unique, not blank, without control characters.
        descriptions: what the label means, in words; one a name.
        synonyms: other words for the label, a tuple a name; empty where no label has any.
    """

    names: tuple[str, ...]
    descriptions: tuple[str, ...]
    synonyms: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        if len(self.names) != len(self.descriptions):
            raise InputError(f"There are {len(self.names)} label names but {len(self.descriptions)} descriptions.")
        if len(self._places) != len(self.names):
            twice = next(name for place, name in enumerate(self.names) if self._places[name] != place)
            raise InputError(f"Label '{twice}' is given twice.")
        # All at once first: there may be a million of them.
        if control := _CONTROL.search("".join(self.names)):
            bad = next(name for name in self.names if control[0] in name)
            raise InputError(f"Label {bad!a} has the control character {control[0]!a}, which no name can hold.")
        for strings in (self.names, self.descriptions, *self.synonyms):
            if not is_unicode("".join(strings)):
                bad = next(text for text in strings if not is_unicode(text))
                raise InputError(f"The labels have half of a surrogate pair, which is no letter, in {bad!a}.")
        if self.synonyms and len(self.synonyms) != len(self.names):
            raise InputError(f"There are {len(self.names)} label names but synonyms of {len(self.synonyms)}.")
        for name, words in zip(self.names, self.synonyms, strict=False):
            if isinstance(words, str):
                raise InputError(f"The synonyms of label '{name}' must be several strings, but are the one '{words}'.")
        # Two sets that mean the same are equal: no synonyms are written in one way only.
        object.__setattr__(self, "synonyms", tuple(map(tuple, self.synonyms)) if any(self.synonyms) else ())

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    @classmethod
    def of(cls, labels: "LabelSet | Iterable[str] | Mapping[str, str | Mapping[str, Any] | None]") -> "LabelSet":
        """Make a set of labels from what somebody has in Python.

            LabelSet.of(["acq", "earn"])
            LabelSet.of({"acq": "mergers and acquisitions", "earn": "earnings"})
            LabelSet.of({"acq": {"description": "mergers and acquisitions", "synonyms": ["takeover"]}, "earn": None})

        Args:
            labels: names in order (a list, a tuple, an array of strings), or for each name its description, or a
                mapping with "description", "synonyms" (a list of strings) or both; without a description, the name
                describes the label. A `LabelSet` is returned as it is.
        """
        if isinstance(labels, LabelSet):
            return labels
        if isinstance(labels, str | bytes | Set) or not isinstance(labels, Iterable):
            what = f"the string '{labels}'" if isinstance(labels, str) else f"a {type(labels).__name__}"
            raise TypeError(f"The labels must be a list of names or a dict {{name: description}}, but are {what}.")
        pairs = list(labels.items()) if isinstance(labels, Mapping) else [(name, None) for name in labels]
        names = tuple(_string(name, f"label number {place}") for place, (name, _) in enumerate(pairs, start=1))
        if not names:
            raise InputError("No label is given.")
        meanings = [_meaning(name, given) for name, (_, given) in zip(names, pairs, strict=True)]
        return cls(names, tuple(text for text, _ in meanings), tuple(words for _, words in meanings))

    @classmethod
    def read(cls, path: Path) -> "LabelSet":
        """Read a table with the columns `label`, `description` and `synonyms`, or a `.txt` file with a name a line.

        A `.json` file may also hold a list of names, or an object from name to description. A label without a
        description is described by its name. Synonyms are a list of strings, in a cell that holds no list with
        semicolons between; they may be missing.
        """
        entries: list[tuple[int, str, str, tuple[str, ...]]]
        if Path(path.name.removesuffix(".gz").removesuffix(".zst")).suffix == ".txt":
            if not path.is_file():
                raise InputError(f"{path} does not exist.")
            lines_read = read_lines(path, detect=True)
            entries = [(number, line.strip(), line.strip(), ()) for number, line in lines_read]
        else:
            if (plain := _plain_json(path)) is not None:
                return cls.of(plain)
            table = Table(path, ".txt, ")
            if table.columns:
                table.check_column("label")
            entries = [(row.line, row.string("label").strip(), _description(row), _synonyms(row)) for row in table]
        if not entries:
            raise InputError(f"{path} holds no label.")
        lines: dict[str, int] = {}
        for line, name, _, _ in entries:
            if name in lines:
                raise InputError(f"{path}, line {line}: label '{name}' is given twice (first on line {lines[name]}).")
            lines[name] = line
        _, names, descriptions, synonyms = zip(*entries, strict=True)
        return cls(names, descriptions, synonyms)

    def write(self, path: Path) -> None:
        """Write the labels as JSONL; who has no synonyms has no such field."""
        rows: Iterable[dict[str, Any]] = (
            {"label": name, "description": text, **({"synonyms": list(words)} if words else {})}
            for name, text, words in zip(self.names, self.descriptions, self._all_synonyms(), strict=True)
        )
        write_jsonl(path, iter(rows))

    def place(self, name: str) -> int:
        """Return a label's column; raise `KeyError` if there is no such label."""
        return self._places[name]

    def unknown(self, name: str) -> str:
        """Say that there is no such label, and which one may be meant."""
        close = get_close_matches(name, self.names, n=1) if len(self) <= 10_000 else []
        return f"unknown label '{name}'" + (f" (did you mean '{close[0]}'?)." if close else ".")

    def check_same(self, other: "LabelSet", ours: str, theirs: str) -> None:
        """Raise unless both sets have the same names in the same order."""
        if self.names == other.names:
            return
        missing = next((name for name in self.names if name not in other), None)
        extra = next((name for name in other.names if name not in self), None)
        if missing is not None:
            raise InputError(f"Label '{missing}' of {ours} is not in {theirs}.")
        if extra is not None:
            raise InputError(f"Label '{extra}' of {theirs} is not in {ours}.")
        place = next(i for i, name in enumerate(self.names) if name != other.names[i])
        raise InputError(
            f"{ours} and {theirs} have the same labels in another order: number {place + 1} is "
            f"'{self.names[place]}' in the first and '{other.names[place]}' in the second."
        )

    def check_same_meaning(self, other: "LabelSet", ours: str, theirs: str) -> None:
        """Raise unless both sets have the same names in the same order, with the same descriptions and synonyms."""
        self.check_same(other, ours, theirs)
        if (self.descriptions, self.synonyms) == (other.descriptions, other.synonyms):
            return
        mine, others = self.meanings(), other.meanings()
        name = next(name for name in self.names if mine[name] != others[name])
        place = self.place(name)
        what, pair = "another description", (self.descriptions[place], other.descriptions[place])
        if pair[0] == pair[1]:
            what = "other synonyms"
            pair = ("; ".join(self._all_synonyms()[place]), "; ".join(other._all_synonyms()[place]))
        here, there = _shortened(*pair)
        raise InputError(f"Label '{name}' has {what} in {ours} than in {theirs}: {here} and {there}.")

    def as_dict(self) -> dict[str, str]:
        """Return the description of each name."""
        return dict(zip(self.names, self.descriptions, strict=True))

    def meanings(self) -> dict[str, str]:
        """Return for each name one string that is another if and only if its description or its synonyms are."""
        return {
            name: json.dumps([text, *words], ensure_ascii=False)
            for name, text, words in zip(self.names, self.descriptions, self._all_synonyms(), strict=True)
        }

    def phrases(self) -> tuple[tuple[str, ...], ...]:
        """Return for each label what a language model reads: the sentences of its description, then its synonyms.

        A description of one sentence comes as it is; of several, each without its full stop. There is at least one
        phrase, and none comes twice.
        """
        return tuple(
            tuple(dict.fromkeys((*split_sentences(text), *words))) or (name,)
            for name, text, words in zip(self.names, self.descriptions, self._all_synonyms(), strict=True)
        )

    def chosen(self, places: Iterable[int]) -> "LabelSet":
        """Return some of these labels, in the order of their places."""
        kept = list(places)
        synonyms = self._all_synonyms()
        return LabelSet(
            tuple(self.names[place] for place in kept),
            tuple(self.descriptions[place] for place in kept),
            tuple(synonyms[place] for place in kept),
        )

    def extended(self, other: "LabelSet") -> "LabelSet":
        """Return these labels followed by others."""
        synonyms = self._all_synonyms() + other._all_synonyms()
        return LabelSet(self.names + other.names, self.descriptions + other.descriptions, synonyms)

    def digest(self) -> str:
        """Return a hash of names, descriptions and synonyms in order."""
        parts = [part for pair in zip(self.names, self.descriptions, strict=True) for part in pair]
        if self.synonyms:
            # No name is empty: what follows the empty string can be no further label.
            parts += ["", *(part for words in self.synonyms for part in (str(len(words)), *words))]
        return digest(parts)

    def _all_synonyms(self) -> tuple[tuple[str, ...], ...]:
        """Return the synonyms of every label, also where none has any."""
        return self.synonyms or ((),) * len(self)

    @cached_property
    def _places(self) -> dict[str, int]:
        places: dict[str, int] = {}
        for place, name in enumerate(self.names):
            places.setdefault(name, place)
        return places


def digest(parts: Iterable[str]) -> str:
    """Return the SHA-256 of strings in order; each is preceded by its length, so that no two lists collide."""
    total = hashlib.sha256()
    for part in parts:
        content = part.encode()
        total.update(len(content).to_bytes(8, "little"))
        total.update(content)
    return total.hexdigest()


def is_unicode(text: str) -> bool:
    """Return whether a string can be written down: JSON and file names can smuggle in halves of surrogate pairs."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _plain_json(path: Path) -> Any:
    """Return the labels of a `.json` file that are no table: a list of names, or an object from name to description."""
    if path.suffix != ".json" or not path.is_file():
        return None
    try:
        content = parse_json(path.read_text(encoding="utf-8-sig"))
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            return None  # JSON lines
        raise InputError(f"{path}, line {error.lineno}: not valid JSON ({error.msg}).") from None
    except UnicodeDecodeError:
        return None  # the table says on which line
    if isinstance(content, list):
        return content if content and all(isinstance(name, str) for name in content) else None
    # One JSON line is an object, too.
    return content if isinstance(content, dict) and "label" not in content else None


def _description(row: Row) -> str:
    given = row.fields.get("description")
    return row.string("label").strip() if given is None or given == "" else row.string("description")


def _synonyms(row: Row) -> tuple[str, ...]:
    if row.fields.get("synonyms") is None:
        return ()
    words = [word.strip() for word in row.strings("synonyms")]
    if "" in words:
        row.fail("field 'synonyms' holds an empty string.")
    return tuple(dict.fromkeys(words))


def _meaning(name: str, given: object) -> tuple[str, tuple[str, ...]]:
    """Return description and synonyms of a label out of what somebody gave for it in Python."""
    if not isinstance(given, Mapping):
        given = {"description": given}
    unknown = next((key for key in given if key not in ("description", "synonyms")), None)
    if unknown is not None:
        raise InputError(f"Label '{name}' has the field '{unknown}', but can only have 'description' and 'synonyms'.")
    text, words = given.get("description"), given.get("synonyms")
    description = name if text is None or text == "" else _string(text, f"the description of label '{name}'")
    if words is None:
        return description, ()
    if isinstance(words, str | bytes | Mapping) or not isinstance(words, Iterable):
        raise InputError(
            f"The synonyms of label '{name}' must be a list of strings, but are of type {type(words).__name__}."
        )
    return description, tuple(dict.fromkeys(_string(word, f"a synonym of label '{name}'").strip() for word in words))


def _shortened(first: str, second: str) -> tuple[str, str]:
    """Return two different strings in quotes, cut so that one sees where they differ; an empty one is "none"."""
    place = next(
        (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second))
    )
    start = 0 if place < _SHOWN * 2 // 3 else place - _SHOWN // 3

    def shown(text: str) -> str:
        cut = text[start : start + _SHOWN]
        return f"'{'…' if start else ''}{cut}{'…' if start + _SHOWN < len(text) else ''}'" if text else "none"

    return shown(first), shown(second)


def _string(value: object, what: str) -> str:
    """Return a string as plain `str` (NumPy has its own), which must not be blank."""
    if not isinstance(value, str):
        raise InputError(f"{what[0].upper()}{what[1:]} must be a string, but is of type {type(value).__name__}.")
    if not value.strip():
        raise InputError(f"{what[0].upper()}{what[1:]} is empty.")
    return str(value)
