"""A real server on a free port of this machine: what it answers, refuses, limits, counts and logs."""

import io
import json
import logging
import re
import threading
import time
from pathlib import Path

import pytest

from bncl_pyg.errors import InputError
from bncl_pyg.estimator import BNCLClassifier
from bncl_pyg.serve.options import Limits, ServeOptions, check_serving
from bncl_pyg.serve.server import RunningServer
from bncl_pyg.serve.telemetry import JsonLines
from tests.serve.client import Client
from tests.serve.conftest import HOSTILE, LABELS, Start

TOKEN = "a token of many letters"
PREDICT, TEXT = "/v1/predict", "Please give me my money back"


def names(answer: dict[str, list[dict[str, list[dict[str, str]]]]]) -> list[list[str]]:
    return [[one["label"] for one in row["labels"]] for row in answer["predictions"]]


def test_predictions_are_the_models(start: Start, model: Path, texts: list[tuple[str, str, str]]) -> None:
    client, classifier = Client(start().url), BNCLClassifier.from_pretrained(model)
    some = [text for _, text, _ in texts[:9]] + ["<p>Money <b>back</b></p> now"]
    answer = client.post(PREDICT, {"texts": some})
    plain = [*some[:-1], "Money back now"]
    assert names(answer) == classifier.predict_labels(plain)
    assert answer["model"] == {"version": 0, "answers": 0}
    assert names(client.post(PREDICT, {"texts": some, "top_k": 2})) == classifier.predict_labels(plain, top_k=2)
    given = client.post(PREDICT, {"texts": some, "threshold": 0.3, "top_k": 3})
    assert names(given) == classifier.predict_labels(plain, threshold=0.3, top_k=3)
    assert names(client.post(PREDICT, {"text": some[0]})) == names(answer)[:1]


def test_many_clients_at_once_get_their_own(start: Start, texts: list[tuple[str, str, str]]) -> None:
    server = start()
    client = Client(server.url)
    expected = {text: names(client.post(PREDICT, {"text": text, "top_k": 1})) for _, text, _ in texts[:24]}
    before, got = server.served.batcher.counts.batches, {}

    def ask(text: str) -> None:
        got[text] = names(client.post(PREDICT, {"text": text, "top_k": 1}))

    threads = [threading.Thread(target=ask, args=(text,)) for text in expected]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == expected
    assert server.served.batcher.counts.batches - before <= len(expected)


def test_explain_labels_and_try(start: Start, model: Path) -> None:
    client = Client(start().url)
    why = client.post("/v1/explain", {"text": TEXT, "label": "refund"})["labels"][0]
    same = BNCLClassifier.from_pretrained(model).explain(TEXT, "refund").labels[0]
    assert why["logit"] == pytest.approx(same.logit)
    assert [part["name"] for part in why["contributions"]] == [part.name for part in same.contributions]
    listed = client.get("/v1/labels")
    assert listed["count"] == len(LABELS)
    assert listed["labels"][-1] == {"label": HOSTILE, "description": "hostile names"}
    assert [one["label"] for one in client.get("/v1/labels?search=MONEY")["labels"]] == ["refund"]
    tried = [{"name": "cash", "description": "money back"}, {"name": "refund", "description": "a printer"}]
    new, reworded = client.post("/v1/try", {"text": TEXT, "labels": tried})["labels"]
    assert new["is_new"]
    assert new["before"] is None
    assert not reworded["is_new"]
    assert reworded["before"] == pytest.approx(new["probability"]), "both are worded as 'money back'"
    assert reworded["probability"] < reworded["before"]
    assert client.post("/v1/predict", {"text": TEXT})["model"]["version"] == 0


