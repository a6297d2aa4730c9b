"""From the JSON files of outcomes to Markdown pages, and from nothing else."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.quality.plan import (
    ABLATIONS,
    DEFAULT,
    DENSITIES,
    FREE,
    GROUPS,
    HOPS,
    LEVELS,
    PAPERS,
    PARTS,
    RECIPES,
    ROUGH,
    SCARCE,
    SUPERVISED,
    TOP_WITHOUT_PRIORS,
    Trial,
    baseline_trial,
    graph_of,
)
from benchmarks.quality.printed import STAND_IN, printed
from benchmarks.results import markdown_table
from bncl_pyg.evaluation import Metrics, Reliability

HEADLINE = ("ebF1", "miF1", "maF1")
LITERAL = (
    "`literal L4` is without the cap that counts a state above 1 as 1: that loss has no lower bound. The cap was "
    "settled on after test figures with and without it had been seen, on Reuters and on the demonstration set."
)


ROUGH_NAMES = {
    "words": "a word a label (4 groups)",
    "factor 2": "each prevalence off by a factor of 2, up or down",
    "only κ": "only the cardinality",
    "auto": "nothing (`--priors auto`)",
}


def shown(method: str) -> str:
    """Return what a method is called in tables."""
    if method in PAPERS:
        return f"BNCL, {method}"
    return "**default recipe**" if method == DEFAULT else method


@dataclass(frozen=True)
class Summary:
    """Mean and standard deviation of each metric over the seeds of a trial."""

    seeds: int
    means: Metrics
    deviations: Metrics
    best_on_test: Metrics | None
    seconds: float
    peak_megabytes: int
    calibration: dict[str, list[list[float]]] | None
    """Of the first seed: for the model and for the zero-shot start, each bin's pairs, mean probability, true share."""
    calibration_errors: tuple[float, ...]
    """The model's, of all seeds."""

    @classmethod
    def of(cls, runs: Sequence[dict[str, Any]]) -> "Summary":
        """Summarise the outcomes of one trial."""
        columns = list(zip(*(run["metrics"] for run in runs), strict=True))
        best = [run["best_on_test"] for run in runs if "best_on_test" in run]
        return cls(
            seeds=len(runs),
            means=Metrics(*map(statistics.mean, columns)),
            deviations=Metrics(*(statistics.stdev(column) if len(runs) > 1 else 0.0 for column in columns)),
            best_on_test=Metrics(*map(statistics.mean, zip(*best, strict=True))) if best else None,
            seconds=statistics.median(run["seconds"] for run in runs),
            peak_megabytes=max(run["peak_megabytes"] for run in runs),
            calibration=next((run["calibration"] for run in runs if "calibration" in run), None),
            calibration_errors=tuple(
                calibration_error(run["calibration"]["model"]) for run in runs if "calibration" in run
            ),
        )


class Outcomes:
    """All outcomes of one data set, by trial."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.about, self.sessions, self.epochs = content["about"], content["sessions"], content["epochs"]
        runs: dict[Trial, list[dict[str, Any]]] = {}
        for run in content["runs"]:
            runs.setdefault(Trial.from_dict(run["trial"]), []).append(run)
        self.trials = {trial: Summary.of(seeds) for trial, seeds in runs.items()}
        self.vectors = "GloVe" if self.about["word_vectors"] else "embedded"

    @property
    def name(self) -> str:
        """The data set's name."""
        return str(self.about["name"])

    def recipe(self, recipe: str, level: str = "0") -> Trial:
        """Return the trial of a recipe with the paper's choices; above level 0 it is given κ and λ too."""
        setting = "annotation-free" if level == "0" else "domain-supervisor"
        return Trial(recipe, setting, level, graph_of(recipe, self.vectors))

    def baselines(self, level: str) -> list[Trial]:
        """Return the trials of baselines that were measured at a level."""
        trials = (baseline_trial(name, level) for name in (FREE if level == "0" else SUPERVISED))
        return [trial for trial in trials if trial in self.trials]


