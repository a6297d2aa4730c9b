"""Answers to requests: JSON, or a sentence that says what is wrong."""

import json
from collections.abc import Mapping
from typing import Any

from fastapi import Response


def as_json(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return JSON as an answer; half of a pair of surrogates, which is no letter, becomes a question mark."""
    body = json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")
    return Response(body, status, dict(headers) if headers else None, "application/json")


def problem(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return a sentence as an answer."""
    return as_json({"error": sentence}, status, headers)
