"""Models to share: pushed to a stand-in for the hub, and loaded from there by name; the card beside them."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from bncl_cli.main import app
from typer.testing import CliRunner

from bncl_pyg import BNCLClassifier
from bncl_pyg.corpus import Corpus
from bncl_pyg.errors import InputError
from bncl_pyg.evaluation import evaluate_classifier
from bncl_pyg.features import Features, write_features
from bncl_pyg.graph import SignedLabelGraph
from bncl_pyg.priors import Priors
from tests.hub import TOKEN, Hub, connect, running_hub

NAME = "someone/metals"
# What the hub's own library does when it uploads, and when it is refused.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning"),
]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with running_hub() as hub:
        connect(hub.url, str(tmp_path / "cache"), monkeypatch)
        yield hub


@pytest.fixture
def classifier(features: Features, graph: SignedLabelGraph, priors: Priors) -> BNCLClassifier:
    return BNCLClassifier(prevalence=priors, graph=graph).fit(features)


def front_matter(card: str) -> dict[str, object]:
    return dict(yaml.safe_load(card.split("---")[1]))


def test_the_round_trip(hub: Hub, classifier: BNCLClassifier, features: Features, tmp_path: Path) -> None:
    where = classifier.push_to_hub(NAME, private=True, data_license="CC BY 4.0")
    assert where == f"{hub.url}/{NAME}/commit/{hub.commit_of(NAME)}"
    assert hub.visibility[NAME] == "private"
    pushed = hub.repositories[NAME]
    assert {Path(name).suffix for name in pushed if name != ".gitattributes"} == {
        ".json",
        ".jsonl",
        ".md",
        ".safetensors",
    }
    card = pushed["README.md"].decode()
    assert f'from_pretrained("{NAME}")' in card
    assert "Licence of the data: CC BY 4.0" in card
    again = BNCLClassifier.from_pretrained(NAME)
    assert (again.predict_proba(features) == classifier.predict_proba(features)).all()
    assert again.card_ == card
    asked = len(hub.requests)
    BNCLClassifier.from_pretrained(NAME)
    assert len(hub.requests) == asked, "what is in the cache is read without asking"


def test_a_second_push_is_a_second_commit(
    hub: Hub, classifier: BNCLClassifier, features: Features, priors: Priors, graph: SignedLabelGraph, tmp_path: Path
) -> None:
    classifier.push_to_hub(NAME)
    first = hub.commit_of(NAME)
    other = BNCLClassifier(graph=graph, seed=3).fit(features)
    assert BNCLClassifier.from_pretrained(NAME).setting_ == "annotation-free"
    other.save_pretrained(tmp_path / "other", push_to_hub=True, repo_id=NAME, commit_message="Know nothing")
    assert hub.commit_of(NAME) != first
    assert hub.messages[-1] == "Know nothing"
    assert BNCLClassifier.from_pretrained(NAME).seed_ == 0
    assert BNCLClassifier.from_pretrained(NAME, force_download=True).seed_ == 3


@pytest.mark.parametrize(
    ("refusal", "sentence"),
    [
        (("/create", 401), "does not know who you are; log in"),
        (("/create", 403), r"does not let you write there \(403\)"),
        (("/commit/", 403), r"does not let you write there \(403\)"),
        (("/commit/", 409), r"has something else there by now \(409\)"),
        (("/commit/", 412), r"has something else there by now \(412\)"),
        (("/objects/batch", 403), r"does not let you write there \(403\)"),
        (("/commit/", 418), r"the hub refused it \("),
    ],
)
def test_a_refused_push_is_one_sentence(
    hub: Hub, classifier: BNCLClassifier, refusal: tuple[str, int], sentence: str
) -> None:
    hub.refuse = refusal
    with pytest.raises(InputError, match=rf"^{NAME} could not be pushed: .*{sentence}.*\.$") as error:
        classifier.push_to_hub(NAME)
    assert "\n" not in str(error.value)


def test_a_hub_that_is_down_and_one_that_must_not_be_asked(
    hub: Hub, classifier: BNCLClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        down = f"http://127.0.0.1:{free.getsockname()[1]}"
    connect(down, str(tmp_path), monkeypatch)
    with pytest.raises(InputError, match=f"could not be pushed: the hub at {down} cannot be reached"):
        classifier.push_to_hub(NAME)
    connect(hub.url, str(tmp_path), monkeypatch)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match="told to stay offline; unset HF_HUB_OFFLINE"):
        classifier.push_to_hub(NAME)
    assert not hub.requests


@pytest.mark.parametrize("name", ["a/b/c", "someone/has space", "--", ""])
def test_a_name_that_cannot_be(classifier: BNCLClassifier, name: str) -> None:
    with pytest.raises(InputError, match="cannot be the name of a repository"):
        classifier.push_to_hub(name)


def test_the_card_is_written_from_the_run(classifier: BNCLClassifier, features: Features, tmp_path: Path) -> None:
    classifier.save_pretrained(tmp_path / "m")
    card = (tmp_path / "m" / "README.md").read_text()
    matter = front_matter(card)
    assert matter["library_name"] == "bncl-pyg"
    assert matter["pipeline_tag"] == "text-classification"
    assert "multi-label-classification" in matter["tags"]  # type: ignore[operator]
    for line in (
        "Training texts: 60; annotated texts among them: 0.",
        "Setting: annotation-free. Recipe: default. Seed: 0.",
        "6 in a number",
        "Licence of the data: unknown",
        "Scorer: made up",
        "made up: licence unknown",
        "Labels: gold, silver, wheat, corn, money, rates.",
        "Nobody has compared this model with a truth",
        "No person has annotated a text",
    ):
        assert line in card, line
    assert classifier.generate_model_card().content == card
    roughly = {"gold": "common", "silver": (0.1, 0.3), "wheat": None, "corn": 0.2, "money": None, "rates": None}
    classifier.set_params(prevalence=roughly, cardinality=1.5).fit(features, [["gold"], *[None] * 59])
    card = classifier.generate_model_card().content
    assert "given as 1.5; how common labels are: 1 in a number, 1 in an interval, 1 in a word, 3 not known" in card
    assert "annotated texts among them: 1." in card


def test_an_edited_or_removed_card_is_no_damage(classifier: BNCLClassifier, tmp_path: Path) -> None:
    classifier.save_pretrained(tmp_path / "m")
    card = tmp_path / "m" / "README.md"
    card.write_text("# Mine\n\nAll about it.\n")
    again = BNCLClassifier.from_pretrained(tmp_path / "m")
    again.save_pretrained(tmp_path / "again")
    assert (tmp_path / "again" / "README.md").read_text() == "# Mine\n\nAll about it.\n"
    card.write_bytes(b"caf\xe9")
    assert BNCLClassifier.from_pretrained(tmp_path / "m").card_.startswith("caf")
    card.unlink()
    assert BNCLClassifier.from_pretrained(tmp_path / "m").card_ == ""
    (tmp_path / "m" / "labels.jsonl").write_text("")
    with pytest.raises(InputError, match=r"labels.jsonl is missing or damaged"):
        BNCLClassifier.from_pretrained(tmp_path / "m")


def test_figures_stand_in_the_card_beside_baselines(
    classifier: BNCLClassifier, features: Features, corpus: Corpus, tmp_path: Path
) -> None:
    evaluation = evaluate_classifier(classifier, features, corpus)
    classifier.save_pretrained(tmp_path / "m", metrics=evaluation.as_dict())
    card = (tmp_path / "m" / "README.md").read_text()
    assert "| **this model** | " + " | ".join(f"{value:.4f}" for value in evaluation.metrics) in card
    assert "| zero-shot | " in card
    assert "On 60 test texts" in card
    assert "Nobody has compared" not in card


def test_eval_updates_the_card_and_leaves_the_rest(
    classifier: BNCLClassifier, features: Features, corpus: Corpus, tmp_path: Path
) -> None:
    assert corpus.annotations is not None
    classifier.save_pretrained(tmp_path / "m")
    write_features(features, tmp_path / "features")
    rows = [
        {
            "id": name,
            "text": text,
            "labels": [classifier.classes_[place] for place in corpus.annotations[[row]].indices],
        }
        for row, (name, text) in enumerate(zip(corpus.ids, corpus.texts, strict=True))
    ]
    (tmp_path / "truth.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    card = tmp_path / "m" / "README.md"
    card.write_text(card.read_text().replace("## Limits", "A note of mine.\n\n## Limits"))
    words = ["eval", tmp_path / "m", tmp_path / "features", "--truth", tmp_path / "truth.jsonl", "--update-card"]
    for _ in range(2):
        result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        assert "README.md: the model card shows these figures now" in result.output
        assert card.read_text().count("| **this model** |") == 1
        assert "A note of mine." in card.read_text()
    card.write_text("# Nothing is left\n")
    CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert card.read_text().startswith("# Nothing is left\n\n## Evaluation\n")
    assert "| zero-shot |" in card.read_text()
    refused = CliRunner().invoke(app, [*map(str, ["eval", NAME, *words[2:]])])
    assert refused.exit_code == 2
    assert f"Only the card of a folder can be updated, but {NAME} is none" in refused.stderr


def test_push_on_the_command_line(classifier: BNCLClassifier, tmp_path: Path) -> None:
    """With what a user has: the environment, and a cache of one's own to load it from."""
    classifier.save_pretrained(tmp_path / "m")
    with running_hub() as hub:
        env = {key: value for key, value in os.environ.items() if key not in ("HF_HUB_OFFLINE", "HF_TOKEN")}
        env |= {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_XET": "1"}

        def bncl(*words: object, token: str = TOKEN) -> subprocess.CompletedProcess[str]:
            command = [sys.executable, "-c", "from bncl_cli.main import main; main()", *map(str, words)]
            return subprocess.run(command, capture_output=True, text=True, env={**env, "HF_TOKEN": token})

        done = bncl("push", tmp_path / "m", NAME, "--private", "--message", "First")
        assert done.returncode == 0, done.stderr
        assert f"{NAME}: {hub.url}/{NAME}/commit/" in done.stdout
        assert hub.messages == ["First"]
        wrong = bncl("push", tmp_path / "m", NAME, token="hf_wrong")
        assert wrong.returncode == 2
        assert wrong.stderr.strip().splitlines()[-1].startswith(f"Error: {NAME} could not be pushed: the hub does not")
        assert "Traceback" not in wrong.stderr
    for name, sentence in (("alone", "'alone' says no owner"), ("a/b/c", "cannot be the name")):
        result = CliRunner().invoke(app, ["push", str(tmp_path / "m"), name])
        assert result.exit_code == 2
        assert sentence in result.stderr
    result = CliRunner().invoke(app, ["push", str(tmp_path / "none"), NAME])
    assert "none does not exist." in result.stderr
