"""Whole texts in overlapping windows: how many, where they are cut, and what is left out."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from bncl_pyg.errors import InputError
from bncl_pyg.scorers.tokens import Reading, WindowTokenizer

CLS, SEP, GOLD = 2, 3, 5


def words(count: int) -> str:
    """Return words whose ids tell where they stood: gold, rises, wheat, falls in turn."""
    return " ".join(["gold", "rises", "wheat", "falls"][place % 4] for place in range(count))


def ids(count: int) -> list[int]:
    return [GOLD + place % 4 for place in range(count)]


def test_a_short_text_is_one_window(tiny_encoder: Path) -> None:
    tokenizer = WindowTokenizer(tiny_encoder, 10, windows=3)
    assert tokenizer([words(8), "gold", ""]) == [[[CLS, *ids(8), SEP]], [[CLS, GOLD, SEP]], [[CLS, SEP]]]


def test_windows_share_a_quarter_and_the_last_may_be_short(tiny_encoder: Path) -> None:
    tokenizer = WindowTokenizer(tiny_encoder, 10, windows=3)  # room for 8, of which 2 are shared
    (windows,) = tokenizer([words(17)])
    assert windows == [[CLS, *ids(17)[start : start + 8], SEP] for start in (0, 6, 12)]
    assert len(windows[-1]) == 2 + 5


def test_one_window_is_the_beginning(tiny_encoder: Path) -> None:
    assert WindowTokenizer(tiny_encoder, 10)([words(30)]) == [[[CLS, *ids(8), SEP]]]


@settings(deadline=None, max_examples=50)
@given(length=st.integers(0, 60), max_tokens=st.integers(3, 20), windows=st.integers(1, 6))
def test_nothing_is_skipped_until_the_windows_are_used_up(
    tmp_path_factory: pytest.TempPathFactory, length: int, max_tokens: int, windows: int
) -> None:
    folder = tmp_path_factory.getbasetemp() / "windows"
    folder.mkdir(exist_ok=True)
    _plain_tokenizer(folder)
    tokenizer = WindowTokenizer(folder, max_tokens, windows)
    text = " ".join(map(str, range(length)))
    (parts,) = tokenizer([text])
    inside = [part[1:-1] for part in parts]
    assert len(parts) <= windows
    assert all(len(part) <= max_tokens for part in parts)
    read = {token for part in inside for token in part}
    assert read == set(range(max(read, default=-1) + 1))
    reading = tokenizer.reading([text])
    assert reading.windows == len(parts)
    assert reading.cut == (len(read) < length) == tokenizer.count_cut([text])
    assert len(parts) == windows or not reading.cut  # no text is cut while there are windows left
    assert all(set(part) - set(before) for before, part in pairwise(inside))


def _plain_tokenizer(folder: Path) -> None:
    """Numbers are their own ids."""
    vocabulary = {str(place): place for place in range(60)} | {"[CLS]": 60, "[SEP]": 61, "a": 62}
    special = {"id": "[CLS]", "type_id": 0}
    around = {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": special},
            {"Sequence": {"id": "A", "type_id": 0}},
            {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
        ],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {
            name: {"id": name, "ids": [place], "tokens": [name]} for name, place in (("[CLS]", 60), ("[SEP]", 61))
        },
    }
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": around,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "a"},
    }
    (folder / "tokenizer.json").write_text(json.dumps(content))


def test_reading_says_what_it_costs_and_what_is_left_out(tiny_encoder: Path) -> None:
    tokenizer = WindowTokenizer(tiny_encoder, 10, windows=2)  # 8, then 6 more
    texts = [words(8), words(14), words(15), ""]
    assert tokenizer.reading(texts) == Reading(4, 37 / 4, 6 / 4, 0.5, 0.25)
    assert tokenizer.count_cut(texts) == 1
    assert tokenizer.reading([]) == Reading(0, 0.0, 0.0, 0.0, 0.0)


def test_a_marker_follows_the_first_special_token(tiny_encoder: Path) -> None:
    tokenizer = WindowTokenizer(tiny_encoder, 10, windows=2, marker=1)
    assert tokenizer(["gold"]) == [[[CLS, 1, GOLD, SEP]]]
    assert [len(part) for part in tokenizer([words(30)])[0]] == [10, 10]


def test_a_tokenizers_own_limits_do_not_count(tiny_encoder: Path) -> None:
    """Many files on the hub have padding and truncation in them."""
    inside = Tokenizer.from_file(str(tiny_encoder / "tokenizer.json"))
    inside.enable_truncation(4)
    inside.enable_padding(length=30)
    inside.save(str(tiny_encoder / "tokenizer.json"))
    assert WindowTokenizer(tiny_encoder, 10)([words(8), ""]) == [[[CLS, *ids(8), SEP]], [[CLS, SEP]]]


def test_pieces_are_shown(tiny_encoder: Path) -> None:
    assert WindowTokenizer(tiny_encoder, 10).pieces("Gold rises, x") == ["gold", "rises", "[UNK]", "[UNK]"]


def test_impossible_wishes_are_refused(tiny_encoder: Path) -> None:
    with pytest.raises(InputError, match=r"windows must be positive, but is 0\."):
        WindowTokenizer(tiny_encoder, 10, windows=0)
    with pytest.raises(InputError, match=r"max_tokens 2 leaves no room for a text\."):
        WindowTokenizer(tiny_encoder, 2)
    (tiny_encoder / "tokenizer.json").write_text("{")
    with pytest.raises(InputError, match=r"tokenizer\.json is not a readable tokenizer \(.*\)\.$"):
        WindowTokenizer(tiny_encoder, 10)
    (tiny_encoder / "tokenizer.json").unlink()
    with pytest.raises(InputError, match=r"has no fast tokenizer \(tokenizer\.json\)"):
        WindowTokenizer(tiny_encoder, 10)
