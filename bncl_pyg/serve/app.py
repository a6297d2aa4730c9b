"""The routes: what can be asked, and a sentence for whatever cannot be answered."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from bncl_pyg.errors import InputError
from bncl_pyg.features import Choice
from bncl_pyg.serve.annotating import AnnotationSession
from bncl_pyg.serve.annotation_routes import annotation_routes
from bncl_pyg.serve.batching import Batcher, Busy, Stopping
from bncl_pyg.serve.engine import Engine, TextPrediction, TriedLabel
from bncl_pyg.serve.guard import Guard, Refused
from bncl_pyg.serve.options import Limits, ServeOptions
from bncl_pyg.serve.page_routes import page_routes
from bncl_pyg.serve.replies import as_json, problem
from bncl_pyg.serve.schemas import ExplainRequest, PredictRequest, PredictResponse, Problem, TryRequest
from bncl_pyg.serve.telemetry import Telemetry

log = logging.getLogger(__name__)

Lifespan = Callable[[Any], AbstractAsyncContextManager[None]]
PROBLEMS: dict[int | str, dict[str, Any]] = {
    413: {"model": Problem, "description": "The request, a text or their number is too large."},
    422: {"model": Problem, "description": "The request cannot be understood."},
    503: {"model": Problem, "description": "Too much is waiting; Retry-After says when to ask again."},
}
_OTHER = {404: "There is nothing at this address.", 405: "This cannot be asked in this way (method)."}
MOST_LABELS = 5000
"""How many labels are listed at once at most."""


@dataclass
class Served:
    """Everything that routes ask.

    Args:
        engine: the model.
        batcher: which asks it.
        options: of the server.
        session: of annotation, where there is one.
    """

    engine: Engine
    batcher: "Batcher[str, TextPrediction]"
    options: ServeOptions
    session: AnnotationSession | None = None

    def stop(self) -> None:
        """Finish what was taken, and close."""
        self.batcher.stop()
        if self.session is not None:
            self.session.stop()


def create_app(served: Served, lifespan: Lifespan | None = None) -> Guard:
    """Return the application, with its guard before it."""
    app = FastAPI(
        title="bncl",
        description="Multi-label text classification: predictions, explanations, and a page to annotate.",
        version=version("bncl-pyg"),
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    telemetry = Telemetry()
    _tell_problems(app)
    app.include_router(_model_routes(served))
    app.include_router(_state_routes(served, telemetry))
    if served.session is not None:
        app.include_router(annotation_routes(served.session))
    routes = frozenset(app.openapi()["paths"])
    guard = Guard(app, served.options, telemetry, routes | {"/", "/docs", "/look/report", "/signin"})
    app.include_router(page_routes(served.session, served.engine, served.options.limits, guard.csrf))
    return guard


def _tell_problems(app: FastAPI) -> None:
    """Turn whatever goes wrong into a status and a sentence."""

    def told(kind: type[Exception], answer: Callable[[Any], Response]) -> None:
        async def handle(_: Request, error: Exception) -> Response:
            return answer(error)

        app.add_exception_handler(kind, handle)

    told(InputError, lambda error: problem(422, str(error)))
    told(Refused, lambda error: problem(error.status, error.sentence, error.headers))
    told(Busy, lambda error: problem(503, str(error), {"retry-after": str(error.retry_after)}))
    told(Stopping, lambda error: problem(503, str(error), {"retry-after": "5"}))
    told(RequestValidationError, lambda error: problem(422, _sentence(error)))
    told(HTTPException, lambda error: problem(error.status_code, _OTHER.get(error.status_code, f"{error.detail}.")))
    told(Exception, lambda _: problem(500, "The server failed; its log says where."))


def _sentence(error: RequestValidationError) -> str:
    """Name what is wrong with a request, but none of its values: these may be texts."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return "The body is no JSON."
    place = ".".join(str(part) for part in first["loc"] if part != "body") or "The body"
    return f"{place}: {first['msg']}."


async def on_worker(future: "Future[Any]") -> Any:
    """Wait for the worker thread."""
    return await asyncio.wrap_future(future)


