"""What a terminal is told: never anything that it would obey."""

import re

import typer

_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, marks that turn the order of what is shown around, and what cannot be encoded."""


def plain(text: str) -> str:
    """Return a text that a terminal shows and never obeys: control characters, which others' files may hold, are named.

    Lines end and tabs stand as they are; of a file name that is no text, the bytes are shown.
    """
    return _OBEYED.sub(lambda match: match[0].encode("unicode_escape", "backslashreplace").decode("ascii"), text)


def plain_letters(text: str) -> str:
    """Return the same with one letter for each that would be obeyed, so that every letter keeps its place."""
    return _OBEYED.sub("\ufffd", text)


def echo(sentence: str, *, err: bool = False) -> None:
    """Print a sentence, to standard error if wanted."""
    typer.echo(plain(sentence), err=err)
