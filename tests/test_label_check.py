import re
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from bncl_pyg import label_check
from bncl_pyg.corpus import LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.label_check import Finding, check_labels, is_code, label_vectors, sample_texts, worst_findings

VOCABULARY = {
    "x",
    "cat",
    "covid",
    "html",
    "mp3",
    "bank",
    "banks",
    "gold",
    "web",
    "iso",
    "hp",
    "tv",
    "printing",
    "class",
}


class Fake:
    """Encodes a text by its letters; its tokenizer knows a few words and cuts others in pieces of two."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def vectors(self, texts: Sequence[str]) -> Tensor | None:
        self.asked += texts
        counts = torch.tensor(
            [[text.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts]
        )
        return torch.nn.functional.normalize(counts.float() + 1e-6)

    def pieces(self, text: str) -> list[str]:
        if text.lower() in VOCABULARY:
            return [text.lower()]
        parts = re.findall(r"[^\W\d_]+|\d|[^\w\s]|_", text.lower())
        return [piece for part in parts for piece in ([part] if part in VOCABULARY else re.findall("..?", part))]


class Blind(Fake):
    def vectors(self, texts: Sequence[str]) -> Tensor | None:
        return None


def check(labels: object, texts: Sequence[str] | None = None, **options: object) -> dict[str, list[Finding]]:
    kinds: dict[str, list[Finding]] = {}
    for finding in check_labels(LabelSet.of(labels), Fake(), texts, **options):  # type: ignore[arg-type]
        kinds.setdefault(finding.kind, []).append(finding)
    return kinds


@pytest.mark.parametrize(
    "name", ["X-99", "E11.9", "cat_7", "class 3", "HP:0000003", "0005c151-5b5a", "qzx", "nzdlr", "n10029068", "!!", "R"]
)
def test_codes_are_told(name: str) -> None:
    assert is_code(name, Fake())
    (finding,) = check({name: None, "gold mining": "the mining of gold"})["code"]
    assert finding.labels == (name,)
    assert "is a code" in finding.problem
    assert finding.severity == 3
    assert "code" not in check({name: "something else"})
    assert "code" not in check({name: {"synonyms": ["something else"]}})


@pytest.mark.parametrize(
    "name",
    ["alum", "covid-19", "web 2.0", "html5", "mp3", "3d printing", "iso-9001", "TV", "money-fx", "öl", "sous-vide"],
)
def test_words_are_no_codes(name: str) -> None:
    assert not is_code(name, Fake())


def test_many_codes_are_one_finding() -> None:
    kinds = check([f"X-{number}" for number in range(10, 20)])
    (finding,) = kinds["code"]
    assert "near duplicates" not in kinds  # to a language model all codes are alike
    assert len(finding.labels) == 10
    assert "'X-10', 'X-11', 'X-12', 'X-13', 'X-14' and 5 more are codes or abbreviations" in finding.problem


def test_near_duplicates_are_given_as_pairs() -> None:
    (finding,) = check(["economical reasons", "economical reason", "pygmy hippo"])["near duplicates"]
    assert finding.labels == ("economical reasons", "economical reason")
    assert "Merge the two" in finding.advice


def test_labels_that_read_the_same_are_told_once() -> None:
    kinds = check({"a::laptop": "Laptop", "b::laptop": "laptop", "c::laptop": "LAPTOP", "zoo": "hippo pygmy"})
    (finding,) = kinds["same reading"]
    assert finding.labels == ("a::laptop", "b::laptop", "c::laptop")
    assert "near duplicates" not in kinds


def test_many_pairs_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_check, "NEAR_PAIRS", 2)
    labels = {f"name {place}": "economical reasons" + "." * place for place in range(4)}
    findings = check(labels)["near duplicates"]
    assert len(findings) == 3
    assert "4 more pairs mean nearly the same; 4 labels" in findings[-1].problem
    labels = {f"name {place}": f"hippo {'abc'[place // 2]}" for place in range(6)}
    findings = check(labels)["same reading"]
    assert [finding.labels for finding in findings[2:]] == [("name 4", "name 5")]


def test_pairs_across_blocks_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["economical reasons", "gold", "pygmy hippo", "quiz show", "economical reason"]
    whole = check(names)["near duplicates"]
    monkeypatch.setattr(label_check, "_ROWS", 2)
    assert check(names)["near duplicates"] == whole
    assert whole[0].labels == ("economical reasons", "economical reason")


def test_too_many_labels_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_check, "COMPARED_LABELS", 2)
    scorer = Fake()
    findings = check_labels(LabelSet.of(["economical reasons", "economical reason", "gold mine"]), scorer)
    assert [finding.kind for finding in findings] == ["not compared"]
    assert "3 labels are more than 2" in findings[0].problem
    assert not scorer.asked


def test_a_scorer_without_vectors() -> None:
    findings = check_labels(LabelSet.of(["X-99", "gold mine"]), Blind(), ["a text"])
    assert [finding.kind for finding in findings] == ["code", "not compared"]


def test_short_words_are_one_hint() -> None:
    (finding,) = check(
        {"bank": None, "gold": "gold", "match": None, "java": "the island", "mining": None, "tin ore": None}
    )["short name"]
    assert finding.labels == ("bank", "gold", "match")
    assert finding.severity == 1


def test_labels_that_no_text_comes_near() -> None:
    names = ["abba", "baab", "bab", "aab", "bba", "cab", "bac", "caba", "abcab", "bcab", "zzzz quizz"]
    texts = ["abc", "cab baa", "abacab", "aabb"]
    (finding,) = check(names, texts, template="{}")["far from the texts"]
    assert finding.labels == ("zzzz quizz",)
    assert "No text comes near 'zzzz quizz' (best cosine 0." in finding.problem
    assert "far from the texts" not in check(names, template="{}")
    assert "far from the texts" not in check(names[-9:], texts, template="{}")
    assert "far from the texts" not in check(names, (), template="{}")


def test_a_vector_is_the_mean_of_the_phrases() -> None:
    labels = LabelSet.of({"one": {"description": "aaa. Bbb.", "synonyms": ["ccc"]}, "two": "bb"})
    vectors = label_vectors(labels, Fake(), "{}")
    assert vectors is not None
    assert torch.allclose(vectors[:, :3], torch.tensor([[3**-0.5] * 3, [0, 1, 0]]), atol=1e-4)


def test_the_worst_come_first_and_two_are_a_line_each() -> None:
    names = ["bank", "economical reasons", "economical reason", "X-99", "Economical Reason"]
    findings = check_labels(LabelSet.of(names), Fake())
    severities = [finding.severity for finding in findings]
    assert severities == sorted(severities, reverse=True)
    lines = worst_findings(findings, 2)
    assert len(lines) == 2
    assert all("\n" not in line and line.endswith(".") and line.count(".") <= 2 for line in lines)
    assert lines[0].startswith("'X-99'")
    assert "; write a description" in lines[0]
    assert worst_findings(check_labels(LabelSet.of(["bank"]), Fake())) == []
    assert worst_findings([]) == []


def test_a_template_without_a_place_is_refused() -> None:
    with pytest.raises(InputError, match="exactly once"):
        check(["gold"], template="This is about it.")


def test_a_sample_is_of_all_texts() -> None:
    texts = [str(number) for number in range(1000)]
    assert sample_texts(iter(texts), 2000) == texts
    some = sample_texts(iter(texts), 100)
    assert some == sample_texts(texts, 100)
    assert len(set(some)) == 100
    assert 400 < sum(map(int, some)) / 100 < 600
