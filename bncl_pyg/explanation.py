"""Why a label was given or not: named contributions that add up to the logit of the decision, whatever the recipe."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from math import factorial, fsum
from typing import TYPE_CHECKING, Any, TypeVar

from bncl_pyg.features import Features, word_spans
from bncl_pyg.graph import LazyGraph

if TYPE_CHECKING:
    from bncl_pyg.graph import SignedLabelGraph

Part = TypeVar("Part", bound=Hashable)

SHOWN = 8
"""How many details of a contribution are shown where not all are."""


@dataclass(frozen=True)
class Detail:
    """One piece of a contribution: a word, a neighbour in the label graph, a scorer.

    Args:
        name: what it is called, as a reader knows it.
        value: what it adds to the logit.
        note: how it came about.
        spans: where a word stands in the text, (start, end) each.
    """

    name: str
    value: float
    note: str = ""
    spans: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Contribution:
    """One part of a logit.

    Args:
        name: what it is called.
        value: what it adds to the logit.
        meaning: what it is, in a sentence.
        details: what it consists of, if that is known: they add up to the value.
    """

    name: str
    value: float
    meaning: str
    details: tuple[Detail, ...] = ()

    def strongest(self, count: int = SHOWN) -> tuple[list[Detail], list[Detail]]:
        """Return the details with the largest values of either sign, in falling order, and the rest."""
        ranked = sorted(self.details, key=lambda detail: -abs(detail.value))
        return sorted(ranked[:count], key=lambda detail: -detail.value), ranked[count:]


@dataclass(frozen=True)
class Account:
    """What a model answers when it is asked why: the parts of a logit, and what the logit is compared with."""

    contributions: tuple[Contribution, ...]
    threshold: float = 0.0


@dataclass(frozen=True)
class LabelExplanation:
    """Why one label was given to a text, or was not.

    Args:
        label: its name.
        description: what it means.
        is_predicted: whether it is given.
        probability: how probable it is; calibrated on its own, so that it may be below a half where a label is given.
        contributions: what adds up to the logit.
        threshold: above which the logit must be.
        note: what else decided, if anything did.
    """

    label: str
    description: str
    is_predicted: bool
    probability: float
    contributions: tuple[Contribution, ...]
    threshold: float = 0.0
    note: str = ""

    @property
    def logit(self) -> float:
        """The sum of all contributions."""
        return fsum(part.value for part in self.contributions)

    @property
    def margin(self) -> float:
        """How far the logit is above the threshold: the model's decision function."""
        return self.logit - self.threshold

    def __getitem__(self, name: str) -> Contribution:
        for part in self.contributions:
            if part.name == name:
                return part
        raise KeyError(name)

    def verdict(self) -> str:
        """Return the decision in a sentence."""
        side = "above" if self.margin > 0 else "below"
        decision = "given" if self.is_predicted else "not given"
        note = f" ({self.note})" if self.note else ""
        return (
            f"{decision}{note}: logit {self.logit:+.2f}, {abs(self.margin):.2f} {side} the threshold "
            f"{self.threshold:+.2f}; probability {self.probability:.0%}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        return {**asdict(self), "logit": self.logit, "margin": self.margin}

    def __str__(self) -> str:
        return "\n".join([f"{self.label}: {self.verdict()}", *self._lines()])

    def _lines(self) -> Iterator[str]:
        for part in self.contributions:
            yield f"  {part.value:+8.3f}  {part.name}"
            shown, rest = part.strongest()
            yield from (f"      {detail.value:+8.3f}  {_named(detail)}" for detail in shown)
            if rest:
                yield f"      {fsum(detail.value for detail in rest):+8.3f}  {len(rest)} more"


@dataclass(frozen=True)
class Explanation:
    """Why a text has the labels that it has.

    Args:
        id: of the text.
        text: as it was read; `None` where only its features are known.
        labels: the explained labels: the given ones, the most probable first, then the best that is not given.

    Example::

        explanation = classifier.explain("OPEC raises its output.", label="crude")
        explanation["crude"]["words"].strongest()
        print(explanation)
    """

    id: str
    text: str | None
    labels: tuple[LabelExplanation, ...]

    def __getitem__(self, label: str) -> LabelExplanation:
        for one in self.labels:
            if one.label == label:
                return one
        raise KeyError(label)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        return {"id": self.id, "text": self.text, "labels": [one.as_dict() for one in self.labels]}

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.labels))


class TextWords:
    """The words of a text by the bucket that they were counted in.

    Args:
        text: as it was read.
        buckets: how many there are.
    """

    def __init__(self, text: str, buckets: int) -> None:
        self.text = text
        self._spans: dict[int, list[tuple[int, int]]] = {}
        for bucket, start, end in word_spans(text, buckets):
            self._spans.setdefault(bucket, []).append((start, end))

    def detail(self, bucket: int, value: float) -> Detail | None:
        """Return what a bucket adds, by its words as they stand in the text; `None` if the text has no such word.

        Words that share a bucket cannot be told apart: both are named.
        """
        spans = self._spans.get(bucket)
        if spans is None:
            return None
        forms: dict[str, str] = {}
        for start, end in spans:
            forms.setdefault(self.text[start:end].lower(), self.text[start:end])
        times = f"{len(spans)} times" if len(spans) > 1 else ""
        shared = "these words are counted as one" if len(forms) > 1 else ""
        return Detail(" / ".join(forms.values()), value, ", ".join(filter(None, (times, shared))), tuple(spans))


@dataclass(frozen=True)
class ExplainedText:
    """What a model is given to explain a decision.

    Args:
        features: of one text; with `parts`, if each part of an ensemble shall have its say.
        graph: the signed label graph.
        words: the text's words, where the text is known.
    """

    features: Features
    graph: "SignedLabelGraph | LazyGraph"
    words: TextWords | None = None

    def place(self, label: int) -> int | None:
        """Return the column of a label; `None` where it is not among the text's candidates."""
        candidates = self.features.candidates
        if candidates is None:
            return label
        places = (candidates[0] == label).nonzero()
        return int(places[0, 0]) if len(places) else None

    def named_words(self, values: Mapping[int, float]) -> tuple[Detail, ...]:
        """Return what the buckets of words add, by word; nothing where the text is not known.

        Args:
            values: by bucket.
        """
        if self.words is None:
            return ()
        details = [(self.words.detail(bucket, value), value) for bucket, value in values.items()]
        named = [detail for detail, _ in details if detail is not None]
        rest = [value for detail, value in details if detail is None]
        if rest:
            named.append(Detail("other words", fsum(rest), "the text was scored in another form than this one"))
        return tuple(sorted(named, key=lambda detail: -detail.value))


def shapley_values(parts: Sequence[Part], value: Callable[[tuple[Part, ...]], float]) -> dict[Part, float]:
    """Return how much each part adds to the value of all of them, averaged over all orders in which they could come.

    They add up to the value of all minus that of none (Shapley, 1953).

    Args:
        parts: few.
        value: of some of the parts, in their order.
    """
    values = {some: value(some) for count in range(len(parts) + 1) for some in combinations(parts, count)}
    total = factorial(len(parts))
    shares = {}
    for part in parts:
        gains = []
        for some in values:
            if part in some:
                others = len(some) - 1
                weight = factorial(others) * factorial(len(parts) - others - 1) / total
                gains.append(weight * (values[some] - values[tuple(one for one in some if one != part)]))
        shares[part] = fsum(gains)
    return shares


def _named(detail: Detail) -> str:
    return f"{detail.name}: {detail.note}" if detail.note else detail.name
