"""The labels: a name that identifies, a description that a language model reads."""

import hashlib
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path

from bncl_pyg.corpus.rows import Row, read_lines, read_rows
from bncl_pyg.errors import InputError
from bncl_pyg.persistence import write_jsonl


@dataclass(frozen=True)
class LabelSet:
    """An ordered set of labels; a label's place is its column in every matrix.

    Args:
        names: unique, not blank.
        descriptions: what the label means, in words; one a name.
    """

    names: tuple[str, ...]
    descriptions: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.names) != len(self.descriptions):
            raise InputError(f"There are {len(self.names)} label names but {len(self.descriptions)} descriptions.")
        if len(self._places) != len(self.names):
            twice = next(name for place, name in enumerate(self.names) if self._places[name] != place)
            raise InputError(f"Label '{twice}' is given twice.")

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    @classmethod
    def of(cls, labels: "LabelSet | Iterable[str] | Mapping[str, str | None]") -> "LabelSet":
        """Make a set of labels from what somebody has in Python.

            LabelSet.of(["acq", "earn"])
            LabelSet.of({"acq": "mergers and acquisitions", "earn": "earnings"})

        Args:
            labels: names in order (a list, a tuple, an array of strings), or the description of each name; without a
                description, the name describes the label. A `LabelSet` is returned as it is.
        """
        if isinstance(labels, LabelSet):
            return labels
        if isinstance(labels, str | bytes | Set) or not isinstance(labels, Iterable):
            what = f"the string '{labels}'" if isinstance(labels, str) else f"a {type(labels).__name__}"
            raise TypeError(f"The labels must be a list of names or a dict {{name: description}}, but are {what}.")
        pairs = list(labels.items()) if isinstance(labels, Mapping) else [(name, None) for name in labels]
        names = tuple(_string(name, f"label number {place}") for place, (name, _) in enumerate(pairs, start=1))
        descriptions = tuple(
            name if text is None or text == "" else _string(text, f"the description of label '{name}'")
            for name, (_, text) in zip(names, pairs, strict=True)
        )
        if not names:
            raise InputError("No label is given.")
        return cls(names, descriptions)

    @classmethod
    def read(cls, path: Path) -> "LabelSet":
        """Read `{"label", "description"}` rows (JSONL, CSV, Parquet), or a `.txt` file with a name a line.

        A label without a description is described by its name.
        """
        if path.suffix == ".txt":
            if not path.is_file():
                raise InputError(f"{path} does not exist.")
            entries = [(number, line.strip(), line.strip()) for number, line in read_lines(path)]
        else:
            entries = [(row.line, row.string("label"), _description(row)) for row in read_rows(path, ".txt, ")]
        if not entries:
            raise InputError(f"{path} holds no label.")
        lines: dict[str, int] = {}
        for line, name, _ in entries:
            if name in lines:
                raise InputError(f"{path}, line {line}: label '{name}' is given twice (first on line {lines[name]}).")
            lines[name] = line
        return cls(tuple(name for _, name, _ in entries), tuple(text for _, _, text in entries))

    def write(self, path: Path) -> None:
        """Write the labels as JSONL."""
        write_jsonl(path, ({"label": name, "description": text} for name, text in self.as_dict().items()))

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

    def as_dict(self) -> dict[str, str]:
        """Return the description of each name."""
        return dict(zip(self.names, self.descriptions, strict=True))

    def extended(self, other: "LabelSet") -> "LabelSet":
        """Return these labels followed by others."""
        return LabelSet(self.names + other.names, self.descriptions + other.descriptions)

    def digest(self) -> str:
        """Return a hash of names and descriptions in order."""
        return digest(part for pair in zip(self.names, self.descriptions, strict=True) for part in pair)

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


def _description(row: Row) -> str:
    given = row.fields.get("description")
    return row.string("label") if given is None or given == "" else row.string("description")


def _string(value: object, what: str) -> str:
    """Return a string as plain `str` (NumPy has its own), which must not be blank."""
    if not isinstance(value, str):
        raise InputError(f"{what[0].upper()}{what[1:]} must be a string, but is of type {type(value).__name__}.")
    if not value.strip():
        raise InputError(f"{what[0].upper()}{what[1:]} is empty.")
    return str(value)
