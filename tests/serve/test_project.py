"""Answers stay; the last counts; nobody gets what somebody else is looking at."""

import sqlite3
from pathlib import Path

import pytest

from bncl_pyg.corpus import LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.serve import project as module
from bncl_pyg.serve.answers import Answer
from bncl_pyg.serve.project import FILE, AnnotationProject, Taken

LABELS = LabelSet.of(["gold", "silver", "wheat"])


def test_pairs_of_an_answer() -> None:
    assert Answer("1", ("gold",)).pairs(LABELS).tolist() == [1, 0, 0]
    assert Answer("1", ("gold",), ("wheat",), is_whole=False).pairs(LABELS).tolist() == [1, -1, 0]
    assert Answer("1", kind="unsure").pairs(LABELS).tolist() == [-1, -1, -1]
    assert Answer("1", ("gold", "gone")).pairs(LABELS).tolist() == [1, 0, 0]
    assert not Answer("1", is_whole=False).says_something
    assert Answer("1").says_all


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"yes": ("gold",), "no": ("gold",)}, "the label 'gold' is answered with yes and with no"),
        ({"kind": "maybe"}, "one of answer, unsure, skip, but not 'maybe'"),
        ({"kind": "skip", "yes": ("gold",)}, "no label is answered"),
    ],
)
def test_answers_that_cannot_be(more: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Answer("1", **more)  # type: ignore[arg-type]


def test_the_last_answer_counts_and_undo_goes_back(tmp_path: Path) -> None:
    first, second = Answer("1", ("gold",)), Answer("1", ("silver",), is_whole=False)
    with AnnotationProject(tmp_path / "p") as project:
        project.add(first, annotator="ada", key="a")
        project.add(Answer("2"), annotator="bob", key="b")
        project.add(second, annotator="ada", key="c")
        project.add(second, annotator="ada", key="c")
        assert project.answers() == {"2": Answer("2"), "1": second}
        assert project.undo("ada") == second
        assert project.answers() == {"2": Answer("2"), "1": first}
        assert project.undo("ada") == first
        assert project.undo("ada") is None
    with AnnotationProject(tmp_path / "p") as project:
        assert project.answers() == {"2": Answer("2")}


def test_many_answers_are_kept_all_or_none(tmp_path: Path) -> None:
    with AnnotationProject(tmp_path) as project:
        assert project.add_many([(Answer("1"), "a"), (Answer("2"), "b")], annotator="import") == 2
        assert project.add_many([(Answer("1"), "a"), (Answer("3"), "c")], annotator="import") == 1
        with pytest.raises(ZeroDivisionError):
            project.add_many(((Answer(str(4 // (1 - at))), str(at)) for at in range(2)), annotator="import")
        assert list(project.answers()) == ["1", "2", "3"]


def test_an_answer_is_synced_before_it_is_acknowledged(tmp_path: Path) -> None:
    with AnnotationProject(tmp_path) as project:
        project.add(Answer("1", ("gold",)), annotator="ada", key="a")
        # Another process sees it, while the first has the file open.
        other = sqlite3.connect(tmp_path / FILE)
        assert other.execute("SELECT text FROM answers").fetchall() == [("1",)]
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        other.close()
        assert project._connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_two_holders_never_get_the_same_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with AnnotationProject(tmp_path) as project:
        assert project.lease(["1", "2"], "a") == "1"
        assert project.lease(["1", "2"], "a") == "1"
        assert project.lease(["1", "2"], "b") == "2"
        assert project.lease(["1", "2"], "c") is None
        with pytest.raises(Taken, match="somebody else"):
            project.add(Answer("1"), annotator="b", key="k", holder="b")
        project.release("a")
        assert project.lease(["1", "2"], "c") == "1"
        later = module.time.monotonic() + module.LEASE - 1
        monkeypatch.setattr(module.time, "monotonic", lambda: later)
        project.renew("b")
        monkeypatch.setattr(module.time, "monotonic", lambda: later + 2)
        assert project.lease(["1", "2"], "d") == "1", "c has looked for too long, b has said that it goes on"


def test_one_process_holds_a_project(tmp_path: Path) -> None:
    with AnnotationProject(tmp_path), pytest.raises(InputError, match="is being written by process"):
        AnnotationProject(tmp_path)
    AnnotationProject(tmp_path).close()


def test_what_is_no_project(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("not a database, but long enough to be looked at as one" * 100)
    with pytest.raises(InputError, match="cannot be read as a project's answers"):
        AnnotationProject(tmp_path)
    (tmp_path / FILE).unlink()
    AnnotationProject(tmp_path).close()
    later = sqlite3.connect(tmp_path / FILE)
    later.execute("PRAGMA user_version = 99")
    later.close()
    with pytest.raises(InputError, match="written by a later version"):
        AnnotationProject(tmp_path)
