"""What is done with one shard of a store: score what is missing, whoever asks for it and wherever that runs."""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bncl_pyg.features.index import Span
from bncl_pyg.features.store import FeatureStore, scorer_configs
from bncl_pyg.features.words import word_counts
from bncl_pyg.scorers import (
    BiEncoderScorer,
    EnsembleScorer,
    NearestLabels,
    Scorer,
    best_candidates,
    hypotheses_of,
    join_scores,
    scorer_parts,
    vector_rankers,
)

SAMPLE_TEXTS, SAMPLE_SHARE = 50, 0.1
"""The recall of candidates is estimated on so many texts, or on fewer if scoring them in full would cost more than this
share of the whole work."""


@dataclass(frozen=True)
class CandidateRecall:
    """What keeping only candidates costs, on texts that were scored in full."""

    texts: int
    entailed: float | None
    """The share of labels with entailment above contradiction that are among the candidates; `None` without any."""
    best: float
    """The share of each text's five labels with the highest entailment that are among the candidates."""


@dataclass(frozen=True)
class ShardDone:
    """What was done with a shard."""

    scored: int
    """How many blocks were scored."""
    read: int
    """How many texts were read."""
    cut: int
    """How many of these have an end that was not read."""
    waits: bool = False
    """Whether the scores of some texts are still to be copied from other shards, which are not there yet."""


