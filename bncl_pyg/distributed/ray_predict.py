"""`predict_on_ray`: what `predict_table` does, by the workers of a Ray cluster; the table is the same to the byte."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bncl_pyg.classify import AnswerGroups, Predicted, predict_table
from bncl_pyg.corpus import Columns, TextCleaner, TextTable
from bncl_pyg.distributed.engine import ATTEMPTS, Attempts, RayOptions, connected, read_tables, run_actors
from bncl_pyg.distributed.inputs import open_table
from bncl_pyg.distributed.spooled import InputOptions, InputTexts, input_folder, read_table
from bncl_pyg.errors import InputError
from bncl_pyg.features import Choice
from bncl_pyg.predictor import Predictor


@dataclass(frozen=True)
class Plan:
    """What a worker must know.

    Args:
        groups: the files of answers.
        folder: the texts.
        load: loads the model.
    """

    groups: AnswerGroups
    folder: Path
    load: Callable[[], Predictor]


def predict_on_ray(
    source: str,
    load: Callable[[], Predictor],
    out: Path,
    options: RayOptions | None = None,
    *,
    reading: InputOptions | None = None,
    choice: Choice | None = None,
    wide: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    start: Callable[[int, int], None] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Predicted:
    """Write a table with the labels of its texts, row by row in the order of the table.

    Args:
        source: a table, by a path or as `s3://…` and the like.
        load: loads the model, here and in every worker; it must be one that can be pickled.
        out: the file to write, in a folder that all workers reach.
        options: where the work is done.
        reading: how the table is read.
        choice: see `predict_table`, as for all others.
        wide: likewise.
        resume: likewise.
        overwrite: likewise.
        start: called with how many rows there are and how many of them are done already.
        progress: called after each group with how many rows it has.
    """
    options, reading = options or RayOptions(), reading or InputOptions()
    out = out.absolute()
    folder = input_folder(out)
    with open_table(source) as opened, connected(options):
        table = TextTable(opened, Columns.of(reading.text, reading.id), skip_empty=reading.skip_empty)
        folder.mkdir(parents=True, exist_ok=True)
        read_tables([source], partial(_read_one, source, folder, reading))
        texts = InputTexts(folder, 1)
        if not texts.rows:
            raise InputError(f"{source} holds no text.")
        done = predict_table(
            load(),
            table,
            out,
            choice=choice,
            wide=wide,
            cleaner=TextCleaner(reading.html),
            resume=resume,
            overwrite=overwrite,
            run=lambda groups: _answer(texts, Plan(groups, folder, load), options, start, progress),
        )
    shutil.rmtree(folder)
    return done


def _read_one(source: str, folder: Path, reading: InputOptions, number: int) -> dict[str, Any]:
    return read_table(source, number, folder, reading)


def _answer(
    texts: InputTexts,
    plan: Plan,
    options: RayOptions,
    start: Callable[[int, int], None] | None,
    progress: Callable[[int], None] | None,
) -> int:
    """Have all groups answered that are not; return how many rows were."""
    size = plan.groups.size
    sizes = [min(size, texts.rows - first) for first in range(0, texts.rows, size)]
    todo = [number for number in range(len(sizes)) if not plan.groups.file(number).exists()]
    resumed = texts.rows - sum(sizes[number] for number in todo)
    if start is not None:
        start(texts.rows, resumed)
    Attempts(plan.folder / "attempts").clear()
    errors = {}
    for done in run_actors(GroupPredictor, (plan,), todo, options):
        if done["error"]:
            errors[done["piece"]] = done["error"]
        if progress is not None:
            progress(sizes[done["piece"]])
    if errors:
        raise InputError(f"{errors[min(errors)]} What could be predicted is kept.")
    return resumed


class GroupPredictor:
    """A worker: holds the model, and answers one group of rows after the other."""

    def __init__(self, plan: Plan) -> None:
        import torch

        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
        self.groups, self.predictor = plan.groups, plan.load()
        self.texts = InputTexts(plan.folder, 1)
        self.attempts = Attempts(plan.folder / "attempts")

    def __call__(self, number: int) -> dict[str, Any]:
        """Answer a group."""
        first = number * self.groups.size
        last = min(first + self.groups.size, self.texts.rows)
        name = self.texts.known[0]["name"]
        if self.groups.file(number).exists():
            return {"error": ""}
        if not self.attempts.begin(number):
            return {"error": f"{name}, rows {first + 1} to {last}: the worker was lost {ATTEMPTS} times over these."}
        content = self.texts.row_texts(first, last)
        try:
            self.groups.write(number, self.predictor, content)
        except Exception as error:  # whatever a scorer raises is told with the text that it was raised by
            return {"error": self._poisoned(first, content, error)}
        finally:
            self.attempts.end(number)
        return {"error": ""}

    def _poisoned(self, first: int, content: list[str | None], error: Exception) -> str:
        """Say which text cannot be read, by having each read alone."""
        for row, text in enumerate(content, start=first):
            try:
                if text is not None:
                    self.predictor.predictions([text])
            except Exception as own:
                return f"{self.texts.row_line(row)}: the model cannot read this text ({type(own).__name__}: {own})."
        where = f"{self.texts.row_line(first)} and what follows"
        return f"{where}: these texts could not be read ({type(error).__name__}: {error})."
