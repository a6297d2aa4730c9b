"""What is wrong with a set of labels, before anything is scored: codes, duplicates, labels that no text comes near."""

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import normalize

from bncl_pyg.corpus import LabelSet
from bncl_pyg.scorers import TEMPLATE, hypotheses_of

SEVERE, MODERATE, HINT = 3, 2, 1
"""The language model cannot tell what is meant; it will often err; worth a look."""

NEAR_COSINE = 0.93
"""From this cosine on two labels are near duplicates. Of the embedded encoder: colour/color .97, car/cars .945,
sports/sport .94, beverages/drinks .93; but Danish/Norwegian Krone .91, frying/deep frying .90, dairy/dairy free .89."""
NEAR_PAIRS = 20
"""How many pairs, and how many groups of labels that read the same, are listed; the others are counted."""
COMPARED_LABELS = 50_000
"""Up to so many labels all pairs are compared; beyond, it takes longer than the scoring of many texts."""
FAR_DEVIATIONS = 2.5
"""A label is far from the texts if its best cosine is so many robust standard deviations (1.4826 · MAD) below the
median. With 2.5 and samples of 2,000 texts, of 135 labels of Reuters 1 or 3, of 28 of GoEmotions 1 ("neutral") or 0,
of 646 of Debtags 1, of 517 of Cooking 21 ("please remove this tag", "organization"); with 2 two to eight times that."""
FAR_LABELS = 10
"""Among fewer labels nobody can say which is an outlier."""
SAMPLE_TEXTS = 2000
"""How many texts are compared with the labels."""
SHORT_WORD = 5
"""A single word of so few letters often has several meanings: bank, match, java."""
PIECES_A_LETTER = 0.7
"""A word of more pieces a letter is none that the tokenizer has met. Real words have up to .67: "oat" is oa + t,
"gravy" has three pieces."""
WORD_LETTERS = 3
"""Beside digits, fewer letters are no word: the x of "x11", the hp of "HP:0000003"."""
WORD_SHARE = 0.4
"""Beside digits, such a share of letters and digits must be in words: covid-19 and iso-9001 pass, a hash does not."""

_GENERIC = frozenset(("cat", "category", "class", "code", "group", "item", "label", "tag", "topic", "type"))
"""Beside a number these words name nothing: cat_7, class 3."""
_VOWELS = frozenset("aeiouy")
_RUN = re.compile(r"[^\W\d_]+")
_BETWEEN = re.compile(r"[\W_]+")
_ROWS = 512
_SHOWN = 5


class LabelReader(Protocol):
    """What `check_labels` needs of a scorer."""

    def vectors(self, texts: Sequence[str]) -> Tensor | None:
        """Return unit vectors, (texts, dimensions)."""
        ...

    def pieces(self, text: str) -> list[str]:
        """Return the tokenizer's word pieces."""
        ...


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with some labels.

    Args:
        kind: "code", "same reading", "near duplicates", "far from the texts", "short name" or "not compared".
        labels: the names of all labels that it is about.
        problem: what is wrong, in a sentence.
        advice: what would help, in a sentence.
        severity: 3 (the language model cannot tell what is meant), 2 (it will often err) or 1 (worth a look).
    """

    kind: str
    labels: tuple[str, ...]
    problem: str
    advice: str
    severity: int

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as JSON can hold it."""
        return {**asdict(self), "labels": list(self.labels)}


def check_labels(
    labels: LabelSet,
    scorer: LabelReader,
    texts: Iterable[str] | None = None,
    *,
    template: str = TEMPLATE,
    sample: int = SAMPLE_TEXTS,
    seed: int = 0,
) -> list[Finding]:
    """Return what is wrong with labels, worst first.

    Args:
        labels: names, descriptions and synonyms.
        scorer: it has `vectors` and `pieces`.
        texts: some that the labels are for, read once; with them, labels that no text comes near are listed too.
        template: how a phrase becomes a hypothesis.
        sample: how many of the texts are looked at.
        seed: of the sample.
    """
    hypotheses_of((), template)
    codes = [name for name in _without_meaning(labels) if is_code(name, scorer)]
    findings = [*_codes(codes), *_same_reading(labels)]
    kept = [] if texts is None else sample_texts(texts, sample, seed)
    compared = 1 < len(labels) <= COMPARED_LABELS
    if compared or kept:
        vectors = label_vectors(labels, scorer, template)
        if vectors is None:
            findings.append(_not_compared("the language model gives no vectors", "Choose one that encodes sentences."))
        else:
            findings += _near_duplicates(labels, vectors, set(codes)) if compared else []
            findings += _far(labels, vectors, scorer.vectors(kept)) if kept else []
    if len(labels) > COMPARED_LABELS:
        why = f"{len(labels):,} labels are more than {COMPARED_LABELS:,}"
        findings.append(_not_compared(why, "Check a part of them."))
    findings += _short_names(labels, set(codes))
    return sorted(findings, key=lambda finding: -finding.severity)