@pytest.mark.parametrize(
    ("path", "body", "status", "sentence"),
    [
        (PREDICT, b"{", 422, "The body is no JSON."),
        (PREDICT, [], 422, "The body: "),
        (PREDICT, {}, 422, "Give either text or texts."),
        (PREDICT, {"text": "a", "texts": ["b"]}, 422, "Give either text or texts."),
        (PREDICT, {"texts": []}, 422, "texts holds no text."),
        (PREDICT, {"texts": ["secret one", 7]}, 422, "texts.1: Input should be a valid string."),
        (PREDICT, {"texts": ["secret one", " "]}, 422, "texts[1] is empty."),
        (PREDICT, {"text": "secret \ud800"}, 422, "text"),
        (PREDICT, {"text": "secret one", "threshold": 2}, 422, "threshold: Input should be less than or equal to 1."),
        (PREDICT, {"text": "secret one", "top_k": 0}, 422, "top_k: Input should be greater than or equal to 1."),
        (PREDICT, {"text": "secret one", "topk": 1}, 422, "topk: Extra inputs are not permitted."),
        (PREDICT, {"texts": ["secret one"] * 5}, 413, "A request may have 4 texts at most, but this one has 5."),
        (PREDICT, {"text": "secret" * 20}, 413, "text has 120 letters, but may have 100 at most."),
        (PREDICT, {"text": "secret" * 500}, 413, "A request may have 2,000 bytes at most."),
        ("/v1/explain", {"text": "secret one", "label": "refun"}, 422, "unknown label 'refun' (did you mean 'refund'"),
        ("/v1/try", {"text": "secret one", "labels": [{"name": "x"}] * 4}, 413, "3 labels can be tried at once"),
        ("/v1/try", {"text": "secret one", "labels": [{"name": " "}]}, 422, "labels[0] is empty."),
        ("/v1/nothing", {}, 404, "There is nothing at this address."),
        ("/v1/labels", {}, 405, "This cannot be asked in this way"),
        ("/v1/annotate/next", {"holder": "me"}, 404, "There is nothing at this address."),
    ],
)
def test_refusals(limited: Client, path: str, body: object, status: int, sentence: str) -> None:
    got, headers, content = limited.ask("POST", path, body)
    assert got == status
    assert sentence in content["error"]
    assert "secret" not in content["error"]
    assert content["error"].endswith((".", "?)."))
    assert headers["content-security-policy"]


@pytest.fixture(scope="module")
def limited(model: Path) -> object:
    """A client, signed, of a server that takes little."""
    limits = Limits(body=2000, texts=4, letters=100, labels=3)
    with RunningServer(str(model), ServeOptions(port=0, limits=limits)) as server:
        yield Client(server.url).signed()


def test_a_body_that_does_not_say_its_length(limited: Client) -> None:
    import http.client

    connection = http.client.HTTPConnection(limited.netloc, timeout=60)
    connection.request(
        "POST", PREDICT, iter([b"x" * 1500] * 2), {"content-type": "application/json"}, encode_chunked=True
    )
    assert connection.getresponse().status == 413
    connection.close()


