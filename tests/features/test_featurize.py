import hashlib
import json
import os
import random
import subprocess
import sys
import textwrap
import tracemalloc
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from bncl_pyg.corpus import Corpus, LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.features import featurize, read_features, score_texts
from bncl_pyg.persistence import folder_lock, read_manifest, sha256_of, write_manifest
from bncl_pyg.scorers import (
    BiEncoderScorer,
    EnsembleScorer,
    Hypothesis,
    Reading,
    best_candidates,
    hypotheses_of,
    join_scores,
    load_scorer,
)


class HashScorer:
    """Scores that look random but depend on the words of the pair alone; counts what it is asked."""

    def __init__(self, block_texts: int = 7, name: str = "hash") -> None:
        self.block_texts, self.name = block_texts, name
        self.texts: list[str] = []
        self.encoded: list[Hypothesis] = []
        self.pairs = 0

    def config(self) -> dict[str, Any]:
        return {"name": self.name}

    def score(self, texts: Sequence[str], hypotheses: Sequence[Hypothesis], pairs: Tensor | None = None) -> Tensor:
        assert texts, "an empty call is wasted"
        self.texts += texts
        whole = torch.tensor([[self.pair(text, hypothesis) for hypothesis in hypotheses] for text in texts])
        entailment = whole if pairs is None else whole.gather(1, pairs)
        self.pairs += entailment.numel()
        return torch.stack([entailment, 0.9 - 0.9 * entailment])

    def vectors(self, texts: Sequence[str]) -> Tensor:
        return torch.tensor([[self.pair(text, "first"), self.pair(text, "second")] for text in texts])

    def top_labels(self, texts: Sequence[str], hypotheses: Sequence[Hypothesis], k: int) -> Tensor:
        return best_candidates(self.score(texts, hypotheses)[0], k)

    def encode_labels(self, hypotheses: Sequence[Hypothesis]) -> dict[str, Tensor]:
        self.encoded += hypotheses
        return {"vectors": self.vectors([str(one) for one in hypotheses])}

    def use_labels(self, hypotheses: Sequence[Hypothesis], tensors: Mapping[str, Tensor]) -> None:
        self.used = tuple(hypotheses), tensors["vectors"]

    def reading(self, texts: Sequence[str]) -> Reading | None:
        """Read forty letters of a text."""
        cut = sum(len(text) > 40 for text in texts) / max(len(texts), 1)
        return Reading(len(texts), 0.0, 1.0, cut, cut)

    def pair(self, text: str, hypothesis: Hypothesis) -> float:
        content = hashlib.sha256(f"{self.name}|{text}|{hypothesis}".encode()).digest()
        return int.from_bytes(content[:3], "big") / 2**24


Texts = Callable[[], Iterable[tuple[str, str]]]


def texts_of(count: int, first: int = 0) -> Texts:
    return lambda: ((f"t{place}", f"text number {place}") for place in range(first, first + count))


def labels_of(count: int) -> LabelSet:
    return LabelSet(tuple(f"l{place}" for place in range(count)), tuple(f"thing {place}" for place in range(count)))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*"))}


def check(folder: Path, texts: Texts, labels: LabelSet, name: str = "hash") -> None:
    """Every text is there once, with the scores of its own words."""
    found = read_features(folder)
    expected = dict(texts())
    assert sorted(found.ids) == sorted(expected)
    assert found.labels == labels
    scorer = HashScorer(name=name)
    hypotheses = hypotheses_of(labels.descriptions)
    truth = [[scorer.pair(expected[row], hypothesis) for hypothesis in hypotheses] for row in found.ids]
    assert torch.allclose(found.entailment, torch.tensor(truth))
    assert torch.allclose(found.contradiction, 0.9 - 0.9 * torch.tensor(truth))


def test_every_text_is_scored_once_and_told(tmp_path: Path) -> None:
    scorer, started, told = HashScorer(), [], []
    done = featurize(
        texts_of(20), labels_of(5), scorer, tmp_path / "f", start=lambda *n: started.append(n), progress=told.append
    )
    assert (done.texts, done.labels, done.scored_blocks, done.blocks, done.recall) == (20, 5, 3, 3, None)
    assert started == [(20, 0)]
    assert told == [7, 7, 6]
    assert scorer.pairs == 100
    check(tmp_path / "f", texts_of(20), labels_of(5))
    assert read_features(tmp_path / "f").scorer == {"name": "hash", "template": "This is about {}."}