def as_markdown(outcomes: Outcomes) -> str:
    """Return the page of a data set."""
    parts = [
        f"# {outcomes.name}: the default recipe, the paper's tables, and the baselines beside them",
        _introduction(outcomes),
        "## No annotated text",
        _five(outcomes, [(trial, trial.method) for trial in outcomes.baselines("0")] + _recipes_free(outcomes)),
        f"## As many annotated texts as labels ({outcomes.about['labels']})",
        _five(outcomes, _scarce(outcomes)),
        LITERAL if any(trial.literal for trial in outcomes.trials) else "",
        "## More and more annotated texts",
        f"![ebF1, miF1 and maF1 against the annotation level](quality-{outcomes.name}-levels.png)",
        *(_levels(outcomes, metric) for metric in (*HEADLINE, "HA")),
        "All five metrics, where the paper prints them:",
        _five(outcomes, _printed_levels(outcomes)),
        *_ours(outcomes),
        "## The paper's recipes: what each part of the loss is worth",
        _variations(outcomes, [({}, "whole"), *(({"without": w}, f"without {' and '.join(w)}") for w in ABLATIONS)]),
        "## The paper's recipes: prevalences known only by group",
        _variations(outcomes, [*(({"groups": k}, f"{k} groups") for k in GROUPS), ({}, "exact")]),
        "## The paper's recipes: density of the label graph",
        "The paper does not say which of the three it took.",
        _variations(
            outcomes,
            [({"percentiles": pair}, f"{pair[0]:g}% / {pair[1]:g}%") for pair in DENSITIES],
            beside_printed=False,
        ),
        "## The paper's recipes: hops",
        _variations(outcomes, [({"hops": hops}, f"K = {hops}") for hops in HOPS]),
        "## Apart: choosing the epoch on the test set",
        "The authors' code reports, for each metric, the best epoch **on the test set**. These figures are not "
        "results; they show what that choice alone is worth with the recipe `reference`. Nothing else here makes it.",
        _test_chosen(outcomes),
        "## Cost",
        "From features and vectors to decisions on the test texts, one core; for `reference` with a look at them after "
        "every epoch. Peak memory of the process, with the whole data set in it.",
        _cost(outcomes),
        _footer(outcomes),
    ]
    return "\n\n".join(part.rstrip("\n") for part in parts if part) + "\n"


def calibrated(outcomes: Outcomes) -> list[tuple[str, dict[str, list[list[float]]], tuple[float, ...]]]:
    """Return the levels at which probabilities were compared with the truth, bins of the first seed, errors of all."""
    levels = ("0", SCARCE, "100%")
    summaries = ((level, outcomes.trials.get(outcomes.recipe(DEFAULT, level))) for level in levels)
    return [
        (level, one.calibration, one.calibration_errors)
        for level, one in summaries
        if one is not None and one.calibration is not None
    ]


def calibration_error(bins: Sequence[Sequence[float]]) -> float:
    """Return the expected calibration error from bins of pairs, mean probability and true share."""
    return Reliability(*np.array(bins).T).error()


def _ours(outcomes: Outcomes) -> list[str]:
    """Return the parts of the page that are about the default recipe alone."""
    usual = outcomes.recipe(DEFAULT)
    parts = [(usual, "whole"), *((replace(usual, without=one), f"without {' and '.join(one)}") for one in PARTS)]
    rough_trials = [
        (usual, "exact prevalences"),
        *((replace(usual, rough=rough), ROUGH_NAMES[rough]) for rough in ROUGH),
        *((trial, trial.method) for trial in outcomes.baselines("0") if trial.method in ("zero-shot", "top-κ")),
        (TOP_WITHOUT_PRIORS, "top-κ, which knows nothing either: κ estimated as by `auto`"),
    ]
    if usual not in outcomes.trials:
        return []
    page = [
        "## The default recipe: what each part is worth",
        "Without annotated texts. Without vectors and words, only scores, projection and graph are left.",
        _five(outcomes, parts, beside_printed=False),
        "## The default recipe: rough knowledge instead of exact prevalences",
        _five(outcomes, rough_trials, beside_printed=False),
    ]
    curves = calibrated(outcomes)
    if curves:
        lines = [
            [
                _level_name(outcomes, level),
                f"{statistics.mean(errors):.5f}" + (f" ± {statistics.stdev(errors):.5f}" if len(errors) > 1 else ""),
                f"{calibration_error(bins['zero-shot']):.5f}",
                str(len(errors)),
            ]
            for level, bins, errors in curves
        ]
        page += [
            "## The default recipe: calibration",
            f"![Mean probability against the share that is true](quality-{outcomes.name}-reliability.png)",
            "Expected calibration error over all (text, label) pairs, 15 bins; the plot is of the first seed.",
            markdown_table(["annotated texts", "default recipe", "zero-shot start", "seeds"], lines),
        ]
    return page


def summary_page(sets: Sequence[Outcomes]) -> str:
    """Return the page over all data sets."""
    short = "**A quick look with few epochs, not a result.** " if any(one.epochs for one in sets) else ""
    pages = ", ".join(f"[{one.name}](quality-{one.name}.md)" for one in sets)
    return (
        "# The default recipe and the paper's method beside the best baseline\n\n"
        f"{short}Each data set has a page of its own: {pages}. A recipe stands against the best of the baselines that "
        f"saw the same texts, metric by metric; within one standard deviation counts as level. The best baseline is "
        f"picked by its test figure, which flatters the baselines, not the method. A single seed has no deviation: "
        f"there every difference counts.\n\n" + _against_baselines(sets, DEFAULT) + _against_baselines(sets, "paper")
    )