class ShardWork:
    """Scores shards; a text that stood in an earlier row is not scored again but copied.

    The texts of a shard that are new are scored together, so that the scores do not depend on who scores what: a scorer
    that computes in 8 bits may say something else of the same text among others.

    Args:
        store: an open store.
        scorer: of pairs.
        ranker: chooses candidates; the scorer itself if not given.
        nearest: searches among all labels for it; see `NearestLabels`. It changes no result.

    Attributes:
        rankers: the encoders that choose candidates by their vectors.
    """

    def __init__(
        self,
        store: FeatureStore,
        scorer: Scorer,
        ranker: Scorer | None = None,
        nearest: NearestLabels | None = None,
    ) -> None:
        self.store, self.scorer, self.parts, self._nearest = store, scorer, scorer_parts(scorer), nearest
        self.ranker = _chooser(store.config.get("ranker"), ranker or scorer)
        self.rankers = vector_rankers(self.ranker)
        self.hypotheses = hypotheses_of(store.labels.phrases(), store.config["template"])
        self.candidates: int | None = store.config.get("candidates")
        self._with_vectors = [name for name, part in self.parts.items() if part.vectors([]) is not None]

    def encode_labels(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Have each part compute what the store does not hold of the labels yet, and give it all of it."""
        groups = self.store.label_groups()
        for number, (name, part) in enumerate(self.parts.items()):
            for group in groups:
                if not self.store.has_labels(group, name):
                    tensors = part.encode_labels(self.hypotheses[slice(*group)])
                    if not tensors:
                        break
                    self.store.put_labels(group, name, tensors)
                if progress is not None:
                    progress(number * len(self.hypotheses) + group[1], len(self.parts) * len(self.hypotheses))
            self._use_labels(name, part)

    def use_labels(self, vectors: Sequence[Tensor] = ()) -> None:
        """Give each part what the store holds of the labels.

        Args:
            vectors: the labels' vectors of each of the rankers, where these are not to be read from the store.
        """
        given = self.rankers if vectors else []
        for ranker, own in zip(given, vectors, strict=True):
            ranker.use_labels(self.hypotheses, {"vectors": own})
        for name, part in self.parts.items():
            if not any(part is ranker for ranker in given):
                self._use_labels(name, part)

    def _use_labels(self, name: str, part: Scorer) -> None:
        stored = self.store.label_tensors(name)
        if stored:
            part.use_labels(self.hypotheses, stored)

    def todo(self, rows: Span) -> bool:
        """Return whether something of a shard is missing."""
        return bool(self.missing_columns(rows)) or not self.store.has_texts(rows) or bool(self._no_vectors(rows))

    def missing_columns(self, rows: Span) -> list[Span]:
        """Return the groups of columns of which a part is still to be scored."""
        return [
            columns
            for columns in self.store.grid.columns
            if not all(self.store.has_block(rows, columns, part) for part in self.store.parts)
        ]

    def _no_vectors(self, rows: Span) -> list[str]:
        return [name for name in self._with_vectors if not self.store.has_vectors(rows, name)]

    def do(self, rows: Span, texts: Sequence[str]) -> ShardDone:
        """Put what is missing of a shard into the store.

        Where texts stand in earlier rows whose scores are not there yet, the others' scores are set aside; when all
        shards were done so far, doing it again finds what it waited for.
        """
        missing = self.missing_columns(rows)
        whole = [self._block(rows, columns, texts) for columns in missing]
        for name in self._no_vectors(rows):
            vectors = self.parts[name].vectors(texts)
            assert vectors is not None
            self.store.put_vectors(rows, name, vectors)
        if not self.store.has_texts(rows):
            self.store.put_texts(rows, word_counts(list(texts)))
        reading = self.scorer.reading(texts)
        cut = 0 if reading is None else round(reading.cut * len(texts))
        return ShardDone(sum(whole), len(texts), cut, waits=not all(whole))

    def _block(self, rows: Span, columns: Span, texts: Sequence[str]) -> bool:
        """Score what is missing of one block, part by part; return whether all of it could be put into the store."""
        origin = self.store.index.first_rows(rows)
        new = [place for place, row in enumerate(origin) if row >= rows[0]]
        fresh = [texts[place] for place in new]
        hypotheses = self.hypotheses[slice(*columns)]
        missing = [name for name in self.parts if not self.store.has_block(rows, columns, name)]
        aside = {name: self.store.get_aside(rows, columns, name) for name in missing}
        pairs = self._pairs(rows, columns, fresh, new) if None in aside.values() else None
        whole = True
        for name in missing:
            scores = aside[name]
            if scores is None:
                if fresh:
                    entailment, contradiction = self.parts[name].score(fresh, hypotheses, pairs)
                else:
                    entailment, contradiction = torch.zeros(2, 0, self.candidates or len(hypotheses))
                scores = {"entailment": entailment, "contradiction": contradiction}
                if pairs is not None:
                    scores["labels"] = pairs
            filled = _with_copies(self.store, scores, rows, columns, name)
            if filled is None:
                self.store.put_aside(rows, columns, name, scores)
                whole = False
            else:
                self.store.put(rows, columns, name, filled)
        return whole

    def _pairs(self, rows: Span, columns: Span, fresh: list[str], new: list[int]) -> Tensor | None:
        """Return the candidates of texts that are scored now; those that another part was scored with, if there are."""
        if self.candidates is None:
            return None
        known = self.store.get_candidates(rows, columns)
        if known is not None:
            return known[new]
        if not fresh:
            return torch.zeros(0, self.candidates).long()
        hypotheses = self.hypotheses[slice(*columns)]
        if self._nearest is not None and isinstance(self.ranker, BiEncoderScorer | EnsembleScorer):
            return self.ranker.top_labels(fresh, hypotheses, self.candidates, nearest=self._nearest)
        return self.ranker.top_labels(fresh, hypotheses, self.candidates)

    def recall(self, texts: Iterable[tuple[str, str]]) -> CandidateRecall:
        """Score a random sample of texts in full and count which labels the candidates miss."""
        assert self.candidates is not None
        total, labels = len(self.store.index), len(self.hypotheses)
        affordable = int(SAMPLE_SHARE * total * self.candidates / labels)
        count = min(total, SAMPLE_TEXTS, max(affordable, 1))
        chosen = {self.store.index.id(row) for row in random.Random(0).sample(range(total), count)}
        sample = [text for identifier, text in texts if identifier in chosen]
        kept = torch.zeros(count, labels, dtype=torch.bool)
        kept.scatter_(1, self.ranker.top_labels(sample, self.hypotheses, self.candidates), True)
        entailment, contradiction = join_scores([part.score(sample, self.hypotheses) for part in self.parts.values()])
        entailed = entailment > contradiction
        best = torch.zeros_like(kept).scatter_(1, best_candidates(entailment, min(5, labels)), True)
        return CandidateRecall(
            count,
            float((kept & entailed).sum() / entailed.sum()) if bool(entailed.any()) else None,
            float((kept & best).sum() / best.sum()),
        )


def finish_shard(store: FeatureStore, rows: Span) -> int:
    """Make the blocks of what was set aside, where what they copy from is there; return how many."""
    finished = 0
    for columns in store.grid.columns:
        missing = [name for name in store.parts if not store.has_block(rows, columns, name)]
        for name in missing:
            aside = store.get_aside(rows, columns, name)
            filled = None if aside is None else _with_copies(store, aside, rows, columns, name)
            if filled is None:
                break
            store.put(rows, columns, name, filled)
        else:
            finished += bool(missing)
    return finished


def _with_copies(
    store: FeatureStore, scores: dict[str, Tensor], rows: Span, columns: Span, part: str
) -> dict[str, Tensor] | None:
    """Return the scores of all texts of a block from those of the texts that are no copies, and of earlier rows.

    `None`, where those of an earlier row are not there yet.
    """
    origin = store.index.first_rows(rows)
    new = [place for place, row in enumerate(origin) if row >= rows[0]]
    if len(new) == len(origin):
        return scores
    whole = {name: values.new_empty((len(origin), values.shape[1])) for name, values in scores.items()}
    for name, values in scores.items():
        whole[name][new] = values
    for place, row in enumerate(origin):
        if row < rows[0]:
            copied = _row(store, row, columns, part)
            if copied is None:
                return None
            for name, values in copied.items():
                whole[name][place] = values
    return whole


def _row(store: FeatureStore, row: int, columns: Span, part: str) -> dict[str, Tensor] | None:
    """Return the scores of a text that is no copy, from its block or from what was set aside for it."""
    rows = store.grid.rows_with(row)
    if store.has_block(rows, columns, part):
        return store.get_row(row, columns, part)
    aside = store.get_aside(rows, columns, part)
    if aside is None:
        return None
    place = sum(first >= rows[0] for first in store.index.first_rows((rows[0], row)))
    return {name: values[place] for name, values in aside.items()}


def _chooser(config: dict[str, Any] | None, ranker: Scorer) -> Scorer:
    """Return who chose a store's candidates: the ranker, or those of its parts that there were then."""
    if config is None or config == ranker.config():
        return ranker
    parts = scorer_parts(ranker)
    there = {name: parts[name] for name in scorer_configs(config)}
    return EnsembleScorer(there, str(config["name"])) if len(there) > 1 else next(iter(there.values()))
