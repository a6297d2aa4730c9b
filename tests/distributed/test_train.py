"""Two processes train what one trains; one of them is killed, and the same command goes on."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bncl_cli.main import app
from ray.cluster_utils import Cluster
from typer.testing import CliRunner

from bncl_pyg.distributed.launch import LEFT_ALONE_CODE, first_lost
from bncl_pyg.errors import InputError
from bncl_pyg.estimator import BNCLClassifier
from bncl_pyg.training import PAPER
from tests.distributed.jobs import CANDIDATES, make_jobs, write_stores
from tests.training.world import World, make_world, with_candidates

TOP = Path(__file__).parents[2]
TRAINED = [name for name in make_jobs(Path(), "") if name not in ("damaged", "no-such-text")]


def run(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run Python with these words to its end."""
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=300)


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(TOP), *sys.path])}


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """This process has as many threads as each of the two: with another number, sums differ in their last digits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stores, and the models that two processes trained on them."""
    path = tmp_path_factory.mktemp("training")
    write_stores(path)
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    done = run(path, *torchrun, str(Path(__file__).with_name("rank.py")), str(path))
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture(scope="module")
def told(folder: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((folder / "told.json").read_text())
    return told


def predictions(model: Path, world: World) -> Any:
    test = with_candidates(world.test, CANDIDATES) if "candidates" in model.name else world.test
    return BNCLClassifier.from_pretrained(model).predictions(test)


def assert_same(model: Path, other: Path, world: World) -> None:
    """Probabilities to 1e-5, and every decision that is no tie."""
    ours, theirs = predictions(model, world), predictions(other, world)
    assert np.abs(ours.probabilities.numpy() - theirs.probabilities.numpy()).max() < 1e-5
    is_tie = np.abs(ours.scores.numpy()) < 1e-5
    assert (ours.decisions.numpy() == theirs.decisions.numpy())[~is_tie].all()
    assert is_tie.mean() < 0.01


@pytest.mark.parametrize("name", TRAINED)
def test_two_processes_train_what_one_trains(name: str, folder: Path) -> None:
    job = make_jobs(folder, "one")[name]
    trained = job.run()
    assert_same(folder / "one" / name, folder / "two" / name, make_world())
    by_two = BNCLClassifier.from_pretrained(folder / "two" / name)
    assert (by_two.n_texts_, by_two.texts_digest_) == (trained.n_texts_, trained.texts_digest_)
    assert (by_two.annotated_, by_two.not_labels_) == (trained.annotated_, trained.not_labels_)
    assert np.allclose(by_two.priors_.shares, trained.priors_.shares, atol=1e-7)
    assert [step.what for step in by_two.log_] == [step.what for step in trained.log_]
    assert not list(folder.glob("two/*checkpoint*"))


def test_a_sum_over_labels_is_as_long_as_the_labels_are_many(told: dict[str, Any], folder: Path) -> None:
    # Of a label, no more than two numbers of eight bytes, however many texts there are.
    assert told["traffic"]["label sums"]["bytes_a_call"] <= 2 * 8 * 8
    assert told["traffic"]["numbers"]["bytes_a_call"] < 64
    by_two = BNCLClassifier.from_pretrained(folder / "two" / "paper-literal")
    weights = sum(weight.numel() for weight in by_two.model_.parameters())
    # The gradients and the loss, and L2's counts before and after the step and over the corpus.
    assert 0 < by_two.log_[-1].figures["bytes_a_step"] < 8 * (weights + 4 + 6 * 8)


def test_what_one_process_cannot_read_all_of_them_say(told: dict[str, Any], folder: Path) -> None:
    assert set(told["errors"]) == {"damaged", "no-such-text"}
    for name, sentence in told["errors"].items():
        with pytest.raises(InputError) as error:
            make_jobs(folder, "one")[name].run()
        assert str(error.value) == sentence
        assert not (folder / "two" / name).exists()
    assert "block-" in told["errors"]["damaged"]
    assert told["errors"]["no-such-text"] == "The set of training texts has no text with id 'none'."


EPOCHS = 40


def command(folder: Path, out: str) -> list[str]:
    words = (
        f"-m bncl_pyg train features --graph graph --priors priors.json --recipe paper --epochs {EPOCHS} --out {out}"
    )
    return [*words.split(), "--engine", "torchrun", "--processes", "2", "--json", f"{out}.json"]


def rank_of(pid: int, parent: int) -> str | None:
    """Return the rank of a process that another one started, or `None`."""
    try:
        is_child = f"PPid:\t{parent}\n" in Path(f"/proc/{pid}/status").read_text()
        given = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0") if is_child else []
    except OSError:  # it has ended meanwhile
        return None
    return next((entry.removeprefix("RANK=") for entry in given if entry.startswith("RANK=")), None)


def test_a_rank_is_killed_and_the_same_command_goes_on(folder: Path) -> None:
    world = make_world()
    world.priors.write(folder / "priors.json", world.train.labels)
    words, checkpoint = command(folder, "killed"), folder / "killed.checkpoint.safetensors"
    started = subprocess.Popen(
        [sys.executable, *words], cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True
    )
    while not checkpoint.exists():
        assert started.poll() is None
        time.sleep(0.01)
    ranks = {rank_of(int(file.name), started.pid): int(file.name) for file in Path("/proc").glob("[0-9]*")}
    os.kill(ranks["1"], signal.SIGKILL)
    _, said = started.communicate(timeout=120)
    assert started.returncode == 1
    assert said.splitlines()[-1] == (
        "Error: Rank 1 was lost (SIGKILL): the same command goes on after the last whole epoch."
    )
    assert "Traceback" not in said
    assert not (folder / "killed").exists()

    done = run(folder, *words)
    assert done.returncode == 0, done.stderr
    assert "Going on after epoch" in done.stderr
    assert not checkpoint.exists()
    figures = json.loads((folder / "killed.json").read_text())
    assert (figures["processes"], figures["texts"]) == (2, 900)
    assert figures["bytes_a_step"] > 0
    undisturbed = make_jobs(folder, "one")["annotation-free"]
    undisturbed = replace(undisturbed, recipe=PAPER.adapted(epochs=EPOCHS), out=folder / "undisturbed")
    undisturbed.run()
    assert_same(folder / "undisturbed", folder / "killed", world)


def test_bad_input_is_one_sentence(folder: Path) -> None:
    words = [
        "-m",
        "bncl_pyg",
        "--quiet",
        "train",
        "damaged",
        "--graph",
        "graph",
        "--out",
        "none",
        "--engine",
        "torchrun",
    ]
    done = run(folder, *words, "--processes", "2")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("Error: damaged/block-")
    assert not (folder / "none").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--processes", "2"], "--processes is for --engine torchrun."),
        (["--engine", "torchrun", "--workers", "2"], "--address and --workers are for --engine ray."),
        (["--engine", "rank"], "--engine rank is for a process that torchrun started"),
        (["--engine", "torchrun", "--priors", "none.json"], "none.json"),
    ],
)
def test_what_cannot_be_done_is_told_before_anything_starts(words: Sequence[str], sentence: str, folder: Path) -> None:
    done = CliRunner().invoke(app, ["train", str(folder / "features"), "--out", str(folder / "none"), *words])
    assert done.exit_code == 2
    assert sentence in " ".join(done.output.split())


