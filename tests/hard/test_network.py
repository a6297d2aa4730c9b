"""No command contacts the network unless a hub name was given; a model that is loaded never chooses a download."""

import json
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from bncl_pyg import BNCLClassifier
from bncl_pyg.corpus import Corpus
from bncl_pyg.errors import InputError
from bncl_pyg.graph import load_word_vectors
from bncl_pyg.predictor import Predictor
from bncl_pyg.scorers import load_scorer
from tests.hard.attacks import Bncl, Made, content_of, refused, rewrite, sentence


class Reached(BaseException):
    """Somebody tried to reach out. No `except Exception` hides it."""


@pytest.fixture
def blocked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Sockets that note who would have been contacted, and an empty cache of the hub."""
    asked: list[str] = []

    def refuse(*words: Any, **_: Any) -> None:
        asked.append(str(words[-1] if len(words) == 1 else words[:2]))
        raise Reached(asked[-1])

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    for name in ("getaddrinfo", "create_connection", "gethostbyname"):
        monkeypatch.setattr(socket, name, refuse)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "empty-hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    return asked


def test_the_block_works(blocked: list[str]) -> None:
    with pytest.raises((Reached, InputError)):
        load_scorer("somebody/something")
    with pytest.raises(Reached):
        socket.create_connection(("example.org", 80))
    assert blocked


def test_no_command_reaches_out(made: Made, bncl: Bncl, tmp_path: Path, blocked: list[str]) -> None:
    texts, labels = tmp_path / "t.csv", tmp_path / "labels.txt"
    texts.write_text("id,text,labels\na,Gold is up.,gold\nb,Wheat and corn.,wheat\nc,Silver falls.,\n")
    labels.write_text("gold\nsilver\nwheat\n")
    out, f, g, m = (tmp_path / name for name in ("o.csv", "f", "g", "m"))
    fast = ["--scorer", "fast"]
    for words in (
        ["classify", texts, "--labels", labels, "--out", out, *fast],
        ["featurize", texts, "--labels", labels, "--out", f, *fast],
        ["graph", "build", labels, "--out", g, "--percentiles", 30, 70],
        ["graph", "stats", g],
        ["graph", "export", g, "--out", tmp_path / "g.graphml"],
        ["train", f, "--graph", g, "--priors", "auto", "--out", m],
        ["predict", m, texts, "--out", tmp_path / "p.jsonl"],
        ["predict", m, f, "--out", tmp_path / "q.jsonl"],
        ["explain", m, "Gold is up."],
        ["eval", m, f, "--truth", texts],
        ["report", m, f, "--out", tmp_path / "r.html"],
        ["suggest", m, f, "--out", tmp_path / "s.jsonl"],
        ["labels", "check", labels, *fast],
        ["labels", "rename", m, "gold", "au", "--out", tmp_path / "renamed"],
        ["data", "priors", texts, "--labels", labels, "--out", tmp_path / "priors.json"],
    ):
        done = bncl(*words)
        assert done.exit_code == 0, (words[:2], done.output)
    assert blocked == []
    assert json.loads((tmp_path / "p.jsonl").read_text().splitlines()[0])["labels"] is not None


@pytest.mark.parametrize("name", ["glove", "vectors", "glove-typo-100", "missing.txt", "a/b", "../vectors", ""])
def test_a_missing_file_of_vectors_is_looked_for_nowhere_else(name: str, blocked: list[str]) -> None:
    told = refused(lambda: load_word_vectors(name))
    assert name in told
    assert blocked == []


def with_scorer(folder: Path, config: dict[str, Any]) -> None:
    rewrite(folder, "model", {**content_of(folder), "scorer": config})


@pytest.mark.parametrize("name", ["attacker/weights", "fast+attacker/weights", "attacker/weights+light"])
def test_a_model_does_not_choose_what_is_downloaded(
    made: Made, bncl: Bncl, tmp_path: Path, blocked: list[str], name: str
) -> None:
    model = made.folder / "model"
    with_scorer(model, {"name": name, "template": "This is about {}."})
    (tmp_path / "t.csv").write_text("text\nGold.\n")
    predictor, classifier = Predictor.load(model), BNCLClassifier.from_pretrained(model)
    for call in (
        lambda: predictor.predictions(["Gold."]),
        lambda: classifier.predict(["Gold."]),
        lambda: classifier.explain("Gold."),
        lambda: classifier.fit(Corpus.of(["Gold.", "Silver."])),
    ):
        assert "downloads nothing by itself" in refused(call)
    told = sentence(bncl("predict", model, tmp_path / "t.csv", "--out", tmp_path / "o.csv"))
    assert f'--scorer "{name}"' in told
    assert blocked == []
    with pytest.raises((Reached, InputError)):
        Predictor.load(model, scorer=name).predictions(["Gold."])
    assert blocked


def test_known_weights_that_are_not_here_are_not_downloaded_for_a_model(
    made: Made, blocked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for name in ("fast", "light", "bge", "colbert", "strong"):
        with_scorer(made.folder / "model", {"name": name, "template": "This is about {}."})
        told = refused(lambda: Predictor.load(made.folder / "model").predictions(["Gold."]))
        assert "is not on this machine" in told
        assert f'allow it with scorer="{name}"' in told
    assert blocked == []


@pytest.mark.parametrize("name", ["/etc", "../other", "~/x", "a/b/c", "", "x\0y", "..", "fast+/etc", 3, None, ["fast"]])
def test_a_model_names_no_path_as_its_scorer(made: Made, blocked: list[str], name: Any) -> None:
    with_scorer(made.folder / "model", {"name": name, "template": "This is about {}."})
    refused(lambda: Predictor.load(made.folder / "model").predictions(["Gold."]))
    assert blocked == []


def test_options_of_a_models_scorer_are_no_way_in(made: Made, blocked: list[str]) -> None:
    for config in (
        {"name": "fast", "max_tokens": "x"},
        {"name": "fast", "backend": "evil"},
        {"name": "fast", "parts": 3},
        {"name": "fast", "parts": {"a": 3}},
        {"name": "fast", "label_map": 3},
        {"name": "fast", "template": 3},
        {"name": "fast", "template": "{0.__class__}"},
    ):
        with_scorer(made.folder / "model", config)
        try:
            predicted = Predictor.load(made.folder / "model").predictions(["Gold."])
        except InputError:
            continue
        assert bool(predicted.probabilities.isfinite().all())
    assert blocked == []


def test_a_folder_cannot_bring_code(tmp_path: Path, blocked: list[str]) -> None:
    """`trust_remote_code` is impossible: a folder that asks for its own classes is refused, and they are not run."""
    folder = tmp_path / "nli"
    folder.mkdir()
    ran = tmp_path / "ran"
    (folder / "evil.py").write_text(f"open({str(ran)!r}, 'w').close()\nclass Evil: ...\n")
    config = {"architectures": ["EvilForSequenceClassification"], "model_type": "evil"}
    names = ("AutoConfig", "AutoModel", "AutoModelForSequenceClassification", "AutoTokenizer")
    (folder / "config.json").write_text(json.dumps({**config, "auto_map": dict.fromkeys(names, "evil.Evil")}))
    (folder / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    refused(lambda: load_scorer(str(folder)))
    (folder / "config.json").write_text(
        json.dumps({"model_type": "evil", "auto_map": dict.fromkeys(names, "evil.Evil")})
    )
    with pytest.raises(InputError):
        load_scorer(str(folder)).score(["a"], ["b"])
    assert not ran.exists()
    assert blocked == []
    shutil.rmtree(folder)
