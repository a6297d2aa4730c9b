import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from bncl_cli.public_data import reuters

from bncl_pyg.corpus import Corpus, LabelSet, read_reuters
from bncl_pyg.corpus.reuters import DESCRIPTIONS_FILE, FILES, TOPICS_FILE
from bncl_pyg.errors import InputError
from bncl_pyg.persistence import read_manifest

Distribution = Callable[[Mapping[int, str | bytes]], Path]

DESCRIPTIONS = """Some notes on the categories
   PLACES (175)

****Subject Codes (6)

Money/Foreign Exchange (MONEY-FX)
Interest Rates (INTEREST)

**Commodity Codes (4)

COTTON\x20
PALM-OIL
SUNSEED
ZINC

________________________________________________________________

@heading[Organization Codes (56)]
Bank of Nowhere (BON)@*
"""
TOPICS = "cotton  \ninterest\nmoney-fx\npalm-oil\nsunseed\nzinc     \n"


def article(newid: int, text: str, topics: str = "zinc", split: str = "TRAIN", flag: str = "YES") -> str:
    listed = "".join(f"<D>{topic}</D>" for topic in topics.split())
    return (
        f'<REUTERS TOPICS="{flag}" LEWISSPLIT="{split}" CGISPLIT="TRAINING-SET" OLDID="7" NEWID="{newid}">\n'
        f"<DATE>26-FEB-1987 15:01:01.79</DATE>\n<TOPICS>{listed}</TOPICS>\n<PLACES><D>usa</D></PLACES>\n"
        "<UNKNOWN> \n&#5;&#5;&#5;C T\n&#22;&#22;&#1;f0704&#31;made up\nu f BC-&lt;XX>-UP   02-26 0105</UNKNOWN>\n"
        f"{text}\n</REUTERS>\n"
    )


def story(title: str, body: str) -> str:
    return (
        f"<TEXT>&#2;\n<TITLE>{title}</TITLE>\n<AUTHOR>    By Nobody</AUTHOR>\n"
        f"<DATELINE>    NOWHERE, Feb 26 - </DATELINE><BODY>{body}\n&#3;</BODY></TEXT>"
    )


def brief(title: str) -> str:
    return f'<TEXT TYPE="BRIEF">&#2;\n******<TITLE>{title}\n</TITLE>Blah blah blah.\n&#3;\n\n</TEXT>'


def unprocessed(text: str) -> str:
    return f'<TEXT TYPE="UNPROC">&#2;\n{text}\n&#3;\n\n</TEXT>'


@pytest.fixture
def distribution(tmp_path: Path) -> Distribution:
    """Write the 22 files, some of them as given, the others with an article that is not used."""

    def write(given: Mapping[int, str | bytes]) -> Path:
        folder = tmp_path / "raw"
        folder.mkdir()
        for number, name in enumerate(FILES):
            content = given.get(number, article(20_000 + number, brief("UNUSED"), split="NOT-USED"))
            raw = content.encode() if isinstance(content, str) else content
            (folder / name).write_bytes(b'<!DOCTYPE lewis SYSTEM "lewis.dtd">\n' + raw)
        (folder / TOPICS_FILE).write_text(TOPICS)
        (folder / DESCRIPTIONS_FILE).write_text(DESCRIPTIONS)
        return folder

    return write


def test_texts_of_every_kind_come_from_all_files_in_order(distribution: Distribution) -> None:
    folder = distribution(
        {
            0: article(1, story("ZINC &lt;ZN> UP", "Zinc rose &amp; rose.\n    Then 5 &lt; 6.\n Reuter"))
            + article(2, brief("ZINC MARKET\n CLOSED, OFFICIAL SAYS"), "zinc money-fx zinc", "TEST", "NO"),
            3: article(3001, unprocessed("    WEEKLY REPORT\n  Cotton....1\n\n  Zinc......2"), "cotton zinc"),
            21: article(21_001, story("NO BODY IS CLOSED BY A BLANK ", "Rates fell."), "interest", "TEST"),
        }
    )
    splits = read_reuters(folder).splits
    assert splits == {
        "train": [
            {"id": 1, "text": "ZINC <ZN> UP Zinc rose & rose.\n    Then 5 < 6.\n Reuter", "labels": ["zinc"]},
            {"id": 3001, "text": "WEEKLY REPORT\n  Cotton....1\n\n  Zinc......2", "labels": ["cotton", "zinc"]},
        ],
        "test": [
            {"id": 2, "text": "ZINC MARKET  CLOSED, OFFICIAL SAYS", "labels": ["zinc", "money-fx"]},
            {"id": 21_001, "text": "NO BODY IS CLOSED BY A BLANK  Rates fell.", "labels": ["interest"]},
        ],
    }


