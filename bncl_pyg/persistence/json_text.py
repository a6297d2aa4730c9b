"""JSON that others wrote: whatever is wrong with it is told as one kind of error, and nothing in it can hurt later."""

import json
import re
from typing import Any

MAX_DEPTH = 100
"""How deep lists and objects may lie in each other: Python's own limit depends on who calls."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_DECODER = json.JSONDecoder()


def parse_json(text: str) -> Any:
    """Return what JSON holds.

    Raises:
        JSONDecodeError: also where it is nested too deeply, has a number of thousands of digits, or a string with half
            of a surrogate pair, which no file can hold.
    """
    value, end = parse_json_at(text, len(text) - len(text.lstrip(" \t\r\n")))
    if text[end:].strip(" \t\r\n"):
        raise json.JSONDecodeError("Extra data", text, end)
    return value


def parse_json_at(text: str, place: int) -> tuple[Any, int]:
    """Return the value that begins at a place of a text, and where it ends; see `parse_json`."""
    if text.startswith("\ufeff", place):
        raise json.JSONDecodeError("Unexpected byte order mark", text, place)
    try:
        value, end = _DECODER.raw_decode(text, place)
    except RecursionError:
        raise json.JSONDecodeError(_TOO_DEEP, text, place) from None
    except json.JSONDecodeError:
        raise
    except ValueError:
        # Python reads no whole number of more than 4,300 digits, which would take it long.
        raise json.JSONDecodeError("A number has too many digits", text, place) from None
    if text.count("[", place, end) + text.count("{", place, end) > MAX_DEPTH and _is_deep(value):
        raise json.JSONDecodeError(_TOO_DEEP, text, place)
    if (match := _SURROGATE.search(text, place, end)) and not _is_unicode(value):
        raise json.JSONDecodeError("Half of a surrogate pair, which is no letter", text, match.start())
    return value, end


_TOO_DEEP = f"Nested more than {MAX_DEPTH} deep"


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        inside = (list(one.values()) if isinstance(one, dict) else one for one in level)
        level = [part for one in inside for part in one if isinstance(part, list | dict)]
        if not level:
            return False
    return True


def _is_unicode(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