def test_the_first_that_was_lost_is_named() -> None:
    left = LEFT_ALONE_CODE
    assert str(first_lost({0: left, 2: -signal.SIGTERM, 1: -signal.SIGKILL})) == "Rank 1 was lost (SIGKILL)"
    assert str(first_lost({0: left, 3: 1})) == "Rank 3 was lost (exit code 1)"
    assert str(first_lost({2: -signal.SIGTERM})) == "Rank 2 was lost (SIGTERM)"


def test_workers_of_a_cluster_train_what_one_process_trains(cluster: Cluster, folder: Path) -> None:
    make_world().priors.write(folder / "priors.json", make_world().train.labels)
    places = {"--out": folder / "ray", "--graph": folder / "graph", "--priors": folder / "priors.json"}
    words = [str(folder / "features"), *(str(word) for pair in places.items() for word in pair)]
    done = CliRunner().invoke(app, ["train", *words, "--engine", "ray", "--workers", "2", "--json", "-"])
    assert done.exit_code == 0, done.output
    figures = json.loads(done.stdout)
    assert (figures["processes"], figures["texts"]) == (2, 900)
    assert figures["communication"]["label sums"]["bytes_a_call"] <= 2 * 8 * 8
    assert_same(folder / "two" / "annotation-free", folder / "ray", make_world())
    assert not [file for file in folder.rglob("*") if file.name.endswith(".ray")]


def is_asked_to_end(pid: int) -> bool:
    """Return whether SIGTERM waits for a process that is stopped: its launcher knows that others gave up."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    waiting = next(line.split()[1] for line in lines if line.startswith("ShdPnd:"))
    return bool(int(waiting, 16) >> (signal.SIGTERM - 1) & 1)


def test_a_rank_that_does_not_answer_is_named(folder: Path) -> None:
    """One of three is stopped, not ended: the others do not wait for ever, and the command says which it is."""
    make_world().priors.write(folder / "priors.json", make_world().train.labels)
    words, checkpoint = command(folder, "hung"), folder / "hung.checkpoint.safetensors"
    words = ["3" if before == "--processes" else word for before, word in zip(["", *words], words, strict=False)]
    started = subprocess.Popen(
        [sys.executable, *words, "--timeout", "5"], cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True
    )
    while not checkpoint.exists():
        assert started.poll() is None
        time.sleep(0.01)
    ranks = {rank_of(int(file.name), started.pid): int(file.name) for file in Path("/proc").glob("[0-9]*")}
    os.kill(ranks["1"], signal.SIGSTOP)
    try:
        while not is_asked_to_end(ranks["1"]):
            assert started.poll() is None
            time.sleep(0.05)
    finally:
        os.kill(ranks["1"], signal.SIGKILL)  # torch's launcher itself would wait half a minute before it does so
    _, said = started.communicate(timeout=120)
    assert started.returncode == 1
    assert said.splitlines()[-1] == (
        "Error: Rank 1 was lost (it does not answer): the same command goes on after the last whole epoch."
    )
    assert "Traceback" not in said
