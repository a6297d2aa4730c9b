"""From what a report shows to one page of HTML that needs nothing else: style, script, pictures and data are in it."""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files

from bncl_pyg.explanation import Contribution, Explanation, LabelExplanation
from bncl_pyg.report.charts import graph_picture, histogram, prevalence, reliability_plot
from bncl_pyg.report.data import ReportData, ShownText, Truth

METRICS = {
    "ebF1": "F1 of each text, averaged",
    "miF1": "F1 of all decisions together",
    "maF1": "F1 of each label, averaged",
    "ACC": "texts whose labels are all right",
    "HA": "decisions that are right",
}
"""In the order in which they are shown, and what each means."""
MOST_BARS = 10
"""From so many labels on, texts are counted in one bar."""
DETAILS, LEVELS = 12, 5
"""How many details of a contribution the page names, and how many shades a marked word has."""


def render_report(data: ReportData) -> str:
    """Return a report as one page."""
    truth = data.truth
    figures = {"overview": "Figures", "predictions": "How sure", "labels": "Labels", "label-graph": "Label graph"}
    sections = {**figures, "pairs": "Pairs", "unsure": "Unsure texts", "settings": "Settings"}
    notes = [data.graph.note, *data.notes]
    return _fill(
        "report.html",
        title=_plain(f"{data.title}: {data.n_texts:,} texts, {data.n_labels:,} labels"),
        css=_content("page.css"),
        js=_content("report.js"),
        data=_json(data),
        eyebrow=_plain(data.title),
        heading=_plain(f"{data.n_texts:,} texts, {data.n_labels:,} labels"),
        lead=_plain(_lead(data)),
        nav="".join(f'<a href="#{place}">{name}</a>' for place, name in sections.items()),
        overview_title="Beside what one would use instead" if truth else "In figures",
        overview_hint=_plain(_overview_hint(truth)),
        tiles="".join(_metric_tiles(truth) if truth else _figure_tiles(data)),
        charts="".join(_charts(data)),
        graph_hint=_plain(
            f"Labels that mean alike are friends ({data.graph.friends:,} pairs), labels that are far apart are enemies "
            f"({data.graph.enemies:,} pairs). At rest the strongest are drawn; select a label to see all of its own. "
            f"{data.graph.note}"
        ),
        graph=graph_picture(data.graph, data.labels, data.n_texts),
        pairs="".join(_pair_tables(data)),
        unsure="".join(_sample(data, data.texts[place]) for place in data.unsure),
        settings="".join(f"<dt>{_plain(name)}</dt><dd>{_plain(value)}</dd>" for name, value in data.settings.items()),
        notes="".join(f"<p>{_plain(note)}</p>" for note in notes if note),
        created=_plain(data.created),
    )


def render_explanation(explanation: Explanation) -> str:
    """Return an explanation as one page."""
    given = [why.label for why in explanation.labels if why.is_predicted]
    named = ", ".join(given) if given else "no label"
    return _fill(
        "explanation.html",
        title=_plain(f"Why: {named}"),
        css=_content("page.css"),
        eyebrow=_plain(f"Text {explanation.id}"),
        heading=_plain(f"Why {named}?" if len(explanation.labels) > 1 else f"Why {explanation.labels[0].label}?"),
        lead="Each bar is what one part adds to the logit of a label, which is given where the logit is above its "
        "threshold.",
        labels="".join(_explained(why, explanation.text) for why in explanation.labels),
    )