def worst_findings(findings: Sequence[Finding], most: int = 2) -> list[str]:
    """Return the worst findings, each in one line; mere hints are left out."""
    worst = [finding for finding in findings if finding.severity > HINT]
    worst.sort(key=lambda finding: -finding.severity)
    lines = (f"{f.problem.removesuffix('.')}; {f.advice[0].lower()}{f.advice[1:]}" for f in worst[:most])
    return [" ".join(line.split()) for line in lines]


def is_code(name: str, scorer: LabelReader) -> bool:
    """Return whether a name has no word that a language model could read, as X-99, E11.9 or cat_7."""
    runs = _RUN.findall(name)
    if any(character.isdigit() for character in name):
        if len(scorer.pieces(name)) == 1 and runs:
            return False  # the vocabulary has it: mp3
        words = [run for run in runs if len(run) >= WORD_LETTERS and run.lower() not in _GENERIC]
        letters = sum(len(run) for run in words if _is_word(run, scorer))
        return letters < WORD_SHARE * len(_BETWEEN.sub("", name)) or not letters
    return not any(len(run) > 1 and _is_word(run, scorer) for run in runs)


def label_vectors(labels: LabelSet, scorer: LabelReader, template: str = TEMPLATE) -> Tensor | None:
    """Return each label's unit vector, the mean of its phrases' in the template, (labels, dimensions)."""
    phrases = labels.phrases()
    parts = []
    for start in range(0, len(phrases), _ROWS):
        block = phrases[start : start + _ROWS]
        encoded = scorer.vectors(hypotheses_of([phrase for group in block for phrase in group], template))
        if encoded is None:
            return None
        owners = torch.repeat_interleave(torch.tensor([len(group) for group in block]))
        sums = torch.zeros(len(block), encoded.shape[1]).index_add_(0, owners, encoded.float())
        parts.append(normalize(sums))
    return torch.cat(parts) if parts else None


def sample_texts(texts: Iterable[str], count: int, seed: int = 0) -> list[str]:
    """Return some texts, each with the same probability; they are read once and need not fit in memory."""
    generator = random.Random(seed)
    kept: list[str] = []
    for number, text in enumerate(texts):
        place = number if number < count else generator.randrange(number + 1)
        if number < count:
            kept.append(text)
        elif place < count:
            kept[place] = text
    return kept


def _without_meaning(labels: LabelSet) -> Iterator[str]:
    """Yield the names of labels that have neither synonyms nor a description beyond the name."""
    for place, (name, text) in enumerate(zip(labels.names, labels.descriptions, strict=True)):
        if _plain(name) == _plain(text) and not (labels.synonyms and labels.synonyms[place]):
            yield name


def _is_word(run: str, scorer: LabelReader) -> bool:
    if not run.isascii():
        return True  # another language's words, of which the letters tell nothing here
    pieces = len(scorer.pieces(run))
    return pieces == 1 or (not _VOWELS.isdisjoint(run.lower()) and pieces <= PIECES_A_LETTER * len(run))


def _codes(names: list[str]) -> Iterator[Finding]:
    if names:
        what = "is a code or an abbreviation" if len(names) == 1 else "are codes or abbreviations"
        yield Finding(
            "code",
            tuple(names),
            f"{_listed(names)} {what} that a language model may not understand.",
            "Write a description that says in words what is meant.",
            SEVERE,
        )


