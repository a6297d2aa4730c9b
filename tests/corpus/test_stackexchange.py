import json
import logging
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import pytest
from bncl_cli.public_data import stackexchange

from bncl_pyg.corpus import Corpus, LabelSet, read_stackexchange
from bncl_pyg.errors import InputError
from bncl_pyg.persistence import read_manifest

Write = Callable[..., Path]


def anything(_: str) -> bool:
    return True


def row(identifier: object, kind: int = 1, **attributes: str) -> str:
    given = {"Id": str(identifier), "PostTypeId": str(kind), "Score": "1", **attributes}
    spelled = (f"{name}={quoteattr(value, {chr(10): '&#xA;'})}" for name, value in given.items())
    return f"  <row {' '.join(spelled)} />\n"


def question(identifier: int, tags: str, title: str = "Why?", body: str = "<p>Because.</p>\n") -> str:
    return row(identifier, Body=body, Title=title, Tags=tags)


def document(*rows: str) -> str:
    return '\ufeff<?xml version="1.0" encoding="utf-8"?>\n<posts>\n' + "".join(rows) + "</posts>"


def in_order(splits: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return sorted((found for rows in splits.values() for found in rows), key=lambda found: found["id"])


def test_the_first_questions_become_texts_and_their_common_tags_labels(write: Write) -> None:
    posts = write(
        "Posts.xml",
        document(
            question(1, "<bread><flat-bread>", "How “old” & <new>?"),
            row(2, 2, ParentId="1", Body="<p>An answer.</p>"),
            question(3, "|flat-bread|zyx-bread|rare|"),
            row(4, 5, Body="A tag's wiki"),
            question(6, "<zyx-bread><bread>"),
            question(5, "|zyx-bread|"),
            row(7, Title="No tags", Body=""),
            question(8, "|rare|"),
            question(9, "|rare|"),
        ),
    )
    asked: list[str] = []

    def has_vector(word: str) -> bool:
        asked.append(word)
        return word in {"bread", "flat", "rare"}

    dataset = read_stackexchange(posts, has_vector, questions=6, seen=2, test_share=0.4)
    splits, labels = dataset.splits, dataset.labels
    assert labels == LabelSet(("bread", "flat-bread", "rare"), ("bread", "flat bread", "rare"))
    assert in_order(splits) == [
        {"id": 1, "text": "How “old” & <new>? Because.", "labels": ["bread", "flat-bread"]},
        {"id": 3, "text": "Why? Because.", "labels": ["flat-bread", "rare"]},
        {"id": 6, "text": "Why? Because.", "labels": ["bread"]},
        {"id": 8, "text": "Why? Because.", "labels": ["rare"]},
    ]
    assert {name: len(rows) for name, rows in splits.items()} == {"train": 2, "test": 2}
    assert set(asked) == {"bread", "flat", "rare", "zyx"}

    fewer = read_stackexchange(posts, has_vector, questions=5, seen=2, test_share=0.4).labels
    assert fewer.names == ("bread", "flat-bread")
    rarer = read_stackexchange(posts, has_vector, questions=5, seen=1, test_share=0.4).labels
    assert rarer.names == ("bread", "flat-bread", "rare")


@pytest.mark.parametrize(
    ("title", "body", "text"),
    [
        ("T", "<p>One <em>two</em>, <a href='x&amp;y'>three</a>.</p>\n\n<p>Four</p>", "T One two, three. Four"),
        ("T", "<blockquote>\n  <p>Said<br>so</p></blockquote><p>He</p>", "T Said so He"),
        ("T", "<ul><li>a</li><li>b</li></ul><hr><h2>c</h2>d", "T a b c d"),
        ("T", "<pre><code>x = 1\n\ty\r\n</code></pre>", "T x = 1 y"),
        ("T", "<p>2 &lt; 3 &amp;&amp; &quot;50&#176;&quot;&nbsp;&eacute;</p>", 'T 2 < 3 && "50°"\xa0é'),
        ("T", '<p><img src="a.png" alt="a pot"></p><!-- no --><p>b', "T b"),
        ("Two  blanks ", "<p>x</p>", "Two  blanks  x"),
        ("T", "salt &amp; pepper, R&D", "T salt & pepper, R&D"),
        ("T", "", "T"),
    ],
)
def test_html_becomes_text(write: Write, title: str, body: str, text: str) -> None:
    posts = write("Posts.xml", document(question(1, "<a>", title, body), question(2, "<a>")))
    splits = read_stackexchange(posts, anything, questions=2, seen=1, test_share=0.5).splits
    assert in_order(splits)[0]["text"] == text


def test_the_seed_alone_decides_the_split(write: Write) -> None:
    posts = write("Posts.xml", document(*(question(number, "<a>") for number in range(100, 151))))

    def ids(**more: Any) -> dict[str, list[int]]:
        splits = read_stackexchange(posts, anything, questions=51, **more).splits
        return {name: [found["id"] for found in rows] for name, rows in splits.items()}

    first = ids()
    assert ids(seed=1) == first != ids(seed=0)
    assert (len(first["train"]), len(first["test"])) == (40, 11)
    assert sorted(first["train"] + first["test"]) == list(range(100, 151))
    assert first["train"] == sorted(first["train"])
    assert first["test"] == sorted(first["test"])
    assert len(ids(test_share=0.9)["train"]) == 5
    # 1 - 0.9 is a bit less than a tenth.
    assert len(read_stackexchange(posts, anything, questions=10, test_share=0.9).splits["train"]) == 1


GOOD = question(1, "<a>") + question(2, "<a>")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (document(GOOD, "  <row Id=\n"), ", line 6: not well-formed XML (not well-formed (invalid token))"),
        (document(GOOD).removesuffix("</posts>"), ", line 5: not well-formed XML (no element found)"),
        ("", ", line 1: not well-formed XML (no element found)"),
        ("<comments>\n" + GOOD + "</comments>", ", line 1: must start with <posts>, but has <comments>"),
        (document(), " holds no question"),
        (document(row(1, 2, Body="An answer")), " holds no question"),
        (document("<history>", GOOD, "</history>"), " holds no question"),
        (document(GOOD, question(1, "<a>")), ", line 5: Id 1 is given twice (first on line 3)"),
        (document(GOOD, row("x", Title="t", Body="b")), ", line 5: Id must be a whole number, but is 'x'"),
        (document(GOOD, row(3, Body="b")), ", line 5: the row has no Title"),
        (document(GOOD, row(3, Title="t")), ", line 5: the row has no Body"),
        (document(GOOD, '<row Id="3" />'), ", line 5: the row has no PostTypeId"),
        (document(GOOD, row(3, Title=" ", Body="<p></p>")), ", line 5: question 3 has neither title nor body"),
    ],
)
def test_malformed_files_are_named_with_the_line(write: Write, content: str, message: str) -> None:
    posts = write("Posts.xml", content)
    with pytest.raises(InputError) as error:
        read_stackexchange(posts, anything, seen=1, test_share=0.5)
    assert str(error.value).startswith(f"{posts}{message}")