def test_the_same_again_does_nothing(tmp_path: Path) -> None:
    featurize(texts_of(20), labels_of(5), HashScorer(), tmp_path / "f")
    before, scorer = contents(tmp_path / "f"), HashScorer()
    started: list[tuple[int, int]] = []
    again = featurize(texts_of(20), labels_of(5), scorer, tmp_path / "f", start=lambda *n: started.append(n))
    assert (again.scored_blocks, scorer.pairs, started) == (0, 0, [(20, 20)])
    assert contents(tmp_path / "f") == before


def test_later_texts_and_labels_are_added(tmp_path: Path) -> None:
    path = tmp_path / "f"
    featurize(texts_of(10), labels_of(3), HashScorer(), path)
    scorer = HashScorer()
    featurize(texts_of(25), labels_of(3), scorer, path)
    assert scorer.texts == [f"text number {place}" for place in range(10, 25)]
    check(path, texts_of(25), labels_of(3))
    scorer = HashScorer()
    featurize(texts_of(25), labels_of(5), scorer, path)
    assert scorer.pairs == 25 * 2
    scorer = HashScorer()
    featurize(texts_of(27), labels_of(6), scorer, path)
    assert scorer.pairs == 25 * 1 + 2 * 6
    check(path, texts_of(27), labels_of(6))


def test_input_in_another_order_finds_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "f"
    featurize(texts_of(10), labels_of(3), HashScorer(), path)
    shuffled = list(texts_of(30)())
    random.Random(0).shuffle(shuffled)
    featurize(lambda: shuffled, labels_of(3), HashScorer(), path)
    check(path, texts_of(30), labels_of(3))


