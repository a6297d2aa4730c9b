"""What a server is told when it starts: where it listens, who may ask, and how much."""

import ipaddress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from bncl_pyg.corpus import Columns
from bncl_pyg.errors import InputError

LEAST_TOKEN = 16
"""Letters that a token has at least."""


@dataclass(frozen=True)
class Limits:
    """How much is taken.

    Args:
        body: bytes of a request.
        import_body: bytes of a file of answers.
        texts: of one request.
        letters: of one text.
        labels: that are tried at once.
        waiting: texts that wait for the model; whoever comes when there are more is sent away.
        batch: texts that are read at once.
        wait: seconds in which requests are joined.
        stop: seconds in which a server that is told to stop finishes what it took.
    """

    body: int = 4_000_000
    import_body: int = 64_000_000
    texts: int = 256
    letters: int = 200_000
    labels: int = 100
    waiting: int = 2048
    batch: int = 64
    wait: float = 0.003
    stop: float = 30.0


@dataclass(frozen=True)
class ServeOptions:
    """Where a server listens and what it serves.

    Args:
        host: this machine only, unless told otherwise.
        port: 0 for any that is free.
        token: what whoever asks must know; needed where others than this machine can ask.
        texts: a table of texts to annotate.
        project: the folder that keeps the answers.
        columns: which columns of the table hold what.
        retrain_every: so many new answers start a training.
        scorer: where the scorer of the texts lies, if it was a local folder.
        device: where scorer and model run.
        limits: how much is taken.
        secret: what a page's session is made from, where several servers answer as one; if not given, every server
            makes its own.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    texts: Path | None = None
    project: Path | None = None
    columns: Columns = field(default_factory=Columns)
    retrain_every: int = 10
    scorer: str | None = None
    device: str | None = None
    limits: Limits = field(default_factory=Limits)
    secret: str | None = None


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_serving(options: ServeOptions) -> None:
    """Raise, before anything is loaded, if a server could not or should not start with these."""
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        raise InputError('A server needs FastAPI and uvicorn: pip install "bncl-pyg[serve]".')
    if not 0 <= options.port <= 65535:
        raise InputError(f"port must be between 0 and 65535, but is {options.port}.")
    if options.token is None and not is_loopback(options.host):
        raise InputError(
            f'Others than this machine can reach {options.host}: give a token that they must know with token="…", '
            f"or listen on 127.0.0.1."
        )
    if options.token is not None and (len(options.token) < LEAST_TOKEN or not options.token.isascii()):
        raise InputError(f"A token has at least {LEAST_TOKEN} letters, digits or signs of ASCII.")
    if (options.texts is None) != (options.project is None):
        raise InputError("To annotate, give both the texts and the project, the folder that keeps the answers.")
    if options.retrain_every < 1:
        raise InputError(f"retrain_every must be at least 1, but is {options.retrain_every}.")
