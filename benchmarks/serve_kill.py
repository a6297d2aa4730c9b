"""A server that is killed at random moments while a client annotates: is any acknowledged answer lost?

    python -m benchmarks.serve_kill --kills 20

A server of the bundled texts is started as a user would start it, and killed (SIGKILL) again and again while one client
answers text after text. Trainings run meanwhile, so that some kills fall into the writing of a model. At the end the
project is opened: every answer that was acknowledged must be there as it was sent, and of those that were not, at most
the one that was being sent at each kill.
"""

import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.results import about_this_run, footer, save
from bncl_pyg.corpus import Corpus, LabelSet
from bncl_pyg.demo import demo_folder
from bncl_pyg.estimator import BNCLClassifier
from bncl_pyg.persistence import write_jsonl
from bncl_pyg.serve import AnnotationProject, Answer

SCORER, TEXTS, RETRAIN_EVERY = "fast", 200, 15
LONGEST = 1.5
"""Seconds after which a server that answers is killed at the latest."""


def main(
    kills: Annotated[int, typer.Option(help="How often the server is killed.")] = 20,
    seed: Annotated[int, typer.Option(help="Of the moments and the answers.")] = 0,
    write: Annotated[bool, typer.Option("--save/--no-save", help="Whether to write the page of results.")] = True,
) -> None:
    """Kill and count."""
    with tempfile.TemporaryDirectory() as name:
        content = {"about": about_this_run(), **killed(Path(name), kills, seed)}
    if write:
        save("serve-kill", content, as_markdown(content))
    typer.echo(as_markdown(content))
    if content["lost"]:
        raise typer.Exit(1)


@dataclass
class _Client:
    """Answers text after text, whatever becomes of the server.

    Attributes:
        acknowledged: what was answered and confirmed, by the text's id.
        unconfirmed: what was sent without a confirmation.
    """

    port: int
    labels: tuple[str, ...]
    draw: random.Random
    acknowledged: dict[str, Answer] = field(default_factory=dict)
    unconfirmed: int = 0
    sent: int = 0
    is_done: bool = False

    def run(self) -> None:
        """Go on until it is told to stop."""
        while not self.is_done:
            try:
                csrf = self._ask("GET", "/v1/session", None, "")["csrf"]
                while not self.is_done:
                    self._annotate_one(csrf)
            except (OSError, http.client.HTTPException):
                time.sleep(0.05)

    def _annotate_one(self, csrf: str) -> None:
        shown = self._ask("POST", "/v1/annotate/next", {"holder": "one"}, csrf)["text"]
        if shown is None:
            self.is_done = True
            return
        yes = tuple(sorted(self.draw.sample(self.labels, self.draw.randint(0, 3))))
        answer = Answer(shown["id"], yes, is_whole=self.draw.random() < 0.8)
        body = {**answer.as_dict(), "holder": "one", "annotator": "one", "key": f"{self.sent}"}
        self.sent += 1
        self.unconfirmed += 1
        self._ask("POST", "/v1/annotate/answers", body, csrf)
        self.unconfirmed -= 1
        self.acknowledged[answer.text] = answer

    def _ask(self, method: str, path: str, body: Any, csrf: str) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            content = None if body is None else json.dumps(body).encode()
            connection.request(method, path, content, {"content-type": "application/json", "x-bncl-csrf": csrf})
            response = connection.getresponse()
            answer = json.loads(response.read())
        finally:
            connection.close()
        if response.status != 200:
            raise RuntimeError(f"{path} was answered with {response.status}: {answer}")
        return answer


def killed(folder: Path, kills: int, seed: int) -> dict[str, Any]:
    """Kill a server so often, and return what is left of the answers."""
    labels = LabelSet.read(demo_folder() / "labels.jsonl")
    corpus = Corpus.read(demo_folder() / "train.jsonl.gz")
    texts = list(zip(corpus.ids, corpus.texts, strict=True))[: max(TEXTS, 100 * kills)]
    BNCLClassifier(labels, scorer=SCORER).fit([text for _, text in texts[:TEXTS]]).save_pretrained(folder / "model")
    write_jsonl(folder / "texts.jsonl", iter([{"id": name, "text": text} for name, text in texts]))
    draw, port = random.Random(seed), _free_port()
    client = _Client(port, labels.names, random.Random(seed + 1))
    thread = threading.Thread(target=client.run, daemon=True)
    thread.start()
    moments = []
    for _ in range(kills):
        process = _started(folder, port)
        moments.append(draw.uniform(0.0, LONGEST))
        before = len(client.acknowledged)
        # Some answers first: a server that is killed before anybody asked it shows nothing.
        while len(client.acknowledged) == before and thread.is_alive():
            time.sleep(0.005)
        time.sleep(moments[-1])
        process.send_signal(signal.SIGKILL)
        process.wait()
    client.is_done = True
    thread.join()
    with AnnotationProject(folder / "project") as project:
        kept = project.answers()
    lost = [text for text, answer in client.acknowledged.items() if kept.get(text) != answer]
    return {
        "kills": kills,
        "sent": client.sent,
        "acknowledged": len(client.acknowledged),
        "kept": len(kept),
        "lost": lost,
        "unconfirmed": client.unconfirmed,
        "moments": [round(moment, 3) for moment in moments],
    }


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _started(folder: Path, port: int) -> "subprocess.Popen[bytes]":
    """Start a server as a user would, and return it when it answers."""
    words = ["serve", str(folder / "model"), "--port", str(port), "--retrain-every", str(RETRAIN_EVERY)]
    words += ["--annotate", str(folder / "texts.jsonl"), "--project", str(folder / "project")]
    environment = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE"}
    with (folder / "server.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "bncl_pyg", *words], env=environment, stdout=subprocess.DEVNULL, stderr=log
        )
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return process
    told = (folder / "server.log").read_text(encoding="utf-8").splitlines()[-3:]
    raise RuntimeError(f"The server ended with {process.returncode}: {told}")


def as_markdown(content: dict[str, Any]) -> str:
    """Return the page that shows the figures of a run."""
    return (
        "# A server that is killed while somebody annotates\n\n"
        f"`bncl serve` was killed (SIGKILL) {content['kills']} times at random moments, up to {LONGEST:g} seconds "
        f"after an answer, while one client annotated and trainings ran. {content['sent']:,} answers were sent, "
        f"{content['acknowledged']:,} were acknowledged; **{len(content['lost'])} of these were lost**. Of the "
        f"{content['unconfirmed']} that were being sent when the server was killed, "
        f"{content['kept'] - content['acknowledged'] + len(content['lost'])} had already been kept.\n"
        + footer(content["about"])
    )


if __name__ == "__main__":
    typer.run(main)
