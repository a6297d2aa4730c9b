"""Annotation level against ebF1, miF1 and maF1, one line a method; and probabilities against what came true."""

from pathlib import Path

from benchmarks.quality.pages import HEADLINE, Outcomes, calibrated, calibration_error
from benchmarks.quality.plan import DEFAULT, FREE, LEVELS, RECIPES, SETFIT, SUPERVISED
from bncl_pyg.persistence import write_file

LEARNERS = [name for name in SUPERVISED if name != SETFIT]  # SetFit is measured at one level only
COLOURS = ("#111111", "#c1272d", "#d98cb3", "#e08b1d", "#0b6e99", "#4c9f70", "#7b4fa3", "#8a6d3b")
FEWEST_PAIRS = 20
"""A bin with fewer is not shown: its share is chance."""
DASHES = ("--", ":", "-.", (0, (1, 3)))


def plot_levels(outcomes: Outcomes, path: Path) -> None:
    """Write the plot as PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(HEADLINE), figsize=(15, 5), constrained_layout=True)
    places = {level: place for place, level in enumerate(("0", *LEVELS))}
    for axis, metric in zip(axes, HEADLINE, strict=True):
        for name, colour in zip([*RECIPES, *LEARNERS], COLOURS, strict=True):
            is_recipe = name in RECIPES
            summaries = {
                places[level]: outcomes.trials[trial]
                for level in places
                if (trial := outcomes.recipe(name, level) if is_recipe else outcomes.baseline(name, level))
                in outcomes.trials
            }
            if not summaries:
                continue
            across = list(summaries)
            means = [getattr(one.means, metric) for one in summaries.values()]
            stds = [getattr(one.deviations, metric) for one in summaries.values()]
            label = "default recipe" if name == DEFAULT else f"BNCL, {name}" if is_recipe else name
            axis.plot(across, means, color=colour, marker="o", markersize=4, label=label, lw=2.4 if is_recipe else 1.4)
            low = [mean - one for mean, one in zip(means, stds, strict=True)]
            high = [mean + one for mean, one in zip(means, stds, strict=True)]
            axis.fill_between(across, low, high, color=colour, alpha=0.18, lw=0)
        for name, dash in zip(FREE, DASHES, strict=True):
            if outcomes.baseline(name) in outcomes.trials:
                value = getattr(outcomes.trials[outcomes.baseline(name)].means, metric)
                axis.axhline(value, color="#888888", ls=dash, lw=1.2, label=f"{name} (no annotated text)")
        axis.set_title(metric)
        axis.set_xticks(list(places.values()), list(places))
        axis.set_xlabel("annotated share of the training texts")
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.25)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=5, frameon=False)
    about = outcomes.about
    figure.suptitle(f"{outcomes.name}: {about['train']} training texts, {about['labels']} labels")
    write_file(path, lambda temporary: figure.savefig(temporary, dpi=100, format="png"))
    pyplot.close(figure)


def plot_reliability(outcomes: Outcomes, path: Path) -> None:
    """Write the reliability plot as PNG: the default recipe at three levels, beside the zero-shot start."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(6, 5.6), constrained_layout=True)
    axis.plot([0, 1], [0, 1], color="#bbbbbb", lw=1)
    levels = calibrated(outcomes)
    curves = [(f"default recipe, {level} annotated", bins["model"]) for level, bins, _ in levels]
    curves.append(("zero-shot start", levels[0][1]["zero-shot"]))
    for (name, bins), colour in zip(
        curves, (*("#111111", "#0b6e99", "#4c9f70")[: len(levels)], "#c1272d"), strict=True
    ):
        filled = [(predicted, true) for pairs, predicted, true in bins if pairs >= FEWEST_PAIRS]
        label = f"{name}: error {calibration_error(bins):.4f}"
        axis.plot(
            [predicted for predicted, _ in filled], [true for _, true in filled], marker="o", color=colour, label=label
        )
    axis.set_xlabel("mean probability")
    axis.set_ylabel("share that is true")
    axis.set_title(f"{outcomes.name}: bins with at least {FEWEST_PAIRS} (text, label) pairs")
    axis.legend(loc="upper left", frameon=False)
    axis.grid(alpha=0.25)
    write_file(path, lambda temporary: figure.savefig(temporary, dpi=100, format="png"))
    pyplot.close(figure)
