"""What is done to texts before they are read: HTML is stripped; what is no English is counted."""

from typing import Literal

from bncl_pyg.corpus.language import looks_english
from bncl_pyg.corpus.markup import is_mostly_markup, strip_markup

Html = Literal["auto", "strip", "keep"]


class TextCleaner:
    """Strips HTML, and counts what it did.

    Args:
        html: `auto` strips texts that are mostly markup, `strip` all that have any, `keep` none.

    Attributes:
        stripped: how many texts were stripped.
        foreign: how many texts do not look like English.
    """

    def __init__(self, html: Html = "auto") -> None:
        self.html: Html = html
        self.stripped = self.foreign = 0

    def __call__(self, text: str) -> str:
        """Return a text as it is to be read, and count it."""
        cleaned = self.clean(text)
        self.stripped += cleaned != text
        self.foreign += not looks_english(cleaned)
        return cleaned

    def clean(self, text: str) -> str:
        """Return a text as it is to be read; one that is nothing but markup stays as it is."""
        if self.html == "keep" or (self.html == "auto" and not is_mostly_markup(text)):
            return text
        return (strip_markup(text) if "<" in text or "&" in text else text) or text
