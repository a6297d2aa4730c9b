"""Answers in and out of files: our own JSONL and CSV, Label Studio's JSON and Prodigy's JSONL."""

import csv
import hashlib
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bncl_pyg.corpus import LIST_SEPARATOR, LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.serve.answers import Answer

NOT_YET = "?"
"""What stands in the place of labels where nobody could tell."""
COLUMNS = ("id", "text", "labels", "not_labels", "note")
NOTES = {"unsure": "not sure", "skip": "skipped"}
Rows = Mapping[str, Any]


@dataclass(frozen=True)
class _Known:
    """What a file's rows are matched with: the labels, and the texts by id."""

    labels: LabelSet
    texts: Mapping[str, str]

    def identifier(self, given: Any, text: Any, where: str) -> str:
        """Return which text a row is of: by its id or, without, by its words."""
        if given is not None and str(given) in self.texts:
            return str(given)
        if given is not None:
            raise InputError(f"{where}: there is no text with id '{given}'.")
        for name, content in self.texts.items():
            if content == text:
                return name
        raise InputError(f"{where}: there is no such text, and no id that says which it is.")

    def answer(self, where: str, *, text: str, yes: Any, no: Any = None, **more: Any) -> Answer:
        """Return an answer; errors say where it stands."""
        for names in (yes, no or []):
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise InputError(f"{where}: labels must be a list of names.")
        try:
            made = Answer(text, tuple(dict.fromkeys(yes)), tuple(dict.fromkeys(no or [])), no is None, **more)
            return made.checked(self.labels)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None


def export_answers(name: str, answers: Iterable[Answer], texts: Mapping[str, str], labels: LabelSet) -> str:
    """Return answers as the content of a file.

    Args:
        name: of the format, one of `FORMATS`.
        answers: one a text.
        texts: by id; answers about other texts are left out.
        labels: all that there are.
    """
    kept = [answer for answer in answers if answer.text in texts]
    return _format(name).write(kept, texts, labels)


def import_answers(name: str, content: str, texts: Mapping[str, str], labels: LabelSet) -> list[tuple[Answer, str]]:
    """Return the answers of a file, each with a key that is the same whenever the same is imported.

    A row without an id is matched by its text. Raises an error that says which row cannot be used; then none is.

    Args:
        name: of the format, one of `FORMATS`.
        content: of the file.
        texts: by id.
        labels: all that there are.
    """
    answers = list(_format(name).read(content.removeprefix("\ufeff"), _Known(labels, texts)))
    return [(answer, f"import-{_digest(answer)}") for answer in answers]


def _digest(answer: Answer) -> str:
    return hashlib.sha256(json.dumps(answer.as_dict()).encode()).hexdigest()[:32]


