"""A description's sentences: a language model reads each as a phrase of its own."""

import re

_ENDS = re.compile(r"""(?P<mark>[.!?]+)["'”’»)\]]*(?=\s+["'“‘«(\[]*(?P<next>[^\W_]))""")
_LAST_WORD = re.compile(r"[^\s(\[\"'“‘]*$")
_LETTERS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")
_TITLES = (
    "al approx bros ca capt cf co corp dept dr eds esp gen gov inc incl jr ltd mr mrs ms nr prof sen sgt sr st vs viz"
)
_ABBREVIATIONS = frozenset(_TITLES.split())
"""After these a full stop does not end a sentence, even before a capital."""
_NUMBERED = "art ch chap fig figs no nos op p pp para ref sec vol vols"
_BEFORE_NUMBERS = frozenset(_NUMBERED.split())
"""The same, but only before a number: "No. 5", but "Answers yes or no. Others go elsewhere."."""


def split_sentences(text: str) -> tuple[str, ...]:
    """Return a text's sentences: one as it is, several each without blanks around it and without its full stop.

    A sentence ends with a full stop, an exclamation or a question mark that blanks and a capital or a digit follow. It
    does not end after an abbreviation such as "e.g.", "U.S." or "Dr.", nor after an initial.
    """
    sentences, start = [], 0
    for end in _ENDS.finditer(text):
        if _ends_sentence(text[start : end.start()], end["mark"], end["next"]):
            sentences.append(text[start : end.end()])
            start = end.end()
    sentences.append(text[start:])
    if len(sentences) == 1:
        return (text,) if text.strip() else ()
    plain = (_without_full_stop(sentence.strip()) for sentence in sentences)
    return tuple(sentence for sentence in plain if sentence)


def _ends_sentence(before: str, mark: str, following: str) -> bool:
    if not (following.isupper() or following.isdigit()):
        return False
    return mark != "." or not _is_abbreviated(before, following)


def _is_abbreviated(before: str, following: str = "") -> bool:
    """Return whether a text ends in an abbreviation that its full stop belongs to."""
    last = _LAST_WORD.search(before)
    word = last.group() if last else ""
    if word.lower() in _BEFORE_NUMBERS and following.isdigit():
        return True
    return _LETTERS.fullmatch(word) is not None or word.lower() in _ABBREVIATIONS


def _without_full_stop(sentence: str) -> str:
    before = sentence.removesuffix(".")
    return sentence if before.endswith(".") or _is_abbreviated(before) else before