def check_texts(texts: list[str], limits: Limits, field: str = "texts") -> None:
    """Raise unless texts can be taken."""
    if not texts:
        raise Refused(422, f"{field} holds no text.")
    if len(texts) > limits.texts:
        raise Refused(413, f"A request may have {limits.texts:,} texts at most, but this one has {len(texts):,}.")
    for place, text in enumerate(texts):
        name = field if field == "text" else f"{field}[{place}]"
        if not text.strip():
            raise Refused(422, f"{name} is empty.")
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            raise Refused(422, f"{name} holds half of a pair of surrogates, which is no letter.")
        if len(text) > limits.letters:
            raise Refused(413, f"{name} has {len(text):,} letters, but may have {limits.letters:,} at most.")


def _model_routes(served: Served) -> APIRouter:
    router, engine, batcher, limits = APIRouter(), served.engine, served.batcher, served.options.limits

    @router.post("/v1/predict", tags=["model"], response_model=PredictResponse, responses=PROBLEMS)
    async def predict(asked: PredictRequest) -> Response:
        """Return the labels of a text, or of several."""
        if (asked.text is None) == (asked.texts is None):
            raise Refused(422, "Give either text or texts.")
        texts = asked.texts if asked.texts is not None else [str(asked.text)]
        check_texts(texts, limits, "text" if asked.texts is None else "texts")
        choice, live, names = Choice(asked.threshold, asked.top_k), engine.live, engine.labels.names
        predicted: list[TextPrediction] = await on_worker(batcher.submit(texts))
        rows = [
            {"labels": [{"label": names[at], "probability": round(share, 4)} for at, share in one.chosen(choice)]}
            for one in predicted
        ]
        return as_json({"model": {"version": live.version, "answers": live.answers}, "predictions": rows})

    @router.post("/v1/explain", tags=["model"], responses=PROBLEMS)
    async def explain(asked: ExplainRequest) -> Response:
        """Return what adds up to the decisions on a text: words, the label graph, competition, the prior."""
        check_texts([asked.text], limits, "text")
        return as_json(await on_worker(batcher.run(lambda: engine.explain(asked.text, asked.label))))

    @router.post("/v1/try", tags=["model"], responses=PROBLEMS)
    async def try_labels(asked: TryRequest) -> Response:
        """Score a text with new or reworded labels from their words alone, without training (zero-shot)."""
        check_texts([asked.text], limits, "text")
        if len(asked.labels) > limits.labels:
            raise Refused(413, f"{limits.labels:,} labels can be tried at once, but these are {len(asked.labels):,}.")
        check_texts([one.description or one.name for one in asked.labels], limits, "labels")
        tried = [TriedLabel(one.name, one.description) for one in asked.labels]
        return as_json({"labels": await on_worker(batcher.run(lambda: engine.try_labels(asked.text, tried)))})

    @router.get("/v1/labels", tags=["model"])
    async def labels(search: str = "", most: int = MOST_LABELS) -> Response:
        """Return the labels with their descriptions; with `search`, those that have it in one of both."""
        wanted, count = search.casefold(), max(0, min(most, MOST_LABELS))
        pairs = zip(engine.labels.names, engine.labels.descriptions, strict=True)
        rows = [{"label": name, "description": text} for name, text in pairs if wanted in f"{name} {text}".casefold()]
        return as_json({"count": len(rows), "labels": rows[:count]})

    return router


def _state_routes(served: Served, telemetry: Telemetry) -> APIRouter:
    router, engine, batcher = APIRouter(), served.engine, served.batcher

    @router.get("/health", tags=["state"])
    async def health() -> Response:
        """Say that the server answers."""
        return as_json({"status": "ok"})

    @router.get("/metrics", tags=["state"])
    async def metrics() -> Response:
        """Return counts and durations in Prometheus' text format."""
        counts, live = batcher.counts, engine.live
        more = [
            ("bncl_texts_total", "counter", "Texts that were predicted.", counts.items),
            ("bncl_batches_total", "counter", "Batches that these were joined into.", counts.batches),
            ("bncl_model_seconds_total", "counter", "Time in which the model worked.", counts.seconds),
            ("bncl_refused_total", "counter", "Requests that were sent away because too much waited.", counts.refused),
            ("bncl_waiting_texts", "gauge", "Texts that wait for the model.", batcher.waiting),
            ("bncl_model_version", "gauge", "How often the model was trained since the start.", live.version),
            ("bncl_model_answers", "gauge", "Answered texts that the model learned from.", live.answers),
        ]
        if served.session is not None:
            count = len(served.session.project.answers())
            more.append(("bncl_answers", "gauge", "Texts that are answered.", count))
        return Response(telemetry.text(more), media_type="text/plain; version=0.0.4; charset=utf-8")

    return router
