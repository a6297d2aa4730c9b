import random
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from bncl_pyg.errors import InputError
from bncl_pyg.features import index
from bncl_pyg.features.index import IndexPiece, TextIndex, match, text_hash


def index_of(texts: list[tuple[str, str]], folder: Path) -> TextIndex:
    return TextIndex.of(((name, text_hash(text)) for name, text in texts), folder)


def texts_of(count: int, first: int = 0) -> list[tuple[str, str]]:
    return [(f"t{place}" if place % 3 else f"текст {place}", f"text {place % 7}") for place in range(first, count)]


def test_ids_and_hashes_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "CHUNK", 4)
    texts = texts_of(11)
    given = index_of(texts, tmp_path)
    given.pieces[0].write(tmp_path / "texts.safetensors")
    for one in (given, TextIndex([IndexPiece.read(tmp_path / "texts.safetensors")])):
        assert len(one) == 11
        assert one.ids() == tuple(name for name, _ in texts)
        assert one.ids((3, 6)) == tuple(name for name, _ in texts[3:6])
        assert [bytes(one.sha256(row)).hex() for row in range(11)] == [text_hash(text) for _, text in texts]
        assert one.hashes((2, 4)).shape == (2, 32)
        assert [one.find(name) for name, _ in texts] == list(range(11))
        assert [one.find(name, 5) for name, _ in texts] == list(range(11))
        assert one.find("t99") == -1
    # It is a file that others can read.
    assert set(load_file(tmp_path / "texts.safetensors")) == {"ids", "ends", "sha256", "keys", "places"}


def test_an_index_of_nothing(tmp_path: Path) -> None:
    empty = index_of([], tmp_path)
    assert (len(empty), empty.ids(), empty.find("a"), empty.first_rows((0, 0))) == (0, (), -1, [])
    blank = index_of([("", "text")], tmp_path)
    assert (blank.ids(), blank.find("")) == (("",), 0)


def test_what_came_in_two_growths_is_what_came_at_once(tmp_path: Path) -> None:
    texts = texts_of(20)
    whole = index_of(texts, tmp_path)
    grown = TextIndex([*index_of(texts[:13], tmp_path).pieces, *index_of(texts[13:], tmp_path).pieces])
    for rows in ((0, 20), (0, 13), (5, 17), (13, 20)):
        assert grown.digest(rows) == whole.digest(rows)
        assert grown.ids(rows) == whole.ids(rows)
        assert grown.first_rows(rows) == whole.first_rows(rows)
    assert [grown.find(name) for name, _ in texts] == list(range(20))
    assert whole.digest((0, 19)) != whole.digest((1, 20))


def test_the_first_row_of_each_text(tmp_path: Path) -> None:
    found = index_of(texts_of(20), tmp_path)
    assert found.first_rows((0, 20)) == [row % 7 for row in range(20)]
    assert found.first_rows((5, 9)) == [5, 6, 0, 1]


def test_ids_with_the_same_key_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Few:
        """Hashes that are the same for many."""

        def __init__(self, content: bytes) -> None:
            self.content = content

        def digest(self) -> bytes:
            return bytes([len(self.content)]) * 32

    texts = [(f"a{place}", f"text {place}") for place in range(5)]
    hashes = [(name, text_hash(text)) for name, text in texts]
    monkeypatch.setattr(index.hashlib, "sha256", Few)
    found = TextIndex.of(hashes, tmp_path)
    found.check_unique()
    assert [found.find(name) for name, _ in texts] == [0, 1, 2, 3, 4]
    assert found.find("b7") == -1


def test_an_id_twice_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Two texts have the id 't5'"):
        index_of([*texts_of(9), ("t5", "another text")], tmp_path).check_unique()


def test_what_is_new_gone_or_changed(tmp_path: Path) -> None:
    texts = texts_of(20)
    stored, whole = index_of(texts[:12], tmp_path), index_of(texts, tmp_path)
    new, wrong = match(stored, whole)
    assert (new.tolist(), wrong) == (list(range(12, 20)), None)
    shuffled = list(range(20))
    random.Random(0).shuffle(shuffled)
    new, wrong = match(stored, index_of([texts[place] for place in shuffled], tmp_path))
    assert wrong is None
    assert sorted(shuffled[place] for place in new.tolist()) == list(range(12, 20))
    assert match(stored, index_of(texts[:11], tmp_path))[1] == (11, False)
    changed = [(name, text + "!" * (row == 3)) for row, (name, text) in enumerate(texts)]
    assert match(stored, index_of(changed, tmp_path))[1] == (3, True)
    chosen = whole.chosen(np.array([4, 2, 19]), tmp_path)
    assert TextIndex([chosen]).ids() == (texts[4][0], texts[2][0], texts[19][0])
