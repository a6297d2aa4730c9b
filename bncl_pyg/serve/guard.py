"""Who may ask, and how much: host, origin, token and size are looked at before anything else is."""

import asyncio
import hmac
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from json import dumps
from typing import Any
from urllib.parse import parse_qs, urlsplit

from bncl_pyg.serve.options import ServeOptions, is_loopback
from bncl_pyg.serve.telemetry import Telemetry

log = logging.getLogger("bncl_pyg.serve.access")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE, CSRF = "bncl-session", "x-bncl-csrf"
OPEN = ("/health", "/signin", "/page/page.css", "/page/icon.svg")
"""What is answered without a token."""
CHANGING = "/v1/annotate/"
"""What changes something, if it is not only asked for (GET)."""
BODY_SECONDS = 30.0
"""In which a request must have been sent."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; frame-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Refused(Exception):  # noqa: N818
    """A request that is not answered: its status and a sentence."""

    def __init__(self, status: int, sentence: str, **headers: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class Guard:
    """Stands before an ASGI application.

    Args:
        app: what answers.
        options: where the server listens, its token and limits.
        telemetry: told of every request.
        routes: those that are counted by name.

    Attributes:
        csrf: made anew at every start, or from the options' secret; who changes something must send it, which only a
            page of ours can know.
    """

    def __init__(self, app: App, options: ServeOptions, telemetry: Telemetry, routes: frozenset[str]) -> None:
        self.app, self._telemetry, self._routes = app, telemetry, routes
        self._token, self._limits = options.token, options.limits
        self._is_local = is_loopback(options.host)
        secret = (options.secret or secrets.token_urlsafe(32)).encode()
        self.csrf, self._session = (hmac.new(secret, use, "sha256").hexdigest() for use in (b"csrf", b"session"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status, has_begun = time.perf_counter(), 500, False
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}

        async def answer(message: Message) -> None:
            nonlocal status, has_begun
            if message["type"] == "http.response.start":
                status, has_begun = message["status"], True
                own = {name for name, _ in message["headers"]}
                more = [(n.encode(), v.encode()) for n, v in HEADERS.items() if n.encode() not in own]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        try:
            self._check(scope, headers)
            body = await _whole_body(receive, headers, self._most(scope["path"]))
            if scope["path"] == "/signin" and scope["method"] == "POST":
                await self._sign_in(body, answer)
            else:
                await self.app(scope, _replayed(body, receive), answer)
        except Refused as refused:
            await _refuse(answer, refused, closes=refused.status in (408, 413))
        except Exception:
            # What the application raises, it has answered already: with 500 and a sentence.
            log.exception("A request failed.")
            if not has_begun:
                await _refuse(answer, Refused(500, "The server failed; its log says where."), closes=True)
        finally:
            self._note(scope, status, time.perf_counter() - began)

    def _most(self, path: str) -> int:
        return self._limits.import_body if path == "/v1/annotate/import" else self._limits.body

    def _check(self, scope: Scope, headers: dict[str, str]) -> None:
        """Raise unless this request may be asked."""
        host, path = headers.get("host", ""), scope["path"]
        # A name that somebody else's server answers for may point here (DNS rebinding).
        if self._is_local and not is_loopback(_name_of(f"//{host}")):
            raise Refused(421, "This server answers as 127.0.0.1 or localhost only.")
        is_asking = scope["method"] in ("GET", "HEAD")
        if not is_asking:
            _check_origin(headers, host)
        has_token = self._has_token(headers)
        if self._token is not None and path not in OPEN and not has_token and not self._has_session(headers):
            if path == "/" and is_asking:
                raise Refused(303, "Sign in first.", location="/signin")
            raise Refused(401, "This server asks for a token: Authorization: Bearer TOKEN.", www_authenticate="Bearer")
        if path.startswith(CHANGING) and not is_asking and not has_token:
            given = headers.get(CSRF, "")
            if not hmac.compare_digest(given.encode(), self.csrf.encode()):
                raise Refused(403, "What changes something must come from this server's own page; reload it.")

    def _has_token(self, headers: dict[str, str]) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and self._is_token(given.strip())

    def _is_token(self, given: str) -> bool:
        return self._token is not None and hmac.compare_digest(given.encode(), self._token.encode())

    def _has_session(self, headers: dict[str, str]) -> bool:
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return cookie is not None and hmac.compare_digest(cookie.value.encode(), self._session.encode())

    async def _sign_in(self, body: bytes, send: Send) -> None:
        given = parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0]
        if not self._is_token(given.strip()):
            raise Refused(303, "This is not the token.", location="/signin?wrong=1")
        cookie = f"{COOKIE}={self._session}; HttpOnly; SameSite=Strict; Path=/"
        await _refuse(send, Refused(303, "Signed in.", location="/", set_cookie=cookie), closes=False)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        path = scope["path"] if scope["path"] in self._routes else "other"
        self._telemetry.count(path, scope["method"], status, seconds)
        fields = {"method": scope["method"], "path": path, "status": status, "ms": round(seconds * 1000, 1)}
        log.info("request", extra={"fields": fields})


def _name_of(address: str) -> str:
    """Return the host that an address names; empty where it names none."""
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def _check_origin(headers: dict[str, str], host: str) -> None:
    """Raise if another site's page asks."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
    if site not in ("same-origin", "none") or (origin is not None and origin.partition("://")[2] != host):
        raise Refused(403, "Another site may not ask this of the server.")


async def _whole_body(receive: Receive, headers: dict[str, str], most: int) -> bytes:
    """Return a request's body; raise if it is too large, or never ends."""
    too_large = Refused(413, f"A request may have {most:,} bytes at most.")
    length = headers.get("content-length", "0")
    if not length.isascii() or not length.isdigit() or len(length) > 15 or int(length) > most:
        raise too_large
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refused(400, "The request was broken off.")
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > most:
                    raise too_large
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError:
        raise Refused(408, f"A request must be sent within {BODY_SECONDS:g} seconds.") from None


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return what gives a body that was read already."""
    is_given = False

    async def again() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _refuse(send: Send, refused: Refused, *, closes: bool) -> None:
    body = dumps({"error": refused.sentence}, ensure_ascii=False).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body)), **refused.headers}
    if closes:
        headers["connection"] = "close"
    start = {
        "type": "http.response.start",
        "status": refused.status,
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    await send(start)
    await send({"type": "http.response.body", "body": body})
