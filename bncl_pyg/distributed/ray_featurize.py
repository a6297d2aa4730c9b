"""`featurize_on_ray`: what `featurize` does, by the workers of a Ray cluster; the store is the same to the byte.

The driver reads which texts there are, cuts them into shards as one process would, and encodes the labels. A shard is a
piece of work: whoever has it scores it with all of its texts and writes its files and its manifest. Texts that stand in
an earlier shard are not scored twice: their scores are copied when all shards are scored.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bncl_pyg.corpus import LabelSet
from bncl_pyg.distributed.engine import ATTEMPTS, Attempts, RayOptions, connected, read_tables, run_actors, run_tasks
from bncl_pyg.distributed.inputs import table_names
from bncl_pyg.distributed.label_shards import (
    ShardedLabels,
    check_label_shards,
    hold_labels,
    label_vectors,
    write_label_vectors,
)
from bncl_pyg.distributed.ray_graph import RayBlocks
from bncl_pyg.distributed.spooled import InputOptions, InputTexts, input_folder, read_table, texts_at
from bncl_pyg.errors import InputError
from bncl_pyg.features import (
    Dtype,
    FeatureStore,
    Featurized,
    RepeatedIdError,
    ShardWork,
    Span,
    finish_shard,
    open_store,
    shard_key,
    store_config,
    writing,
)
from bncl_pyg.persistence import map_arrays, write_arrays
from bncl_pyg.scorers import TEMPLATE, Progress, Scorer, scorer_parts

Scorers = tuple[Scorer, Scorer | None]
"""The scorer and, where it does not choose candidates itself, the ranker."""
PLACES = "places.safetensors"
MOST_TOLD = 3
"""How many shards that could not be scored are told with their lines."""


@dataclass(frozen=True)
class Plan:
    """What a worker must know.

    Args:
        path: the store, which all workers reach under this name.
        folder: the texts.
        tables: how many tables they come from.
        load: loads scorer and ranker.
        nearest: the shards of labels to ask for candidates; if not given, a worker compares with all labels itself.
    """

    path: Path
    folder: Path
    tables: int
    load: Callable[[], Scorers]
    nearest: ShardedLabels | None = None


def featurize_on_ray(
    source: str,
    labels: LabelSet,
    load: Callable[[], Scorers],
    path: Path,
    options: RayOptions | None = None,
    *,
    reading: InputOptions | None = None,
    candidates: int | None = None,
    label_shards: int | None = None,
    template: str | Sequence[str] = TEMPLATE,
    dtype: Dtype = "float32",
    fresh: bool = False,
    start: Callable[[int, int], None] | None = None,
    progress: Progress | None = None,
    labels_progress: Callable[[int, int], None] | None = None,
) -> tuple[Featurized, InputTexts]:
    """Score every text against every label, or against its best candidates, into a store that all workers reach.

    Args:
        source: a table or a folder of tables, by a path or as `s3://…` and the like; tables follow by name.
        labels: the labels.
        load: loads scorer and ranker, here and in every worker; it must be one that can be pickled.
        path: the store; if it is there, only what is missing is scored.
        options: where the work is done.
        reading: how tables are read.
        candidates: see `featurize`, as for all others.
        label_shards: into how many shards the labels are cut among which candidates are searched for, each in a faiss
            index on an actor of its own; if not given, every worker compares with all labels. It changes no result.
        template: likewise.
        dtype: likewise.
        fresh: likewise.
        start: likewise.
        progress: called after each shard with how many texts it has.
        labels_progress: see `featurize`.

    Returns:
        What was done, and the texts; their folder is removed when the store is whole.
    """
    options, reading = options or RayOptions(), reading or InputOptions()
    check_label_shards(label_shards, candidates)
    path = path.absolute()
    names, folder = table_names(source), input_folder(path)
    scorer, ranker = load()
    config = store_config(labels, scorer, ranker, candidates, template, dtype)
    with connected(options):
        texts = _spool(names, folder, reading)
        with _opened(path, config, texts, labels, scorer.block_texts, fresh=fresh) as store:
            work = ShardWork(store, scorer, ranker)
            work.encode_labels(labels_progress)
            _write_places(store, texts, folder)
            if start is not None:
                start(len(store.index), 0)
            plan = Plan(path, folder, len(names), load)
            with _sharded(plan, work, options, label_shards) as plan:
                done = _score(store, plan, options, progress)
            store.clear_leftovers()
            store.forget_shards()
            if store.missing():
                raise InputError(f"{path} is not complete: files vanished while it was made; featurize again.")
            recall = None if candidates is None else work.recall(texts)
            counts = len(store.index), len(labels), done["scored"], len(store.grid.rows) * len(store.grid.columns)
            shutil.rmtree(folder)
            return Featurized(*counts, done["read"], done["cut"], recall), texts


@contextmanager
def _sharded(plan: Plan, work: ShardWork, options: RayOptions, shards: int | None) -> Iterator[Plan]:
    """Give the plan with shards of labels, if any are wanted, for as long as they are needed."""
    if shards is None:
        yield plan
        return
    if not work.rankers:
        raise InputError("label_shards needs candidates that are chosen by vectors, but here no encoder chooses them.")
    write_label_vectors(plan.folder, [ranker.label_vectors(work.hypotheses) for ranker in work.rankers])
    engine = RayBlocks(replace(options, gpus=0))
    try:
        yield replace(plan, nearest=hold_labels(engine, plan.folder, len(work.hypotheses), shards))
    finally:
        engine.release()


def _spool(names: Sequence[str], folder: Path, reading: InputOptions) -> InputTexts:
    """Have the tables read, each by one worker."""
    folder.mkdir(parents=True, exist_ok=True)
    read_tables(names, partial(_read_one, list(names), folder, reading))
    texts = InputTexts(folder, len(names))
    if not len(texts):
        raise InputError(f"{names[0]} holds no text.")
    return texts


def _read_one(names: list[str], folder: Path, reading: InputOptions, number: int) -> dict[str, Any]:
    return read_table(names[number], number, folder, reading)


def _opened(
    path: Path, config: dict[str, Any], texts: InputTexts, labels: LabelSet, block_texts: int, *, fresh: bool
) -> Any:
    return _Named(writing(path, config, texts.hashed(), labels, block_texts, fresh=fresh, verify=False), texts)


class _Named:
    """Opens a store; an id that two texts have is told with the lines of both."""

    def __init__(self, opening: Any, texts: InputTexts) -> None:
        self._opening, self._texts = opening, texts

    def __enter__(self) -> FeatureStore:
        try:
            store: FeatureStore = self._opening.__enter__()
        except RepeatedIdError as error:
            first, second = (self._texts.line(place) for place in error.places)
            raise InputError(f"{second}: id '{error.identifier}' is given twice (first in {first}).") from None
        for key in map(_label_key, store.label_groups()):
            store.verify(key)
        return store

    def __exit__(self, *error: Any) -> Any:
        return self._opening.__exit__(*error)


def _label_key(columns: Span) -> str:
    return f"c{columns[0]:08d}"


def _write_places(store: FeatureStore, texts: InputTexts, folder: Path) -> None:
    """Write where in the input the text of each row is: in the same order, unless texts came earlier in another."""
    places: NDArray[np.int64] = np.full(len(store.index), -1, dtype=np.int64)
    row = -1
    for place in range(len(texts)):
        row = store.index.find(texts.id(place), row + 1)
        places[row] = place
    write_arrays(folder / PLACES, {"places": places})


def _score(store: FeatureStore, plan: Plan, options: RayOptions, progress: Progress | None) -> dict[str, int]:
    """Have all shards scored, then those finished that copy from others; return what was done."""
    Attempts(plan.folder / "attempts").clear()
    counts = {"scored": 0, "read": 0, "cut": 0}
    waiting, errors = [], {}
    for done in run_actors(ShardScorer, (plan,), range(len(store.grid.rows)), options):
        for name in counts:
            counts[name] += done.get(name, 0)
        if done.get("error"):
            errors[done["piece"]] = done["error"]
        elif done["waits"]:
            waiting.append(done["piece"])
        if progress is not None:
            first, last = store.grid.rows[done["piece"]]
            progress(last - first)
    if errors:
        told = " ".join(errors[piece] for piece in sorted(errors)[:MOST_TOLD])
        more = (
            f" There are {len(errors) - MOST_TOLD} further shards with such texts." if len(errors) > MOST_TOLD else ""
        )
        raise InputError(f"{told}{more} What could be scored is kept.")
    for done in run_tasks(partial(_finish, plan), sorted(waiting)):
        counts["scored"] += done["scored"]
    return counts


def _finish(plan: Plan, number: int) -> dict[str, Any]:
    store = open_store(plan.path, check=False)
    return {"scored": finish_shard(store, store.grid.rows[number])}


class ShardScorer:
    """A worker: holds the scorer, and does one shard after the other."""

    def __init__(self, plan: Plan) -> None:
        import torch

        # Ray tells a worker how many cores are its own.
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
        self.store = open_store(plan.path, check=False)
        self.texts = InputTexts(plan.folder, plan.tables)
        self.places = map_arrays(plan.folder / PLACES)["places"]
        self.attempts = Attempts(plan.folder / "attempts")
        scorer, ranker = plan.load()
        if scorer.config() != self.store.config["scorer"]:
            raise InputError(f"A worker has another configuration of '{scorer.config()['name']}' than the driver.")
        self.work = ShardWork(self.store, scorer, ranker, plan.nearest)
        self.work.use_labels(() if plan.nearest is None else label_vectors(plan.folder))

    def __call__(self, number: int) -> dict[str, Any]:
        """Do what is missing of a shard."""
        rows = self.store.grid.rows[number]
        self.store.forget_shards()
        self.store.verify(shard_key(rows))
        if not self.work.todo(rows):
            return {"waits": False}
        places = self.places[slice(*rows)].tolist()
        if not self.attempts.begin(number):
            where = f"{self.texts.line(places[0])} to {self.texts.line(places[-1])}"
            return {"error": f"{where}: the worker was lost {ATTEMPTS} times while it scored these texts."}
        content = texts_at(self.texts, places)
        try:
            done = self.work.do(rows, content)
        except Exception as error:  # whatever a scorer raises is told with the text that it was raised by
            return {"error": self._poisoned(places, content, error)}
        finally:
            self.attempts.end(number)
        return {"scored": done.scored, "read": done.read, "cut": done.cut, "waits": done.waits}

    def _poisoned(self, places: Sequence[int], content: Sequence[str], error: Exception) -> str:
        """Say which text a scorer cannot read, by having it read each alone."""
        for place, text in zip(places, content, strict=True):
            try:
                for part in scorer_parts(self.work.scorer).values():
                    part.score([text], self.work.hypotheses)
                    part.vectors([text])
            except Exception as own:
                return f"{self.texts.line(place)}: the scorer cannot read this text ({_shown(own)})."
        where = f"{self.texts.line(places[0])} to {self.texts.line(places[-1])}"
        return f"{where}: these texts could not be scored ({_shown(error)})."


def _shown(error: Exception) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0].rstrip('.')}" if lines else type(error).__name__
