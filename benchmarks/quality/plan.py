"""Which trials make up the tables: every row and figure of the paper, and the baselines beside it."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.stores import LIGHT, STRONG
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
PAPER, LITERAL = "paper", "paper-literal"
PAPERS = (PAPER, LITERAL, "reference")
RECIPES = (DEFAULT, *PAPERS)
SCARCE = "L"
"""The level with as many annotated texts as there are labels."""
LEVELS = ("1%", "5%", "10%", "20%", "30%", "40%", "50%", "100%")
DENSITIES = ((5.0, 95.0), (10.0, 90.0), (30.0, 70.0))
HOPS = (1, 2, 3)
AS_SCORED = "as scored"
OTHER_DECAY = 0.9
"""The other reading of "10% decay rate"; the recipes' own is 0.1, as the authors' code has it."""
LOOKED_AT = ("0", "L", "20%", "100%")
"""At which levels the recipe `paper` is tried without its start, and with the other decay."""
MAIN_LEVELS = ("0", SCARCE, "5%", "20%", "50%", "100%")
"""The levels of the summary page."""
IN_SECONDS = ("reuters21578",)
FEW_SEEDS = 3
"""With how many seeds at most the paper's recipes run where one of their trainings takes longer than seconds."""
OWN_DENSITY = {LITERAL: DENSITIES[0], "reference": DENSITIES[1]}
"""The percentiles of those recipes of the paper that choose none."""
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
ABLATIONS: tuple[tuple[Without, ...], ...] = (("L2",), ("L3",), ("L2", "L3"))


@dataclass(frozen=True)
class Trial:
    """One method in one situation; with a seed, one training.

    Args:
        method: a recipe or a baseline.
        setting: which signals it sees.
        level: how many texts are annotated: `0`, `L` (as many as labels) or a percentage of the training texts.
        vectors: what the label graph is made from, `GloVe` or `embedded`; empty for baselines.
        percentiles: of the label graph; empty for the recipe's own: `paper` chooses among three, `reference` has 10/90,
            the others 5/95.
        hops: K.
        groups: into how many frequency groups the prevalences are blurred; 0 leaves them exact.
        without: parts of the loss, or of the default recipe, that are left out.
        rough: what is known instead of exact prevalences.
        literal: whether L4 stands as the paper prints it, without the cap at 1.
        start: `as scored` to leave the recalibrated start out.
        decay: of the learning rate, if not the recipe's own.
        scorer: whose features are looked at, `light` or `strong`.
    """

    method: str
    setting: str = "annotation-free"
    level: str = "0"
    vectors: str = ""
    percentiles: tuple[float, ...] = ()
    hops: int = 2
    groups: int = 0
    without: tuple[Without, ...] = ()
    rough: Rough = ""
    literal: bool = False
    start: str = ""
    decay: float = 0.0
    scorer: str = LIGHT

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
    if trial.method in PAPERS:
        return 3  # 2 was on features that had been read before; 8-bit scores depend on the batch a text is read in
    return 4 if trial.method == DEFAULT else 1


def is_main(trial: Trial, vectors: str) -> bool:
    """Return whether a trial is of the main rows: a method with its own choices at a level of the summary page.

    Args:
        trial: of `all_trials`.
        vectors: what the label graph is made from.
    """
    plain = Trial(trial.method, trial.setting, trial.level, trial.vectors)
    if trial.method not in PAPERS:
        plain = replace(plain, scorer=trial.scorer)
    return trial == plain and trial.level in MAIN_LEVELS and trial.vectors in ("", graph_of(trial.method, vectors))


def seeds_of(trial: Trial, dataset: str, seeds: int) -> int:
    """Return with how many seeds a trial runs, where so many are wanted."""
    if not trial.is_random():
        return 1
    return min(seeds, FEW_SEEDS) if trial.method in PAPERS and dataset not in IN_SECONDS else seeds


def baseline_trial(name: str, level: str = "0") -> Trial:
    """Return the trial of a baseline: it sees the annotated texts of its level and, if it learns from none, κ and λ."""
    return Trial(name, "annotation-free" if level == "0" else "scarce-annotation", level)


TOP_WITHOUT_PRIORS = replace(baseline_trial("top-κ"), rough="auto")
"""κ is estimated as it is for `--priors auto`: the same knowledge, which is none."""


def own_scorer(method: str, *, strong: bool) -> str:
    """Return with which scorer a method is measured: `light` for the paper's recipes, else the default one, `strong`.

    Args:
        method: a recipe or a baseline.
        strong: whether there are features of that scorer.
    """
    return STRONG if strong and method not in PAPERS else LIGHT


def all_trials(vectors: str, *, strong: bool = False) -> Iterator[Trial]:
    """Yield every trial, the tables that matter most first.

    Args:
        vectors: what the label graph is made from.
        strong: whether there are features of the scorer `strong`, too.
    """
    for trial in _trials(vectors, strong):
        yield trial if trial.method in PAPERS else replace(trial, scorer=own_scorer(trial.method, strong=strong))


def _trials(vectors: str, strong: bool) -> Iterator[Trial]:
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
    for level in LOOKED_AT:
        usual = at_level(PAPER, level, vectors)
        yield replace(usual, start=AS_SCORED)
        yield replace(usual, decay=OTHER_DECAY)
    if strong:
        for level in ("0", SCARCE, *LEVELS):
            yield replace(at_level(PAPER, level, vectors), scorer=STRONG)
        yield Trial(PAPER, "scarce-annotation", SCARCE, vectors, scorer=STRONG)
    ours = Trial(DEFAULT, vectors=graph_of(DEFAULT, vectors))
    yield from (replace(ours, rough=rough) for rough in ROUGH)
    yield from (replace(ours, without=parts) for parts in PARTS)
    for recipe in PAPERS:
        start = Trial(recipe, vectors=vectors)
        yield from (replace(start, percentiles=pair) for pair in DENSITIES if pair != OWN_DENSITY.get(recipe))
        yield from (replace(start, without=without) for without in ABLATIONS)
        yield from (replace(start, groups=groups) for groups in GROUPS)
        yield from (replace(start, hops=hops) for hops in HOPS if hops != start.hops)
        if vectors != "embedded":
            yield replace(start, vectors="embedded")
    yield from (replace(at_level(PAPER, "100%", vectors), percentiles=pair) for pair in DENSITIES)
    yield Trial(LITERAL, "scarce-annotation", SCARCE, vectors, literal=True)
    yield baseline_trial(SETFIT, SCARCE)


def at_level(recipe: str, level: str, vectors: str) -> Trial:
    """Return the trial of a recipe with its own choices; above level 0 it is given κ and λ too."""
    setting = "annotation-free" if level == "0" else "domain-supervisor"
    return Trial(recipe, setting, level, graph_of(recipe, vectors))


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