def _fields(answer: Answer, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return what a table of annotated texts holds: `not_labels` only where a text is annotated in part."""
    fields: dict[str, Any] = {"id": answer.text, "text": texts[answer.text], "labels": list(answer.yes)}
    if answer.kind != "answer":
        return {**fields, "labels": [NOT_YET], "not_labels": [], "note": NOTES[answer.kind]}
    return fields if answer.is_whole else {**fields, "not_labels": list(answer.no)}


def _of_fields(row: Rows, known: _Known, where: str) -> Answer:
    text = known.identifier(row.get("id"), row.get("text"), where)
    if row.get("labels") == [NOT_YET] and NOT_YET not in known.labels:
        kind = next((kind for kind, note in NOTES.items() if note == row.get("note")), "skip")
        return Answer(text, kind=kind, is_whole=False)  # type: ignore[arg-type]
    return known.answer(where, text=text, yes=row.get("labels"), no=row.get("not_labels"))


def _write_jsonl(answers: list[Answer], texts: Mapping[str, str], labels: LabelSet) -> str:  # noqa: ARG001
    return _lines(_fields(answer, texts) for answer in answers)


def _read_jsonl(content: str, known: _Known) -> Iterator[Answer]:
    for where, row in _json_lines(content):
        yield _of_fields(row, known, where)


def _write_csv(answers: list[Answer], texts: Mapping[str, str], labels: LabelSet) -> str:
    for name in labels.names:
        if LIST_SEPARATOR in name:
            raise InputError(f"Label '{name}' has a '{LIST_SEPARATOR}', which separates labels in CSV: take JSONL.")
    file = io.StringIO()
    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n", restval="")
    writer.writeheader()
    for answer in answers:
        row = _fields(answer, texts)
        # A list without anything in it is a separator alone: a blank cell stands for a text that is annotated wholly.
        joined: dict[str, str] = {
            name: LIST_SEPARATOR.join(row[name]) for name in ("labels", "not_labels") if name in row
        }
        if "not_labels" in row and not row["not_labels"]:
            joined["not_labels"] = LIST_SEPARATOR
        writer.writerow({**row, **joined})
    return file.getvalue()


def _read_csv(content: str, known: _Known) -> Iterator[Answer]:
    reader = csv.DictReader(io.StringIO(content, newline=""))
    if not {"labels"} <= set(reader.fieldnames or ()):
        raise InputError("The file has no column 'labels'; its first line must name the columns.")
    for row in reader:
        where = f"Line {reader.line_num}"
        lists = {name: _split(row.get(name)) for name in ("labels", "not_labels")}
        no = lists["not_labels"] if (row.get("not_labels") or "").strip() else None
        yield _of_fields({**row, "labels": lists["labels"], "not_labels": no}, known, where)


def _split(cell: str | None) -> list[str]:
    return [name.strip() for name in (cell or "").split(LIST_SEPARATOR) if name.strip()]


def _write_label_studio(answers: list[Answer], texts: Mapping[str, str], labels: LabelSet) -> str:  # noqa: ARG001
    tasks = []
    for number, answer in enumerate(answers, start=1):
        choices = {"from_name": "labels", "to_name": "text", "type": "choices", "value": {"choices": list(answer.yes)}}
        done = {"result": [choices] if answer.kind == "answer" else [], "was_cancelled": answer.kind != "answer"}
        meta = {} if answer.says_all else {"not_labels": list(answer.no), "note": NOTES.get(answer.kind, "")}
        data = {"id": answer.text, "text": texts[answer.text]}
        tasks.append({"id": number, "data": data, "meta": meta, "annotations": [done]})
    return json.dumps(tasks, ensure_ascii=False, indent=1) + "\n"


def _read_label_studio(content: str, known: _Known) -> Iterator[Answer]:
    tasks = _json(content, "The file")
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise InputError("A file of Label Studio is a list of tasks.")
    for place, task in enumerate(tasks, start=1):
        where = f"Task {place}"
        data, meta = (_part(task, name, dict, where) for name in ("data", "meta"))
        done = _part(task, "annotations", list, where)
        if not done:
            continue
        text = known.identifier(data.get("id"), data.get("text"), where)
        # The last annotation of a task counts.
        last = _part({"annotation": done[-1]}, "annotation", dict, where)
        if last.get("was_cancelled"):
            kind = "unsure" if meta.get("note") == NOTES["unsure"] else "skip"
            yield Answer(text, kind=kind, is_whole=False)  # type: ignore[arg-type]
            continue
        chosen = [
            name
            for part in _part(last, "result", list, where)
            if isinstance(part, dict) and part.get("type") == "choices"
            for name in _part(_part(part, "value", dict, where), "choices", list, where)
        ]
        yield known.answer(where, text=text, yes=chosen, no=meta.get("not_labels"))


def _write_prodigy(answers: list[Answer], texts: Mapping[str, str], labels: LabelSet) -> str:
    described = labels.as_dict()
    rows = []
    for answer in answers:
        shown = labels.names if answer.is_whole or answer.kind != "answer" else (*answer.yes, *answer.no)
        rows.append(
            {
                "text": texts[answer.text],
                "meta": {"id": answer.text, **({"note": NOTES[answer.kind]} if answer.kind != "answer" else {})},
                "options": [{"id": name, "text": described.get(name, name)} for name in shown],
                "accept": list(answer.yes),
                "answer": "accept" if answer.kind == "answer" else "ignore",
                "_view_id": "choice",
            }
        )
    return _lines(rows)


def _read_prodigy(content: str, known: _Known) -> Iterator[Answer]:
    """Read choices among options, and single labels accepted or rejected; of other labels nothing is known."""
    joined: dict[str, tuple[str, list[str], list[str]]] = {}
    for where, row in _json_lines(content):
        meta = _part(row, "meta", dict, where)
        text = known.identifier(meta.get("id"), row.get("text"), where)
        if row.get("answer") == "ignore":
            kind = "skip" if meta.get("note") == NOTES["skip"] else "unsure"
            yield Answer(text, kind=kind, is_whole=False)  # type: ignore[arg-type]
            continue
        _, yes, no = joined.setdefault(text, (where, [], []))
        if "options" in row:
            # A choice that was rejected as a whole says nothing of its options.
            accepted = _part(row, "accept", list, where)
            if row.get("answer") == "accept":
                options = [
                    str(option.get("id")) for option in _part(row, "options", list, where) if isinstance(option, dict)
                ]
                yes += accepted
                no += [name for name in options if name not in accepted]
        elif "label" in row:
            (yes if row.get("answer") == "accept" else no).append(row["label"])
        else:
            raise InputError(f"{where}: there are neither options nor a label.")
    for text, (where, yes, no) in joined.items():
        is_whole = {*yes, *no} >= set(known.labels.names)
        yield known.answer(where, text=text, yes=yes, no=None if is_whole else no)


def _part(content: Rows, name: str, kind: type, where: str) -> Any:
    """Return a field that must be an object or a list; empty where it is missing."""
    value = content.get(name)
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise InputError(f"{where}: '{name}' must be {'a list' if kind is list else 'an object'}.")
    return value


def _lines(rows: Iterable[Rows]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _json(content: str, where: str) -> Any:
    try:
        return json.loads(content)
    except ValueError as error:
        raise InputError(f"{where} is no JSON: {error}.") from None
    except RecursionError:
        raise InputError(f"{where} is JSON that is nested too deeply.") from None


def _json_lines(content: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(content.split("\n"), start=1):
        if line.strip():
            where = f"Line {number}"
            row = _json(line, where)
            if not isinstance(row, dict):
                raise InputError(f"{where} is no JSON object.")
            yield where, row


@dataclass(frozen=True)
class _Format:
    """A format: how it is written and read, its kind of content, and the ending of its files."""

    write: Callable[[list[Answer], Mapping[str, str], LabelSet], str]
    read: Callable[[str, _Known], Iterator[Answer]]
    media: str
    ending: str


FORMATS = {
    "jsonl": _Format(_write_jsonl, _read_jsonl, "application/x-ndjson", ".jsonl"),
    "csv": _Format(_write_csv, _read_csv, "text/csv", ".csv"),
    "label-studio": _Format(_write_label_studio, _read_label_studio, "application/json", ".label-studio.json"),
    "prodigy": _Format(_write_prodigy, _read_prodigy, "application/x-ndjson", ".prodigy.jsonl"),
}
"""By name."""


def _format(name: str) -> _Format:
    if name not in FORMATS:
        raise InputError(f"There is no format '{name}'; there are: {', '.join(FORMATS)}.")
    return FORMATS[name]
