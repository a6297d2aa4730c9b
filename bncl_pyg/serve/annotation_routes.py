"""The routes of annotation and of the looks at a project; they wait for the disk, and so run on threads."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from bncl_pyg.serve.annotating import AnnotationSession
from bncl_pyg.serve.answers import Answer
from bncl_pyg.serve.formats import FORMATS
from bncl_pyg.serve.guard import Refused
from bncl_pyg.serve.looking import Looks, script_hashes
from bncl_pyg.serve.project import Taken
from bncl_pyg.serve.replies import as_json
from bncl_pyg.serve.schemas import AnswerRequest, Holder, UndoRequest

TEXTS_OF_LABEL = 50
FormatName = Literal["jsonl", "csv", "label-studio", "prodigy"]


def annotation_routes(session: AnnotationSession) -> APIRouter:
    """Return the routes of a project."""
    router = APIRouter()
    router.include_router(_answer_routes(session))
    router.include_router(_file_routes(session))
    router.include_router(_look_routes(session))
    return router


def _answer_routes(session: AnnotationSession) -> APIRouter:
    router = APIRouter(prefix="/v1/annotate", tags=["annotate"])

    @router.post("/next")
    def next_text(asked: Holder) -> Response:
        """Return the next text, which is kept for this holder."""
        return as_json({"text": session.next(asked.holder), "progress": session.progress()})

    @router.post("/answers")
    def answer(asked: AnswerRequest) -> Response:
        """Keep an answer; it is on the disk before the response."""
        content = Answer(asked.text, tuple(asked.yes), tuple(asked.no), asked.is_whole, asked.kind)
        try:
            session.answer(content, annotator=asked.annotator, holder=asked.holder, key=asked.key)
        except Taken as error:
            raise Refused(409, str(error)) from None
        return as_json({"saved": asked.key})

    @router.post("/undo")
    def undo(asked: UndoRequest) -> Response:
        """Take back an annotator's last answer, and show its text again."""
        return as_json({"text": session.undo(asked.annotator, asked.holder), "progress": session.progress()})

    @router.post("/renew")
    def renew(asked: Holder) -> Response:
        """Keep the text that a holder is looking at for longer."""
        session.project.renew(asked.holder)
        return as_json({})

    @router.post("/release")
    def release(asked: Holder) -> Response:
        """Give free what a holder was looking at."""
        session.project.release(asked.holder)
        return as_json({})

    @router.post("/train")
    def train() -> Response:
        """Start a training on all answers; returns at once."""
        session.retrainer.start()
        return as_json({})

    @router.get("/progress")
    def progress() -> Response:
        """Return how far one is, how fast, and what the model gained."""
        return as_json(session.progress())

    @router.get("/thresholds")
    def thresholds() -> Response:
        """Return precision and recall on answered texts by threshold."""
        return as_json(session.precision_and_recall())

    return router


def _file_routes(session: AnnotationSession) -> APIRouter:
    router = APIRouter(prefix="/v1/annotate", tags=["annotate"])

    @router.get("/export")
    def export(format: FormatName = "jsonl") -> Response:
        """Return all answers as a file."""
        known = FORMATS[format]
        headers = {"content-disposition": f'attachment; filename="answers{known.ending}"'}
        content = session.export(format).encode("utf-8", "replace")
        return Response(content, headers=headers, media_type=f"{known.media}; charset=utf-8")

    @router.post("/import")
    async def take_in(request: Request, format: FormatName = "jsonl") -> Response:
        """Keep the answers of a file, all or none."""
        try:
            content = (await request.body()).decode("utf-8")
        except UnicodeDecodeError:
            raise Refused(422, "The file is not written in UTF-8.") from None
        return as_json({"new": await run_in_threadpool(session.take_in, format, content)})

    return router


def _look_routes(session: AnnotationSession) -> APIRouter:
    router, looks = APIRouter(tags=["look"]), Looks(session)

    @router.get("/v1/look/graph")
    def graph() -> Response:
        """Return the signed label graph as it is drawn."""
        return as_json(looks.graph())

    @router.get("/v1/look/texts")
    def texts(label: Annotated[str, Query()]) -> Response:
        """Return the texts of a label."""
        return as_json({"texts": session.texts_of(label, TEXTS_OF_LABEL)})

    @router.get("/look/report")
    def report(about: Literal["all", "answered"] = "all") -> Response:
        """Return the report as a page, which runs its own script and nothing else."""
        page = looks.report(about)
        policy = (
            f"default-src 'none'; script-src {' '.join(script_hashes(page))}; style-src 'unsafe-inline'; "
            f"img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'; sandbox allow-scripts"
        )
        return Response(page, headers={"content-security-policy": policy}, media_type="text/html; charset=utf-8")

    return router
