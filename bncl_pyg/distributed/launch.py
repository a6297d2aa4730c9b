"""Processes on this machine that train together, started and watched by torchrun's own means."""

import logging
import os
import signal
import sys
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path

LEFT_ALONE = "BNCL_LEFT_ALONE_EXIT_CODE"
"""Set for the processes: the exit code with which they tell that they only ended because another one was lost."""
MISSING = "BNCL_MISSING_FILE"
"""Set for the processes: the file in which they tell which ranks did not answer them."""
LEFT_ALONE_CODE, INPUT_CODE = 75, 2


class LaunchError(RuntimeError):
    """A process was lost or failed.

    Args:
        rank: which one.
        reason: how, such as the signal.
    """

    def __init__(self, rank: int, reason: str) -> None:
        super().__init__(f"Rank {rank} was lost ({reason})")
        self.rank, self.reason = rank, reason


def launch(module: str, words: Sequence[str], processes: int) -> bool:
    """Start processes, wait for all of them, and return whether they could use their input.

    As soon as one is lost, the others are stopped and a `LaunchError` says which it was.

    Args:
        module: what each runs.
        words: what it is called with; they know each other by torchrun's variables of the environment.
        processes: how many.
    """
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    # What it logs of a lost process is a page; who asked is told in a sentence.
    for name in ("torch.distributed.elastic", "torch.distributed.launcher"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    threads = str(max(1, (os.cpu_count() or 1) // processes))
    given = {LEFT_ALONE: str(LEFT_ALONE_CODE), "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", threads)}
    with tempfile.TemporaryDirectory() as logs:
        given[MISSING] = str(Path(logs) / "missing")
        before = {name: os.environ.get(name) for name in given}
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=processes,
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            run_id=uuid.uuid4().hex,
            max_restarts=0,
            logs_specs=DefaultLogsSpecs(log_dir=str(Path(logs) / "processes")),
        )
        os.environ.update(given)
        try:
            elastic_launch(config, sys.executable)("-m", module, *words)
        except ChildFailedError as error:
            codes = {rank: failure.exitcode for rank, failure in error.failures.items()}
            if INPUT_CODE in codes.values():
                return False
            raise first_lost(codes, _told_missing(Path(given[MISSING]))) from None
        finally:
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value
    return True


def tell_missing(ranks: Sequence[int]) -> None:
    """Tell whoever started the processes which ranks do not answer."""
    if ranks and MISSING in os.environ:
        Path(os.environ[MISSING]).write_text(" ".join(map(str, ranks)))


def _told_missing(file: Path) -> list[int]:
    return [int(rank) for rank in file.read_text().split()] if file.is_file() else []


def first_lost(codes: dict[int, int], missing: Sequence[int] = ()) -> LaunchError:
    """Return which process was the first to be lost: not one that was stopped, or left alone, by its loss.

    Args:
        codes: the exit codes of those that did not end well, by rank.
        missing: those that did not answer, as far as others told.
    """
    causes = {rank: code for rank, code in codes.items() if code not in (LEFT_ALONE_CODE, -signal.SIGTERM)}
    if missing:  # its own code is that of the signal by which the launcher ended it at last
        return LaunchError(min(missing), "it does not answer")
    rank, code = min((causes or codes).items())
    return LaunchError(rank, signal.Signals(-code).name if code < 0 else f"exit code {code}")
