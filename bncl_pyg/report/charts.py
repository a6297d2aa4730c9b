"""Charts as inline SVG: drawn by hand, coloured by the page's style, so that light, dark and print are one picture."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from html import escape

from bncl_pyg.report.data import Bin, DrawnGraph, LabelRow

WIDTH, HEIGHT = 440, 250
LEFT, RIGHT, TOP, BOTTOM = 60, 20, 12, 38
NAMED, MOST_POINTS = 6, 1500
"""How many labels are named in the prevalence plot, and how many points it has at most."""
GRAPH_WIDTH, GRAPH_HEIGHT, GRAPH_MARGIN = 1000, 660, 60
STRONGEST = 3
"""So many friends and so many enemies of a label are drawn at rest; all of them when it is selected."""


class _Plot:
    """A plot area with axes.

    Args:
        x: from a value to its share of the width, 0 to 1.
        y: likewise of the height.
    """

    def __init__(self, x: Callable[[float], float], y: Callable[[float], float]) -> None:
        self._x, self._y = x, y
        self.parts: list[str] = []

    def x(self, value: float) -> float:
        return round(LEFT + self._x(value) * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        return round(HEIGHT - BOTTOM - self._y(value) * (HEIGHT - TOP - BOTTOM), 1)

    def y_ticks(self, ticks: Sequence[tuple[float, str]]) -> None:
        for value, name in ticks:
            y = self.y(value)
            self.parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
            self.text(LEFT - 6, y + 4, name, "end")

    def x_ticks(self, ticks: Sequence[tuple[float, str]]) -> None:
        for value, name in ticks:
            self.text(self.x(value), HEIGHT - BOTTOM + 16, name)

    def titles(self, x: str, y: str) -> None:
        self.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 4, x, kind="axis")
        middle = (TOP + HEIGHT - BOTTOM) / 2
        self.parts.append(
            f'<text class="axis" text-anchor="middle" transform="translate(11 {middle}) rotate(-90)">{escape(y)}</text>'
        )

    def text(self, x: float, y: float, content: str, anchor: str = "middle", kind: str = "tick") -> None:
        self.parts.append(f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{escape(content)}</text>')

    def line(self, points: Sequence[tuple[float, float]], kind: str) -> None:
        path = " ".join(f"{self.x(x)},{self.y(y)}" for x, y in points)
        self.parts.append(f'<polyline class="{kind}" points="{path}"/>')

    def svg(self, label: str) -> str:
        content = "".join(self.parts)
        return (
            f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">{content}</svg>'
        )


def histogram(
    names: Sequence[str], first: Sequence[int], second: Sequence[int] | None, *, x_title: str, y_title: str, label: str
) -> str:
    """Draw counts side by side: the first filled, the second, if there is one, outlined."""
    groups = [first] if second is None else [first, second]
    most = max(max(group, default=0) for group in groups) or 1
    ticks = _ticks(most)
    top = max(ticks[-1], most)
    plot = _Plot(lambda place: (place + 0.5) / max(len(names), 1), lambda count: count / top)
    plot.y_ticks([(tick, f"{tick:,}") for tick in ticks])
    each = (WIDTH - LEFT - RIGHT) / max(len(names), 1)
    width = min(each * 0.8 / len(groups), 42)
    for place, name in enumerate(names):
        centre = plot.x(place)
        for number, group in enumerate(groups):
            count = group[place]
            x, y = centre + (number - len(groups) / 2) * width, plot.y(count)
            kind, height = ("bar", "bar outlined")[number], HEIGHT - BOTTOM - y
            plot.parts.append(
                f'<rect class="{kind}" x="{x + 1:.1f}" y="{y}" width="{width - 2:.1f}" height="{height:.1f}" rx="2">'
                f"<title>{escape(name)}: {count:,}</title></rect>"
            )
    plot.x_ticks([(place, name) for place, name in enumerate(names)])
    plot.titles(x_title, y_title)
    return plot.svg(label)


def prevalence(labels: Sequence[LabelRow], texts: int) -> str:
    """Draw for each label the share of texts that are given it over the share that should have it; log scales."""
    points = [(row.expected, row.given / max(texts, 1), row.name) for row in labels]
    points = sorted(points, key=lambda point: -max(point[:2]))[:MOST_POINTS]
    values = [value for point in points for value in point[:2] if value > 0] or [0.1]
    low, high = math.floor(math.log10(max(min(values), 1e-7))), math.ceil(math.log10(max(values)))
    high = max(high, low + 1)

    def place(value: float) -> float:
        # Below the lowest power of ten there is room for those that no text is given.
        lowest = low - 0.35
        return (max(math.log10(value), low) - lowest) / (high - lowest) if value > 0 else 0.0

    plot = _Plot(place, place)
    powers = [(10.0**power, _percent(10.0**power)) for power in range(low, high + 1)]
    plot.y_ticks([(0.0, "never"), *powers])
    plot.x_ticks(powers)
    plot.line([(10.0**low, 10.0**low), (10.0**high, 10.0**high)], "diagonal")
    for expected, given, name in points:
        kind = "point" if given else "point hollow"
        plot.parts.append(
            f'<circle class="{kind}" cx="{plot.x(expected)}" cy="{plot.y(given)}" r="3.6"><title>{escape(name)}: '
            f"given to {_percent(given)}, expected {_percent(expected)}</title></circle>"
        )
    _name_points(plot, points)
    plot.titles("expected share of texts", "given share of texts")
    return plot.svg("For each label, the share of texts that are given it and the share that is expected.")


def _name_points(plot: _Plot, points: Sequence[tuple[float, float, str]]) -> None:
    """Name the labels that are farthest off, as far as there is room."""
    there: list[tuple[float, float]] = []
    for expected, given, name in sorted(points, key=lambda point: -abs(point[0] - point[1])):
        x, y = plot.x(expected), plot.y(given)
        if len(there) == NAMED:
            return
        if all(abs(y - other) > 13 or abs(x - across) > 90 for across, other in there):
            there.append((x, y))
            short = name if len(name) <= 16 else name[:15] + "…"
            is_right = x > WIDTH * 0.7
            plot.text(x + (-7 if is_right else 7), y + 4, short, "end" if is_right else "start", "name")


def reliability_plot(model: Sequence[Bin], start: Sequence[Bin]) -> str:
    """Draw the share that is true over the probability, of the model and of what it started from."""
    plot = _Plot(lambda value: value, lambda value: value)
    quarters = [(part / 4, f"{part * 25}%") for part in range(5)]
    plot.y_ticks(quarters)
    plot.x_ticks(quarters)
    plot.line([(0, 0), (1, 1)], "diagonal")
    for bins, kind in ((start, "start"), (model, "model")):
        plot.line([(one.predicted, one.true) for one in bins], f"curve {kind}")
        for one in bins:
            plot.parts.append(
                f'<circle class="dot {kind}" cx="{plot.x(one.predicted)}" cy="{plot.y(one.true)}" r="3.6"><title>'
                f"{one.pairs:,} pairs with a probability of about {one.predicted:.0%}: {one.true:.0%} are true"
                f"</title></circle>"
            )
    plot.titles("probability", "share that is true")
    return plot.svg("How often labels are true, by how probable the model and its zero-shot start take them to be.")


def graph_picture(graph: DrawnGraph, labels: Sequence[LabelRow], texts: int) -> str:
    """Draw friends by solid and enemies by dashed lines; a label's circle grows with the texts that are given it."""
    places = {
        label: (
            round(GRAPH_MARGIN + x * (GRAPH_WIDTH - 2 * GRAPH_MARGIN), 1),
            round(GRAPH_MARGIN + (1 - y) * (GRAPH_HEIGHT - 2 * GRAPH_MARGIN), 1),
        )
        for label, x, y in graph.nodes
    }
    parts = []
    strongest = _strongest(graph)
    for edge in sorted(graph.edges, key=lambda edge: edge[2]):
        one, other, sign, _ = edge
        (x1, y1), (x2, y2) = places[one], places[other]
        kind = ("friend" if sign > 0 else "enemy") + ("" if edge in strongest else " weak")
        parts.append(
            f'<line class="edge {kind}" data-a="{one}" data-b="{other}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>'
        )
    for label, (x, y) in places.items():
        row = labels[label]
        radius = 4 + 11 * math.sqrt(row.given / max(texts, 1))
        parts.append(
            f'<g class="node" data-label="{label}" data-given="{row.given}" transform="translate({x} {y})">'
            f'<circle r="{radius:.1f}" data-r="{radius:.1f}"/><text y="-{radius + 4:.1f}">{escape(_short(row.name))}'
            f"</text><title>{escape(row.name)}</title></g>"
        )
    return (
        f'<svg id="graph" viewBox="0 0 {GRAPH_WIDTH} {GRAPH_HEIGHT}" tabindex="0" role="application" '
        f'aria-label="Signed label graph. Arrow keys move, plus and minus zoom, 0 shows all.">'
        f'<g id="graph-content">{"".join(parts)}</g></svg>'
    )


def _strongest(graph: DrawnGraph) -> set[tuple[int, int, int, float]]:
    """Return the edges that are among the strongest of their sign: of friends at either end, of enemies at both.

    A label that is far from all others is everybody's enemy.
    """
    kept: set[tuple[int, int, int, float]] = set()
    drawn: Counter[tuple[int, int]] = Counter()
    for edge in sorted(graph.edges, key=lambda edge: -edge[2] * edge[3]):
        one, other, sign, _ = edge
        if (min if sign > 0 else max)(drawn[one, sign], drawn[other, sign]) < STRONGEST:
            kept.add(edge)
            drawn.update([(one, sign), (other, sign)])
    return kept


def _short(name: str) -> str:
    return name if len(name) <= 24 else name[:23] + "…"


def _percent(share: float) -> str:
    return f"{share * 100:.3g}%"


def _ticks(most: int, about: int = 4) -> list[int]:
    """Return round numbers from 0 to at least the most."""
    step = 10 ** math.floor(math.log10(max(most / about, 1)))
    step = next(step * factor for factor in (1, 2, 5, 10) if step * factor * about >= most)
    return [step * place for place in range(math.ceil(most / step) + 1)]
