"""The server behind Ray Serve: the same application on as many replicas as Ray is told, or finds necessary.

    serve run bncl_pyg.serve.deployment:app model=/models/tickets

Replicas share nothing but the secret that sessions are signed with. What each counts for Prometheus is its own. Nobody
annotates here: answers are kept in one project, which one server writes.
"""

import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bncl_pyg.errors import InputError, missing_extra
from bncl_pyg.persistence import local_folder, read_manifest
from bncl_pyg.serve.options import ServeOptions, check_serving

NAME = "bncl"
"""Of the deployment."""
ARGUMENTS = ("model", "host", "token", "scorer", "device")
"""What `app` understands of its own; anything else is an option of a Ray Serve deployment."""


def bind(model: str, options: ServeOptions | None = None, **deployment: Any) -> Any:
    """Return an application for `ray.serve.run`: predictions, explanations, labels, health, metrics and the page.

    .. code-block:: python

        from ray import serve
        serve.run(bind("model", num_replicas=2))
        serve.run(bind("model", ServeOptions(host="0.0.0.0", token="…"), autoscaling_config={"max_replicas": 8}))

    Args:
        model: the folder of a trained model, which all machines reach by this name, or its hub name.
        options: who may ask, and how much; where Ray's proxies listen is Ray's business, but `host` says who can reach
            them: others than this machine need a token.
        deployment: options of a Ray Serve deployment, such as `num_replicas`, `autoscaling_config` and
            `ray_actor_options`.
    """
    options = options or ServeOptions()
    if find_spec("ray") is None:
        raise missing_extra("Serving by replicas", "ray", "distributed")
    check_serving(options)
    if options.project is not None:
        raise InputError(
            f"Answers are kept in one project ({options.project}), which replicas cannot share: annotate on a server "
            f"of its own, and serve the model that it trains."
        )
    folder = local_folder(model, "a model")
    read_manifest(folder, "model", check_files=False)
    # A hub name stays one: every machine has a cache of its own.
    name = str(Path(model).absolute()) if Path(model).exists() else model
    options = replace(options, secret=options.secret or secrets.token_urlsafe(32))
    return _deployment(name, options, deployment)


def app(arguments: Mapping[str, Any]) -> Any:
    """Return the application for Ray's own command and configuration files, from `args` as they stand there.

    Args:
        arguments: `model`; `host`, `token`, `scorer` and `device` as in `ServeOptions`; anything else is an option of a
            Ray Serve deployment.
    """
    if not arguments.get("model"):
        raise InputError("Say which model to serve: model=FOLDER.")
    own = {name: arguments[name] for name in ARGUMENTS[1:] if arguments.get(name) is not None}
    more = {name: _number(value) for name, value in arguments.items() if name not in ARGUMENTS}
    return bind(str(arguments["model"]), ServeOptions(**own), **more)


def _number(value: Any) -> Any:
    """Return what stands on a command line as a number, if it is one."""
    return int(value) if isinstance(value, str) and value.isdigit() else value


def _deployment(model: str, options: ServeOptions, deployment: Mapping[str, Any]) -> Any:
    from ray import serve

    def build() -> Any:
        return replica_app(model, options)

    # A replica joins requests into batches by itself: it must be given more than one at a time.
    settings = {"name": NAME, "max_ongoing_requests": 2 * options.limits.batch, **deployment}
    try:
        ready: Any = serve.deployment(serve.ingress(build)(), **settings)
        return ready.bind()
    except (TypeError, ValueError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise InputError(f"Ray Serve cannot deploy with these options ({' '.join(lines[:3])}).") from None


def replica_app(model: str, options: ServeOptions) -> Any:
    """Load a model, and return the application that answers with it until it is stopped."""
    from bncl_pyg.serve.app import create_app
    from bncl_pyg.serve.server import load_served

    served = load_served(model, options)

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        yield
        served.stop()

    return create_app(served, lifespan)