def test_labels_keep_the_order_and_words_of_the_descriptions(distribution: Distribution) -> None:
    labels = read_reuters(distribution({})).labels
    assert labels == LabelSet(
        ("money-fx", "interest", "cotton", "palm-oil", "sunseed", "zinc"),
        ("Money/Foreign Exchange", "Interest Rates", "cotton", "palm oil", "sun seed", "zinc"),
    )


@pytest.mark.parametrize(
    "decoy",
    [{"split": "NOT-USED"}, {"flag": "BYPASS"}, {"topics": ""}, {"topics": "", "flag": "NO", "split": "TEST"}],
)
def test_what_the_rule_excludes_is_dropped(distribution: Distribution, decoy: dict[str, str]) -> None:
    kept = article(1, story("KEPT", "Yes."))
    splits = read_reuters(distribution({0: kept + article(2, story("DECOY", "No."), **decoy)})).splits
    assert [row["id"] for row in splits["train"]] == [1]
    assert splits["test"] == []


def test_identical_texts_of_a_split_become_one_with_the_last_labels(distribution: Distribution) -> None:
    same = story("SAME", "Text.")
    folder = distribution(
        {
            0: article(1, same, "zinc") + article(2, story("OTHER", "Text.")) + article(3, same, "cotton", "TEST"),
            1: article(1001, story("SAME", "Text.&#127;  "), "palm-oil interest"),
        }
    )
    splits = read_reuters(folder).splits
    assert [(row["id"], row["labels"]) for row in splits["train"]] == [
        (1001, ["palm-oil", "interest"]),
        (2, ["zinc"]),
    ]
    assert [(row["id"], row["labels"]) for row in splits["test"]] == [(3, ["cotton"])]


def test_noise_of_the_wire_is_no_text(distribution: Distribution) -> None:
    noisy = article(1, story("NOISE", "Growth.\xfc&#5;&#30;side\x03 &quot;S&L&#38;A&#252;")).encode("latin-1")
    splits = read_reuters(distribution({17: noisy.replace(b"\n", b"\r\n")})).splits
    assert splits["train"][0]["text"] == "NOISE Growth.side &quot;S&L&A"


@pytest.mark.parametrize("name", [FILES[0], FILES[7], TOPICS_FILE, DESCRIPTIONS_FILE])
def test_a_missing_file_is_named(distribution: Distribution, name: str) -> None:
    folder = distribution({})
    (folder / name).unlink()
    with pytest.raises(InputError) as error:
        read_reuters(folder)
    assert str(error.value).startswith(f"{folder} lacks {name}: ")


def test_a_missing_folder_and_a_file_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none does not exist\.$"):
        read_reuters(tmp_path / "none")
    (tmp_path / "reuters.tar.gz").touch()
    with pytest.raises(InputError, match=r"is a file, not a folder\.$"):
        read_reuters(tmp_path / "reuters.tar.gz")


