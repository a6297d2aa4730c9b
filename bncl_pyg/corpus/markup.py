"""Texts that are HTML: how to tell them, and the text without its tags."""

import re
from collections import Counter
from html import unescape

MARKUP_SHARE = 0.1
"""From this share of its characters on, a text's tags are a good part of it: prose with a link or two has less."""
MARKUP_TAGS = 4
"""So many tags must belong to each other (a tag and its end count two, a line break one), or …"""
SHORT_SHARE, SHORT_TAGS = 0.3, 2
"""… in a short text so many, if they are that share of it: "<p>Hello</p>" is HTML, one stray <br> is not."""

_INLINE = (
    "a abbr acronym b bdo big center cite code del dfn em font i img ins kbd label mark q s samp small span "
    "strike strong sub sup tt u var wbr button input select option textarea iframe script style svg path"
)
_BLOCK = (
    "address article aside blockquote body br caption dd details div dl dt fieldset figcaption figure footer "
    "form h1 h2 h3 h4 h5 h6 head header hr html li link main meta nav ol p pre section summary table tbody "
    "tfoot thead title tr ul"
)
_CELLS = "td th"
_BREAKING = frozenset(_BLOCK.split())
_SEPARATING = frozenset(_CELLS.split())
_VOID = frozenset(("br", "hr", "img", "input", "link", "meta", "wbr"))

# Only names that HTML has: List<String> and "a < b and c > d" are no tags.
_NAMES = "|".join(sorted(f"{_INLINE} {_BLOCK} {_CELLS}".split(), key=len, reverse=True))
_TAG = re.compile(rf"<(?P<end>/?)(?P<name>{_NAMES})(?:\s[^<>]*|/)?>", re.IGNORECASE)
_UNREAD = re.compile(r"<(script|style|template)\b[^<>]*>", re.IGNORECASE)
# A quoted value may hold ">". No part goes past the next "<": however damaged a text is, it is read once.
_ANY_TAG = re.compile(r"""<[/!?a-z](?:[^<>"']|"[^"<]*"|'[^'<]*')*>|<[/!?a-z][^<>]*>""", re.IGNORECASE)
_NAME = re.compile(r"</?([a-z][a-z0-9]*)", re.IGNORECASE)
_DOCUMENT = re.compile(r"\s*(?:<\?xml[^<>]*>\s*)?<(?:!doctype\s+html|html[\s>])", re.IGNORECASE)
_BLANKS = re.compile(r"[^\S\n]+")
_LINES = re.compile(r" ?\n[ \n]*")


def is_mostly_markup(text: str) -> bool:
    """Return whether HTML tags are a good part of a text, so that it should be stripped before anybody reads it."""
    if "<" not in text:
        return False
    if _DOCUMENT.match(text):
        return True
    read = _without_hidden(text)
    opened: Counter[str] = Counter()
    closed: Counter[str] = Counter()
    length = hidden = len(text) - len(read)
    for tag in _TAG.finditer(read):
        (closed if tag["end"] else opened)[tag["name"].lower()] += 1
        length += len(tag[0])
    # A tag that is only spoken of ("use <b> for bold") has no end.
    tags = sum(count if name in _VOID else 2 * min(count, closed[name]) for name, count in opened.items())
    tags += SHORT_TAGS if hidden else 0
    share = length / len(text)
    return (share >= MARKUP_SHARE and tags >= MARKUP_TAGS) or (share >= SHORT_SHARE and tags >= SHORT_TAGS)


def strip_markup(text: str) -> str:
    """Return what a reader of HTML sees: no tags, scripts or styles; entities are decoded.

    What starts a new line on the screen starts a line here; other blanks become one. HTML that is not well formed is
    read as far as it can be.
    """
    parts: list[str] = []
    at, preformatted = 0, False
    read = _without_hidden(text)
    for tag in _ANY_TAG.finditer(read):
        name = _name(tag[0])
        parts += (_lines(read[at : tag.start()], preformatted), _separator(name))
        at = tag.end()
        if name == "pre":
            preformatted = not tag[0].startswith("</")
    parts.append(_lines(read[at:], preformatted))
    # Entities come last: "&lt;p&gt;" is no tag.
    return _LINES.sub("\n", _BLANKS.sub(" ", unescape("".join(parts)))).strip()


def _without_hidden(text: str) -> str:
    """Return HTML without comments and without elements that nobody reads; an unclosed element hides the rest."""
    parts, at = [], 0
    while (start := text.find("<!--", at)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        parts.append(text[at:start])
        at = end + 3
    text, at = "".join([*parts, text[at:]]), 0
    parts = []
    while opening := _UNREAD.search(text, at):
        parts.append(text[at : opening.start()])
        closing = re.compile(rf"</{opening[1]}\s*>", re.IGNORECASE).search(text, opening.end())
        at = closing.end() if closing else len(text)
    return "".join([*parts, text[at:]])


def _name(tag: str) -> str:
    match = _NAME.match(tag)
    return match[1].lower() if match else ""


def _lines(text: str, preformatted: bool) -> str:
    return text if preformatted else text.replace("\n", " ")


def _separator(name: str) -> str:
    return "\n" if name in _BREAKING else " " if name in _SEPARATING else ""
