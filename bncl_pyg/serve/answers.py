"""What somebody answered about the labels of one text: yes, no, or nothing, pair by pair."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bncl_pyg.corpus import LabelSet
from bncl_pyg.errors import InputError

Kind = Literal["answer", "unsure", "skip"]
KINDS = ("answer", "unsure", "skip")
YES, NO, UNKNOWN = 1, 0, -1


@dataclass(frozen=True)
class Answer:
    """An answer about one text.

    Args:
        text: the text's id.
        yes: labels that it has.
        no: labels that it has not.
        is_whole: whether it has none of the labels that are neither in `yes` nor in `no`; if not, nothing is known of
            them.
        kind: `unsure` where somebody looked and could not tell, `skip` where the text is to come later; both say
            nothing of any label.

    Example::

        Answer("7", yes=("gold",), no=("silver",), is_whole=False)
    """

    text: str
    yes: tuple[str, ...] = ()
    no: tuple[str, ...] = ()
    is_whole: bool = True
    kind: Kind = "answer"

    def __post_init__(self) -> None:
        both = sorted(set(self.yes) & set(self.no))
        if both:
            raise InputError(f"Text '{self.text}': the label '{both[0]}' is answered with yes and with no.")
        if self.kind not in KINDS:
            raise InputError(f"Text '{self.text}': an answer is one of {', '.join(KINDS)}, but not '{self.kind}'.")
        if self.kind != "answer" and (self.yes or self.no):
            raise InputError(f"Text '{self.text}': where nobody could tell, no label is answered.")

    @property
    def says_all(self) -> bool:
        """Whether it is known of every label whether the text has it."""
        return self.kind == "answer" and self.is_whole

    @property
    def says_something(self) -> bool:
        """Whether anything is known of any label."""
        return self.kind == "answer" and (self.is_whole or bool(self.yes or self.no))

    def checked(self, labels: LabelSet) -> "Answer":
        """Return it as it is; raise an error that names a label that there is not."""
        for name in (*self.yes, *self.no):
            if name not in labels:
                raise InputError(f"Text '{self.text}': {labels.unknown(name)}")
        return self

    def pairs(self, labels: LabelSet) -> NDArray[np.int8]:
        """Return 1 for yes, 0 for no and -1 where nothing is known; (labels,). Labels that are gone are left out."""
        row = np.full(len(labels), NO if self.says_all else UNKNOWN, dtype=np.int8)
        for names, value in ((self.no, NO), (self.yes, YES)):
            row[[labels.place(name) for name in names if name in labels]] = value
        return row

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        yes, no = list(self.yes), list(self.no)
        return {"text": self.text, "yes": yes, "no": no, "is_whole": self.is_whole, "kind": self.kind}

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Answer":
        """Return what `as_dict` wrote."""
        return cls(
            content["text"], tuple(content["yes"]), tuple(content["no"]), bool(content["is_whole"]), content["kind"]
        )
