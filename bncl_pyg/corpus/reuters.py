"""Reuters-21578 out of the distribution's SGML files: the paper's first set, its split and its 135 labels."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from bncl_pyg.corpus.labels import LabelSet
from bncl_pyg.corpus.public import PublicDataSet
from bncl_pyg.errors import InputError
from bncl_pyg.persistence import sha256_of

FILES = tuple(f"reut2-{number:03d}.sgm" for number in range(22))
TOPICS_FILE = "all-topics-strings.lc.txt"
DESCRIPTIONS_FILE = "cat-descriptions_120396.txt"

COUNTS = {"train": 7694, "test": 3010}
"""How many texts the unchanged distribution gives; the paper's counts."""

RULE = (
    "LEWISSPLIT TRAIN or TEST, TOPICS YES or NO, at least one topic, "
    'identical title + " " + body merged inside a split (the last copy wins)'
)

_MARK = re.compile(r"<REUTERS\b([^<>]*)>|</REUTERS>")
_ATTRIBUTE = re.compile(r'(\w+)\s*=\s*"([^"]*)"')
_TOPIC = re.compile(r"<D>(.*?)</D>", re.DOTALL)
_TEXT = re.compile(r'<TEXT(?:\s+TYPE="(\w+)")?\s*>')
_REFERENCE = re.compile(r"&(?:#(\d{1,3})|(lt|gt|amp));")
_NOISE = re.compile(r"[^\t\n -~]")
_SUBJECTS = re.compile(r"\*+\s*Subject Codes \((\d+)\)\s*")
_DESCRIBED = re.compile(r"(.*\S)\s*\(([^()\s]+)\)")

_VALUES = {"LEWISSPLIT": ("TRAIN", "TEST", "NOT-USED"), "TOPICS": ("YES", "NO", "BYPASS")}
_NAMED = {"lt": "<", "gt": ">", "amp": "&"}

# Undescribed codes that join words which no vocabulary knows as one.
_WORDS = {
    "castorseed": "castor seed",
    "citruspulp": "citrus pulp",
    "cornglutenfeed": "corn gluten feed",
    "palmkernel": "palm kernel",
    "sunseed": "sun seed",
}


def read_reuters(folder: Path) -> PublicDataSet:
    """Read the distribution's 22 SGML files and its two lists of topics, one file at a time.

    An article counts if LEWISSPLIT is TRAIN or TEST, TOPICS is YES or NO, and it has a topic. Its text is the title, a
    blank and the body; identical texts of a split become one, at the place of the first and with the id and labels of
    the last.

    The labels are in the order of the distribution's descriptions.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} {'is a file, not a folder' if folder.exists() else 'does not exist'}.")
    for name in (*FILES, TOPICS_FILE, DESCRIPTIONS_FILE):
        if not (folder / name).is_file():
            raise InputError(
                f"{folder} lacks {name}: the distribution is {FILES[0]} to {FILES[-1]}, {TOPICS_FILE} and "
                f"{DESCRIPTIONS_FILE}."
            )
    labels = _read_labels(folder)
    texts: dict[str, dict[str, dict[str, Any]]] = {"train": {}, "test": {}}
    places: dict[int, str] = {}
    for name in FILES:
        for article in _articles(folder / name):
            row = _row(article, labels)
            if row is None:
                continue
            if row["id"] in places:
                article.fail(f"NEWID {row['id']} is given twice (first in {places[row['id']]}).")
            places[row["id"]] = f"{name}, line {article.line}"
            texts[article.attributes["LEWISSPLIT"].lower()][row["text"]] = row
    provenance = {
        "source": "Reuters-21578, Distribution 1.0",
        "terms": "research use",
        "rule": RULE,
        "source_sha256": {name: sha256_of(folder / name) for name in FILES},
    }
    splits = {split: list(rows.values()) for split, rows in texts.items()}
    return PublicDataSet(splits, labels, provenance, COUNTS)


@dataclass(frozen=True)
class _Article:
    """One `<REUTERS …>` element and where it starts."""

    path: Path
    line: int
    attributes: dict[str, str]
    content: str

    def fail(self, problem: str) -> NoReturn:
        raise InputError(f"{self.path}, line {self.line}: {problem}")

    def value(self, name: str) -> str:
        """Return an attribute, which must have one of the values that the distribution knows."""
        value = self.attributes.get(name)
        if value not in _VALUES[name]:
            problem = "is missing" if value is None else f"is '{value}'"
            self.fail(f"{name} {problem}, but must be {', '.join(_VALUES[name][:-1])} or {_VALUES[name][-1]}.")
        return value

    def element(self, name: str) -> str | None:
        """Return what an element of the article holds, or `None` if it is not there."""
        _, opening, rest = self.content.partition(f"<{name}>")
        if not opening:
            return None
        return self._closed(rest, name)

    def text(self) -> str:
        """Return title, blank, body; an unprocessed text has no such parts and is taken whole."""
        opening = _TEXT.search(self.content)
        if opening is None:
            self.fail("the article has no <TEXT>.")
        inside = self._closed(self.content[opening.end() :], "TEXT")
        kind = opening[1] or "NORM"
        if kind == "UNPROC":
            return _plain(inside).strip()
        if kind not in {"NORM", "BRIEF"}:
            self.fail(f"the text has the unknown TYPE '{kind}'.")
        title = _plain(self.element("TITLE") or "").replace("\n", " ")
        return f"{title} {_plain(self.element('BODY') or '')}".strip()

    def _closed(self, rest: str, name: str) -> str:
        inside, closing, _ = rest.partition(f"</{name}>")
        if not closing:
            self.fail(f"<{name}> is not closed.")
        return inside


def _articles(path: Path) -> Iterator[_Article]:
    text = _ascii(path)
    opening: re.Match[str] | None = None
    first = line = 1
    counted = 0
    for mark in _MARK.finditer(text):
        line += text.count("\n", counted, mark.start())
        counted = mark.start()
        if mark[1] is None:
            if opening is None:
                raise InputError(f"{path}, line {line}: </REUTERS> closes an article that was not opened.")
            attributes = dict(_ATTRIBUTE.findall(opening[1]))
            yield _Article(path, first, attributes, text[opening.end() : mark.start()])
            opening = None
        elif opening is None:
            opening, first = mark, line
        else:
            break
    if opening is not None:
        raise InputError(f"{path}, line {first}: the article is not closed by </REUTERS>.")
    if not counted:
        raise InputError(f"{path} holds no article: there is no <REUTERS …> in it.")


def _row(article: _Article, labels: LabelSet) -> dict[str, Any] | None:
    split, topics = article.value("LEWISSPLIT"), article.value("TOPICS")
    listed = article.element("TOPICS")
    if listed is None:
        article.fail("the article has no <TOPICS>.")
    names = list(dict.fromkeys(_TOPIC.findall(listed)))
    if split == "NOT-USED" or topics == "BYPASS" or not names:
        return None
    for name in names:
        if name not in labels:
            article.fail(f"<TOPICS>: {labels.unknown(name)}")
    identifier = article.attributes.get("NEWID", "")
    if not identifier.isdecimal():
        article.fail(f"NEWID must be a whole number, but is '{identifier}'.")
    text = article.text()
    if not text:
        article.fail("the article has topics, but neither title nor body.")
    return {"id": int(identifier), "text": text, "labels": names}


def _plain(text: str) -> str:
    """Resolve the references; the wire's control characters (`&#3;` ends every body) say nothing and go."""
    return _NOISE.sub("", _REFERENCE.sub(_character, text))


