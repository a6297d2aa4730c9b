"""Training on Ray Train: each worker holds some of the texts, and what is summed is summed over the workers."""

import os
import shutil
from typing import Any

from bncl_pyg.distributed.engine import RayOptions, connected, resources
from bncl_pyg.distributed.training import TrainingJob
from bncl_pyg.errors import InputError
from bncl_pyg.estimator import BNCLClassifier
from bncl_pyg.ranks import TIMEOUT, ProcessGroup

RESTARTS = 2
"""How often Ray starts all workers again after one was lost; a recipe with epochs goes on from its checkpoint."""


def train_on_ray(job: TrainingJob, options: RayOptions | None = None) -> tuple[BNCLClassifier, dict[str, Any]]:
    """Train by the workers of a cluster; return the model, and what the workers exchanged.

    Args:
        job: what is trained; its paths must be reached by all nodes.
        options: which cluster, and how many workers; the one on this machine or one that is started, and all CPUs, if
            not given.
    """
    options = RayOptions() if options is None else options
    with connected(options):
        from ray.train import FailureConfig, RunConfig, ScalingConfig
        from ray.train.torch import TorchConfig, TorchTrainer

        # A minute, which is Ray's own patience with the start of workers, is not enough on a busy machine.
        os.environ.setdefault("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", str(TIMEOUT))
        workers, _ = resources(options)
        # What Ray writes down of a run; the model and the checkpoint are where the job says.
        notes = job.out.parent.resolve() / f".{job.out.name}.ray"
        train: Any = _train  # Ray's types do not know yet that it may return something
        trainer = TorchTrainer(
            train,
            train_loop_config={"job": job},
            scaling_config=ScalingConfig(num_workers=workers, resources_per_worker={"CPU": 1}),
            torch_config=TorchConfig(backend="gloo", timeout_s=int(TIMEOUT)),
            run_config=RunConfig(
                name=job.out.name, storage_path=str(notes), failure_config=FailureConfig(max_failures=RESTARTS)
            ),
        )
        try:
            # What the first worker returned.
            result: Any = trainer.fit()
            told: dict[str, Any] = result.return_value
        finally:
            shutil.rmtree(notes, ignore_errors=True)
    if error := told.pop("error"):
        raise InputError(error)
    return BNCLClassifier.from_pretrained(job.out), {"processes": workers, **told}


def _train(config: dict[str, Any]) -> dict[str, Any]:
    """Train as one of the workers, between which Ray has made a process group."""
    ranks, error = ProcessGroup(), ""
    try:
        config["job"].run(ranks)
    except InputError as wrong:
        error = str(wrong)
    return {"error": error, "communication": ranks.traffic.figures(), "bytes": ranks.traffic.total}