def _against_baselines(sets: Sequence[Outcomes], recipe: str) -> str:
    rows, lost = [], []
    for outcomes in sets:
        for level in ("0", SCARCE, "5%", "20%", "50%", "100%"):
            ours = outcomes.trials.get(outcomes.recipe(recipe, level))
            # With annotated texts, the method is given κ and λ too, and so are the baselines that need nothing else.
            known = dict.fromkeys([*outcomes.baselines(level), *outcomes.baselines("0")])
            peers = [(trial, outcomes.trials[trial]) for trial in known]
            if ours is None or not peers:
                continue
            cells, behind = [], []
            for metric in HEADLINE:
                trial, best = max(peers, key=lambda peer: getattr(peer[1].means, metric))
                mine, theirs = getattr(ours.means, metric), getattr(best.means, metric)
                margin = max(getattr(ours.deviations, metric), getattr(best.deviations, metric))
                sign = "behind" if mine < theirs - margin else "ahead" if mine > theirs + margin else "level"
                cells.append(f"{mine:.3f} against {theirs:.3f} ({trial.method}): {sign}")
                behind += [metric] if sign == "behind" else []
            rows.append([outcomes.name, _level_name(outcomes, level), *cells])
            lost.append(len(behind))
    if not rows:
        return f"## Recipe `{recipe}`\n\nNot measured yet.\n"
    total = len(HEADLINE) * len(rows)
    table = markdown_table(["data set", "annotated texts", *HEADLINE], rows)
    return f"## Recipe `{recipe}`\n\nIt is behind in {sum(lost)} of {total} comparisons.\n\n{table}\n"


def _introduction(outcomes: Outcomes) -> str:
    about = outcomes.about
    counts = sorted({summary.seeds for trial, summary in outcomes.trials.items() if trial.is_random()})
    seeds = " to ".join(str(count) for count in dict.fromkeys((*counts[:1], *counts[-1:]))) or "none"
    seeds += " (the column says how many)" if len(counts) > 1 else ""
    vectors = "GloVe's word vectors" if outcomes.vectors == "GloVe" else "the embedded encoder"
    stand_in = (
        "**Stands in for StackEx-Philosophy**, whose texts could not be had: Stack Exchange Cooking, prepared by the "
        "paper's recipe. The paper's figures below are for the other set and only show the order of magnitude. Texts: "
        "Stack Exchange, CC BY-SA. "
        if outcomes.name == STAND_IN
        else ""
    )
    short = f"**Only {outcomes.epochs} epochs: a quick look, not a result.** " if outcomes.epochs else ""
    return (
        f"{short}{stand_in}{about['train']} training texts, {about['test']} test texts, {about['labels']} labels, "
        f"{about['cardinality']:.3g} labels a text. Scores from the embedded scorer, not from BART-large as in the "
        f"paper; label graph from {vectors}, 5% / 95%, 2 hops where nothing else is said. κ and λ from the training "
        f"split, except in scarce-annotation, which estimates them from the annotated texts. Last epoch; nothing is "
        f"chosen on test labels. Mean ± standard deviation over seeds: {seeds}; a method without chance runs once. "
        f"`default` is ours (docs/default-recipe.md), with the label graph that `bncl graph build` makes; "
        f"`paper` follows the paper, `reference` its authors' code; in italics what the paper prints. At the same "
        f"level and seed all methods see the same annotated texts, except `reference`, which draws with replacement "
        f"and at 100% sees about two thirds."
    )


def _recipes_free(outcomes: Outcomes) -> list[tuple[Trial, str]]:
    rows = [(outcomes.recipe(recipe), shown(recipe)) for recipe in RECIPES]
    if outcomes.vectors != "embedded":
        rows += [
            (replace(outcomes.recipe(recipe), vectors="embedded"), f"BNCL, {recipe}, graph from the encoder")
            for recipe in PAPERS
        ]
    return rows


def _scarce(outcomes: Outcomes) -> list[tuple[Trial, str]]:
    rows = [(trial, trial.method) for trial in outcomes.baselines(SCARCE)]
    for recipe in RECIPES:
        rows += [
            (replace(outcomes.recipe(recipe, SCARCE), setting=setting), f"{shown(recipe)}, {setting}")
            for setting in ("scarce-annotation", "domain-supervisor")
        ]
    literal = Trial("paper", "scarce-annotation", SCARCE, outcomes.vectors, literal=True)
    return [*rows, (literal, "BNCL, paper, scarce-annotation, literal L4")]


def _printed_levels(outcomes: Outcomes) -> list[tuple[Trial, str]]:
    rows = [(trial, f"{trial.method}, 100%") for trial in outcomes.baselines("100%")]
    for recipe in RECIPES:
        rows += [
            (outcomes.recipe(recipe, level), f"{shown(recipe)}, {level}") for level in ("100%", "50%", "20%", "5%")
        ]
    return rows