def _content(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _fill(name: str, **parts: str) -> str:
    """Put parts into a template, in one pass: what a part contains is never taken for a place."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _content(name))


def _plain(text: str) -> str:
    return escape(text, quote=True)


def _json(data: ReportData) -> str:
    """Return what the script needs, so that no text can end the element that it stands in."""
    content = data.as_dict()
    kept = {name: content[name] for name in ("labels", "texts", "n_texts")}
    kept |= {"edges": content["graph"]["edges"], "has_truth": data.truth is not None}
    written = json.dumps(kept, ensure_ascii=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        written = written.replace(letter, f"\\u{ord(letter):04x}")
    return written


def _lead(data: ReportData) -> str:
    sentences = [
        f"The model gives a text {data.cardinality:.2f} labels on average, where {data.expected_cardinality:.2f} are "
        f"expected."
    ]
    if data.truth is not None:
        model, start = data.truth.methods[0].metrics, data.truth.methods[1].metrics
        sentences.append(
            f"Of all decisions together, F1 is {model['miF1']:.3f}; of the zero-shot start, {start['miF1']:.3f}."
        )
    never = sum(row.given == 0 for row in data.labels)
    if never:
        sentences.append(f"{never} {'label is' if never == 1 else 'labels are'} given to no text.")
    return " ".join(sentences)


def _overview_hint(truth: Truth | None) -> str:
    if truth is None:
        return "Without true labels, this is what can be known."
    names = "The zero-shot start is what the language model says by itself; top-κ gives each text its κ best labels"
    shown = {method.name for method in truth.methods}
    names += ", λ-quantile each label its λ best-scored share of the texts." if "λ-quantile" in shown else "."
    if truth.annotated:
        names += f" Baselines that learn were given {truth.annotated:,} annotated texts."
    return names


def _metric_tiles(truth: Truth) -> Iterator[str]:
    model, *others = truth.methods
    for metric, meaning in METRICS.items():
        value = model.metrics[metric]
        meters = "".join(
            _meter(method.name, method.metrics[metric], is_own=method is model) for method in (model, *others)
        )
        yield (
            f'<div class="card tile"><div class="name">{metric}</div><div class="value">{value:.3f}</div>'
            f'<div class="of">{_plain(meaning)}</div>{meters}</div>'
        )


def _meter(name: str, value: float, *, is_own: bool) -> str:
    kind = "meter own" if is_own else "meter"
    return (
        f'<div class="{kind}"><b>{_plain(name)}</b><span>{value:.3f}</span>'
        f'<i><u style="width:{max(value, 0) * 100:.1f}%"></u></i></div>'
    )


def _figure_tiles(data: ReportData) -> Iterator[str]:
    never = sum(row.given == 0 for row in data.labels)
    figures = {
        "labels a text": (f"{data.cardinality:.2f}", f"{data.expected_cardinality:.2f} expected"),
        "without any label": (f"{data.without_label:,}", f"of {data.n_texts:,} texts"),
        "how sure": (f"{data.mean_probability:.0%}", "mean probability of a given label"),
        "never given": (f"{never:,}", f"of {len(data.labels):,} labels"),
    }
    for name, (value, meaning) in figures.items():
        yield (
            f'<div class="card tile"><div class="name">{name}</div><div class="value">{value}</div>'
            f'<div class="of">{_plain(meaning)}</div></div>'
        )


def _charts(data: ReportData) -> Iterator[str]:
    truth = data.truth
    given, true = _cut(data.label_counts), None if truth is None else _cut(truth.label_counts)
    size = max(len(given), len(true or []))
    names = [f"{place}+" if place == MOST_BARS else str(place) for place in range(size)]
    padded = [[*counts, *[0] * (size - len(counts))] for counts in (given, true or [])]
    known = f"{data.cardinality:.2f} given and {data.expected_cardinality:.2f} expected on average"
    yield _card(
        "Labels a text",
        known + (f", {truth.cardinality:.2f} true." if truth else "."),
        histogram(
            names,
            padded[0],
            padded[1] if truth else None,
            x_title="labels",
            y_title="texts",
            label="How many texts have how many labels.",
        ),
        [("model", "given by the model"), ("other", "true")] if truth else [],
    )
    tenths = [f"{place * 10}–{place * 10 + 10}%" if place % 2 == 0 else "" for place in range(len(data.sureness))]
    yield _card(
        "How sure",
        f"Probabilities of the given labels; their mean is {data.mean_probability:.0%}.",
        histogram(
            tenths,
            data.sureness,
            None,
            x_title="probability",
            y_title="given labels",
            label="How many given labels have which probability.",
        ),
        [],
    )
    yield _card(
        "Given and expected prevalence",
        "A point a label, on logarithmic scales: above the line it is given more often than expected.",
        prevalence(data.labels, data.n_texts),
        [],
    )
    if truth is not None:
        error = truth.calibration_error
        yield _card(
            "Reliability",
            f"The nearer to the diagonal, the better. Calibration error {error['model']:.4f}, of the zero-shot start "
            f"{error['zero-shot']:.4f}.",
            reliability_plot(truth.reliability, truth.start_reliability),
            [("line", "this model"), ("dashed", "zero-shot start")],
        )


def _cut(counts: Sequence[int]) -> list[int]:
    return list(counts) if len(counts) <= MOST_BARS else [*counts[:MOST_BARS], sum(counts[MOST_BARS:])]


def _card(title: str, hint: str, content: str, legend: Sequence[tuple[str, str]]) -> str:
    keys = "".join(f'<li><span class="key {kind}"></span>{_plain(name)}</li>' for kind, name in legend)
    below = f'<ul class="legend">{keys}</ul>' if keys else ""
    return f'<div class="card"><h3>{_plain(title)}</h3><p class="hint">{_plain(hint)}</p>{content}{below}</div>'


def _pair_tables(data: ReportData) -> Iterator[str]:
    given = [row.given for row in data.labels]
    rows = [
        (_pair(data, one, "and", other), f"{count:,}", f"{count / max(min(given[one], given[other]), 1):.0%}")
        for one, other, count in data.cooccurring
    ]
    hint = "The last column is the share of the rarer label's texts."
    yield _table("Most often given to the same text", hint, ("labels", "texts", "share"), rows)
    if data.truth is not None:
        confused = [(_pair(data, one, "→", other), f"{count:,}") for one, other, count in data.truth.confused]
        hint = "Texts that have the first label, were not given it, and were given the second, which they do not have."
        yield _table("Most often confused", hint, ("true → given", "texts"), confused)


def _table(title: str, hint: str, names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        kinds = ["" if place == 0 else ' class="num"' for place in range(len(cells))]
        return "".join(f"<{tag}{kind}>{cell}</{tag}>" for kind, cell in zip(kinds, cells, strict=True))

    body = "".join(f"<tr>{line(cells, 'td')}</tr>" for cells in rows)
    content = (
        f"<table><thead><tr>{line(names, 'th')}</tr></thead><tbody>{body}</tbody></table>" if body else "<p>None.</p>"
    )
    return f'<div class="card"><h3>{_plain(title)}</h3><p class="hint">{_plain(hint)}</p>{content}</div>'


def _pair(data: ReportData, one: int, joint: str, other: int) -> str:
    return f'{_link(data, one)} <span class="joint">{joint}</span> {_link(data, other)}'


def _link(data: ReportData, label: int) -> str:
    return f'<button type="button" class="plain" data-show="{label}">{_plain(data.labels[label].name)}</button>'


def _sample(data: ReportData, text: ShownText) -> str:
    chips = []
    true = None if text.true is None else set(text.true)
    for label, share in text.given:
        kind, mark = ("given", "") if true is None else ("right", "✓ ") if label in true else ("wrong", "✗ ")
        chips.append(f'<span class="chip {kind}">{mark}{_plain(data.labels[label].name)} {share:.0%}</span>')
    named = {label for label, _ in text.given}
    missed = (label for label in text.true or [] if label not in named)
    chips.extend(f'<span class="chip missed">missed: {_plain(data.labels[label].name)}</span>' for label in missed)
    if text.best is not None:
        label, share = text.best
        chips.append(f'<span class="chip">next: {_plain(data.labels[label].name)} {share:.0%}</span>')
    content = "" if text.text is None else f"<p>{_plain(text.text)}</p>"
    return f'<div class="sample"><span class="id">{_plain(text.id)}</span>{content}<div>{"".join(chips)}</div></div>'


def _explained(why: LabelExplanation, text: str | None) -> str:
    name = why.label if why.description in ("", why.label) else f"{why.label}: {why.description}"
    verdict = why.verdict()
    longest = max((abs(value) for value in _values(why)), default=0) or 1.0
    rows = "".join(_part(part, longest) for part in why.contributions)
    total = f'<tr class="total"><td class="num">{why.logit:+.3f}</td><td></td><td>logit: the sum</td></tr>'
    words = [part for part in why.contributions if part.name == "words"]
    marked = (
        "" if text is None else f'<p class="text" tabindex="0">{_marked(text, words[0]) if words else _plain(text)}</p>'
    )
    return (
        f'<section><h2>{_plain(name)}</h2><div class="card"><p>{_plain(verdict[0].upper() + verdict[1:])}.</p>{marked}'
        f'<table class="parts">{rows}{total}</table></div></section>'
    )


def _values(why: LabelExplanation) -> Iterator[float]:
    for part in why.contributions:
        yield part.value
        yield from (detail.value for detail in part.strongest(DETAILS)[0])


def _part(part: Contribution, longest: float) -> str:
    shown, rest = part.strongest(DETAILS)
    meaning = f'<span class="meaning">{_plain(part.meaning)}</span>'
    rows = [_bar(part.value, longest, f"<b>{_plain(part.name)}</b>{meaning}", "")]
    for detail in shown:
        note = f" ({_plain(detail.note)})" if detail.note else ""
        rows.append(_bar(detail.value, longest, f"{_plain(detail.name)}{note}", "detail"))
    if rest:
        rows.append(_bar(math.fsum(detail.value for detail in rest), longest, f"{len(rest)} more", "detail"))
    return "".join(rows)


def _bar(value: float, longest: float, name: str, kind: str) -> str:
    side, share = "for" if value > 0 else "against", min(abs(value) / longest, 1) * 50
    return (
        f'<tr class="{kind}"><td class="num">{value:+.3f}</td><td><span class="pull"><i class="{side}" '
        f'style="width:{share:.1f}%"></i></span></td><td class="what">{name}</td></tr>'
    )


def _marked(text: str, words: Contribution) -> str:
    """Return the text with the words that speak for a label and against it, the stronger the more coloured."""
    most = max((abs(detail.value) for detail in words.details), default=0)
    spans: Mapping[int, tuple[int, float]] = {
        start: (end, detail.value) for detail in words.details for start, end in detail.spans
    }
    parts, at = [], 0
    for start in sorted(spans):
        end, value = spans[start]
        share = abs(value) / most if most else 0
        if share < 0.05:
            continue
        kind = "for" if value > 0 else "against"
        parts.append(_plain(text[at:start]))
        parts.append(
            f'<mark class="{kind} level{math.ceil(share * LEVELS)}" title="{value:+.3f}">'
            f"{_plain(text[start:end])}</mark>"
        )
        at = end
    return "".join([*parts, _plain(text[at:])])
