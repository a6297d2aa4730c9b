"""What a server tells of itself: counts in Prometheus' text format, and lines of JSON; never a text."""

import json
import logging
import os
import threading
import time
import traceback
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper ends of the histogram of durations, in seconds."""
MEMORY = Path("/proc/self/statm")


class Telemetry:
    """Counts requests by route, method and status, and how long they took."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._durations: dict[str, list[int]] = {}
        self._sums: Counter[str] = Counter()
        self._started = time.time()

    def count(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        with self._lock:
            self._requests[route, method, status] += 1
            counts = self._durations.setdefault(route, [0] * (len(BUCKETS) + 1))
            counts[bisect_left(BUCKETS, seconds)] += 1
            self._sums[route] += seconds  # type: ignore[assignment]

    def text(self, more: Iterable[tuple[str, str, str, float]] = ()) -> str:
        """Return everything in Prometheus' text format.

        Args:
            more: further figures: name, kind (`counter` or `gauge`), help, value.
        """
        lines = ["# HELP bncl_requests_total Requests that were answered.", "# TYPE bncl_requests_total counter"]
        with self._lock:
            for (route, method, status), count in sorted(self._requests.items()):
                lines.append(f'bncl_requests_total{{route="{route}",method="{method}",status="{status}"}} {count}')
            lines += ["# HELP bncl_request_seconds How long requests took.", "# TYPE bncl_request_seconds histogram"]
            for route, counts in sorted(self._durations.items()):
                lines += _histogram(route, counts, float(self._sums[route]))
        own = ("bncl_start_time_seconds", "gauge", "When the server started.", self._started)
        memory = ("bncl_resident_memory_bytes", "gauge", "Memory that the process holds.", float(resident_bytes()))
        for name, kind, about, value in (own, memory, *more):
            lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}", f"{name} {value:.13g}"]
        return "\n".join(lines) + "\n"


def _histogram(route: str, counts: list[int], total: float) -> list[str]:
    lines, below = [], 0
    for end, count in zip((*map(str, BUCKETS), "+Inf"), counts, strict=True):
        below += count
        lines.append(f'bncl_request_seconds_bucket{{route="{route}",le="{end}"}} {below}')
    lines.append(f'bncl_request_seconds_sum{{route="{route}"}} {total:.6f}')
    return [*lines, f'bncl_request_seconds_count{{route="{route}"}} {below}']


def resident_bytes() -> int:
    """Return how much memory the process holds; 0 where the system does not tell."""
    if not MEMORY.exists():
        return 0
    return int(MEMORY.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class JsonLines(logging.Formatter):
    """A record as one line of JSON. Of an exception the place is told, not the message, which may hold a text."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        content: dict[str, Any] = {
            "at": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            content["error"] = record.exc_info[0].__name__
            frames = traceback.extract_tb(record.exc_info[2])
            content["trace"] = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]
        return json.dumps(content, ensure_ascii=False)