def _five(outcomes: Outcomes, rows: Sequence[tuple[Trial, str]], *, beside_printed: bool = True) -> str:
    """Return a table of all five metrics; each printed figure stands below its row, if wanted."""
    lines = []
    for trial, name in rows:
        if trial not in outcomes.trials:
            continue
        summary = outcomes.trials[trial]
        lines.append([name, *_cells(summary, Metrics._fields), str(summary.seeds)])
        there = printed(outcomes.name, trial, outcomes.vectors)
        if there is not None and beside_printed:
            source, figures = there
            lines.append([f"*{name.replace('BNCL, paper', 'BNCL')}: {source}*", *(f"*{f:.4f}*" for f in figures), ""])
    return markdown_table(["", *Metrics._fields, "seeds"], lines)


def _variations(
    outcomes: Outcomes, changes: Sequence[tuple[dict[str, Any], str]], *, beside_printed: bool = True
) -> str:
    """Return a table of annotation-free trials that differ from the usual one in one choice."""
    rows = []
    for recipe in PAPERS:
        usual = outcomes.recipe(recipe)
        rows += [(replace(usual, **change), f"BNCL, {recipe}, {name}") for change, name in changes]
    plain = [outcomes.recipe(recipe) for recipe in PAPERS]
    if not any(trial in outcomes.trials for trial, _ in rows if trial not in plain):
        return "Not measured yet; the same command goes on with it."
    return _five(outcomes, rows, beside_printed=beside_printed)


def _levels(outcomes: Outcomes, metric: str) -> str:
    """Return a table of one metric, a row a method and a column a level."""
    columns = ["0", SCARCE, *LEVELS]
    lines = []
    for name in [*RECIPES, *FREE, *SUPERVISED]:
        cells = []
        for level in columns:
            trial = outcomes.recipe(name, level) if name in RECIPES else baseline_trial(name, level)
            summary = outcomes.trials.get(trial)
            cells.append("" if summary is None else _cells(summary, [metric], digits=3)[0])
        if any(cells):
            lines.append([shown(name), *cells])
    heads = [_level_name(outcomes, level) for level in columns]
    return markdown_table([metric, *heads], lines)


def _test_chosen(outcomes: Outcomes) -> str:
    lines = []
    for trial, summary in outcomes.trials.items():
        if summary.best_on_test is None or trial.percentiles != DENSITIES[0] or trial.hops != HOPS[1] or trial.groups:
            continue
        if trial.without or trial.vectors != outcomes.vectors:
            continue
        pairs = [(getattr(summary.means, metric), getattr(summary.best_on_test, metric)) for metric in Metrics._fields]
        cells = [f"{last:.4f} → {best:.4f} (+{best - last:.4f})" for last, best in pairs]
        lines.append([f"{trial.setting}, {_level_name(outcomes, trial.level)}", *cells])
    return markdown_table(["setting, annotated texts: last epoch → chosen on test", *Metrics._fields], lines)


def _cost(outcomes: Outcomes) -> str:
    lines = []
    for level in ("0", SCARCE, "100%"):
        recipes = [outcomes.recipe(recipe, level) for recipe in RECIPES]
        for trial in [*outcomes.baselines(level), *recipes]:
            summary = outcomes.trials.get(trial)
            if summary is not None:
                row = [
                    shown(trial.method),
                    _level_name(outcomes, level),
                    f"{summary.seconds:.1f} s",
                    f"{summary.peak_megabytes} MB",
                ]
                lines.append(row)
    return markdown_table(["method", "annotated texts", "median time", "peak memory"], lines)


def _footer(outcomes: Outcomes) -> str:
    lines = []
    for session in outcomes.sessions:
        machine = f"Python {session['python']}, torch {session['torch']}, scikit-learn {session['scikit-learn']}"
        lines.append(f"- `{session['command']}` ({machine}, {session['cores']} cores, commit {session['commit']})")
    hashes = ", ".join(f"{name} {value[:12]}" for name, value in outcomes.about["sha256"].items())
    return "Made by\n\n" + "\n".join(dict.fromkeys(lines)) + f"\n\nSHA-256 of the data: {hashes}."


def _cells(summary: Summary, metrics: Sequence[str], digits: int = 4) -> list[str]:
    cells = []
    for metric in metrics:
        mean, deviation = getattr(summary.means, metric), getattr(summary.deviations, metric)
        std = f" ± {deviation:.{digits}f}" if summary.seeds > 1 else ""
        cells.append(f"{mean:.{digits}f}{std}")
    return cells


def _level_name(outcomes: Outcomes, level: str) -> str:
    return f"{outcomes.about['labels']} texts" if level == SCARCE else level