def _character(reference: re.Match[str]) -> str:
    return _NAMED[reference[2]] if reference[2] else chr(int(reference[1]))


def _ascii(path: Path) -> str:
    # The wire was ASCII; the one byte beyond it, in reut2-017.sgm, stands among control characters and is noise.
    return path.read_bytes().decode("ascii", errors="ignore")


def _read_labels(folder: Path) -> LabelSet:
    """Read the topics' names and descriptions from the two lists, which must agree."""
    described = _descriptions(folder / DESCRIPTIONS_FILE)
    path = folder / TOPICS_FILE
    named: set[str] = set()
    for number, line in enumerate(_ascii(path).split("\n"), start=1):
        name = line.strip()
        if name and name not in described:
            raise InputError(f"{path}, line {number}: topic '{name}' is not in {DESCRIPTIONS_FILE}.")
        named.add(name)
    for name in described:
        if name not in named:
            raise InputError(f"{path}: topic '{name}' of {DESCRIPTIONS_FILE} is missing.")
    return LabelSet(tuple(described), tuple(described.values()))


def _descriptions(path: Path) -> dict[str, str]:
    """Read lines such as `Money/Foreign Exchange (MONEY-FX)` or, without a description, `SOY-OIL`."""
    descriptions: dict[str, str] = {}
    announced = start = 0
    for number, raw in enumerate(_ascii(path).split("\n"), start=1):
        line = raw.strip()
        if not start:
            heading = _SUBJECTS.fullmatch(line)
            if heading is not None:
                announced, start = int(heading[1]), number
            continue
        if line.startswith("___"):
            break
        if not line or line.startswith("*"):
            continue
        entry = _DESCRIBED.fullmatch(line)
        name = (entry[2] if entry else line).lower()
        if name in descriptions:
            raise InputError(f"{path}, line {number}: topic '{name}' is given twice.")
        descriptions[name] = entry[1] if entry else _WORDS.get(name, name.replace("-", " "))
    if not start:
        raise InputError(f"{path} has no list of topics: the line '****Subject Codes (135)' is missing.")
    if len(descriptions) != announced:
        raise InputError(f"{path}, line {start}: {announced} topics are announced, but {len(descriptions)} follow.")
    return descriptions