def test_nothing_behind_the_wanted_questions_is_read(write: Write) -> None:
    posts = write("Posts.xml", document(GOOD, "<row <<< damaged"))
    splits = read_stackexchange(posts, anything, questions=2, seen=1, test_share=0.5).splits
    assert [found["id"] for found in in_order(splits)] == [1, 2]
    with pytest.raises(InputError, match="line 5: not well-formed XML"):
        read_stackexchange(posts, anything, questions=3, seen=1, test_share=0.5)


def test_what_cannot_be_a_dump_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Posts\.xml does not exist"):
        read_stackexchange(tmp_path / "Posts.xml", anything)
    with pytest.raises(InputError, match="is a folder, not a file"):
        read_stackexchange(tmp_path, anything)
    packed = tmp_path / "site.7z"
    packed.touch()
    with pytest.raises(InputError, match="is packed; unpack it"):
        read_stackexchange(packed, anything)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"questions": 0}, "'questions' must be at least 1, but is 0"),
        ({"seen": 0}, "'seen' must be at least 1, but is 0"),
        ({"test_share": 0.0}, "The test share must be above 0 and below 1, but is 0.0"),
        ({"test_share": 1.0}, "The test share must be above 0 and below 1, but is 1.0"),
        ({"seen": 3}, "none of the 1 tags of 2 questions was seen 3 times and has a word vector"),
        ({"seen": 1, "test_share": 0.7}, "2 texts leave a split empty at a test share of 0.7"),
    ],
)
def test_numbers_that_leave_nothing_are_refused(write: Write, more: dict[str, Any], message: str) -> None:
    posts = write("Posts.xml", document(GOOD))
    with pytest.raises(InputError) as error:
        read_stackexchange(posts, anything, **more)
    assert message in str(error.value)


