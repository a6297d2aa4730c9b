"""Annotation level against ebF1, miF1 and maF1: one line a method, a band of one standard deviation."""

from pathlib import Path

from benchmarks.quality.pages import HEADLINE, Outcomes
from benchmarks.quality.plan import FREE, LEVELS, RECIPES, SETFIT, TAUGHT, baseline_trial
from bncl_pyg.files import write_file

LEARNERS = [name for name in TAUGHT if name != SETFIT]  # SetFit is measured at one level only
COLOURS = ("#c1272d", "#e08b1d", "#0b6e99", "#4c9f70", "#7b4fa3", "#555555")
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
            found = {
                places[level]: outcomes.trials[trial]
                for level in places
                if (trial := outcomes.recipe(name, level) if is_recipe else baseline_trial(name, level))
                in outcomes.trials
            }
            if not found:
                continue
            across = list(found)
            means = [getattr(one.means, metric) for one in found.values()]
            spread = [getattr(one.deviations, metric) for one in found.values()]
            label = f"BNCL, {name}" if is_recipe else name
            axis.plot(across, means, color=colour, marker="o", markersize=4, label=label, lw=2.4 if is_recipe else 1.4)
            low = [mean - one for mean, one in zip(means, spread, strict=True)]
            high = [mean + one for mean, one in zip(means, spread, strict=True)]
            axis.fill_between(across, low, high, color=colour, alpha=0.18, lw=0)
        for name, dash in zip(FREE, DASHES, strict=True):
            if baseline_trial(name) in outcomes.trials:
                value = getattr(outcomes.trials[baseline_trial(name)].means, metric)
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
