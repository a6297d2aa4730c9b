"""Which trials make up the tables: every row and figure of the paper, and the baselines beside it."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bncl_pyg.evaluation.baselines import BASELINES

REVISION = 1
"""Raise it when a change touches what all methods are measured on: outcomes of another revision are refused."""
COSINE_QUANTILE = "λ-quantile of the cosine"
SETFIT = "SetFit"
FREE = (*(name for name, baseline in BASELINES.items() if not baseline.needs_annotations), COSINE_QUANTILE)
"""Baselines that learn from no annotated text."""
SUPERVISED = (*(name for name, baseline in BASELINES.items() if baseline.needs_annotations), SETFIT)
"""Baselines that learn from annotated texts."""
DEFAULT = "default"
PAPERS = ("paper", "reference")
RECIPES = (DEFAULT, *PAPERS)
SCARCE = "L"
"""The level with as many annotated texts as there are labels."""
LEVELS = ("1%", "5%", "10%", "20%", "30%", "40%", "50%", "100%")
DENSITIES = ((5.0, 95.0), (10.0, 90.0), (30.0, 70.0))
HOPS = (1, 2, 3)
GROUPS = (2, 4, 6, 8, 10)

Without = Literal["L2", "L3", "graph", "vectors", "words", "competition"]
PARTS: tuple[tuple[Without, ...], ...] = (
    ("graph",),
    ("words",),
    ("vectors",),
    ("competition",),
    ("competition", "graph"),
    ("vectors", "words"),
    ("vectors", "words", "graph"),
)
"""What the default recipe is tried without."""
Rough = Literal["", "words", "factor 2", "only κ", "auto"]
ROUGH: tuple[Rough, ...] = ("words", "factor 2", "only κ", "auto")
"""What is known instead of exact prevalences: a word a label; each wrong by a factor of 2, up or down by chance;
nothing but the cardinality; nothing."""
ESTIMATED: tuple[Rough, ...] = ("words", "only κ", "auto")
"""With which of these prevalences are estimated; wrong ones are taken as they are."""
ABLATIONS: tuple[tuple[Without, ...], ...] = (("L2",), ("L3",), ("L2", "L3"))


@dataclass(frozen=True)
class Trial:
    """One method in one situation; with a seed, one training.

    Args:
        method: a recipe or a baseline.
        setting: which signals it sees.
        level: how many texts are annotated: `0`, `L` (as many as labels) or a percentage of the training texts.
        vectors: what the label graph is made from, `GloVe` or `embedded`; empty for baselines.
        percentiles: of the label graph.
        hops: K.
        groups: into how many frequency groups the prevalences are blurred; 0 leaves them exact.
        without: parts of the loss, or of the default recipe, that are left out.
        rough: what is known instead of exact prevalences.
        literal: whether L4 stands as the paper prints it, without the cap at 1.
    """

    method: str
    setting: str = "annotation-free"
    level: str = "0"
    vectors: str = ""
    percentiles: tuple[float, float] = DENSITIES[0]
    hops: int = 2
    groups: int = 0
    without: tuple[Without, ...] = ()
    rough: Rough = ""
    literal: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return what differs from the defaults, as JSON can hold it."""
        usual = {field.name: field.default for field in fields(self)}
        return {key: value for key, value in asdict(self).items() if value != usual[key]}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> "Trial":
        """Make the trial that `as_dict` described."""
        given: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in content.items()
        }
        return cls(**given)

    def annotations(self, texts: int, labels: int) -> int:
        """Return how many texts are annotated."""
        if self.level == "0":
            return 0
        if self.level == SCARCE:
            return min(labels, texts)
        return max(2, round(texts * float(self.level.removesuffix("%")) / 100))

    def is_random(self) -> bool:
        """Return whether another seed could give another result."""
        if self.method == DEFAULT:
            # It draws annotated texts, and holds some of them out; what is wrong by a factor is drawn, too.
            return self.level != "0" or self.rough == "factor 2"
        if self.method in RECIPES:
            return True
        # With all texts annotated there is nothing to draw; logistic regression still holds some out for its choice.
        if self.level == "100%":
            return self.method in ("ML-ARAM", "encoder + logistic regression", SETFIT)
        return self.level != "0"


def revision_of(trial: Trial) -> int:
    """Return the revision of what a trial predicts: raise it when the code changes that, and it is measured again."""
    if trial.method != DEFAULT:
        return 1
    return 3 if trial.setting == "scarce-annotation" or trial.rough in ESTIMATED else 2


def baseline_trial(name: str, level: str = "0") -> Trial:
    """Return the trial of a baseline: it sees the annotated texts of its level and, if it learns from none, κ and λ."""
    return Trial(name, "annotation-free" if level == "0" else "scarce-annotation", level)


TOP_WITHOUT_PRIORS = replace(baseline_trial("top-κ"), rough="auto")
"""κ is estimated as it is for `--priors auto`: the same knowledge, which is none."""


def all_trials(vectors: str) -> Iterator[Trial]:
    """Yield every trial, the tables that matter most first; `vectors` is what the label graph is made from."""
    supervised = [name for name in SUPERVISED if name != SETFIT]
    yield from (baseline_trial(name) for name in FREE)
    yield TOP_WITHOUT_PRIORS
    yield from (baseline_trial(name, SCARCE) for name in supervised)
    for recipe in RECIPES:
        graph = graph_of(recipe, vectors)
        yield Trial(recipe, vectors=graph)
        yield Trial(recipe, "scarce-annotation", SCARCE, graph)
        yield Trial(recipe, "domain-supervisor", SCARCE, graph)
    for level in LEVELS:
        yield from (baseline_trial(name, level) for name in supervised)
        yield from (Trial(one, "domain-supervisor", level, graph_of(one, vectors)) for one in RECIPES)
    ours = Trial(DEFAULT, vectors=graph_of(DEFAULT, vectors))
    yield from (replace(ours, rough=rough) for rough in ROUGH)
    yield from (replace(ours, without=parts) for parts in PARTS)
    for recipe in PAPERS:
        start = Trial(recipe, vectors=vectors)
        yield from (replace(start, without=without) for without in ABLATIONS)
        yield from (replace(start, groups=groups) for groups in GROUPS)
        yield from (replace(start, percentiles=pair) for pair in DENSITIES[1:])
        yield from (replace(start, hops=hops) for hops in HOPS if hops != start.hops)
        if vectors != "embedded":
            yield replace(start, vectors="embedded")
    yield Trial("paper", "scarce-annotation", SCARCE, vectors, literal=True)
    yield baseline_trial(SETFIT, SCARCE)


def graph_of(recipe: str, vectors: str) -> str:
    """Return what a recipe's label graph is made from: ours takes what `bncl graph build` takes."""
    return "embedded" if recipe == DEFAULT else vectors


def grouped(prevalence: NDArray[np.float64], groups: int) -> NDArray[np.float64]:
    """Blur prevalences: each label gets the mean of its frequency group.

    The paper does not say where its groups end. Here they are equally wide in log λ between the rarest label that
    occurs and the most common one; labels that never occur belong to the rarest group.
    """
    member = group_of(prevalence, groups)
    return np.array([prevalence[member == group].mean() for group in member])


def group_of(prevalence: NDArray[np.float64], groups: int) -> NDArray[np.int64]:
    """Return each label's frequency group, 0 for the rarest; (labels,)."""
    seen = prevalence > 0
    logs = np.log(np.where(seen, prevalence, prevalence[seen].min()))
    edges = np.linspace(logs.min(), logs.max(), groups + 1)[1:-1]
    return np.digitize(logs, edges)
