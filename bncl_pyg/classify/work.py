"""The folder that `classify_table` works in: what it made last time, and from what, so that only what changed is made.

WORK/
  manifest.json        from which inputs graph and model were made
  texts-SCORER.jsonl   {"sha256", "text"}: the texts that have been scored
  features-SCORER/     their scores; a text is known by its hash, so that equal texts are scored once
  graph/               the signed label graph
  model/               the model
"""

import hashlib
import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bncl_pyg.corpus import LabelSet, read_rows
from bncl_pyg.features import Features, StaleFeaturesError, featurize, read_features, text_hash
from bncl_pyg.persistence import (
    MANIFEST,
    check_fields,
    check_own_folder,
    clear_own_folder,
    folder_lock,
    read_manifest,
    write_jsonl,
    write_manifest,
)
from bncl_pyg.scorers import Scorer

if TYPE_CHECKING:
    from bncl_pyg.graph import SignedLabelGraph

log = logging.getLogger(__name__)

KIND = "work"
Progress = Callable[[str, int, int], None]
"""Told what is being done, how much of it is, and how much there is to do."""


class WorkFolder:
    """A folder of one's own for features, graph and model; made by `opened`, which holds its lock."""

    def __init__(self, path: Path, made_from: dict[str, str]) -> None:
        self.path, self._made_from = path, made_from

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> "Iterator[WorkFolder]":
        """Open a work folder, new or there already."""
        check_own_folder(path, KIND)
        path.mkdir(parents=True, exist_ok=True)
        with folder_lock(path):
            clear_own_folder(path)
            made_from: dict[str, str] = {}
            if (path / MANIFEST).exists():
                manifest = read_manifest(path, KIND, check_files=False)
                check_fields(manifest, {"made_from": dict}, path / MANIFEST)
                made_from = manifest["made_from"]
            else:
                write_manifest(path, KIND, {"made_from": made_from}, {})
            yield cls(path, made_from)

    @property
    def model(self) -> Path:
        """Where the model lies."""
        return self.path / "model"

    def is_current(self, name: str, inputs: Any) -> bool:
        """Return whether a part is there that was made from these inputs."""
        return (self.path / name / MANIFEST).is_file() and self._made_from.get(name) == _fingerprint(inputs)

    def made(self, name: str, inputs: Any) -> None:
        """Remember from what a part was made."""
        self._made_from[name] = _fingerprint(inputs)
        write_manifest(self.path, KIND, {"made_from": self._made_from}, {})

    def features(
        self, texts: Sequence[str], labels: LabelSet, scorer: Scorer, name: str, progress: Progress
    ) -> tuple[Features, list[int], int]:
        """Score what has not been scored; return all scores, the row of each text, and how many texts were scored now.

        Args:
            texts: the texts.
            labels: the labels.
            scorer: what reads them.
            name: what the scorer is called.
            progress: told of scored texts.
        """
        slug = re.sub(r"[^A-Za-z0-9.-]+", "_", name)
        store, list_file = self.path / f"features-{slug}", self.path / f"texts-{slug}.jsonl"
        wanted = {text_hash(text): text for text in texts}
        stored: dict[str, str] = {}
        if store.exists() and list_file.exists():
            stored = {row.string("sha256"): row.string("text") for row in read_rows(list_file)}
        there = _stored_labels(store)
        # What is not asked for any more stays, and costs nothing; if it is most of the store, that is made anew.
        gone = stored.keys() - wanted.keys()
        unused = sum(label not in labels for label in there.names)
        fresh = store.exists() and (len(gone) > len(stored) / 2 or unused > len(there) / 2 or not stored)
        if not fresh:
            wanted = {**stored, **wanted}
            labels = _joined(there, labels)
        write_jsonl(list_file, ({"sha256": key, "text": text} for key, text in wanted.items()))
        try:
            scored = _featurized(wanted, labels, scorer, store, progress, fresh=fresh)
        except StaleFeaturesError as error:
            log.info("%s: all texts are scored anew.", str(error).split(";")[0])
            scored = _featurized(wanted, labels, scorer, store, progress, fresh=True)
        loaded = read_features(store)
        rows = {key: row for row, key in enumerate(loaded.ids)}
        return loaded, [rows[text_hash(text)] for text in texts], scored

    def graph(self, labels: LabelSet, progress: Progress) -> "tuple[SignedLabelGraph, bool]":
        """Return the default graph of the labels, and whether it was built now."""
        # PyG takes seconds to import.
        from bncl_pyg.graph import SignedLabelGraph, default_graph

        inputs = {"labels": labels.digest()}
        if self.is_current("graph", inputs):
            return SignedLabelGraph.load(self.path / "graph"), False
        progress("building the label graph", 0, 1)
        graph = default_graph(labels)
        graph.save(self.path / "graph", overwrite=True)
        self.made("graph", inputs)
        progress("building the label graph", 1, 1)
        return graph, True


def _stored_labels(store: Path) -> LabelSet:
    file = store / "labels.jsonl"
    return LabelSet.read(file) if file.is_file() else LabelSet((), ())


def _joined(there: LabelSet, given: LabelSet) -> LabelSet:
    """Return the labels of a store, with their present meaning, followed by those that are new."""
    synonyms = given.synonyms or ((),) * len(given)
    meanings = dict(zip(given.names, zip(given.descriptions, synonyms, strict=True), strict=True))
    kept = dict(
        zip(there.names, zip(there.descriptions, there.synonyms or ((),) * len(there), strict=True), strict=True)
    )
    joined: Mapping[str, tuple[str, tuple[str, ...]]] = {**kept, **meanings}
    return LabelSet(tuple(joined), tuple(text for text, _ in joined.values()), tuple(w for _, w in joined.values()))


def _featurized(
    texts: Mapping[str, str], labels: LabelSet, scorer: Scorer, store: Path, progress: Progress, *, fresh: bool
) -> int:
    """Fill the store; return how many texts were scored."""
    what, done, total = "scoring texts", 0, len(texts)

    def start(count: int, ready: int) -> None:
        nonlocal done, total
        total, done = count, ready
        progress(what, done, total)

    def advance(count: int) -> None:
        nonlocal done
        done += count
        progress(what, done, total)

    result = featurize(
        lambda: texts.items(),
        labels,
        scorer,
        store,
        fresh=fresh,
        start=start,
        progress=advance,
        labels_progress=lambda count, of: progress("encoding labels", count, of),
    )
    return result.read


def _fingerprint(inputs: Any) -> str:
    """Return one hash of what something was made from."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True, default=str).encode()).hexdigest()
