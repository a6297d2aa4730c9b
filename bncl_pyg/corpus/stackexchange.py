"""A Stack Exchange dump's questions and their tags, prepared as the paper prepared StackEx-Philosophy."""

import logging
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NoReturn
from xml.parsers import expat

from bncl_pyg.corpus.labels import LabelSet
from bncl_pyg.corpus.public import PublicDataSet
from bncl_pyg.errors import InputError

log = logging.getLogger(__name__)

PIECE = 1 << 16
"""How many bytes are parsed at once: all that is held of a file besides the questions that are kept."""

_QUESTION = "1"
_TAG = re.compile(r"[^<>|]+")
_BLANKS = re.compile(r"[ \t\r\n\f]+")
_BLOCKS = re.compile(r"address|article|blockquote|br|d[dlt]|div|h[1-6r]|li|ol|p|pre|t(able|[dhr])|ul")


def read_stackexchange(
    posts: Path,
    has_vector: Callable[[str], bool],
    *,
    questions: int = 5000,
    seen: int = 3,
    test_share: float = 0.2,
    seed: int = 1,
) -> PublicDataSet:
    """Read the first questions of a `Posts.xml`; nothing behind them is read, and the file may be of any size.

    A text is the title, a blank and the body without its HTML. A tag becomes a label if it was seen often enough and
    the label graph will have a place for each of its words; a text that is left without a label is dropped.

    Args:
        posts: the file.
        has_vector: whether a word has a word vector.
        questions: how many questions to read, in the order of the file.
        seen: how many of them a tag must have.
        test_share: the share of the texts that become the test split; above 0 and below 1.
        seed: decides which; the authors' is 1.

    The rows of both splits are in the order of the file, and the labels are ordered by name.
    """
    for name, number in (("questions", questions), ("seen", seen)):
        if number < 1:
            raise InputError(f"'{name}' must be at least 1, but is {number}.")
    if not 0 < test_share < 1:
        raise InputError(f"The test share must be above 0 and below 1, but is {test_share}.")
    asked = _first_questions(posts, questions)
    counts = Counter(tag for row in asked for tag in row["labels"])
    kept = {tag for tag, count in counts.items() if count >= seen and all(map(has_vector, tag.split("-")))}
    if not kept:
        raise InputError(
            f"{posts}: none of the {len(counts)} tags of {len(asked)} questions was seen {seen} times and has a word "
            "vector for each of its words."
        )
    rows = [{**row, "labels": [tag for tag in row["labels"] if tag in kept]} for row in asked]
    rows = [row for row in rows if row["labels"]]
    # Rounded first: (1 - 0.9) × 10 is a bit below 1.
    size = int(round((1 - test_share) * len(rows), 9))
    if not 0 < size < len(rows):
        raise InputError(f"{posts}: {len(rows)} texts leave a split empty at a test share of {test_share}.")
    train = set(random.Random(seed).sample(range(len(rows)), size))
    splits = {
        "train": [row for place, row in enumerate(rows) if place in train],
        "test": [row for place, row in enumerate(rows) if place not in train],
    }
    names = tuple(sorted(kept))
    labels = LabelSet(names, tuple(name.replace("-", " ") for name in names))
    rule = f"first {questions} questions; tags seen {seen} times, with a vector for every word; a seeded split"
    provenance = {
        "source": f"Stack Exchange dump, {posts.name}",
        "terms": "CC BY-SA, attribute Stack Exchange",
        "rule": rule,
        "test_share": test_share,
        "seed": seed,
    }
    return PublicDataSet(splits, labels, provenance)


def _first_questions(path: Path, questions: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    lines: dict[int, int] = {}
    for post in _posts(path):
        if post.value("PostTypeId") != _QUESTION:
            continue
        identifier = post.identifier()
        if identifier in lines:
            post.fail(f"Id {identifier} is given twice (first on line {lines[identifier]}).")
        lines[identifier] = post.line
        text = f"{post.value('Title')} {_without_html(post.value('Body'))}".strip()
        if not text:
            post.fail(f"question {identifier} has neither title nor body.")
        tags = dict.fromkeys(tag.strip() for tag in _TAG.findall(post.attributes.get("Tags", "")))
        rows.append({"id": identifier, "text": text, "labels": [tag for tag in tags if tag]})
        if len(rows) == questions:
            return rows
    if not rows:
        raise InputError(f"{path} holds no question (a row whose PostTypeId is {_QUESTION}).")
    log.warning("%s holds only %d of the %d questions asked for; all are used.", path, len(rows), questions)
    return rows


@dataclass(frozen=True)
class _Post:
    """One `<row …/>` and where it stands."""

    path: Path
    line: int
    attributes: dict[str, str]

    def fail(self, problem: str) -> NoReturn:
        raise InputError(f"{self.path}, line {self.line}: {problem}")

    def value(self, name: str) -> str:
        if name not in self.attributes:
            self.fail(f"the row has no {name}.")
        return self.attributes[name]

    def identifier(self) -> int:
        value = self.value("Id")
        if not value.isdecimal():
            self.fail(f"Id must be a whole number, but is '{value}'.")
        return int(value)


def _posts(path: Path) -> Iterator[_Post]:
    """Yield the posts as they are parsed; no tree is built, so that memory does not grow with the file."""
    if not path.is_file():
        raise InputError(f"{path} {'is a folder, not a file' if path.is_dir() else 'does not exist'}.")
    if path.suffix in {".7z", ".zip", ".gz"}:
        raise InputError(f"{path} is packed; unpack it and give its Posts.xml.")
    parser = expat.ParserCreate()
    parsed: list[_Post] = []
    depth = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        if depth == 0 and name != "posts":
            raise InputError(f"{path}, line {parser.CurrentLineNumber}: must start with <posts>, but has <{name}>.")
        if depth == 1 and name == "row":
            parsed.append(_Post(path, parser.CurrentLineNumber, attributes))
        depth += 1

    def end(_: str) -> None:
        nonlocal depth
        depth -= 1

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    with path.open("rb") as file:
        piece = b"first"
        while piece:
            piece = file.read(PIECE)
            problem: expat.ExpatError | None = None
            try:
                parser.Parse(piece, not piece)
            except expat.ExpatError as error:
                problem = error
            # What stands before the damage is whole, and may be all that is wanted.
            yield from parsed
            parsed.clear()
            if problem is not None:
                what = expat.ErrorString(problem.code)
                raise InputError(f"{path}, line {problem.lineno}: not well-formed XML ({what}).")


class _Stripper(HTMLParser):
    """Collects the text of HTML; what starts a new line on the screen separates words, other tags do not."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        if _BLOCKS.fullmatch(tag):
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if _BLOCKS.fullmatch(tag):
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        self.parts.append(data)


def _without_html(body: str) -> str:
    stripper = _Stripper()
    stripper.feed(body)
    stripper.close()
    return _BLANKS.sub(" ", "".join(stripper.parts)).strip(" ")
