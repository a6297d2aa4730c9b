"""The long version of the attacks, and the table of what was tried and what came of it.

    BNCL_HARD=long python -m tests.hard.reliability

`make test-hard` does this, and stops after 30 minutes. The table is benchmarks/results/reliability.md.
"""

import os
import sys
import time
from collections import Counter
from typing import Any

import pytest

from benchmarks.results import about_this_run, footer, markdown_table, save
from tests.hard.attacks import TRIED

THEMES = {
    "test_damage": "files cut, flipped, swapped or lying about their sizes",
    "test_manifests": "manifests that lie, with right digests",
    "test_inputs": "bad tables, labels, priors and arguments, written and generated",
    "test_numbers": "numbers at their limits",
    "test_same_answer": "the same answer twice: processes, hash seeds, threads, orders, float64",
    "test_fuzz": "readers and server fed with anything",
    "test_terminal": "escapes, markup and formulas in names and texts",
    "test_network": "attempts to make it reach out",
    "test_leftovers": "writes killed at every step",
    "test_kills": "commands killed at random moments",
}
"""What the modules attack."""


class Outcomes:
    """Counts what became of the tests of each module; pytest calls it."""

    def __init__(self) -> None:
        self.passed: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Count a test."""
        module = report.nodeid.split("::")[0].rpartition("/")[2].removesuffix(".py")
        if report.failed:
            self.failed[module] += 1
        elif report.when == "call" and report.passed:
            self.passed[module] += 1


def main() -> int:
    """Attack, count and write."""
    if os.environ.get("BNCL_HARD") != "long":
        print("Set BNCL_HARD=long: the short version writes no table.", file=sys.stderr)
        return 2
    outcomes, start = Outcomes(), time.monotonic()
    code = pytest.main(["tests/hard", "-q", "--no-header", "-p", "no:cacheprovider"], plugins=[outcomes])
    rows = [
        {
            "what": what,
            "tests": outcomes.passed[module] + outcomes.failed[module],
            "tried": TRIED[module] or outcomes.passed[module] + outcomes.failed[module],
            "wrong": outcomes.failed[module],
        }
        for module, what in THEMES.items()
    ]
    content = {"about": about_this_run(), "minutes": (time.monotonic() - start) / 60, "rows": rows}
    save("reliability", content, as_markdown(content))
    return int(code)


def as_markdown(content: dict[str, Any]) -> str:
    """Return the page that shows what was tried."""
    cells = [[row["what"], f"{row['tests']:,}", f"{row['tried']:,}", str(row["wrong"])] for row in content["rows"]]
    return (
        "# Attempts to break it\n\n"
        "Each attempt must end in a right result, or in one sentence that names the place; a test in which any attempt "
        "did not is counted as wrong.\n\n"
        + markdown_table(["what was tried", "tests", "attempts", "wrong"], cells)
        + f"\nIn {content['minutes']:.0f} minutes.\n"
        + footer(content["about"])
    )


if __name__ == "__main__":
    sys.exit(main())
