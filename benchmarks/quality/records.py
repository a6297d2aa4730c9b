"""What has been measured so far: a JSON file a data set, written after every trial, so that a stopped run goes on."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.quality.plan import REVISION, Trial, revision_of, seeds_of
from benchmarks.quality.trials import Outcome
from benchmarks.results import about_this_run
from bncl_pyg.errors import InputError
from bncl_pyg.persistence import read_json, write_bytes


class Records:
    """The outcomes of one data set.

    They count again only for the same content: the hashes of data and word vectors, the number of epochs, the revision
    and, of each outcome, that of its trial. What was measured before a trial's revision is to be measured again, and
    stays until then; pages mark it. Each session says which scorer's features it was measured on.

    Args:
        path: the file; what is there already counts.
        about: the data set.
        epochs: instead of the recipes' own, or `None`.
    """

    def __init__(self, path: Path, about: dict[str, Any], epochs: int | None = None) -> None:
        self.path, self.epochs, self.scorer = path, epochs, about.get("scorer")
        self.content: dict[str, Any] = {"about": about, "epochs": epochs, "revision": REVISION}
        self.sessions: list[dict[str, Any]] = []
        self.runs: dict[tuple[Trial, int], dict[str, Any]] = {}
        self._outdated: dict[tuple[Trial, int], dict[str, Any]] = {}
        if path.exists():
            kept = read_json(path)
            # What was measured on the features of an earlier scorer stays; the page says which rows these are.
            self.content["about"] = kept["about"] if _same_data(kept["about"], about) else about
            for key, value in self.content.items():
                if kept.get(key) != value:
                    raise InputError(
                        f"{path} holds outcomes with another '{key}' than this run's; move it away or choose "
                        f"another --out."
                    )
            self.sessions = kept["sessions"]
            runs = {(Trial.from_dict(run["trial"]), run["seed"]): run for run in kept["runs"]}
            self.runs = {key: run for key, run in runs.items() if not is_outdated(run)}
            self._outdated = {key: run for key, run in runs.items() if is_outdated(run)}

    def todo(self, trials: Iterable[Trial], seeds: int) -> Iterator[tuple[Trial, int]]:
        """Yield what is missing, all trials with one seed before the next seed."""
        plan = list(trials)
        for seed in range(seeds):
            for trial in plan:
                if seed < seeds_of(trial, self.content["about"]["name"], seeds) and (trial, seed) not in self.runs:
                    yield trial, seed

    def start_session(self) -> None:
        """Note what runs now, on which features; outcomes added from now on refer to it."""
        self.sessions.append({**about_this_run(), "scorer": self.scorer})

    def add(self, trial: Trial, seed: int, outcome: Outcome) -> None:
        """Keep an outcome, on disk too."""
        about: dict[str, Any] = {"trial": trial.as_dict(), "seed": seed, "session": len(self.sessions) - 1}
        if revision_of(trial) > 1:
            about["revision"] = revision_of(trial)
        self.runs[trial, seed] = {**about, **outcome.as_dict()}
        self.write()

    def write(self) -> None:
        """Write the file: an outcome a line, so that a difference between two versions can be read."""
        start = json.dumps({**self.content, "sessions": self.sessions}, indent=2, ensure_ascii=False)
        again = {trial for trial, _ in self.runs}
        outdated = [run for (trial, _), run in self._outdated.items() if trial not in again]
        runs = ",\n    ".join(json.dumps(run, ensure_ascii=False) for run in (*self.runs.values(), *outdated))
        write_bytes(self.path, f'{start.removesuffix("}").rstrip()},\n  "runs": [\n    {runs}\n  ]\n}}\n'.encode())


def is_outdated(run: dict[str, Any]) -> bool:
    """Return whether an outcome was measured before its trial's revision."""
    return int(run.get("revision", 1)) != revision_of(Trial.from_dict(run["trial"]))


def _same_data(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether two descriptions are of the same data, whichever scorer read them."""
    return {**one, "scorer": None} == {**other, "scorer": None}
