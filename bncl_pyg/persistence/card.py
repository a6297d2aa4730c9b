"""The model card: a page for people, with front matter for the hub, written from what is known of a training."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LIBRARY = "bncl-pyg"
TAGS = ("bncl", "bncl-pyg", "multi-label-classification", "text-classification", "graph-neural-network")
SELF = "owner/name"
"""Stands for the repository until a model is pushed to one."""
SHOWN_LABELS, SHOWN_WORDS = 40, 12
_START, _END = "<!-- evaluation -->", "<!-- end of evaluation -->"
_SECTION = re.compile(f"{re.escape(_START)}.*?{re.escape(_END)}", re.DOTALL)
_LICENSE = "- Licence of the data:"
_UNEVALUATED = "Nobody has compared this model with a truth yet, or written the result here."


@dataclass(frozen=True)
class EncoderLicense:
    """Whose weights a scorer uses.

    Args:
        name: what people call it.
        repository: on the hub, where it is there.
        license: as the hub writes it; empty where it is not known.
    """

    name: str
    repository: str = ""
    license: str = ""


@dataclass(frozen=True)
class CardFacts:
    """What a card says of a training.

    Args:
        labels: the labels' names.
        prevalence: λ of each, as the model was trained with it.
        cardinality: κ likewise.
        texts: how many training texts there were.
        annotated: how many of them were annotated.
        setting: the setting.
        priors: what was known of κ and λ, in a phrase.
        recipe: by name.
        seed: the seed.
        scorer: by name.
        reading: how texts are read, in a phrase.
        encoders: whose weights the scorer uses.
        graph: where the label graph comes from, in a phrase.
        candidates: how many of a text's labels were scored; `None` for all.
        languages: of the texts that the scorer can read, as the hub writes them; empty where nobody knows.
        versions: of packages.
    """

    labels: Sequence[str]
    prevalence: Sequence[float]
    cardinality: float
    texts: int
    annotated: int
    setting: str
    priors: str
    recipe: str
    seed: int
    scorer: str
    reading: str
    encoders: Sequence[EncoderLicense]
    graph: str
    candidates: int | None
    languages: Sequence[str]
    versions: Mapping[str, str]


def card_text(facts: CardFacts) -> str:
    """Return the card of a model."""
    sections = [
        _head(facts),
        _use(facts),
        _data(facts),
        _training(facts),
        f"## Evaluation\n\n{_START}\n{_UNEVALUATED}\n{_END}",
        _limits(facts),
        _licenses(facts),
    ]
    return "\n\n".join([_front_matter(facts), *sections]) + "\n"


def with_evaluation(card: str, evaluation: Mapping[str, Any]) -> str:
    """Return a card with these figures in the place of earlier ones; the rest stays as somebody may have edited it.

    Args:
        card: the card.
        evaluation: what `Evaluation.as_dict` returns.
    """
    section = f"{_START}\n{_evaluation(evaluation)}\n{_END}"
    if _SECTION.search(card):
        return _SECTION.sub(lambda _: section, card, count=1)
    return f"{card.rstrip()}\n\n## Evaluation\n\n{section}\n"


def with_data_license(card: str, license: str) -> str:
    """Return a card that names the licence of the data that the model learned from."""
    line = f"{_LICENSE} {' '.join(license.split())}"
    pattern = re.compile(f"^{re.escape(_LICENSE)}.*$", re.MULTILINE)
    return pattern.sub(lambda _: line, card, count=1) if pattern.search(card) else f"{card.rstrip()}\n\n{line}\n"


def with_repository(card: str, name: str) -> str:
    """Return a card whose example loads the model from this repository."""
    return card.replace(f'from_pretrained("{SELF}")', f'from_pretrained("{name}")')


def _front_matter(facts: CardFacts) -> str:
    # The hub's own library knows how its front matter is written.
    from huggingface_hub import ModelCardData

    repositories = [encoder.repository for encoder in facts.encoders if encoder.repository]
    data = ModelCardData(
        language=list(facts.languages) or None,
        library_name=LIBRARY,
        pipeline_tag="text-classification",
        tags=list(TAGS),
        base_model=repositories or None,
    )
    return f"---\n{data.to_yaml()}\n---"


def _head(facts: CardFacts) -> str:
    learned = f"{facts.annotated:,} annotated texts" if facts.annotated else "no annotated text"
    return (
        f"# Texts into {len(facts.labels):,} labels\n\n"
        f"A multi-label text classifier that learned from {facts.texts:,} texts and {learned}, made with {LIBRARY}: a "
        f"signed graph of the labels, and predictions that are right together (BNCL, Ozmen, Cotnareanu, Coates, "
        f"CoLLAs 2023)."
    )


def _use(facts: CardFacts) -> str:
    example = "\n".join(
        (
            "from bncl_pyg import BNCLClassifier",
            "",
            f'classifier = BNCLClassifier.from_pretrained("{SELF}")',
            'classifier.predict_labels(["A text."])  # the names of its labels, the most probable first',
        )
    )
    names = [_cell(name) for name in facts.labels[:SHOWN_LABELS]]
    more = len(facts.labels) - len(names)
    listed = ", ".join(names) + (f", and {more:,} more (`labels.jsonl`)" if more > 0 else "")
    return f"## Use\n\n```python\n{example}\n```\n\nLabels: {listed}."


def _data(facts: CardFacts) -> str:
    return "\n".join(
        (
            "## Data\n",
            f"- Training texts: {facts.texts:,}; annotated texts among them: {facts.annotated:,}.",
            f"- Labels: {len(facts.labels):,}; {facts.cardinality:.3g} labels a text.",
            f"{_LICENSE} unknown; whoever shares this model should say.",
            "- The folder holds no text. It holds the labels' names and descriptions, how common they are, and the ids "
            "and labels of the annotated texts.",
        )
    )


def _training(facts: CardFacts) -> str:
    order = sorted(range(len(facts.labels)), key=lambda place: -facts.prevalence[place])[:SHOWN_WORDS]
    common = ", ".join(f"{_cell(facts.labels[place])} {facts.prevalence[place]:.2g}" for place in order)
    scored = "all labels" if facts.candidates is None else f"each text's {facts.candidates} best labels"
    versions = ", ".join(f"{name} {version}" for name, version in facts.versions.items())
    return "\n".join(
        (
            "## Training\n",
            f"- Setting: {facts.setting}. Recipe: {facts.recipe}. Seed: {facts.seed}.",
            f"- Priors: {facts.priors}. Most common, as trained: {common}.",
            f"- Scorer: {facts.scorer}, {facts.reading}; {scored} were scored.",
            f"- Label graph: {facts.graph}.",
            f"- Versions: {versions}.",
        )
    )


def _limits(facts: CardFacts) -> str:
    lines = [
        "- It only knows these labels, and only what their descriptions say in words. Texts of another kind than the "
        "training texts are labelled as if they were of that kind: predictions keep to how common labels were there.",
        "- Rare labels are told least well; look at the table by label of an evaluation before relying on one.",
    ]
    if facts.languages == ["en"]:
        lines.append("- Its encoders were trained on English.")
    if not facts.annotated:
        lines.append("- No person has annotated a text for it: errors of the encoders may be systematic.")
    if facts.candidates is not None:
        lines.append("- A label that is not among a text's candidates is unknown for that text, and never predicted.")
    lines.append("- Not for decisions about people without somebody who checks them.")
    return "\n".join(["## Limits\n", *lines])


def _licenses(facts: CardFacts) -> str:
    rows = []
    for encoder in facts.encoders:
        where = f" ([{encoder.repository}](https://huggingface.co/{encoder.repository}))" if encoder.repository else ""
        rows.append(f"- {encoder.name}{where}: {encoder.license or 'licence unknown'}")
    head = "The encoders are not part of this folder; they are loaded beside it and have their own licences:"
    return "\n".join(["## Licences", "", head, "", *rows])


def _evaluation(evaluation: Mapping[str, Any]) -> str:
    """Return metrics beside baselines, as a table, and what else an evaluation says in a line."""
    metrics: Mapping[str, float] = evaluation["metrics"]
    methods = {"this model": metrics, **evaluation.get("baselines", {})}
    rows = [f"| | {' | '.join(metrics)} |", f"|---|{'---|' * len(metrics)}"]
    for name, values in methods.items():
        shown = " | ".join(f"{values[metric]:.4f}" for metric in metrics)
        rows.append(f"| {f'**{name}**' if values is metrics else _cell(name)} | {shown} |")
    about = [f"On {evaluation['texts']:,} test texts"]
    given = evaluation.get("baselines_annotated_texts")
    if given:
        about.append(f"baselines that learn were given {given:,} annotated texts")
    error = evaluation.get("calibration_error", {}).get("model")
    if error is not None:
        about.append(f"expected calibration error of the probabilities {error:.4f}")
    if "predicted_cardinality" in evaluation:
        predicted, true = evaluation["predicted_cardinality"], evaluation["true_cardinality"]
        about.append(f"{predicted:.3g} labels a text predicted, {true:.3g} true")
    return "; ".join(about) + ".\n\n" + "\n".join(rows)


def _cell(text: str) -> str:
    """Return a name as a line of Markdown can hold it."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", " ".join(text.split()))
