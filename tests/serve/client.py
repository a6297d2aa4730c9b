"""A client that speaks plain HTTP to a server on this machine."""

import http.client
import json
from typing import Any
from urllib.parse import urlsplit


class Client:
    """Asks a server, one connection a request.

    Args:
        url: where it listens.
        headers: that every request has.
    """

    def __init__(self, url: str, **headers: str) -> None:
        self.netloc = urlsplit(url).netloc
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def signed(self) -> "Client":
        """Return a client that knows what only the server's own page knows."""
        status, _, session = self.ask("GET", "/v1/session")
        assert status == 200
        return Client(f"http://{self.netloc}", **self.headers, x_bncl_csrf=session["csrf"])

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any, Any]:
        """Return status, headers and content: JSON as what it holds, anything else as a string."""
        connection = http.client.HTTPConnection(self.netloc, timeout=60)
        content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, content, {"content-type": "application/json", **self.headers, **more})
            response = connection.getresponse()
            text = response.read().decode()
        finally:
            connection.close()
        is_json = response.headers.get_content_type() == "application/json"
        return response.status, response.headers, json.loads(text) if is_json and text else text

    def get(self, path: str) -> Any:
        """Return the content of an answer that must be one."""
        status, _, content = self.ask("GET", path)
        assert status == 200, content
        return content

    def post(self, path: str, body: Any) -> Any:
        """Likewise, for what is posted."""
        status, _, content = self.ask("POST", path, body)
        assert status == 200, content
        return content