def test_a_short_file_is_used_whole_and_said(write: Write, caplog: pytest.LogCaptureFixture) -> None:
    posts = write("Posts.xml", document(GOOD))
    with caplog.at_level(logging.WARNING):
        read_stackexchange(posts, anything, questions=2, seen=1, test_share=0.5)
        assert not caplog.records
        read_stackexchange(posts, anything, questions=3, seen=1, test_share=0.5)
    assert "holds only 2 of the 3 questions asked for" in caplog.text


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    posts = tmp_path / "Posts.xml"
    with posts.open("w") as file:
        file.write("<posts>\n" + question(1, "<a>"))
        for number in range(2, 10_002):
            answer = f"<p>{number} " + "an answer of three kilobytes " * 100
            file.write(row(number, 2, ParentId="1", Body=answer))
        file.write(question(20_000, "<a>") + "</posts>")
    assert posts.stat().st_size > 28_000_000
    tracemalloc.start()
    try:
        splits = read_stackexchange(posts, anything, questions=2, seen=1, test_share=0.5).splits
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [found["id"] for found in in_order(splits)] == [1, 20_000]
    assert peak < 1_000_000


def test_the_command_writes_a_set_that_the_others_read(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    posts = write("Posts.xml", document(*(question(number, "<flat-bread><odd>") for number in range(1, 11))))
    vectors = write("words.txt", "flat 1 0\nbread 0 1\n")
    out = tmp_path / "set"
    stackexchange(posts, str(vectors), out, questions=10)
    assert capsys.readouterr().out == f"{out}: 8 texts to train, 2 to test, 1 labels.\n"
    labels = LabelSet.read(out / "labels.jsonl")
    assert labels == LabelSet(("flat-bread",), ("flat bread",))
    train, test = (Corpus.read(out / f"{name}.jsonl", labels) for name in ("train", "test"))
    assert {*train.ids, *test.ids} == {str(number) for number in range(1, 11)}
    assert json.loads((out / "test.jsonl").read_text().splitlines()[0])["labels"] == ["flat-bread"]
    manifest = read_manifest(out, "dataset")
    assert manifest["counts"] == {"train": 8, "test": 2, "labels": 1}
    assert (manifest["vectors"], manifest["test_share"], manifest["seed"]) == ("words.txt", 0.2, 1)

    with pytest.raises(InputError, match="already exists"):
        stackexchange(posts, str(vectors), out)
    stackexchange(posts, str(vectors), out, questions=4, test_share=0.5, overwrite=True)
    assert read_manifest(out, "dataset")["counts"] == {"train": 2, "test": 2, "labels": 1}
    with pytest.raises(InputError, match="--embeddings must name word vectors"):
        stackexchange(posts, "embedded", tmp_path / "other")