# An article of `article(…, brief(…))` has 15 lines, and the DOCTYPE stands on line 1.
GOOD = article(1, brief("GOOD"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", " holds no article"),
        (GOOD + GOOD.replace("</REUTERS>", "").replace('"1"', '"2"'), ", line 17: the article is not closed"),
        (GOOD.replace("</REUTERS>", "") + GOOD, ", line 2: the article is not closed"),
        (GOOD + GOOD.replace("<REUTERS ", "<REUTRS "), ", line 31: </REUTERS> closes an article that was not opened"),
        (GOOD + GOOD, ", line 17: NEWID 1 is given twice (first in reut2-005.sgm, line 2)"),
        (GOOD + article(2, "<TEXT>&#2;\n&#3;</TEXT>"), ", line 17: the article has topics, but neither title nor body"),
        (GOOD.replace('NEWID="1"', 'NEWID="one"'), ", line 2: NEWID must be a whole number, but is 'one'"),
        (GOOD.replace(' NEWID="1"', ""), ", line 2: NEWID must be a whole number, but is ''"),
        (GOOD.replace('"TRAIN"', '"LEARN"'), ", line 2: LEWISSPLIT is 'LEARN', but must be TRAIN, TEST or NOT-USED"),
        (GOOD.replace(' TOPICS="YES"', ""), ", line 2: TOPICS is missing, but must be YES, NO or BYPASS"),
        (GOOD.replace("<D>zinc", "<D>zink"), ", line 2: <TOPICS>: unknown label 'zink' (did you mean 'zinc'?)"),
        (GOOD.replace("<TOPICS>", "").replace("</TOPICS>", ""), ", line 2: the article has no <TOPICS>"),
        (GOOD.replace("</TOPICS>", ""), ", line 2: <TOPICS> is not closed"),
        (GOOD.replace("</TITLE>", ""), ", line 2: <TITLE> is not closed"),
        (GOOD.replace("</TEXT>", ""), ", line 2: <TEXT> is not closed"),
        (GOOD.replace("<TEXT ", "<TXT "), ", line 2: the article has no <TEXT>"),
        (GOOD.replace('"BRIEF"', '"SHORT"'), ", line 2: the text has the unknown TYPE 'SHORT'"),
    ],
)
def test_malformed_files_are_named_with_the_line(distribution: Distribution, content: str, message: str) -> None:
    folder = distribution({5: content})
    with pytest.raises(InputError) as error:
        read_reuters(folder)
    assert str(error.value).startswith(f"{folder / FILES[5]}{message}")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (DESCRIPTIONS_FILE, DESCRIPTIONS.replace("Subject", "Object"), " has no list of topics"),
        (DESCRIPTIONS_FILE, DESCRIPTIONS.replace("ZINC\n", ""), ", line 4: 6 topics are announced, but 5 follow"),
        (DESCRIPTIONS_FILE, DESCRIPTIONS.replace("ZINC", "COTTON"), ", line 14: topic 'cotton' is given twice"),
        (TOPICS_FILE, TOPICS + "tin\n", f", line 7: topic 'tin' is not in {DESCRIPTIONS_FILE}"),
        (TOPICS_FILE, TOPICS.replace("sunseed\n", ""), f": topic 'sunseed' of {DESCRIPTIONS_FILE} is missing"),
    ],
)
def test_lists_of_topics_that_disagree_are_named(
    distribution: Distribution, name: str, content: str, message: str
) -> None:
    folder = distribution({})
    (folder / name).write_text(content)
    with pytest.raises(InputError) as error:
        read_reuters(folder)
    assert str(error.value).startswith(f"{folder / name}{message}")


def test_the_command_writes_a_set_that_the_others_read(
    distribution: Distribution, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = distribution({0: GOOD + article(2, story("MONEY", "Moved."), "money-fx zinc", "TEST")})
    out = tmp_path / "set"
    reuters(folder, out)
    printed = capsys.readouterr()
    assert printed.out == f"{out}: 1 texts to train, 1 to test, 6 labels.\n"
    assert printed.err == "Warning: the unchanged distribution gives 7694 texts to train and 3010 to test.\n"
    assert [json.loads(line) for line in (out / "train.jsonl").read_text().splitlines()] == [
        {"id": 1, "text": "GOOD", "labels": ["zinc"]}
    ]
    labels = LabelSet.read(out / "labels.jsonl")
    test = Corpus.read(out / "test.jsonl", labels)
    assert test.texts == ("MONEY Moved.",)
    assert test.annotations is not None
    assert test.annotations.toarray().tolist() == [[True, False, False, False, False, True]]
    manifest = read_manifest(out, "dataset")
    assert manifest["counts"] == {"train": 1, "test": 1, "labels": 6}
    assert set(manifest["source_sha256"]) == set(FILES)

    with pytest.raises(InputError, match="already exists"):
        reuters(folder, out)
    reuters(folder, out, overwrite=True)
    (folder / FILES[9]).unlink()
    with pytest.raises(InputError, match="lacks reut2-009"):
        reuters(folder, out, overwrite=True)
    assert read_manifest(out, "dataset") == manifest