def test_identical_texts_are_scored_once(tmp_path: Path) -> None:
    rows = [(f"t{place}", f"text number {place % 6}") for place in range(30)]
    for candidates in (None, 2):
        path, scorer = tmp_path / str(candidates), HashScorer()
        featurize(lambda: rows, labels_of(4), scorer, path, candidates=candidates)
        found = read_features(path)
        assert torch.equal(found.entailment[:6].repeat(5, 1), found.entailment)
    path, scorer = tmp_path / "f", HashScorer()
    featurize(lambda: rows, labels_of(4), scorer, path)
    assert len(scorer.texts) <= 7  # six different ones; one more where a block holds a text twice
    check(path, lambda: rows, labels_of(4))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"scorer": HashScorer(name="other")},
            "was made with the scorer 'hash', not 'other'; start anew with fresh=True",
        ),
        ({"template": "It is {}."}, "another template; start anew with fresh=True"),
        ({"dtype": "float16"}, "another dtype"),
        ({"candidates": 2}, "another candidates, kind, ranker"),
        ({"labels": LabelSet(("l0", "l1", "l2"), ("thing 0", "changed", "thing 2"))}, "description of label 'l1'"),
        ({"labels": LabelSet(("l0", "l1"), ("thing 0", "thing 1"))}, "has a label 'l2' that is not in the input"),
        ({"texts": texts_of(9)}, "has a text 't9' that is not in the input"),
        ({"texts": lambda: ((name, text + "!") for name, text in texts_of(10)())}, "another text 't0'"),
    ],
)
def test_changes_are_refused_unless_fresh(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "f"
    usual: dict[str, Any] = {"texts": texts_of(10), "labels": labels_of(3), "scorer": HashScorer(), "path": path}
    featurize(**usual)
    before = contents(path)
    with pytest.raises(InputError) as error:
        featurize(**{**usual, **change})
    assert message in str(error.value)
    assert contents(path) == before
    featurize(**{**usual, **change}, fresh=True)
    assert contents(path) != before
    read_features(path)


def test_damage_is_named_and_scored_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "f"
    featurize(texts_of(30), labels_of(3), HashScorer(), path)
    whole = contents(path)
    blocks = sorted(path.glob("block-*"))
    blocks[1].write_bytes(blocks[1].read_bytes()[:-10])
    blocks[2].write_bytes(blocks[0].read_bytes())
    blocks[4].unlink()
    (path / ".block-r00000000-c000000.safetensors.half").write_bytes(b"half")
    with pytest.raises(InputError, match="is missing or damaged"):
        read_features(path)
    scorer = HashScorer()
    done = featurize(texts_of(30), labels_of(3), scorer, path)
    assert done.scored_blocks == 3
    assert len(scorer.texts) == 7 + 7 + 2
    for block, what in ((blocks[1], "damaged"), (blocks[2], "damaged"), (blocks[4], "missing")):
        assert f"{block} is {what} and is scored again" in caplog.text
    assert contents(path) == whole


def test_an_unfinished_store_is_not_read(tmp_path: Path) -> None:
    class Stops(HashScorer):
        def score(self, texts: Sequence[str], hypotheses: Sequence[Hypothesis], pairs: Tensor | None = None) -> Tensor:
            if len(self.texts) > 10:
                raise KeyboardInterrupt
            return super().score(texts, hypotheses, pairs)

    with pytest.raises(KeyboardInterrupt):
        featurize(texts_of(30), labels_of(3), Stops(), tmp_path / "f")
    with pytest.raises(InputError, match="is not complete: 3 of 5 blocks are missing; featurize again to complete it"):
        read_features(tmp_path / "f")


def test_stopped_at_any_write_and_resumed_is_the_same_to_the_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Go through every moment at which something is synced, the very first ones too, and stop there."""
    featurize(texts_of(20), labels_of(3), HashScorer(), tmp_path / "undisturbed")
    real = os.fsync
    for moment in range(80):
        path, left = tmp_path / str(moment), [moment]

        def fsync(handle: int, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise OSError(28, "No space left on device")
            real(handle)

        monkeypatch.setattr(os, "fsync", fsync)
        stopped = False
        try:
            featurize(texts_of(20), labels_of(3), HashScorer(), path)
        except OSError:
            stopped = True
        monkeypatch.setattr(os, "fsync", real)
        featurize(texts_of(20), labels_of(3), HashScorer(), path)
        assert contents(path) == contents(tmp_path / "undisturbed")
        if not stopped:
            return
    pytest.fail("the run was never let through")


def test_a_full_disk_keeps_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f"
    real, calls = os.fsync, []

    def fsync(handle: int) -> None:
        calls.append(handle)
        if len(calls) > 16:
            raise OSError(28, "No space left on device")
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="No space left"):
        featurize(texts_of(40), labels_of(3), HashScorer(), path)
    monkeypatch.undo()
    written = [json.loads(file.read_text())["files"] for file in path.glob("shard-r*.json")]
    blocks = [name for files in written for name in files if name.startswith("block")]
    assert 0 < len(blocks) < 6
    done = featurize(texts_of(40), labels_of(3), HashScorer(), path)
    assert done.scored_blocks == 6 - len(blocks)
    check(path, texts_of(40), labels_of(3))


def test_two_at_once(tmp_path: Path) -> None:
    path = tmp_path / "f"
    featurize(texts_of(3), labels_of(3), HashScorer(), path)
    before = contents(path)
    with folder_lock(path), pytest.raises(InputError, match=rf"is being written by process {os.getpid()} on"):
        featurize(texts_of(9), labels_of(3), HashScorer(), path)
    assert contents(path) == before


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    for fresh in (False, True):
        with pytest.raises(InputError, match="is not empty and is no bncl features folder"):
            featurize(texts_of(3), labels_of(3), HashScorer(), tmp_path, fresh=fresh)
    assert contents(tmp_path) == {"letter.txt": b"dear"}


def test_candidates_are_the_rankers_best(tmp_path: Path) -> None:
    scorer, ranker = HashScorer(), HashScorer(name="ranker")
    done = featurize(texts_of(200), labels_of(8), scorer, tmp_path / "f", ranker=ranker, candidates=3)
    sample = done.recall.texts if done.recall else 0
    assert sample == int(0.1 * 200 * 3 / 8)
    assert scorer.pairs == 200 * 3 + sample * 8
    found = read_features(tmp_path / "f")
    hypotheses = hypotheses_of(labels_of(8).descriptions)
    assert found.candidates is not None
    filled = found.filled()
    for row, (_, text) in enumerate(texts_of(200)()):
        ranks = torch.tensor([ranker.pair(text, hypothesis) for hypothesis in hypotheses])
        best = set(ranks.topk(3).indices.tolist())
        assert set(found.candidates[row].tolist()) == best
        for place, hypothesis in enumerate(hypotheses):
            expected = scorer.pair(text, hypothesis) if place in best else 0.0
            assert filled.entailment[row, place].item() == pytest.approx(expected)
            assert (filled.contradiction[row, place] > 0) == (place in best)


def test_labels_are_encoded_once_in_blocks_and_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bncl_pyg.features.store.BLOCK_LABELS", 3)
    path, labels = tmp_path / "f", labels_of(8)
    told: list[tuple[int, int]] = []

    class Stopped(BaseException):
        pass

    def stop(done: int, total: int) -> None:
        told.append((done, total))
        if done == 6:
            raise Stopped

    with pytest.raises(Stopped):
        featurize(texts_of(5), labels, HashScorer(), path, candidates=2, labels_progress=stop)
    again = HashScorer()
    featurize(texts_of(5), labels, again, path, candidates=2, labels_progress=lambda *done: told.append(done))
    assert told == [(3, 8), (6, 8), (3, 8), (6, 8), (8, 8)]
    hypotheses = hypotheses_of(labels.descriptions)
    assert again.encoded == hypotheses[6:]
    expected = HashScorer().encode_labels(hypotheses)["vectors"]
    assert again.used[0] == tuple(hypotheses)
    assert torch.equal(again.used[1], expected)
    found = read_features(path).label_tensors
    assert found.keys() == {"vectors"}
    assert torch.equal(found["vectors"], expected)


def test_recall_of_candidates_is_counted(tmp_path: Path) -> None:
    alike = featurize(texts_of(100), labels_of(6), HashScorer(), tmp_path / "a", candidates=6).recall
    assert alike is not None
    assert (alike.entailed, alike.best) == (1.0, 1.0)
    blind = featurize(
        texts_of(300), labels_of(40), HashScorer(), tmp_path / "b", ranker=HashScorer(name="other"), candidates=10
    ).recall
    assert blind is not None
    assert blind.entailed == pytest.approx(0.25, abs=0.15)  # a ranker that knows nothing finds its share
    with pytest.raises(InputError, match="Between 1 and 6 candidates can be kept, but 7"):
        featurize(texts_of(3), labels_of(6), HashScorer(), tmp_path / "c", candidates=7)
    with pytest.raises(InputError, match="label 'l40' is new: candidates must be chosen again"):
        featurize(
            texts_of(300), labels_of(41), HashScorer(), tmp_path / "b", ranker=HashScorer(name="other"), candidates=10
        )


def test_memory_does_not_grow_with_the_texts(tmp_path: Path) -> None:
    class Quick(HashScorer):
        def score(self, texts: Sequence[str], hypotheses: Sequence[Hypothesis], pairs: Tensor | None = None) -> Tensor:
            return torch.full((2, len(texts), len(hypotheses)), 0.4)

    def long_texts(count: int) -> Texts:
        return lambda: ((f"t{place}", f"{place} " + "word " * 2000) for place in range(count))

    peaks = []
    for count in (200, 2000):
        tracemalloc.start()
        featurize(long_texts(count), labels_of(3), Quick(50), tmp_path / str(count))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 1800 * 2000  # the further 1800 texts alone are 18 MB; ids and hashes are 0.2 KB each


KILLED = """
    import os, random, signal, sys, time
    from pathlib import Path
    import torch
    sys.path.insert(0, sys.argv[1])
    from test_featurize import HashScorer, labels_of, texts_of
    from bncl_pyg.features.featurize import featurize
    torch.set_num_threads(1)

    class Slow(HashScorer):
        def score(self, *arguments):
            time.sleep(0.004)
            return super().score(*arguments)

    path, chance = Path(sys.argv[2]), random.Random(int(sys.argv[3]))
    kills = 0
    while kills < 20:
        child = os.fork()
        if child == 0:
            featurize(texts_of(600), labels_of(5), Slow(4), path)
            os._exit(0)
        time.sleep(chance.uniform(0.001, 0.12))
        os.kill(child, signal.SIGKILL)
        kills += os.waitpid(child, 0)[1] == signal.SIGKILL
        if kills < 20 and chance.random() < 0.2:
            for file in sorted(path.glob("block-*"))[:1]:
                file.write_bytes(b"")  # what a lost write leaves
    featurize(texts_of(600), labels_of(5), HashScorer(4), path)
"""


def test_killed_twenty_times_and_resumed_is_the_same_to_the_byte(tmp_path: Path) -> None:
    featurize(texts_of(600), labels_of(5), HashScorer(4), tmp_path / "undisturbed")
    words = [sys.executable, "-c", textwrap.dedent(KILLED), str(Path(__file__).parent), str(tmp_path / "f"), "1"]
    subprocess.run(words, check=True, timeout=120)
    assert contents(tmp_path / "f") == contents(tmp_path / "undisturbed")
    check(tmp_path / "f", texts_of(600), labels_of(5))


def forget(path: Path, names: Sequence[str]) -> None:
    """Take files out of a store, as if it had been written without them."""
    for file in path.glob("shard-*.json"):
        content = read_manifest(path, "features-shard", check_files=False, name=file.name)
        files = {name: digest for name, digest in content.pop("files").items() if name not in names}
        rest = {key: content[key] for key in content if key not in ("format", "version")}
        write_manifest(path, "features-shard", rest, files, name=file.name)
    for name in names:
        (path / name).unlink()


def test_vectors_and_words_come_with_the_scores_and_are_added_to_older_stores(tmp_path: Path) -> None:
    path, labels = tmp_path / "f", labels_of(3)
    featurize(texts_of(20), labels, HashScorer(), path)
    found = read_features(path)
    assert found.vectors is not None
    assert found.words is not None
    expected = HashScorer().vectors([text for _, text in texts_of(20)()])
    assert torch.allclose(found.vectors, expected, atol=1e-3)
    assert found.words.sum(axis=1).tolist() == [2.0] * 10 + [3.0] * 10  # a single digit is no word

    for kind, what in (("vectors", "vectors"), ("text", "words")):
        groups = sorted(file.name for file in path.glob(f"{kind}-r*"))
        forget(path, groups[1:])
        with pytest.raises(InputError, match=f"the {what} of 2 of 3 groups of texts are missing; featurize again"):
            read_features(path)
        forget(path, groups[:1])
    older = read_features(path)
    assert (older.vectors, older.words) == (None, None)
    scorer = HashScorer()
    done = featurize(texts_of(20), labels, scorer, path)
    assert done.scored_blocks == 0
    assert scorer.texts == []
    again = read_features(path)
    assert again.vectors is not None
    assert torch.equal(again.vectors, found.vectors)
    assert again.words is not None
    assert (again.words != found.words).nnz == 0


def test_a_changed_list_is_discovered_before_anything_is_scored(tmp_path: Path) -> None:
    path = tmp_path / "f"
    featurize(texts_of(10), labels_of(3), HashScorer(), path)
    first, second, *rest = (path / "labels.jsonl").read_text().splitlines(keepends=True)
    (path / "labels.jsonl").write_text("".join([second, first, *rest]))
    scorer = HashScorer()
    with pytest.raises(InputError, match=r"labels\.jsonl is missing or damaged"):
        featurize(texts_of(12), labels_of(3), scorer, path)
    assert scorer.texts == []
    featurize(texts_of(12), labels_of(3), scorer, path, fresh=True)
    check(path, texts_of(12), labels_of(3))


def test_each_file_of_a_store_is_verified_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f"
    featurize(texts_of(20), labels_of(3), HashScorer(), path)
    hashed: list[str] = []
    monkeypatch.setattr("bncl_pyg.features.store.sha256_of", lambda file: hashed.append(file.name) or sha256_of(file))
    written = sorted(file.name for file in path.glob("*-*.safetensors") if not file.name.startswith("texts-"))
    read_features(path)
    assert sorted(hashed) == written
    hashed.clear()
    featurize(texts_of(20), labels_of(3), HashScorer(), path)
    assert sorted(hashed) == written


def test_texts_whose_end_is_not_read_are_counted(tmp_path: Path) -> None:
    rows = [(f"t{place}", "word " * place + str(place)) for place in range(20)]
    done = featurize(lambda: rows, labels_of(2), HashScorer(), tmp_path / "f")
    assert (done.read, done.cut) == (20, sum(len(text) > 40 for _, text in rows))
    again = featurize(lambda: rows, labels_of(2), HashScorer(), tmp_path / "f")
    assert (again.read, again.cut) == (0, 0)


def both_of(*names: str, block_texts: int = 7) -> tuple[EnsembleScorer, dict[str, HashScorer]]:
    parts = {name: HashScorer(block_texts, name) for name in names}
    return EnsembleScorer(parts, "+".join(names)), parts


def test_parts_lie_apart_and_are_joined_when_read(tmp_path: Path) -> None:
    path, (scorer, _) = tmp_path / "f", both_of("a", "b")
    featurize(texts_of(10), labels_of(4), scorer, path)
    blocks = sorted(file.name for file in path.glob("block-*"))
    assert blocks == [f"block-r{row:08d}-c000000-{part}.safetensors" for row in (0, 7) for part in ("a", "b")]
    assert len(list(path.glob("vectors-*-a.safetensors"))) == len(list(path.glob("vectors-*-b.safetensors"))) == 2
    assert len(list(path.glob("label-*"))) == 2
    found = read_features(path, parts=True)
    texts, hypotheses = [text for _, text in texts_of(10)()], hypotheses_of(labels_of(4).descriptions)
    expected = {name: part.score(texts, hypotheses) for name, part in scorer.parts.items()}
    assert all(torch.allclose(found.parts[name], expected[name]) for name in ("a", "b"))
    joint = join_scores(list(expected.values()))
    assert torch.allclose(found.entailment, joint[0])
    assert torch.allclose(found.contradiction, joint[1])
    assert read_features(path).parts == {}
    assert found.rows(slice(2, 5)).parts["b"].shape == (2, 3, 4)
    assert found.scorer == {**scorer.config(), "template": "This is about {}."}
    assert set(found.label_tensors) == {"a/vectors", "b/vectors"}


def test_a_store_is_what_is_scored_in_memory(tmp_path: Path) -> None:
    corpus = Corpus.of([text for _, text in texts_of(10)()])
    for scorer in (HashScorer(), both_of("a", "b")[0]):
        path = tmp_path / scorer.config()["name"]
        featurize(lambda: zip(corpus.ids, corpus.texts, strict=True), labels_of(4), scorer, path)
        stored, made = read_features(path), score_texts(corpus, labels_of(4), scorer)
        assert stored.vectors is not None
        assert made.vectors is not None
        assert torch.allclose(stored.entailment, made.entailment)
        assert torch.allclose(stored.contradiction, made.contradiction)
        assert torch.equal(stored.vectors, made.vectors)
        assert stored.scorer == made.scorer
        assert stored.label_tensors.keys() == made.label_tensors.keys()


@pytest.mark.parametrize("order", [("a", "b", "c"), ("c", "b", "a")])
def test_a_part_that_comes_later_is_scored_alone(tmp_path: Path, order: tuple[str, ...]) -> None:
    path = tmp_path / "f"
    featurize(texts_of(20), labels_of(5), HashScorer(name="a"), path)
    before = contents(path)
    scorer, parts = both_of(*order)
    done = featurize(texts_of(20), labels_of(5), scorer, path)
    assert {name: part.pairs for name, part in parts.items()} == {"a": 0, "b": 100, "c": 100}
    assert parts["a"].encoded == []
    assert done.scored_blocks == 3
    after = contents(path)
    assert all(after[name] == content for name, content in before.items() if not name.endswith(".json"))
    featurize(texts_of(20), labels_of(5), both_of(*order)[0], tmp_path / "at once")
    assert torch.equal(read_features(path).entailment, read_features(tmp_path / "at once").entailment)
    assert torch.equal(read_features(path).vectors, read_features(tmp_path / "at once").vectors)  # type: ignore[arg-type]
    # Texts and labels that come later still are scored by all.
    scorer, parts = both_of(*order)
    featurize(texts_of(22), labels_of(6), scorer, path)
    assert {part.pairs for part in parts.values()} == {20 + 2 * 6}


def test_a_part_and_more_texts_may_come_at_once(tmp_path: Path) -> None:
    path = tmp_path / "f"
    featurize(texts_of(10), labels_of(3), HashScorer(name="a"), path)
    scorer, parts = both_of("a", "b")
    featurize(texts_of(12), labels_of(4), scorer, path)
    assert (parts["a"].pairs, parts["b"].pairs) == (10 + 2 * 4, 12 * 4)
    featurize(texts_of(12), labels_of(4), both_of("a", "b")[0], tmp_path / "at once")
    assert torch.allclose(read_features(path).entailment, read_features(tmp_path / "at once").entailment)


def test_candidates_stay_when_a_part_comes_later(tmp_path: Path) -> None:
    path, labels = tmp_path / "f", labels_of(8)
    featurize(texts_of(20), labels, HashScorer(name="a"), path, candidates=3)
    before = read_features(path)
    # Its own candidates would be those of its first part, b.
    scorer, parts = both_of("b", "a")
    done = featurize(texts_of(23), labels, scorer, path, candidates=3)
    assert done.recall is not None
    sample = done.recall.texts * 8
    assert parts["b"].pairs == 23 * 3 + sample  # scored with the candidates that there are
    found = read_features(path, parts=True)
    assert before.candidates is not None
    assert found.candidates is not None
    assert torch.equal(found.candidates[:20], before.candidates)
    # Whoever chose candidates goes on choosing them.
    hypotheses = hypotheses_of(labels.descriptions)
    new = [text for _, text in texts_of(3, 20)()]
    assert torch.equal(found.candidates[20:], HashScorer(name="a").top_labels(new, hypotheses, 3))
    assert read_manifest(path, "features")["ranker"] == {"name": "a"}
    for row, (_, text) in enumerate(texts_of(23)()):
        expected = [parts["b"].pair(text, hypotheses[place]) for place in found.candidates[row].tolist()]
        assert torch.allclose(found.parts["b"][0, row], torch.tensor(expected))
    again = featurize(texts_of(23), labels, both_of("b", "a")[0], path, candidates=3)
    assert again.scored_blocks == 0
    more, parts = both_of("c", "b", "a")
    featurize(texts_of(23), labels, more, path, candidates=3)
    assert torch.equal(read_features(path).candidates, found.candidates)  # type: ignore[arg-type]


def test_another_ranker_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f"
    featurize(texts_of(9), labels_of(4), HashScorer(), path, ranker=HashScorer(name="a"), candidates=2)
    with pytest.raises(InputError, match="was made with another ranker; start anew"):
        featurize(texts_of(9), labels_of(4), HashScorer(), path, ranker=HashScorer(name="b"), candidates=2)


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_stopped_while_a_part_is_added_and_resumed(tmp_path: Path, stop: int) -> None:
    path = tmp_path / "f"
    featurize(texts_of(20), labels_of(3), HashScorer(name="a"), path)

    class Stops(HashScorer):
        def score(self, texts: Sequence[str], hypotheses: Sequence[Hypothesis], pairs: Tensor | None = None) -> Tensor:
            if len(self.texts) >= 7 * (stop - 1):
                raise KeyboardInterrupt
            return super().score(texts, hypotheses, pairs)

    with pytest.raises(KeyboardInterrupt):
        featurize(
            texts_of(20), labels_of(3), EnsembleScorer({"a": HashScorer(name="a"), "b": Stops(name="b")}, "a+b"), path
        )
    with pytest.raises(InputError, match=rf"is not complete: {4 - stop} of 3 blocks are missing"):
        read_features(path)
    scorer, parts = both_of("a", "b")
    featurize(texts_of(20), labels_of(3), scorer, path)
    assert parts["a"].pairs == 0
    assert parts["b"].pairs == 3 * (20 - 7 * (stop - 1))
    featurize(texts_of(20), labels_of(3), both_of("a", "b")[0], tmp_path / "undisturbed")
    assert contents(path) == contents(tmp_path / "undisturbed")


@pytest.mark.parametrize(
    ("scorer", "options", "sentence"),
    [
        (both_of("a", "c")[0], {}, r"was made with the scorer 'a\+b', not 'a\+c'; start anew"),
        (HashScorer(name="a"), {}, r"was made with the scorer 'a\+b', not 'a'; start anew with fresh=True, or choose"),
        (
            EnsembleScorer({"a": HashScorer(name="a"), "b": HashScorer(name="x")}, "a+b"),
            {},
            r"was made with another configuration of 'a\+b'; start anew",
        ),
        (
            HashScorer(name="a"),
            {"template": "{}", "dtype": "float16"},
            r"was made with the scorer 'a\+b', not 'a', and another dtype, template; start anew",
        ),
        (both_of("a", "b")[0], {"template": ["This is about {}.", "{}"]}, "was made with another template; start anew"),
    ],
)
def test_other_parts_are_refused_by_name(scorer: Any, options: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "f"
    featurize(texts_of(9), labels_of(3), both_of("a", "b")[0], path)
    before = contents(path)
    with pytest.raises(InputError, match=sentence):
        featurize(texts_of(9), labels_of(3), scorer, path, **options)
    assert contents(path) == before


def test_parts_that_files_cannot_tell_apart_are_refused(tmp_path: Path) -> None:
    scorer, _ = both_of("some/model", "some_model")
    with pytest.raises(InputError, match=r"parts of the scorer 'some/model\+some_model' have names that are too alike"):
        featurize(texts_of(9), labels_of(3), scorer, tmp_path / "f")
    assert not (tmp_path / "f").exists()
    named, _ = both_of("some/model", "ещё модель")
    featurize(texts_of(9), labels_of(3), named, tmp_path / "f")
    assert set(read_features(tmp_path / "f", parts=True).parts) == {"some/model", "ещё модель"}


def test_several_templates_are_kept_and_compared(tmp_path: Path) -> None:
    path, templates = tmp_path / "f", ("It is {}.", "{}")
    featurize(texts_of(9), labels_of(3), HashScorer(), path, template=templates)
    assert read_features(path).scorer["template"] == list(templates)
    scorer = HashScorer()
    featurize(texts_of(9), labels_of(3), scorer, path, template=list(templates))
    assert scorer.pairs == 0
    assert scorer.used[0] == tuple((f"It is thing {place}.", f"thing {place}") for place in range(3))
    with pytest.raises(InputError, match=r"must hold '\{\}' exactly once, but is 'nothing'"):
        featurize(texts_of(9), labels_of(3), HashScorer(), tmp_path / "g", template=["{}", "nothing"])
    assert not (tmp_path / "g").exists()


def test_synonyms_are_scored_kept_and_compared(tmp_path: Path) -> None:
    path = tmp_path / "f"
    labels = LabelSet(("g", "w"), ("gold", "wheat"), (("bullion", "ingots"), ()))
    scorer = HashScorer()
    featurize(texts_of(9), labels, scorer, path, template="{}")
    assert scorer.encoded == [("gold", "bullion", "ingots"), "wheat"]
    assert read_features(path).labels == labels
    again = HashScorer()
    featurize(texts_of(9), labels, again, path, template="{}")
    assert (again.pairs, again.encoded) == (0, [])
    changed = LabelSet(("g", "w"), ("gold", "wheat"), (("bullion",), ()))
    with pytest.raises(InputError, match="was made with another description of label 'g'"):
        featurize(texts_of(9), changed, HashScorer(), path, template="{}")
    more = LabelSet(("c", "g", "w"), ("corn", "gold", "wheat"), (("maize",), ("bullion", "ingots"), ()))
    later = HashScorer()
    featurize(texts_of(9), more, later, path, template="{}")
    assert later.encoded == [("corn", "maize")]
    found = read_features(path).labels
    assert found.names == ("g", "w", "c")
    assert found.synonyms == (("bullion", "ingots"), (), ("maize",))


def test_a_store_of_light_is_continued_with_strong(tmp_path: Path, labels: LabelSet) -> None:
    path = tmp_path / "f"
    texts = ["The price of gold rose.", "The central bank raised its interest rates.", "A large wheat harvest."]
    corpus = Corpus.of(texts)
    rows = list(zip(corpus.ids, texts, strict=True))
    featurize(lambda: rows, labels, load_scorer("light"), path)
    strong = load_scorer("strong")
    assert isinstance(strong, EnsembleScorer)
    light = strong.parts["light"]
    assert isinstance(light, BiEncoderScorer)
    real, encoded = light.encoder.encode_windows, []
    light.encoder.encode_windows = lambda texts, *more: (encoded.extend(texts), real(texts, *more))[1]  # type: ignore[method-assign]
    featurize(lambda: rows, labels, strong, path)
    assert encoded == []
    stored, made = read_features(path, parts=True), score_texts(corpus, labels, strong, parts=True)
    assert [labels.names[place] for place in stored.entailment.argmax(dim=1)] == ["gold", "rates", "wheat"]
    assert torch.allclose(stored.entailment, made.entailment, atol=1e-3)
    for name in ("light", "bge", "colbert"):
        assert torch.allclose(stored.parts[name], made.parts[name], atol=2e-3)
    assert stored.scorer["name"] == "strong"
    assert set(stored.label_tensors) == {"light/vectors", "bge/vectors", "colbert/tokens", "colbert/lengths"}
    with pytest.raises(InputError, match="was made with the scorer 'strong', not 'fast'"):
        featurize(lambda: rows, labels, load_scorer("fast"), path)