def test_a_full_queue_and_a_graceful_stop(start: Start) -> None:
    """The model is held up: what was taken is answered, also after the server is told to stop; others are sent away."""
    server = start(limits=Limits(waiting=2, batch=1))
    client, got = Client(server.url), []
    began, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        began.set()
        assert go_on.wait(60)

    held = server.served.batcher.run(hold)
    assert began.wait(60)
    threads = [
        threading.Thread(target=lambda: got.append(client.ask("POST", PREDICT, {"text": TEXT}))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    while server.served.batcher.waiting < 2:
        time.sleep(0.01)
    status, headers, content = client.ask("POST", PREDICT, {"text": TEXT})
    assert status == 503
    assert int(headers["retry-after"]) >= 1
    assert content["error"] == "Too many requests are waiting; ask again a little later."
    stopper = threading.Thread(target=server.__exit__, args=(None, None, None))
    stopper.start()
    go_on.set()
    for thread in (*threads, stopper):
        thread.join(60)
    assert held.done()
    assert [status for status, _, _ in got] == [200, 200]


def test_health_metrics_and_what_can_be_asked(start: Start) -> None:
    client = Client(start().url)
    assert client.get("/health") == {"status": "ok"}
    client.post(PREDICT, {"texts": [TEXT, TEXT]})
    client.ask("POST", PREDICT, {})
    client.ask("GET", "/no/such/<place>")
    lines = client.get("/metrics").splitlines()
    assert 'bncl_requests_total{route="/v1/predict",method="POST",status="200"} 1' in lines
    assert 'bncl_requests_total{route="/v1/predict",method="POST",status="422"} 1' in lines
    assert 'bncl_requests_total{route="other",method="GET",status="404"} 1' in lines
    assert 'bncl_request_seconds_count{route="/v1/predict"} 2' in lines
    assert "bncl_texts_total 2" in lines
    assert "bncl_batches_total 1" in lines
    form = re.compile(r'# (HELP|TYPE) .+|[a-z_]+(\{([a-z]+="[^"]*",?)+\})? [0-9.e+]+')
    assert all(form.fullmatch(line) for line in lines)
    asked = client.get("/openapi.json")
    assert {"/v1/predict", "/v1/explain", "/v1/labels", "/health", "/metrics"} <= set(asked["paths"])
    page = client.get("/docs") + client.get("/page/docs.js") + client.get("/")
    assert "http:" not in page
    assert "https:" not in page


def test_logs_are_json_without_texts(start: Start) -> None:
    shown = io.StringIO()
    handler = logging.StreamHandler(shown)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("bncl_pyg")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        server = start()
        client = Client(server.url)
        client.post(PREDICT, {"text": f"{TEXT}, secret"})
        client.ask("POST", PREDICT, {"texts": ["secret", 3]})
        client.ask("GET", "/v1/labels?search=secret")
        server.served.engine.explain = lambda *_: {}["secret"]  # type: ignore[method-assign]
        assert client.ask("POST", "/v1/explain", {"text": "secret"})[0] == 500
        server.__exit__(None, None, None)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
    lines = [json.loads(line) for line in shown.getvalue().splitlines()]
    assert "secret" not in shown.getvalue()
    assert {"method": "POST", "path": PREDICT, "status": 422}.items() <= next(
        line for line in lines if line.get("status") == 422
    ).items()
    assert any(line.get("status") == 500 for line in lines)
    assert any(line.get("error") == "KeyError" and line["trace"] for line in lines)
    assert all({"at", "level", "message"} <= set(line) for line in lines)


def test_of_a_failure_the_place_is_logged_and_not_the_message() -> None:
    try:
        raise ValueError("secret")
    except ValueError:
        import sys

        record = logging.LogRecord("x", logging.ERROR, "f", 1, "It failed.", (), sys.exc_info())
    line = json.loads(JsonLines().format(record))
    assert line["error"] == "ValueError"
    assert "test_server.py" in line["trace"][0]
    assert "secret" not in json.dumps(line)


def test_a_token_is_asked_for(start: Start) -> None:
    client = Client(start(token=TOKEN).url)
    assert client.ask("GET", "/health")[0] == 200
    status, headers, content = client.ask("POST", PREDICT, {"text": TEXT})
    assert (status, headers["www-authenticate"]) == (401, "Bearer")
    assert "asks for a token" in content["error"]
    assert client.ask("POST", PREDICT, {"text": TEXT}, authorization="Bearer wrong")[0] == 401
    assert client.ask("POST", PREDICT, {"text": TEXT}, authorization=f"Bearer {TOKEN}")[0] == 200
    status, headers, _ = client.ask("GET", "/")
    assert (status, headers["location"]) == (303, "/signin")
    assert "password" in client.get("/signin")
    form = {"content_type": "application/x-www-form-urlencoded"}
    status, headers, _ = client.ask("POST", "/signin", b"token=wrong", **form)
    assert (status, headers["location"], headers["set-cookie"]) == (303, "/signin?wrong=1", None)
    status, headers, _ = client.ask("POST", "/signin", b"token=a+token+of+many+letters", **form)
    assert (status, headers["location"]) == (303, "/")
    assert "HttpOnly" in headers["set-cookie"]
    assert "SameSite=Strict" in headers["set-cookie"]
    cookie = headers["set-cookie"].split(";")[0]
    assert client.ask("GET", "/v1/labels", cookie=cookie)[0] == 200
    assert client.ask("GET", "/v1/labels", cookie="bncl-session=guess")[0] == 401


def test_other_sites_cannot_ask(start: Start) -> None:
    server = start(annotates=True)
    client = Client(server.url).signed()
    body = {"holder": "me"}
    assert client.ask("POST", "/v1/annotate/next", body)[0] == 200
    assert client.ask("POST", "/v1/annotate/next", body, origin=server.url)[0] == 200
    for headers in (
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"x_bncl_csrf": "guess"},
        {"x_bncl_csrf": ""},
    ):
        status, _, content = client.ask("POST", "/v1/annotate/next", body, **headers)
        assert status == 403, headers
        assert content["error"]
    assert Client(server.url).ask("POST", "/v1/annotate/train", {})[0] == 403
    # A name of somebody else's that points to this machine.
    assert client.ask("GET", "/v1/session", host="evil.example")[0] == 421
    assert client.ask("GET", "/v1/session", host="[")[0] == 421
    assert client.ask("GET", "/v1/session", host="localhost")[0] == 200
    assert "access-control-allow-origin" not in client.ask("GET", "/v1/session")[1]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (ServeOptions(host="0.0.0.0"), "Others than this machine can reach 0.0.0.0: give a token"),
        (ServeOptions(host="example.org"), "give a token"),
        (ServeOptions(token="short"), "at least 16 letters"),
        (ServeOptions(port=70000), "port must be between"),
        (ServeOptions(project=Path("p")), "both the texts and the project"),
        (ServeOptions(retrain_every=0), "retrain_every must be at least 1"),
    ],
)
def test_what_a_server_does_not_start_with(options: ServeOptions, sentence: str) -> None:
    with pytest.raises(InputError, match=re.escape(sentence)):
        check_serving(options)


def test_a_port_that_is_taken(start: Start, model: Path) -> None:
    port = int(start().url.rpartition(":")[2])
    with pytest.raises(InputError, match=f"cannot listen on 127.0.0.1, port {port}: "):
        RunningServer(str(model), ServeOptions(port=port))
    check_serving(ServeOptions(host="0.0.0.0", token=TOKEN))