def _same_reading(labels: LabelSet) -> Iterator[Finding]:
    """Yield labels of which the language model reads the very same, capitals aside."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, reading in zip(labels.names, _readings(labels), strict=True):
        groups.setdefault(reading, []).append(name)
    several = sorted((names for names in groups.values() if len(names) > 1), key=len, reverse=True)
    advice = "Merge them, or describe how they differ."
    for names in several[:NEAR_PAIRS]:
        text = _cut(labels.descriptions[labels.place(names[0])])
        yield Finding(
            "same reading",
            tuple(names),
            f"Of {_listed(names)} the language model reads the same: '{text}'.",
            advice,
            SEVERE,
        )
    if rest := several[NEAR_PAIRS:]:
        names = [name for group in rest for name in group]
        problem = f"In {len(rest)} more groups, {len(names)} labels read the same as another."
        yield Finding("same reading", tuple(names), problem, advice, SEVERE)


def _readings(labels: LabelSet) -> list[tuple[str, ...]]:
    """Return what is read of each label, capitals and order aside."""
    return [tuple(sorted(phrase.casefold().strip() for phrase in phrases)) for phrases in labels.phrases()]


def _near_duplicates(labels: LabelSet, vectors: Tensor, codes: set[str]) -> Iterator[Finding]:
    """Yield pairs with a very high cosine; of codes, which are alike to a language model anyway, none."""
    numbers: dict[tuple[str, ...], int] = {}
    readings = torch.tensor([numbers.setdefault(reading, len(numbers)) for reading in _readings(labels)])
    readable = torch.tensor([name not in codes for name in labels.names])
    pairs: list[tuple[float, int, int]] = []
    count, involved = 0, torch.zeros(len(labels), dtype=torch.bool)
    for start in range(0, len(vectors), _ROWS):
        rows = slice(start, start + _ROWS)
        # A pair is looked at once: the second label comes after the first.
        cosines = (vectors[rows] @ vectors[start:].t()).triu(diagonal=1)
        near = (cosines >= NEAR_COSINE) & (readings[rows, None] != readings[start:])
        near &= readable[rows, None] & readable[start:]
        if not near.any():
            continue
        count += int(near.sum())
        involved[rows] |= near.any(dim=1)
        involved[start:] |= near.any(dim=0)
        best = torch.topk(torch.where(near, cosines, 0).flatten(), min(NEAR_PAIRS, int(near.sum())))
        for cosine, place in zip(best.values.tolist(), best.indices.tolist(), strict=True):
            row, column = divmod(place, near.shape[1])
            pairs.append((cosine, start + row, start + column))
    pairs = sorted(pairs, key=lambda pair: (-pair[0], pair[1:]))[:NEAR_PAIRS]
    for cosine, first, second in pairs:
        names = (labels.names[first], labels.names[second])
        yield Finding(
            "near duplicates",
            names,
            f"'{names[0]}' and '{names[1]}' mean nearly the same to the language model (cosine {cosine:.2f}).",
            "Merge the two, or describe how they differ.",
            MODERATE,
        )
    if count > len(pairs):
        names = tuple(labels.names[place] for place in involved.nonzero().flatten().tolist())
        yield Finding(
            "near duplicates",
            names,
            f"{count - len(pairs):,} more pairs mean nearly the same; {len(names):,} labels are in such pairs.",
            "Merge what need not be told apart, or describe how the labels differ.",
            MODERATE,
        )


def _far(labels: LabelSet, vectors: Tensor, texts: Tensor | None) -> Iterator[Finding]:
    """Yield the labels with a best cosine over the texts that is an outlier on the low side."""
    if len(labels) < FAR_LABELS or texts is None:
        return
    best = torch.cat([(part @ texts.float().t()).amax(dim=1) for part in vectors.split(_ROWS)])
    middle = best.median()
    deviation = 1.4826 * (best - middle).abs().median()
    order = [place for place in best.argsort().tolist() if best[place] < middle - FAR_DEVIATIONS * deviation]
    if order:
        names = [labels.names[place] for place in order]
        yield Finding(
            "far from the texts",
            tuple(names),
            f"No text comes near {_listed(names)} (best cosine {best[order[0]]:.2f}, of a usual label {middle:.2f}).",
            "Describe them in the words that such texts use, add synonyms, or leave them out.",
            MODERATE,
        )


def _short_names(labels: LabelSet, codes: set[str]) -> Iterator[Finding]:
    names = [
        name
        for name in _without_meaning(labels)
        if name not in codes and len(name) <= SHORT_WORD and _RUN.fullmatch(name)
    ]
    if names:
        what = "is a short word" if len(names) == 1 else "are short words"
        yield Finding(
            "short name",
            tuple(names),
            f"{_listed(names)} {what} without a description, which may have several meanings.",
            "Describe those that have another meaning elsewhere, or add synonyms.",
            HINT,
        )


def _not_compared(why: str, advice: str) -> Finding:
    return Finding("not compared", (), f"Near duplicates were not looked for: {why}.", advice, HINT)


def _plain(text: str) -> str:
    return _BETWEEN.sub(" ", text.casefold()).strip()


def _listed(names: Sequence[str]) -> str:
    """Return names in quotes, the first few of many."""
    shown = [f"'{_cut(name)}'" for name in names[:_SHOWN]]
    if len(names) > _SHOWN:
        return f"{', '.join(shown)} and {len(names) - _SHOWN:,} more"
    return " and ".join(part for part in (", ".join(shown[:-1]), shown[-1]) if part)


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 60 else f"{text[:59]}…"
