"""Annotating over HTTP: one text after the other, nothing lost, and a model that learns from it."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from bncl_pyg.active import Pool, suggest
from bncl_pyg.corpus import Corpus
from bncl_pyg.serve.answers import Answer
from bncl_pyg.serve.retraining import Retrainer
from bncl_pyg.serve.server import RunningServer
from tests.serve.client import Client
from tests.serve.conftest import HOSTILE, LABELS, Start

Texts = list[tuple[str, str, str]]


def answer_of(text: str, number: int, **more: Any) -> dict[str, Any]:
    return {"holder": "me", "annotator": "ada", "key": f"k{number}", "text": text, **more}


def annotate(client: Client, texts: Texts, count: int, first: int = 0) -> list[str]:
    """Answer so many texts truly; return their ids."""
    truth, done = {name: label for name, _, label in texts}, []
    for number in range(first, first + count):
        text = client.post("/v1/annotate/next", {"holder": "me"})["text"]
        client.post("/v1/annotate/answers", answer_of(text["id"], number, yes=[truth[text["id"]]]))
        done.append(text["id"])
    return done


def trained(client: Client, count: int) -> dict[str, Any]:
    """Wait until so many trainings are done; return the progress."""
    while True:
        progress: dict[str, Any] = client.get("/v1/annotate/progress")
        assert not progress["training"]["problem"]
        if len(progress["trainings"]) >= count and not progress["training"]["step"]:
            return progress
        time.sleep(0.05)


def test_the_model_learns_and_everything_is_kept(start: Start, texts: Texts, model: Path, table: Path) -> None:
    server = start(annotates=True, retrain_every=8)
    client = Client(server.url).signed()
    assert client.get("/v1/annotate/thresholds")["steps"] == []
    done = annotate(client, texts, 8)
    assert len(set(done)) == 8
    progress = trained(client, 1)
    assert (progress["answered"], progress["whole"], progress["texts"]) == (8, 8, 60)
    assert progress["a_minute"] > 0
    assert progress["model"] == {"version": 1, "answers": 8}
    estimate = progress["trainings"][0]["estimate"]
    assert set(estimate) == {"before", "after"}
    assert all(0 <= value <= 1 for figures in estimate.values() for value in figures.values())
    assert client.post("/v1/predict", {"text": texts[0][1]})["model"] == {"version": 1, "answers": 8}
    known = client.get("/v1/annotate/thresholds")
    assert (known["texts"], known["is_held_out"]) == (8, True)
    assert known["steps"][0]["recall"] == 1
    assert known["steps"][0]["precision"] == pytest.approx(8 / (8 * len(LABELS)))
    assert len(known["steps"]) == 101
    project = server.served.options.project
    server.__exit__(None, None, None)
    with RunningServer(str(model), server.served.options) as again:
        client = Client(again.url).signed()
        progress = client.get("/v1/annotate/progress")
        assert progress["answered"] == 8
        assert len(progress["trainings"]) == 1
        assert progress["model"] == {"version": 1, "answers": 8}, "the model that learned goes on"
        assert client.get("/v1/annotate/thresholds")["is_held_out"] is False
        assert not set(annotate(client, texts, 3, first=8)) & set(done)
        assert project is not None
        rows = [json.loads(line) for line in client.get("/v1/annotate/export").splitlines()]
    assert {row["id"]: row["labels"] for row in rows}.items() >= {
        name: [label] for name, _, label in texts if name in done
    }.items()
    exported = table.parent / "exported.jsonl"
    exported.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert len(Corpus.read(exported, LABELS)) == 11, "what is exported is a table of annotated texts"


def test_what_teaches_most_comes_first(start: Start) -> None:
    server = start(annotates=True)
    session = server.served.session
    assert session is not None
    classifier = server.served.engine.live.classifier
    pool = Pool.of(session.features, session.predictions, classifier.priors_)
    wanted = [session.corpus.ids[row] for row in suggest(pool, 3)]
    client = Client(server.url).signed()
    given = [client.post("/v1/annotate/next", {"holder": str(number)})["text"]["id"] for number in range(3)]
    assert given == wanted


def test_a_text_as_it_is_shown(start: Start) -> None:
    client = Client(start(annotates=True).url).signed()
    first = client.post("/v1/annotate/next", {"holder": "me"})["text"]
    shares = [one["probability"] for one in first["labels"]]
    assert shares == sorted(shares, reverse=True)
    assert {one["label"] for one in first["labels"]} == set(LABELS.names)
    assert first["answer"] is None
    assert client.post("/v1/annotate/next", {"holder": "me"})["text"]["id"] == first["id"]
    other = client.post("/v1/annotate/next", {"holder": "you"})["text"]
    assert other["id"] != first["id"], "two tabs do not get the same"
    status, _, content = client.ask("POST", "/v1/annotate/answers", answer_of(other["id"], 0))
    assert status == 409
    assert "somebody else" in content["error"]
    client.post("/v1/annotate/renew", {"holder": "you"})
    client.post("/v1/annotate/release", {"holder": "you"})
    client.post("/v1/annotate/answers", answer_of(other["id"], 0))


def test_every_kind_of_answer_and_undo(start: Start) -> None:
    server = start(annotates=True)
    client = Client(server.url).signed()
    kinds: list[dict[str, Any]] = [
        {"yes": ["refund", HOSTILE]},
        {"yes": []},
        {"yes": ["refund"], "no": ["printer"], "is_whole": False},
        {"kind": "unsure"},
        {"kind": "skip"},
    ]
    shown = []
    for number, kind in enumerate(kinds):
        text = client.post("/v1/annotate/next", {"holder": "me"})["text"]["id"]
        client.post("/v1/annotate/answers", answer_of(text, number, **kind))
        # The response was lost, and it is sent once more.
        client.post("/v1/annotate/answers", answer_of(text, number, **kind))
        shown.append(text)
    assert len(set(shown)) == 5
    progress = client.get("/v1/annotate/progress")
    assert {name: progress[name] for name in ("answered", "whole", "partial", "unsure", "skipped")} == {
        "answered": 4,
        "whole": 2,
        "partial": 1,
        "unsure": 1,
        "skipped": 1,
    }
    assert server.served.session is not None
    assert server.served.session.project.answers()[shown[2]] == Answer(shown[2], ("refund",), ("printer",), False)
    for kind, text in zip(reversed(kinds), reversed(shown), strict=True):
        back = client.post("/v1/annotate/undo", {"holder": "me", "annotator": "ada"})["text"]
        assert back["id"] == text
        assert back["answer"]["yes"] == kind.get("yes", [])
    assert client.post("/v1/annotate/undo", {"holder": "me", "annotator": "ada"})["text"] is None
    assert client.get("/v1/annotate/progress")["answered"] == 0


def test_skipped_texts_come_last_and_then_nothing(start: Start, texts: Texts) -> None:
    client = Client(start(annotates=True, retrain_every=1000).url).signed()
    first = client.post("/v1/annotate/next", {"holder": "me"})["text"]["id"]
    client.post("/v1/annotate/answers", answer_of(first, 0, kind="skip"))
    annotate(client, texts, 59, first=1)
    assert client.post("/v1/annotate/next", {"holder": "me"})["text"]["id"] == first
    client.post("/v1/annotate/answers", answer_of(first, 99))
    assert client.post("/v1/annotate/next", {"holder": "me"})["text"] is None


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (answer_of("no such", 1), "There is no text with id 'no such'."),
        (answer_of("t1", 1, yes=["refun"]), "unknown label 'refun' (did you mean 'refund'?)."),
        (answer_of("t1", 1, yes=["refund"], no=["refund"]), "is answered with yes and with no."),
        (answer_of("t1", 1, kind="maybe"), "kind: Input should be 'answer', 'unsure' or 'skip'."),
        ({"text": "t1"}, "holder: Field required."),
    ],
)
def test_answers_that_are_refused(start: Start, body: dict[str, Any], sentence: str) -> None:
    client = Client(start(annotates=True).url).signed()
    status, _, content = client.ask("POST", "/v1/annotate/answers", body)
    assert status == 422
    assert sentence in content["error"]
    assert client.get("/v1/annotate/progress")["answered"] == 0


def test_import_is_all_or_nothing(start: Start) -> None:
    client = Client(start(annotates=True, retrain_every=1000).url).signed()
    good = "id,labels\nt1,refund\nt2,\nt3,printer;delivery\n"
    for content, status in ((good + "t4,nothing\n", 422), (good, 200)):
        got, _, answer = client.ask("POST", "/v1/annotate/import?format=csv", content.encode())
        assert got == status, answer
    assert answer == {"new": 3}
    assert client.ask("POST", "/v1/annotate/import?format=csv", good.encode())[2] == {"new": 0}
    assert client.get("/v1/annotate/progress")["whole"] == 3
    assert client.ask("POST", "/v1/annotate/import?format=csv", b"\xff\xfe")[0] == 422
    assert client.ask("POST", "/v1/annotate/import?format=doc", b"")[0] == 422
    assert "attachment" in client.ask("GET", "/v1/annotate/export?format=prodigy")[1]["content-disposition"]


def test_training_without_a_label_says_so(start: Start) -> None:
    client = Client(start(annotates=True, retrain_every=1000).url).signed()
    client.post("/v1/annotate/train", {})
    while not (problem := client.get("/v1/annotate/progress")["training"]["problem"]):
        time.sleep(0.02)
    assert problem == "No answered text has a label yet: there is nothing to learn from."


def test_nobody_waits_for_a_training(start: Start, texts: Texts, monkeypatch: pytest.MonkeyPatch) -> None:
    """The training is held up; meanwhile texts come, answers are kept, and predictions are made."""
    began, go_on = threading.Event(), threading.Event()
    fit = Retrainer._fit

    def held(self: Retrainer, *arguments: Any) -> Any:
        began.set()
        assert go_on.wait(60)
        return fit(self, *arguments)

    monkeypatch.setattr(Retrainer, "_fit", held)
    client = Client(start(annotates=True, retrain_every=6).url).signed()
    annotate(client, texts, 6)
    assert began.wait(60)
    annotate(client, texts, 2, first=6)
    client.post("/v1/annotate/undo", {"holder": "me", "annotator": "ada"})
    progress = client.get("/v1/annotate/progress")
    assert progress["training"]["step"] == "estimating, part 1 of 3"
    assert (progress["answered"], progress["trainings"]) == (7, [])
    assert client.post("/v1/predict", {"text": texts[0][1]})["model"]["version"] == 0
    go_on.set()
    assert trained(client, 1)["model"] == {"version": 1, "answers": 6}


def test_a_training_is_given_up_at_the_end(start: Start, texts: Texts) -> None:
    server = start(annotates=True, retrain_every=6)
    client = Client(server.url).signed()
    annotate(client, texts, 6)
    server.__exit__(None, None, None)
    assert server.served.session is not None
    assert not server.served.session.retrainer.state.step


def test_looks(start: Start, texts: Texts) -> None:
    client = Client(start(annotates=True, retrain_every=1000).url).signed()
    graph = client.get("/v1/look/graph")
    assert {node["label"] for node in graph["nodes"]} == set(LABELS.names)
    assert all(0 <= node[axis] <= 1 for node in graph["nodes"] for axis in "xy")
    status, headers, page = client.ask("GET", "/look/report")
    assert status == 200
    assert "All texts of project" in page
    assert "<script>alert(1)" not in page
    policy = headers["content-security-policy"]
    assert "'unsafe-inline'" not in policy.split("style-src")[0]
    assert "sandbox allow-scripts" in policy
    assert client.ask("GET", "/look/report?about=answered")[0] == 422
    annotate(client, texts, 8)
    assert "Answered texts of project" in client.get("/look/report?about=answered")
    client.post("/v1/annotate/answers", answer_of("t0", 50, yes=[HOSTILE]))
    from urllib.parse import quote

    own = client.get(f"/v1/look/texts?label={quote(HOSTILE)}")["texts"]
    assert {one["id"]: one["answered"] for one in own}["t0"] is True
    assert client.ask("GET", "/v1/look/texts?label=nothing")[0] == 422
