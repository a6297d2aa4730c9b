"""From texts and labels to a full store: does what is missing, block by block, in order."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bncl_pyg.corpus import LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.features.index import Span, text_hash
from bncl_pyg.features.shard_work import CandidateRecall, ShardWork
from bncl_pyg.features.store import Dtype, FeatureStore, writing
from bncl_pyg.features.words import BUCKETS, HASH
from bncl_pyg.scorers import TEMPLATE, Progress, Scorer, hypotheses_of


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
    config = store_config(labels, scorer, ranker, candidates, template, dtype)
    hashed = ((identifier, text_hash(text)) for identifier, text in texts())
    with writing(path, config, hashed, labels, scorer.block_texts, fresh=fresh) as store:
        work = ShardWork(store, scorer, ranker)
        work.encode_labels(labels_progress)
        todo = [rows for rows in store.grid.rows if work.todo(rows)]
        count = len(store.index)
        if start is not None:
            start(count, count - sum(rows[1] - rows[0] for rows in todo))
        read = cut = scored = 0
        for rows, content in _grouped(texts(), store, todo):
            done = work.do(rows, content)
            read, cut, scored = read + done.read, cut + done.cut, scored + done.scored
            if progress is not None:
                progress(rows[1] - rows[0])
        recall = None if candidates is None else work.recall(texts())
        blocks = len(store.grid.rows) * len(store.grid.columns)
        return Featurized(count, len(labels), scored, blocks, read, cut, recall)


def store_config(
    labels: LabelSet,
    scorer: Scorer,
    ranker: Scorer | None,
    candidates: int | None,
    template: str | Sequence[str],
    dtype: Dtype,
) -> dict[str, Any]:
    """Return what a store depends on; raise where it cannot be made. The arguments are those of `featurize`."""
    if candidates is not None and not 1 <= candidates <= len(labels):
        raise InputError(f"Between 1 and {len(labels)} candidates can be kept, but {candidates} were asked for.")
    hypotheses_of(labels.phrases(), template)  # a bad template is refused before anything is written
    template = template if isinstance(template, str) else list(template)
    config: dict[str, Any] = {"kind": "dense" if candidates is None else "sparse", "dtype": dtype, "template": template}
    config |= {"scorer": scorer.config(), "word_buckets": BUCKETS, "word_hash": HASH}
    if candidates is not None:
        config |= {"candidates": candidates, "ranker": (ranker or scorer).config()}
    return config


def _grouped(
    texts: Iterable[tuple[str, str]], store: FeatureStore, groups: Sequence[Span]
) -> Iterator[tuple[Span, list[str]]]:
    """Yield each group of rows that has work with its texts, in the order of the rows.

    Texts usually come in that order; those that come too early wait.
    """
    starts = [group[0] for group in groups]
    waiting: dict[int, dict[int, str]] = {}
    turn, row = 0, -1
    for identifier, text in texts if groups else ():
        row = store.index.find(identifier, row + 1)
        if row < 0 or bytes.fromhex(text_hash(text)) != bytes(store.index.sha256(row)):
            raise InputError(f"The text '{identifier}' changed while it was being scored.")
        number = bisect_right(starts, row) - 1
        if number < 0 or row >= groups[number][1]:
            continue
        waiting.setdefault(number, {})[row] = text
        while turn < len(groups) and len(waiting.get(turn, ())) == groups[turn][1] - groups[turn][0]:
            content = waiting.pop(turn)
            yield groups[turn], [content[row] for row in range(*groups[turn])]
            turn += 1
        if turn == len(groups):
            return
    if turn < len(groups):
        raise InputError("Some texts vanished while they were being scored.")
