"""A stand-in for the Hugging Face hub: a real HTTP server that speaks what its library asks when models are shared."""

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

TOKEN = "hf_of_the_test"


class Hub(ThreadingHTTPServer):
    """Repositories in memory; `refuse` is a status that every writing request is answered with."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.visibility: dict[str, Any] = {}
        self.objects: dict[str, bytes] = {}
        self.messages: list[str] = []
        self.requests: list[str] = []
        self.refuse: tuple[str, int] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def commit_of(self, name: str) -> str:
        files = self.repositories[name]
        content = json.dumps({path: hashlib.sha256(data).hexdigest() for path, data in sorted(files.items())})
        return hashlib.sha1(content.encode()).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _reply(self, status: int, content: Any = None, headers: dict[str, str] | None = None) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for key, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _refused(self, path: str) -> bool:
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._reply(401, {"error": "Invalid credentials"})
            return True
        if self.server.refuse is not None and self.server.refuse[0] in path:
            self._reply(self.server.refuse[1], {"error": "no"})
            return True
        return False

    def do_POST(self) -> None:
        path, body = unquote(urlsplit(self.path).path), self._body()
        self.server.requests.append(f"POST {path}")
        if path == "/api/validate-yaml":
            self._reply(200, {"errors": [], "warnings": []})
        elif self._refused(path):
            pass
        elif path == "/api/repos/create":
            self._create(json.loads(body))
        elif "/preupload/" in path:
            files = [
                {
                    "path": file["path"],
                    "uploadMode": "lfs" if file["path"].endswith(".safetensors") else "regular",
                    "shouldIgnore": False,
                    "oid": None,
                }
                for file in json.loads(body)["files"]
            ]
            self._reply(200, {"files": files})
        elif path.endswith("/info/lfs/objects/batch"):
            objects = [
                {**one, "actions": {"upload": {"href": f"{self.server.url}/upload/{one['oid']}"}}}
                for one in json.loads(body)["objects"]
            ]
            self._reply(200, {"transfer": "basic", "objects": objects})
        elif "/commit/" in path:
            self._commit(path.removeprefix("/api/models/").split("/commit/")[0], body)
        else:
            self._reply(404, {"error": path})

    def _create(self, asked: dict[str, Any]) -> None:
        name = f"{asked['organization'] or 'me'}/{asked['name']}"
        url = {"url": f"{self.server.url}/{name}", "name": name}
        if name in self.server.repositories:
            self._reply(409, {"error": "You already created this model repo", **url})
            return
        self.server.repositories[name] = {".gitattributes": b""}
        self.server.visibility[name] = asked.get("visibility")
        self._reply(200, url)

    def _commit(self, name: str, body: bytes) -> None:
        files = dict(self.server.repositories[name])
        for line in body.splitlines():
            entry = json.loads(line)
            value = entry["value"]
            if entry["key"] == "header":
                self.server.messages.append(value["summary"])
            elif entry["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif entry["key"] == "lfsFile":
                files[value["path"]] = self.server.objects[value["oid"]]
        self.server.repositories[name] = files
        commit = self.server.commit_of(name)
        self._reply(200, {"commitUrl": f"{self.server.url}/{name}/commit/{commit}", "commitOid": commit})

    def do_PUT(self) -> None:
        content = self._body()
        oid = self.path.rsplit("/", 1)[-1]
        assert hashlib.sha256(content).hexdigest() == oid
        self.server.objects[oid] = content
        self._reply(200, {})

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.requests.append(f"{self.command} {path}")
        name = "/".join(path.removeprefix("/api/models/").split("/")[:2]) if path.startswith("/api/") else ""
        if "/resolve/" in path:
            name, _, rest = path.lstrip("/").partition("/resolve/")
            self._file(name, rest.partition("/")[2])
        elif name not in self.server.repositories:
            self._reply(404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})
        elif "/tree/" in path:
            files = self.server.repositories[name].items()
            self._reply(200, [_listed(file, content) for file, content in files])
        else:
            files = [{"rfilename": file} for file in self.server.repositories[name]]
            self._reply(200, {"id": name, "sha": self.server.commit_of(name), "siblings": files})

    def _file(self, name: str, file: str) -> None:
        content = self.server.repositories.get(name, {}).get(file)
        if content is None:
            self._reply(404, {"error": "Entry not found"}, {"X-Error-Code": "EntryNotFound"})
            return
        etag = hashlib.sha256(content).hexdigest()
        self._reply(200, content, {"ETag": f'"{etag}"', "X-Repo-Commit": self.server.commit_of(name)})


def _listed(file: str, content: bytes) -> dict[str, Any]:
    oid = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    entry = {"type": "file", "path": file, "size": len(content), "oid": oid}
    if file.endswith(".safetensors"):
        sha256 = hashlib.sha256(content).hexdigest()
        entry["lfs"] = {"oid": sha256, "sha256": sha256, "size": len(content), "pointerSize": 130}
    return entry


@contextmanager
def running_hub() -> Iterator[Hub]:
    """Start a hub that ends with the block."""
    with Hub() as hub:
        thread = threading.Thread(target=hub.serve_forever)
        thread.start()
        try:
            yield hub
        finally:
            hub.shutdown()
            thread.join()


def connect(hub_url: str, cache: str, patch: pytest.MonkeyPatch, token: str = TOKEN) -> None:
    """Point the hub's library, which reads its environment once, at a hub."""
    constants = "huggingface_hub.constants"
    patch.setattr(f"{constants}.ENDPOINT", hub_url)
    patch.setattr(f"{constants}.HUGGINGFACE_CO_URL_TEMPLATE", hub_url + "/{repo_id}/resolve/{revision}/{filename}")
    patch.setattr(f"{constants}.HF_HUB_OFFLINE", False)
    patch.setattr(f"{constants}.HF_HUB_DISABLE_XET", True)
    patch.setattr(f"{constants}.HF_HUB_CACHE", cache)
    patch.setenv("HF_TOKEN", token)
    patch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
