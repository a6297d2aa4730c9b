"""From texts and labels to a full store: does what is missing, block by block, in order."""

import random
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bncl_pyg.corpus import LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.features.store import Dtype, FeatureStore, Span, TextIndex, scorer_configs, text_hash, writing
from bncl_pyg.features.words import BUCKETS, HASH, word_counts
from bncl_pyg.scorers import (
    TEMPLATE,
    EnsembleScorer,
    Hypothesis,
    Progress,
    Scorer,
    best_candidates,
    hypotheses_of,
    join_scores,
    scorer_parts,
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
class Featurized:
    """What was done."""

    texts: int
    labels: int
    scored_blocks: int
    blocks: int
    read: int
    """How many texts were read now."""
    cut: int
    """How many of these have an end that was not read."""
    recall: CandidateRecall | None


def featurize(
    texts: Callable[[], Iterable[tuple[str, str]]],
    labels: LabelSet,
    scorer: Scorer,
    path: Path,
    *,
    ranker: Scorer | None = None,
    candidates: int | None = None,
    template: str | Sequence[str] = TEMPLATE,
    dtype: Dtype = "float32",
    fresh: bool = False,
    start: Callable[[int, int], None] | None = None,
    progress: Progress | None = None,
    labels_progress: Callable[[int, int], None] | None = None,
) -> Featurized:
    """Score every text against every label, or against its best candidates, into a store on disk.

    Args:
        texts: gives (id, text) anew each time it is called; it is gone through twice, and never held as a whole.
        labels: the labels.
        scorer: of pairs.
        path: the store; if it is there, only what is missing is scored.
        ranker: chooses candidates; the scorer itself if not given.
        candidates: how many labels a text keeps; all, if not given.
        template: of hypotheses; or several, whose scores are averaged.
        dtype: of the stored scores.
        fresh: start anew.
        start: called with how many texts there are and how many of them are done already.
        progress: called after each block with how many texts it adds.
        labels_progress: called with how many labels' hypotheses are encoded, and how many there are.
    """
    if candidates is not None and not 1 <= candidates <= len(labels):
        raise InputError(f"Between 1 and {len(labels)} candidates can be kept, but {candidates} were asked for.")
    hypotheses_of(labels.phrases(), template)  # a bad template is refused before anything is written
    template = template if isinstance(template, str) else list(template)
    ids, hashes = [], []
    for identifier, text in texts():
        ids.append(identifier)
        hashes.append(text_hash(text))
    config: dict[str, Any] = {"kind": "dense" if candidates is None else "sparse", "dtype": dtype, "template": template}
    config |= {"scorer": scorer.config(), "word_buckets": BUCKETS, "word_hash": HASH}
    if candidates is not None:
        config |= {"candidates": candidates, "ranker": (ranker or scorer).config()}
    with writing(path, config, TextIndex(tuple(ids), tuple(hashes)), labels, scorer.block_texts, fresh=fresh) as store:
        hypotheses = hypotheses_of(store.labels.phrases(), template)
        parts = scorer_parts(scorer)
        _use_labels(store, parts, hypotheses, labels_progress)
        work = _Work(store, parts, _chooser(store.config.get("ranker"), ranker or scorer), hypotheses, candidates)
        missing = store.missing()
        todo: dict[Span, list[Span]] = {rows: [] for rows in store.grid.rows}
        for rows, columns in missing:
            todo[rows].append(columns)
        unread = set(store.missing_texts())
        no_vectors = {
            name: set(store.missing_vectors(name)) for name, part in parts.items() if part.vectors([]) is not None
        }
        todo = {
            rows: columns
            for rows, columns in todo.items()
            if columns or rows in unread or any(rows in groups for groups in no_vectors.values())
        }
        if start is not None:
            start(len(ids), len(ids) - sum(rows[1] - rows[0] for rows in todo))
        read = cut = 0
        for rows, content in _grouped(texts(), store, todo):
            for columns in todo[rows]:
                work.do(rows, columns, content)
            for name, groups in no_vectors.items():
                if rows in groups:
                    vectors = parts[name].vectors(content)
                    assert vectors is not None
                    store.put_vectors(rows, name, vectors)
            if rows in unread:
                store.put_texts(rows, word_counts(content))
            reading = scorer.reading(content)
            read += len(content)
            cut += 0 if reading is None else round(reading.cut * len(content))
            if progress is not None:
                progress(rows[1] - rows[0])
        recall = None if candidates is None else work.recall(texts)
        return Featurized(len(ids), len(labels), len(missing), sum(1 for _ in store.grid.blocks()), read, cut, recall)


def _chooser(config: dict[str, Any] | None, ranker: Scorer) -> Scorer:
    """Return who chose a store's candidates: the ranker, or those of its parts that there were then."""
    if config is None or config == ranker.config():
        return ranker
    parts = scorer_parts(ranker)
    there = {name: parts[name] for name in scorer_configs(config)}
    return EnsembleScorer(there, str(config["name"])) if len(there) > 1 else next(iter(there.values()))


def _use_labels(
    store: FeatureStore,
    parts: Mapping[str, Scorer],
    hypotheses: Sequence[Hypothesis],
    progress: Callable[[int, int], None] | None,
) -> None:
    """Have each part compute what the store does not hold of the labels yet, and give it all of it."""
    groups = store.label_groups()
    for number, (name, part) in enumerate(parts.items()):
        for group in groups:
            if not store.has_labels(group, name):
                tensors = part.encode_labels(hypotheses[slice(*group)])
                if not tensors:
                    break
                store.put_labels(group, name, tensors)
            if progress is not None:
                progress(number * len(hypotheses) + group[1], len(parts) * len(hypotheses))
        stored = store.label_tensors(name)
        if stored:
            part.use_labels(hypotheses, stored)


def _grouped(
    texts: Iterable[tuple[str, str]], store: FeatureStore, todo: dict[Span, list[Span]]
) -> Iterator[tuple[Span, list[str]]]:
    """Yield each group of rows that has work with its texts, in the order of the rows.

    Texts usually come in that order; those that come too early wait.
    """
    places = {identifier: row for row, identifier in enumerate(store.index.ids)}
    groups = list(todo)
    starts = [group[0] for group in groups]
    waiting: list[dict[int, str]] = [{} for _ in groups]
    turn = 0
    for identifier, text in texts:
        row = places.get(identifier, -1)
        if row < 0 or text_hash(text) != store.index.hashes[row]:
            raise InputError(f"The text '{identifier}' changed while it was being scored.")
        number = bisect_right(starts, row) - 1
        if number < 0 or row >= groups[number][1]:
            continue
        waiting[number][row] = text
        while turn < len(groups) and len(waiting[turn]) == groups[turn][1] - groups[turn][0]:
            yield groups[turn], [waiting[turn][row] for row in range(*groups[turn])]
            waiting[turn] = {}
            turn += 1
        if turn == len(groups):
            return
    if turn < len(groups):
        raise InputError("Some texts vanished while they were being scored.")


class _Work:
    """Scores blocks; a text that stood in an earlier row is not scored again but copied."""

    def __init__(
        self,
        store: FeatureStore,
        parts: Mapping[str, Scorer],
        ranker: Scorer,
        hypotheses: Sequence[Hypothesis],
        candidates: int | None,
    ) -> None:
        self.store, self.parts, self.ranker = store, parts, ranker
        self.hypotheses, self.candidates = hypotheses, candidates
        self.first: dict[str, int] = {}
        for row, content in enumerate(store.index.hashes):
            self.first.setdefault(content, row)

    def do(self, rows: Span, columns: Span, texts: list[str]) -> None:
        """Score what is missing of one block and put it into the store, part by part."""
        origin = [self.first[self.store.index.hashes[row]] for row in range(*rows)]
        new = [place for place, row in enumerate(origin) if row >= rows[0]]
        fresh = [texts[place] for place in new]
        hypotheses = self.hypotheses[slice(*columns)]
        pairs = self._pairs(rows, columns, fresh, new)
        for name, part in self.parts.items():
            if self.store.has_block(rows, columns, name):
                continue
            if fresh:
                entailment, contradiction = part.score(fresh, hypotheses, pairs)
            else:
                entailment, contradiction = torch.zeros(2, 0, self.candidates or len(hypotheses))
            scores = {"entailment": entailment, "contradiction": contradiction}
            if pairs is not None:
                scores["labels"] = pairs
            self.store.put(rows, columns, name, self._with_copies(scores, rows, columns, name, origin, new))

    def _pairs(self, rows: Span, columns: Span, fresh: list[str], new: list[int]) -> Tensor | None:
        """Return the candidates of texts that are scored now; those that another part was scored with, if there are."""
        if self.candidates is None:
            return None
        known = self.store.get_candidates(rows, columns)
        if known is not None:
            return known[new]
        if not fresh:
            return torch.zeros(0, self.candidates).long()
        return self.ranker.top_labels(fresh, self.hypotheses[slice(*columns)], self.candidates)

    def _with_copies(
        self, scores: dict[str, Tensor], rows: Span, columns: Span, part: str, origin: list[int], new: list[int]
    ) -> dict[str, Tensor]:
        """Return the scores of all texts of a block from those of the new ones and of earlier rows."""
        if len(new) == len(origin):
            return scores
        whole = {name: values.new_empty((len(origin), values.shape[1])) for name, values in scores.items()}
        for name, values in scores.items():
            whole[name][new] = values
        for place, row in enumerate(origin):
            if row < rows[0]:
                for name, values in self.store.get_row(row, columns, part).items():
                    whole[name][place] = values
        return whole

    def recall(self, texts: Callable[[], Iterable[tuple[str, str]]]) -> CandidateRecall:
        """Score a random sample of texts in full and count which labels the candidates miss."""
        assert self.candidates is not None
        total, labels = len(self.store.index), len(self.hypotheses)
        affordable = int(SAMPLE_SHARE * total * self.candidates / labels)
        count = min(total, SAMPLE_TEXTS, max(affordable, 1))
        chosen = set(random.Random(0).sample(self.store.index.ids, count))
        sample = [text for identifier, text in texts() if identifier in chosen]
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
