"""What a report shows, as JSON can hold it."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Method:
    """The model or a baseline, and its metrics by name."""

    name: str
    metrics: dict[str, float]


@dataclass(frozen=True)
class Bin:
    """A bin of the reliability plot: mean probability, share that is true, number of pairs."""

    predicted: float
    true: float
    pairs: int


@dataclass(frozen=True)
class Truth:
    """What is known because the true labels are.

    Args:
        methods: the model first, then the baselines.
        annotated: how many annotated texts the baselines that learn were given.
        reliability: of the model's probabilities; bins without any pair are left out.
        start_reliability: of the zero-shot start's.
        calibration_error: expected calibration error of the model and of the start.
        cardinality: how many labels a text has.
        label_counts: how many texts have 0, 1, 2, … labels.
        confused: the label that is true and was not given, the one that was given instead, and how often.
    """

    methods: list[Method]
    annotated: int
    reliability: list[Bin]
    start_reliability: list[Bin]
    calibration_error: dict[str, float]
    cardinality: float
    label_counts: list[int]
    confused: list[tuple[int, int, int]]


@dataclass(frozen=True)
class Example:
    """A text that is given a label.

    Args:
        text: its place among the report's texts.
        probability: of the label.
        is_right: whether the label is true, where that is known.
    """

    text: int
    probability: float
    is_right: bool | None


@dataclass(frozen=True)
class LabelRow:
    """One label's row.

    Args:
        name: the label.
        description: what it means, where that is more than the name.
        given: how many texts are given it.
        expected: the share of texts that should have it, λ.
        support: how many texts have it, where that is known; so with the next three.
        precision: the share of the texts given it that have it.
        recall: the share of the texts that have it that are given it.
        F1: of the two.
        words: typical of the texts that are given it.
        examples: the surest first.
        friends: how many labels are its friends.
        enemies: how many are its enemies.
    """

    name: str
    description: str
    given: int
    expected: float
    support: int | None
    precision: float | None
    recall: float | None
    F1: float | None
    words: list[str]
    examples: list[Example]
    friends: int
    enemies: int


@dataclass(frozen=True)
class ShownText:
    """A text that the report shows.

    Args:
        id: of the text.
        text: as far as it is shown; `None` where only its features are known.
        given: its labels with their probabilities, the most probable first.
        best: the most probable label that it is not given.
        true: its labels, where they are known.
    """

    id: str
    text: str | None
    given: list[tuple[int, float]]
    best: tuple[int, float] | None
    true: list[int] | None


@dataclass(frozen=True)
class DrawnGraph:
    """The signed label graph as it is drawn.

    Args:
        nodes: label, x and y, between 0 and 1.
        edges: two labels, 1 for friends and -1 for enemies, and their cosine.
        friends: how many pairs of friends there are, drawn or not.
        enemies: likewise.
        note: what is not drawn, if anything is not.
    """

    nodes: list[tuple[int, float, float]]
    edges: list[tuple[int, int, int, float]]
    friends: int
    enemies: int
    note: str


@dataclass(frozen=True)
class ReportData:
    """Everything that a report shows; labels are numbers of rows of `labels`, texts of `texts`."""

    title: str
    created: str
    n_texts: int
    n_labels: int
    cardinality: float
    """How many labels a text is given."""
    expected_cardinality: float
    """How many it should be given, κ."""
    without_label: int
    label_counts: list[int]
    """How many texts are given 0, 1, 2, … labels."""
    sureness: list[int]
    """How many given labels have a probability in each tenth."""
    mean_probability: float
    """Of the given labels."""
    labels: list[LabelRow]
    graph: DrawnGraph
    cooccurring: list[tuple[int, int, int]]
    unsure: list[int]
    texts: list[ShownText]
    settings: dict[str, str]
    truth: Truth | None = None
    notes: list[str] = field(default_factory=list)
    """What is left out, a sentence each."""

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        return asdict(self)
