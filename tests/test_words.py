"""The library speaks to somebody who writes Python, in the field's words."""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
LIBRARY = TOP / "bncl_pyg"

FLAG = re.compile(r"(?<![\w-])--[a-z][\w-]*")
COMMAND = re.compile(
    r"\bbncl (featurize|train|graph|predict|eval|data|demo|classify|explain|report|suggest|serve|labels)\b"
)

DIALECT = {
    "found": "what it is",
    "said": "predicted, decisions",
    "likely": "probabilities",
    "heard": "message_edges",
    "settled": "resolve_priors",
    "settle": "resolve_priors",
    "apart": "independent",
    "together": "joint",
    "turned": "whitened, pca_inputs",
    "widened": "match_prediction_count",
    "softness": "temperature",
    "steepness": "decision temperature",
    "strength": "C, regularization",
    "strengths": "C, regularization",
    "spread": "broadcast_to_pairs, or std",
    "taught": "annotated",
    "whose": "a noun",
}
"""Words that may be no part of a name, and what the glossary in STYLE.md says instead."""
RIDDLES = {"adding_up": "rescale_to_sum", "often_best": "topk_prevalence", "among_few": "what it counts"}
"""The same for names of several words."""
VERBS = {"know": "use_labels", "about": "config"}
"""The same for functions and methods only."""


def sentences_with_flags(source: str, name: str) -> Iterator[str]:
    """Yield where a string, docstrings included, speaks of the command line."""
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            continue
        for match in (*FLAG.finditer(node.value), *COMMAND.finditer(node.value)):
            # A sentence that is put together from several lines counts as its first.
            line = node.lineno + (node.value[: match.start()].count("\n") if _is_one_string(node) else 0)
            yield f"{name}:{line}: '{match.group()}' means nothing to who writes Python; name the argument."


def names_in_dialect(source: str, name: str) -> Iterator[str]:
    """Yield where a name is made that nobody could search for."""
    for line, identifier, is_function in sorted(_names(ast.parse(source))):
        instead = _instead(identifier, is_function=is_function)
        if instead:
            yield f"{name}:{line}: '{identifier}': write {instead}"


def _instead(identifier: str, *, is_function: bool) -> str | None:
    plain = identifier.strip("_").lower()
    for riddle, instead in RIDDLES.items():
        if riddle in plain:
            return instead
    if is_function and plain in VERBS:
        return VERBS[plain]
    return next((DIALECT[part] for part in plain.split("_") if part in DIALECT), None)


def _names(tree: ast.AST) -> Iterator[tuple[int, str, bool]]:
    """Yield (line, name, whether it is a function's) for all that gets a name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name, True
        elif isinstance(node, ast.ClassDef):
            yield node.lineno, node.name, False
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg, False
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id, False
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr, False
        elif isinstance(node, ast.alias) and node.asname:
            yield node.lineno, node.asname, False


def _is_one_string(node: ast.Constant) -> bool:
    return node.end_lineno is not None and node.end_lineno - node.lineno == str(node.value).count("\n")


def _sources() -> Iterator[tuple[str, str]]:
    for path in sorted(LIBRARY.rglob("*.py")):
        yield path.read_text(encoding="utf-8"), str(path.relative_to(TOP))


def _listed(lines: Iterable[str]) -> str:
    """Return the lines after a count by file."""
    lines = list(lines)
    counts = Counter(line.split(":")[0] for line in lines)
    head = [f"{len(lines)} in all", *(f"{count:4d} {name}" for name, count in counts.most_common())]
    return "\n" + "\n".join([*head, "", *lines])


def test_no_sentence_of_the_library_speaks_of_the_command_line() -> None:
    wrong = [line for source, name in _sources() for line in sentences_with_flags(source, name)]
    assert not wrong, _listed(wrong)


def test_names_are_the_fields_words() -> None:
    wrong = [line for source, name in _sources() for line in names_in_dialect(source, name)]
    assert not wrong, _listed(wrong)


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("'''Read.\n\nSay it with --scorer FOLDER.\n'''", "a.py:3: '--scorer'"),
        ("raise ValueError(f'{path}: leave {x} out (--priors).')", "a.py:1: '--priors'"),
        ("log.warning(\n    'These hold no words. '\n    'bncl featurize adds them.'\n)", "a.py:2: 'bncl featurize'"),
        ("x = 'a -- b', 'non--sense', '--', 'BNCL trains', '<!-- a -->'", None),
    ],
)
def test_flags_and_commands_are_seen(source: str, word: str | None) -> None:
    wrong = list(sentences_with_flags(source, "a.py"))
    assert len(wrong) == (word is not None)
    assert all(line.startswith(str(word)) for line in wrong)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("found = 1", "found"),
        ("for row, _said in rows: ...", "_said"),
        ("def f(self, likely): ...", "likely"),
        ("def about(self): ...", "about"),
        ("class A:\n    words_apart: int", "words_apart"),
        ("self.often_best_ = 1", "often_best_"),
        ("rows = [whose for whose in rows]", "whose"),
        ("from a import b as turned", "turned"),
        ("about = {'found': 1}\nfoundation = likelihood = knowledge = f(said)", None),
    ],
)
def test_dialect_is_seen(source: str, name: str | None) -> None:
    wrong = list(names_in_dialect(source, "a.py"))
    assert len(wrong) == (name is not None)
    assert all(f"'{name}'" in line for line in wrong)
