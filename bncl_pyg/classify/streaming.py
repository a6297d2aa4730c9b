"""`predict_table`: a table of any length through a trained model, in constant memory; what is done is never lost.

What the model says of some rows at a time is kept in a folder beside the output, `OUT.partial`; when all rows are done,
the table is gone through once more and written with it. So the output has any format, is whole or absent, and a run
that was stopped goes on after the last whole group of rows.

    OUT.partial/
      manifest.json          what the answers depend on: the model, the table, the columns
      00000000.answers       the labels of the first rows, as safetensors after their SHA-256: "labels" and
                             "probabilities", best first, of all texts one after the other, and "starts" (rows + 1,);
                             or, where all probabilities are wanted, "decisions", "all" and "candidates", and "texts":
                             which rows have one
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save

from bncl_pyg.classify.added import AddedColumns, Answer
from bncl_pyg.corpus import STANDARD_STREAM, Corpus, TextCleaner, TextTable, check_new_table, write_table
from bncl_pyg.errors import InputError
from bncl_pyg.features import Choice, ExpectedPrecision, Predictions
from bncl_pyg.persistence import (
    MANIFEST,
    check_free,
    folder_lock,
    is_stream,
    read_manifest,
    write_bytes,
    write_manifest,
)
from bncl_pyg.predictor import Predictor

ROWS_AT_ONCE = 1024
"""How many rows are read and answered before the next."""
KIND = "partial"
DIGEST_BYTES = hashlib.sha256().digest_size
"""How many bytes of a file of answers are the SHA-256 of the rest."""


@dataclass(frozen=True)
class Predicted:
    """What was done.

    Args:
        rows: how many rows the table has.
        skipped: how many of them have no text.
        without_label: how many texts got no label.
        resumed: how many rows an earlier run had done.
        labels: how many labels were given.
        expected_precision: the mean probability of the labels that were given.
        threshold: the threshold that a precision asked for.
    """

    rows: int
    skipped: int
    without_label: int
    resumed: int
    labels: int
    expected_precision: float | None
    threshold: float | None = None


def check_unfinished(out: Path, *, resume: bool, overwrite: bool) -> None:
    """Raise if a run that was stopped would be lost, or if there is none to go on with."""
    if out == STANDARD_STREAM or is_stream(out):
        if resume:
            raise InputError("What goes to a stream cannot be gone on with; write to a file.")
        return
    folder = _partial(out)
    if not folder.exists():
        return
    if not resume and not overwrite:
        raise InputError(
            f"{folder} holds an unfinished run; go on with it with resume=True, or drop it with overwrite=True."
        )
    check_free(folder, KIND, overwrite=True)


def predict_table(
    predictor: Predictor,
    texts: TextTable,
    out: Path,
    *,
    choice: Choice | None = None,
    wide: bool = False,
    cleaner: TextCleaner | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
    run: "Callable[[AnswerGroups], int] | None" = None,
) -> Predicted:
    """Write a table with the labels of its texts, row by row in the order of the table.

    Args:
        predictor: the model.
        texts: the table; rows without a text, where they are skipped, keep their place and get no label.
        out: a file whose ending tells the format, or "-" for standard output.
        choice: how labels are chosen, if not as the model decides.
        wide: write a column a label, with its probability.
        cleaner: what is done to every text first; HTML is stripped from texts that are mostly markup, if not given.
        resume: go on with a run that was stopped.
        overwrite: replace the output, or an unfinished run, that is there.
        progress: told how many more rows are done.
        run: answers all groups of rows, instead of this process; returns how many rows were answered before.
    """
    choice = choice or Choice()
    # Whoever was killed after the table was written, and before the answers were removed, goes on with both there.
    overwrite = overwrite or (resume and not is_stream(out) and _partial(out).exists())
    known = check_new_table(out, texts.table, overwrite=overwrite)
    check_unfinished(out, resume=resume, overwrite=overwrite)
    columns = texts.table.all_columns if known.has_header else texts.table.columns
    added = AddedColumns(columns, predictor.trained.labels, known, wide=wide)
    keep_all = wide or choice.precision is not None
    with _answers_folder(out) as folder:
        cleaner = cleaner or TextCleaner()
        answers = _Answers(folder, _inputs(predictor, texts, cleaner), choice, keep_all=keep_all, resume=resume)
        resumed = answers.predict(predictor, texts, cleaner, progress) if run is None else run(answers.groups)
        threshold = None
        if choice.precision is not None:
            threshold = answers.threshold(choice.precision, choice.top_k)
            choice = choice.with_threshold(threshold)
        count = _Counter()

        def rows() -> Iterator[dict[str, Any]]:
            for (row, text), answer in zip(texts, answers.each(choice, wide=wide), strict=True):
                count.add(text is not None, answer)
                yield {**row.fields, **added.fields(answer)}

        write_table(
            out, (*columns, *added.names), rows(), like=texts.table, list_types=added.list_types, overwrite=overwrite
        )
    mean = count.probability / count.labels if count.labels else None
    return Predicted(count.rows, texts.skipped, count.without, resumed, count.labels, mean, threshold)


class _Counter:
    """What is told about the answers when they are written."""

    def __init__(self) -> None:
        self.rows = self.without = self.labels = 0
        self.probability = 0.0

    def add(self, has_text: bool, answer: Answer) -> None:
        self.rows += 1
        self.without += has_text and not answer.labels
        self.labels += len(answer.labels)
        self.probability += sum(answer.probabilities)


@dataclass(frozen=True)
class AnswerGroups:
    """The files of answers, one for each group of rows, which whoever has the folder in reach can write.

    Args:
        folder: where they lie.
        choice: how labels are chosen before they are kept.
        keep_all: whether all probabilities are kept, and labels chosen later.
        size: how many rows a group has.
    """

    folder: Path
    choice: Choice
    keep_all: bool
    size: int

    def file(self, number: int) -> Path:
        """Return the file of a group."""
        return self.folder / f"{number:08d}.answers"

    def write(self, number: int, predictor: Predictor, texts: Sequence[str | None]) -> None:
        """Answer a group of rows, some perhaps without a text, and keep what the model says."""
        kept = [text for text in texts if text is not None]
        predicted = predictor.predictions(Corpus.of(kept)).chosen(self.choice)
        content = save(self._tensors(predicted, [text is not None for text in texts]))
        write_bytes(self.file(number), hashlib.sha256(content).digest() + content)

    def read(self, number: int) -> dict[str, torch.Tensor]:
        """Return the answers of a group; a file that is not as it was written is named."""
        content = self.file(number).read_bytes()
        if hashlib.sha256(content[DIGEST_BYTES:]).digest() != content[:DIGEST_BYTES]:
            raise InputError(f"{self.file(number)} is damaged; remove it, and its rows are answered again.")
        return load(content[DIGEST_BYTES:])

    def _tensors(self, predicted: Predictions, has_text: list[bool]) -> dict[str, torch.Tensor]:
        texts = torch.tensor(has_text)
        if self.keep_all:
            whole = {"texts": texts, "decisions": predicted.decisions, "all": predicted.probabilities}
            if predicted.candidates is not None:
                whole["candidates"] = predicted.candidates
            return {name: tensor.contiguous() for name, tensor in whole.items()}
        starts, labels, probabilities = predicted.all_best_first()
        counts = torch.zeros(len(texts), dtype=torch.int64)
        counts[texts] = starts.diff()
        starts = torch.cat([starts[:1], counts.cumsum(0)])
        return {"starts": starts, "labels": labels.contiguous(), "probabilities": probabilities}


class _Answers:
    """What a model says of the rows of a table, group by group in files.

    Where all probabilities are kept, labels are chosen when the answers are read; else before they are kept.
    """

    def __init__(self, folder: Path, inputs: dict[str, Any], choice: Choice, *, keep_all: bool, resume: bool) -> None:
        self.groups = AnswerGroups(folder, Choice() if keep_all else choice, keep_all, ROWS_AT_ONCE)
        inputs = {**inputs, "wide or precision": keep_all, "rows": ROWS_AT_ONCE}
        inputs |= {"threshold": self.groups.choice.threshold, "top_k": self.groups.choice.top_k}
        if resume and (folder / MANIFEST).exists():
            manifest = read_manifest(folder, KIND, check_files=False)
            changed = next((key for key, value in inputs.items() if manifest.get(key) != value), None)
            if changed is not None:
                raise InputError(
                    f"{folder} was begun with another {changed}; drop it with overwrite=True and without resume=True."
                )
            return
        for file in folder.glob("*.answers"):
            file.unlink()
        write_manifest(folder, KIND, inputs, {})

    def predict(
        self,
        predictor: Predictor,
        texts: TextTable,
        cleaner: TextCleaner,
        progress: Callable[[int], None] | None,
    ) -> int:
        """Answer all rows that are not answered yet; return how many were."""
        rows, number, resumed = iter(texts), 0, 0
        while group := [None if text is None else cleaner.clean(text) for _, text in islice(rows, ROWS_AT_ONCE)]:
            if self.groups.file(number).exists():
                resumed += len(group)
            else:
                self.groups.write(number, predictor, group)
            if progress is not None:
                progress(len(group))
            number += 1
        return resumed

    def _groups(self) -> Iterator[dict[str, torch.Tensor]]:
        number = 0
        while self.groups.file(number).exists():
            yield self.groups.read(number)
            number += 1

    def threshold(self, precision: float, top_k: int | None) -> float:
        """Return the threshold that a precision asks for, over all texts."""
        counts = ExpectedPrecision()
        for tensors in self._groups():
            counts.add(tensors["all"], top_k)
        return counts.threshold(precision)

    def each(self, choice: Choice, *, wide: bool) -> Iterator[Answer]:
        """Yield the answer of every row; an empty one where there is no text."""
        for tensors in self._groups():
            if self.groups.keep_all:
                yield from _whole(tensors, choice, wide=wide)
            else:
                yield from _given(tensors)


def _whole(tensors: dict[str, torch.Tensor], choice: Choice, *, wide: bool) -> Iterator[Answer]:
    shares = tensors["all"]
    predicted = Predictions(tensors["decisions"], shares, shares, shares.shape[1], tensors.get("candidates"))
    answers = Answer.each(predicted.chosen(choice), wide=wide)
    for has_text in tensors["texts"].tolist():
        yield next(answers) if has_text else Answer()


def _given(tensors: dict[str, torch.Tensor]) -> Iterator[Answer]:
    starts, labels, shares = (tensors[name].tolist() for name in ("starts", "labels", "probabilities"))
    for start, end in pairwise(starts):
        yield Answer(labels[start:end], shares[start:end])


def _partial(out: Path) -> Path:
    return out.with_name(f"{out.name}.partial")


@contextmanager
def _answers_folder(out: Path) -> Iterator[Path]:
    """Give the folder of answers, which is removed when they are written, and stays if they are not."""
    if out == STANDARD_STREAM or is_stream(out):
        with tempfile.TemporaryDirectory() as name:
            yield Path(name)
        return
    folder = _partial(out)
    folder.mkdir(parents=True, exist_ok=True)
    with folder_lock(folder):
        try:
            yield folder
        except BaseException:
            # What stopped before the first answer leaves nothing to go on with.
            if not any(folder.glob("*.answers")):
                shutil.rmtree(folder)
            raise
        shutil.rmtree(folder)


def _inputs(predictor: Predictor, texts: TextTable, cleaner: TextCleaner) -> dict[str, Any]:
    """Return what the answers depend on, as JSON can hold it."""
    trained = predictor.trained
    total = hashlib.sha256(trained.labels.digest().encode())
    total.update(json.dumps([trained.model.config(), trained.scorer_config], sort_keys=True, default=str).encode())
    for name, tensor in sorted(trained.model.tensors().items()):
        total.update(name.encode())
        total.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return {
        "model": total.hexdigest(),
        "table": texts.table.digest(),
        "columns": list(texts.columns.text),
        "html": cleaner.html,
    }
