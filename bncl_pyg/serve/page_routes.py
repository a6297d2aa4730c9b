"""The page and its files, which lie in the package: no build, no other host."""

from importlib.resources import files
from typing import Any

from fastapi import APIRouter, Response

from bncl_pyg.serve.annotating import AnnotationSession
from bncl_pyg.serve.engine import Engine
from bncl_pyg.serve.options import Limits
from bncl_pyg.serve.replies import as_json, problem

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def page_routes(session: AnnotationSession | None, engine: Engine, limits: Limits, csrf: str) -> APIRouter:
    """Return the routes of the page; they are not part of the OpenAPI document."""
    router = APIRouter(include_in_schema=False)
    folder = files("bncl_pyg.serve").joinpath("pages")
    content = {file.name: file.read_bytes() for file in folder.iterdir() if _ending(file.name) in KINDS}

    def page(name: str) -> Response:
        if name not in content:
            return problem(404, "There is no such file.")
        return Response(content[name], media_type=KINDS[_ending(name)])

    @router.get("/")
    async def index() -> Response:
        return page("index.html")

    @router.get("/signin")
    async def sign_in() -> Response:
        return page("signin.html")

    @router.get("/docs")
    async def docs() -> Response:
        return page("docs.html")

    @router.get("/page/{name}")
    async def file(name: str) -> Response:
        return page(name)

    @router.get("/v1/session")
    async def start() -> Response:
        """Return what the page must know; no other site can read it."""
        live = engine.live
        known: dict[str, Any] = {
            "csrf": csrf,
            "annotates": session is not None,
            "project": None if session is None else session.project.folder.name,
            "labels": len(engine.labels),
            "model": {"version": live.version, "answers": live.answers},
            "limits": {"letters": limits.letters, "labels": limits.labels},
        }
        return as_json(known)

    return router


def _ending(name: str) -> str:
    return name[name.rfind(".") :] if "." in name else ""
