"""The server behind a real Ray Serve on this machine: two replicas answer what the plain server answers."""

import json
import logging
import socket
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
import ray
from ray import serve

from bncl_pyg.corpus import LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.estimator import BNCLClassifier
from bncl_pyg.serve import RunningServer, ServeOptions, bind

LABELS = LabelSet.of({"refund": "money back", "password": "a forgotten password", "printer": "a printer that fails"})
TEXTS = [
    f"{start}, case {number}."
    for number in range(20)
    for start in ("Please give me my money back", "I forgot my password", "The printer does not print")
]
READY = resolve_name("bncl_pyg.serve.deployment:app")  # as Ray finds it
TOKEN = "a token that is long enough"
SIGNED = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "model"
    BNCLClassifier(LABELS, scorer="fast").fit(TEXTS).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def url(model: Path) -> Iterator[str]:
    """Where two replicas answer."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ray.init(
        num_cpus=3,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        _system_config={"worker_niceness": 0},
    )
    try:
        serve.start(proxy_location="HeadOnly", http_options={"host": "127.0.0.1", "port": port})
        actors = {"num_cpus": 0.5}
        serve.run(bind(str(model), ServeOptions(token=TOKEN), num_replicas=2, ray_actor_options=actors))
        yield f"127.0.0.1:{port}"
    finally:
        serve.shutdown()
        ray.shutdown()


def ask(netloc: str, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any, str]:
    """Return status, headers and content."""
    connection = HTTPConnection(netloc, timeout=60)
    try:
        sent = body if isinstance(body, str | None) else json.dumps(body)
        connection.request(method, path, sent, {"content-type": "application/json", **headers})
        response = connection.getresponse()
        return response.status, response.headers, response.read().decode()
    finally:
        connection.close()


def test_two_replicas_answer_what_the_plain_server_answers(url: str, model: Path) -> None:
    asked = [
        ("POST", "/v1/predict", {"texts": TEXTS[:40]}),
        ("POST", "/v1/predict", {"texts": TEXTS, "threshold": 0.2, "top_k": 2}),
        ("POST", "/v1/predict", {"text": " "}),
        ("POST", "/v1/explain", {"text": TEXTS[1], "label": "password"}),
        ("POST", "/v1/try", {"text": TEXTS[2], "labels": [{"name": "scanner"}]}),
        ("GET", "/v1/labels", None),
        ("GET", "/health", None),
        ("GET", "/v1/annotate/next", None),
    ]
    with RunningServer(str(model), ServeOptions(port=0, token=TOKEN)) as plain:
        netloc = plain.url.removeprefix("http://")
        for method, path, body in asked:
            status, _, content = ask(netloc, method, path, body, **SIGNED)
            # Either of the replicas may answer.
            for _ in range(4):
                answer = ask(url, method, path, body, **SIGNED)
                assert (answer[0], answer[2]) == (status, content), path
    assert len(json.loads(ask(url, *asked[0], **SIGNED)[2])["predictions"]) == 40


def test_both_replicas_answer_and_know_each_others_sessions(url: str) -> None:
    """Each tells when it started; whoever signed in with one has a session with the other."""
    assert ask(url, "GET", "/v1/labels")[0] == 401
    status, headers, _ = ask(url, "POST", "/signin", f"token={TOKEN.replace(' ', '+')}")
    assert status == 303
    cookie = headers["set-cookie"].split(";")[0]
    started, until = set(), time.monotonic() + 30
    while len(started) < 2:
        assert time.monotonic() < until, "only one replica answers"
        status, _, content = ask(url, "GET", "/metrics", cookie=cookie)
        assert status == 200
        started |= {line for line in content.splitlines() if line.startswith("bncl_start_time_seconds ")}
    assert "bncl_texts_total" in content


def test_the_ready_application_takes_its_arguments_as_ray_gives_them(model: Path) -> None:
    made = READY({"model": str(model), "token": TOKEN, "num_replicas": "3"})
    assert isinstance(made, serve.Application)


@pytest.mark.parametrize(
    ("options", "more", "sentence"),
    [
        ({"texts": Path("t.csv"), "project": Path("mine")}, {}, r"one project \(mine\), which replicas cannot share"),
        ({"host": "0.0.0.0"}, {}, "Others than this machine can reach 0.0.0.0"),
        ({}, {"replicas": 2}, "Ray Serve cannot deploy with these options"),
        ({}, {"num_replicas": -1}, "Ray Serve cannot deploy with these options"),
    ],
)
def test_what_cannot_be_deployed(options: dict[str, Any], more: dict[str, Any], sentence: str, model: Path) -> None:
    with pytest.raises(InputError, match=sentence):
        bind(str(model), ServeOptions(**options), **more)


def test_a_model_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none"):
        bind(str(tmp_path / "none"))
    with pytest.raises(InputError, match="which model"):
        READY({})
