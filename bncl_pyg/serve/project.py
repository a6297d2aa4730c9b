"""The folder that keeps answers: SQLite with a write-ahead log, synced to the disk before anybody is told."""

import json
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from bncl_pyg.errors import InputError
from bncl_pyg.persistence import folder_lock
from bncl_pyg.serve.answers import Answer

FILE, VERSION = "answers.sqlite", 1
LEASE = 180.0
"""Seconds for which a text is kept for whoever was shown it; a page that is open renews it."""
RECENT = 600.0
"""Seconds over which the speed is measured."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    text TEXT NOT NULL,
    content TEXT NOT NULL,
    annotator TEXT NOT NULL,
    at REAL NOT NULL,
    undone INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS answers_by_text ON answers (text);
CREATE TABLE IF NOT EXISTS trainings (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL,
    content TEXT NOT NULL
);
"""


class Taken(InputError):  # noqa: N818
    """Somebody else is looking at the text."""


class AnnotationProject:
    """Answers, and who is looking at which text.

    Answers are only ever added: of several about one text the last that was not undone counts. A folder is held by one
    process at a time. Leases are in memory: with the process, the pages that it served lose theirs.

    Args:
        folder: made if it is not there.

    Example::

        with AnnotationProject(Path("project")) as project:
            project.add(Answer("7", yes=("gold",)), annotator="ada", key="1")
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._held, self._lock = ExitStack(), threading.RLock()
        self._held.enter_context(folder_lock(folder))
        try:
            self._open(folder / FILE)
        except sqlite3.DatabaseError as error:
            self._held.close()
            raise InputError(f"{folder / FILE} cannot be read as a project's answers: {error}.") from None
        except InputError:
            self._held.close()
            raise
        self._leases: dict[str, tuple[str, float]] = {}
        self._current: dict[str, Answer] = {}
        for (content,) in self._connection.execute("SELECT content FROM answers WHERE undone = 0 ORDER BY number"):
            self._remember(Answer.of(json.loads(content)))

    def _open(self, file: Path) -> None:
        self._connection = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
        self._held.callback(self._connection.close)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version not in (0, VERSION):
            raise InputError(f"{file} was written by a later version ({version}), which this one cannot read.")
        self._connection.executescript(SCHEMA)
        self._connection.execute(f"PRAGMA user_version = {VERSION}")

    def close(self) -> None:
        """Write everything into one file, and give the folder free."""
        with self._lock:
            self._held.close()

    def __enter__(self) -> "AnnotationProject":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def add(self, answer: Answer, *, annotator: str, key: str, holder: str | None = None) -> None:
        """Keep an answer; it is on the disk when this returns.

        Args:
            answer: what was answered.
            annotator: who.
            key: made once by whoever asks: the same answer sent twice, since a response was lost, is kept once.
            holder: who was shown the text; raises if it is somebody else's now.
        """
        with self._lock:
            if holder is not None and self._is_held(answer.text, holder):
                raise Taken(f"Text '{answer.text}' is being answered by somebody else.")
            self.add_many([(answer, key)], annotator=annotator)
            self._leases.pop(answer.text, None)

    def add_many(self, answers: Iterable[tuple[Answer, str]], *, annotator: str) -> int:
        """Keep answers with their keys, all or none; return how many were new."""
        new: list[Answer] = []
        with self._transaction() as connection:
            for answer, key in answers:
                values = key, answer.text, json.dumps(answer.as_dict(), ensure_ascii=False), annotator, time.time()
                done = connection.execute(
                    "INSERT OR IGNORE INTO answers (key, text, content, annotator, at) VALUES (?, ?, ?, ?, ?)", values
                )
                if done.rowcount:
                    new.append(answer)
        with self._lock:
            for answer in new:
                self._remember(answer)
        return len(new)

    def undo(self, annotator: str) -> Answer | None:
        """Take back somebody's last answer; return it, or `None` where there is none."""
        query = "SELECT number, content FROM answers WHERE undone = 0 AND annotator = ? ORDER BY number DESC LIMIT 1"
        with self._lock:
            with self._transaction() as connection:
                row = connection.execute(query, (annotator,)).fetchone()
                if row is None:
                    return None
                connection.execute("UPDATE answers SET undone = 1 WHERE number = ?", (row[0],))
            answer = Answer.of(json.loads(row[1]))
            self._current.pop(answer.text, None)
            before = self._connection.execute(
                "SELECT content FROM answers WHERE undone = 0 AND text = ? ORDER BY number", (answer.text,)
            )
            for (content,) in before.fetchall():
                self._remember(Answer.of(json.loads(content)))
        return answer

    def answers(self) -> dict[str, Answer]:
        """Return what counts by the text's id, in the order of answering."""
        with self._lock:
            return dict(self._current)

    def answers_a_minute(self) -> float:
        """Return how many were answered a minute lately, all people counted."""
        now = time.time()
        query = "SELECT COUNT(*), MIN(at) FROM answers WHERE undone = 0 AND at > ? AND annotator != 'import'"
        with self._lock:
            count, first = self._connection.execute(query, (now - RECENT,)).fetchone()
        return 60 * count / max(now - first, 20.0) if count > 1 else float(count)

    def lease(self, ids: Iterable[str], holder: str) -> str | None:
        """Keep the first of these texts that nobody else is looking at for somebody; `None` if there is none."""
        with self._lock:
            for text in ids:
                if not self._is_held(text, holder):
                    self.release(holder)
                    self._leases[text] = holder, time.monotonic() + LEASE
                    return text
        return None

    def held_by(self, holder: str) -> str | None:
        """Return the text that is kept for somebody; `None` if there is none."""
        with self._lock:
            now = time.monotonic()
            return next(
                (text for text, (owner, until) in self._leases.items() if owner == holder and until > now), None
            )

    def renew(self, holder: str) -> None:
        """Keep what somebody is looking at for longer."""
        with self._lock:
            for text, (owner, _) in list(self._leases.items()):
                if owner == holder:
                    self._leases[text] = owner, time.monotonic() + LEASE

    def release(self, holder: str) -> None:
        """Give free what somebody was looking at."""
        with self._lock:
            self._leases = {text: lease for text, lease in self._leases.items() if lease[0] != holder}

    def note_training(self, content: dict[str, Any]) -> None:
        """Keep what a training gained."""
        with self._transaction() as connection:
            values = time.time(), json.dumps(content)
            connection.execute("INSERT INTO trainings (at, content) VALUES (?, ?)", values)

    def trainings(self) -> list[dict[str, Any]]:
        """Return what trainings gained, the first first."""
        with self._lock:
            rows = self._connection.execute("SELECT content FROM trainings ORDER BY number").fetchall()
        return [json.loads(content) for (content,) in rows]

    def _remember(self, answer: Answer) -> None:
        self._current.pop(answer.text, None)
        self._current[answer.text] = answer

    def _is_held(self, text: str, holder: str) -> bool:
        """Return whether somebody else is looking at a text."""
        owner, until = self._leases.get(text, (holder, 0.0))
        return owner != holder and until > time.monotonic()
