"""A trained model over HTTP, and a page where people try it, annotate with it and look at it.

How a request goes::

    browser or program ─▶ guard.Guard        who may ask: host, origin, token, size of the body
                          app.create_app     routes; a sentence for whatever cannot be answered
      texts to predict ─▶ batching.Batcher   one worker thread, requests joined within milliseconds, a bounded queue
                          engine.Engine      the live model; predicts, explains, tries labels by name alone
      an answer        ─▶ annotating.AnnotationSession ─▶ project.AnnotationProject   SQLite, synced before the response
      enough answers   ─▶ retraining.Retrainer   a thread of its own: folds for the estimate, then a model that replaces
                                                 the live one in the engine
      what comes next  ─▶ active.suggest         with the default strategy, or any other
      a report         ─▶ looking.Looks          the live report, the label graph, the texts of a label

On many machines `deployment.bind` makes a Ray Serve application of the same routes, without those that annotate.

Only `app` and `server` need FastAPI and uvicorn; the door opens them when they are asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bncl_pyg.serve.answers import Answer
from bncl_pyg.serve.batching import Batcher, Busy
from bncl_pyg.serve.formats import FORMATS, export_answers, import_answers
from bncl_pyg.serve.options import Limits, ServeOptions, check_serving, is_loopback
from bncl_pyg.serve.project import AnnotationProject
from bncl_pyg.serve.telemetry import JsonLines

if TYPE_CHECKING:
    from bncl_pyg.serve.annotating import AnnotationSession
    from bncl_pyg.serve.app import create_app
    from bncl_pyg.serve.deployment import bind
    from bncl_pyg.serve.engine import Engine
    from bncl_pyg.serve.server import RunningServer, serve

_OPENED = {
    "AnnotationSession": "annotating",
    "Engine": "engine",
    "RunningServer": "server",
    "bind": "deployment",
    "create_app": "app",
    "serve": "server",
}
"""The module of each name that needs torch, or FastAPI and uvicorn."""

__all__ = [
    "FORMATS",
    "AnnotationProject",
    "AnnotationSession",
    "Answer",
    "Batcher",
    "Busy",
    "Engine",
    "JsonLines",
    "Limits",
    "RunningServer",
    "ServeOptions",
    "bind",
    "check_serving",
    "create_app",
    "export_answers",
    "import_answers",
    "is_loopback",
    "serve",
]


def __getattr__(name: str) -> Any:
    if name in _OPENED:
        return getattr(import_module(f"bncl_pyg.serve.{_OPENED[name]}"), name)
    raise AttributeError(f"module 'bncl_pyg.serve' has no attribute '{name}'")
