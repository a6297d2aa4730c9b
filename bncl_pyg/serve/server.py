"""From a model's name to a server that listens, and ends when it is told to after finishing what it took."""

import logging
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from types import TracebackType
from typing import Any

import uvicorn

from bncl_pyg.active import DEFAULT, Strategy
from bncl_pyg.corpus import Corpus
from bncl_pyg.errors import InputError
from bncl_pyg.serve.annotating import AnnotationSession
from bncl_pyg.serve.app import Served, create_app
from bncl_pyg.serve.batching import Batcher
from bncl_pyg.serve.engine import Engine
from bncl_pyg.serve.options import ServeOptions, check_serving
from bncl_pyg.serve.project import AnnotationProject

log = logging.getLogger(__name__)

WAITING_CONNECTIONS = 2048


def serve(
    model: str,
    options: ServeOptions | None = None,
    *,
    strategy: str | Strategy = DEFAULT,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve a model until the process is told to stop (SIGINT, SIGTERM).

    Args:
        model: the folder of a trained model, or its hub name.
        options: where to listen, who may ask, what to annotate.
        strategy: which texts are to be annotated first, a name of `bncl_pyg.active.STRATEGIES` or a `Strategy`.
        ready: told the address when the server answers.
    """
    options = options or ServeOptions()
    check_serving(options)
    # Whatever can be wrong with address and project is told before the model is loaded.
    with _listening(options) as listening:
        server = _Server(load_served(model, options, strategy), listening, ready)
        server.run(sockets=[listening])


class RunningServer:
    """A server on a thread of this process, for programs and tests.

    Args:
        model: the folder of a trained model, or its hub name.
        options: as for `serve`; port 0 is any that is free.
        strategy: likewise.

    Example::

        with RunningServer("model", ServeOptions(port=0)) as server:
            urllib.request.urlopen(f"{server.url}/health")
    """

    def __init__(self, model: str, options: ServeOptions | None = None, *, strategy: str | Strategy = DEFAULT) -> None:
        self._options = options or ServeOptions()
        check_serving(self._options)
        with ExitStack() as opened:
            self._socket = opened.enter_context(_listening(self._options))
            self.served = load_served(model, self._options, strategy)
            opened.pop_all()
        self._is_ready = threading.Event()
        self.url = ""
        self._server = _Server(self.served, self._socket, self._set_ready)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="bncl-server", daemon=True
        )

    def _set_ready(self, url: str) -> None:
        self.url = url
        self._is_ready.set()

    def __enter__(self) -> "RunningServer":
        self._thread.start()
        while not self._is_ready.wait(0.1):
            if not self._thread.is_alive():
                raise RuntimeError("The server ended before it answered.")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()


class _Server(uvicorn.Server):
    """Uvicorn's, which tells when it answers."""

    def __init__(self, served: Served, listening: socket.socket, ready: Callable[[str], None] | None) -> None:
        @asynccontextmanager
        async def lifespan(_: Any) -> AsyncIterator[None]:
            yield
            # All connections are done: what they asked for was answered.
            served.stop()

        host, port = listening.getsockname()[:2]
        self._url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        self._ready = ready
        config = uvicorn.Config(
            create_app(served, lifespan),
            log_config=None,
            access_log=False,
            server_header=False,
            ws="none",
            lifespan="on",
            timeout_graceful_shutdown=int(served.options.limits.stop),
        )
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer, and tell."""
        await super().startup(sockets)
        if self.started:
            log.info("Listening on %s.", self._url)
            if self._ready is not None:
                self._ready(self._url)


def _listening(options: ServeOptions) -> socket.socket:
    """Return a socket that is bound; raise a sentence where the address cannot be had."""
    host = options.host.strip("[]")
    with ExitStack() as opened:
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(host, options.port, type=socket.SOCK_STREAM)[0]
            listening = opened.enter_context(socket.socket(family, kind, protocol))
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(WAITING_CONNECTIONS)
        except OSError as error:
            raise InputError(f"The server cannot listen on {host}, port {options.port}: {error.strerror}.") from None
        opened.pop_all()
    return listening


def load_served(model: str, options: ServeOptions, strategy: str | Strategy = DEFAULT) -> Served:
    """Load everything that is served."""
    with ExitStack() as opened:
        corpus, project = None, None
        if options.texts is not None and options.project is not None:
            # Nobody can annotate a blank text.
            corpus = Corpus.read(options.texts, columns=options.columns, skip_empty=True)
            project = opened.enter_context(AnnotationProject(options.project))
        engine = Engine.load(model, scorer=options.scorer, device=options.device)
        session = None
        if corpus is not None and project is not None:
            session = AnnotationSession(engine, corpus, project, strategy=strategy, every=options.retrain_every)
        limits = options.limits
        batcher = Batcher(engine.predict, most=limits.batch, wait=limits.wait, waiting=limits.waiting)
        # From here on `Served.stop` closes the project.
        opened.pop_all()
        return Served(engine, batcher, options, session)
