"""The live report and the label graph, made when they are asked for and kept until something changes."""

import base64
import hashlib
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array

from bncl_pyg.corpus import Corpus
from bncl_pyg.errors import InputError
from bncl_pyg.report import ReportData, collect_report, render_report
from bncl_pyg.serve.annotating import AnnotationSession
from bncl_pyg.serve.answers import YES
from bncl_pyg.serve.retraining import wholly_answered

About = Literal["all", "answered"]
SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


@dataclass(frozen=True)
class _Kept:
    key: tuple[int, int, str]
    data: ReportData


class Looks:
    """Reports on the texts of a project.

    Args:
        annotation: the project's.
    """

    def __init__(self, annotation: AnnotationSession) -> None:
        self._annotation, self._lock = annotation, threading.Lock()
        self._kept: dict[str, _Kept] = {}

    def report(self, about: About) -> str:
        """Return a report as one page: on all texts, or beside the truth on those that are answered."""
        return render_report(self._data(about))

    def graph(self) -> dict[str, Any]:
        """Return the signed label graph as it is drawn: nodes with places between 0 and 1, edges with their sign."""
        data = self._data("all")
        nodes = [
            {"label": data.labels[label].name, "x": x, "y": y, "given": data.labels[label].given}
            for label, x, y in data.graph.nodes
        ]
        places = {label: place for place, (label, _, _) in enumerate(data.graph.nodes)}
        edges = [[places[one], places[other], sign, weight] for one, other, sign, weight in data.graph.edges]
        return {"nodes": nodes, "edges": edges, "texts": data.n_texts, "note": data.graph.note}

    def _data(self, about: About) -> ReportData:
        live = self._annotation.engine.live
        count = len(self._annotation.project.answers()) if about == "answered" else 0
        key = live.version, count, about
        # One at a time: whoever asks for the same waits for it.
        with self._lock:
            kept = self._kept.get(about)
            if kept is None or kept.key != key:
                collect: Callable[[], ReportData] = self._on_all if about == "all" else self._on_answered
                kept = self._kept[about] = _Kept(key, collect())
            return kept.data

    def _on_all(self) -> ReportData:
        annotation = self._annotation
        title = f"All texts of {annotation.project.folder.name}"
        return collect_report(
            annotation.engine.live.classifier, annotation.features, texts=annotation.corpus, title=title
        )

    def _on_answered(self) -> ReportData:
        annotation = self._annotation
        rows, answers = wholly_answered(*annotation.retrainer.target())
        if not len(rows):
            raise InputError("No text is wholly answered yet: there is no truth to look at.")
        some = annotation.corpus.rows(rows)
        truth = Corpus(some.ids, some.texts, csr_array(answers == YES))
        live = annotation.engine.live
        learned = " (the model learned from them)" if live.answers else ""
        title = f"Answered texts of {annotation.project.folder.name}{learned}"
        return collect_report(live.classifier, annotation.features.rows(np.asarray(rows)), truth=truth, title=title)


def script_hashes(page: str) -> list[str]:
    """Return the sources that a page's own scripts are, so that a policy allows these and no others."""
    hashes = (hashlib.sha256(script.encode()).digest() for script in SCRIPT.findall(page))
    return [f"'sha256-{base64.b64encode(one).decode()}'" for one in hashes]
