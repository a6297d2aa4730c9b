"""Commands that are killed at random moments end with the undisturbed result."""

import json
import os
import subprocess
from pathlib import Path

from tests.hard.attacks import LONG, TRIED
from tests.hard.kill_loop import command_line

TOP = Path(__file__).parents[2]
KILLS, SECONDS = (240, 1200) if LONG else (10, 300)


def test_killed_commands_end_as_if_undisturbed() -> None:
    # Threads do not survive a fork, so that each process has one.
    single = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), "1")
    environment = {**os.environ, **single, "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(
        list(command_line(KILLS, 0, SECONDS)), cwd=TOP, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip(), done.stderr[-2000:]
    cases = json.loads(done.stdout.strip().splitlines()[-1])
    assert [case for case in cases if case["wrong"]] == [], done.stderr[-2000:]
    TRIED["test_kills"] += sum(case["kills"] for case in cases)
    assert sum(case["kills"] for case in cases) == KILLS
    assert all(case["kills"] for case in cases)
    assert sum(case["while_running"] for case in cases) >= KILLS // 4
