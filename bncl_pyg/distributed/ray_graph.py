"""The blocks of a label graph as Ray tasks, and the index of very many labels in shards on Ray actors.

What is computed of a block, and how it is kept, is the business of `graph`: here is only who computes it. Label vectors
lie in the memory that the workers of a machine share, once a machine; finished blocks go to the folder that all
machines reach, and only their numbers come back.
"""

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from bncl_pyg.distributed.engine import ATTEMPTS, RayOptions, connected, resources
from bncl_pyg.errors import InputError
from bncl_pyg.graph import Held

Function = Callable[..., Any]


@contextmanager
def ray_blocks(options: RayOptions | None = None) -> "Iterator[RayBlocks]":
    """Give what computes blocks on a Ray cluster, to be handed to `build_graph` and `embed_labels`.

    Example::

        with ray_blocks(RayOptions(address="auto")) as engine, work_folder(out) as work:
            build_graph(labels, neighbours=10, max_neighbours=10, work=work, engine=engine).save(out)
    """
    # GPUs stay with those who score texts.
    options = replace(options or RayOptions(), gpus=0)
    with connected(options):
        engine = RayBlocks(options)
        try:
            yield engine
        finally:
            engine.release()


class RayBlocks:
    """A `BlockEngine` of `graph` on the cluster that this process is connected to.

    A sum of products may depend on the number of threads in its last bits: a worker takes as many as this process has,
    and reserves as many cores, so that every block is the same to the bit.

    Args:
        options: how many workers.

    Attributes:
        parts: into how many shards an index is cut: one a worker.
    """

    def __init__(self, options: RayOptions) -> None:
        import ray
        import torch

        self._threads = torch.get_num_threads()
        nodes = [node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
        self._cores = max(1, min(self._threads, int(max(nodes, default=1))))
        cores, _ = resources(replace(options, workers=None))
        self.parts = options.workers or max(cores // self._cores, 1)
        self._actors: list[Any] = []
        self._kept: list[Any] = []

    def run(
        self, stage: str, compute: Callable[[int], Any], numbers: Sequence[int]
    ) -> Generator[tuple[int, Any], None, None]:
        """Have `compute` called with each number by a task; yield numbers and results in the order in which they end.

        A task that is lost with its node is done again elsewhere.
        """
        import ray

        task = ray.remote(_computed).options(num_cpus=self._cores, max_retries=ATTEMPTS, scheduling_strategy="SPREAD")
        shared, left = ray.put(compute), list(reversed(numbers))
        waiting: dict[Any, int] = {}
        try:
            while waiting or left:
                while left and len(waiting) < self.parts:
                    number = left.pop()
                    waiting[task.remote(shared, number, self._threads)] = number
                (done, *_), _ = ray.wait(list(waiting), num_returns=1)
                number = waiting.pop(done)
                yield number, _result(done, f"block {number + 1} of the stage '{stage}'")
        finally:
            # When the connection is closed already, so are its tasks.
            for unfinished in waiting if ray.is_initialized() else ():
                ray.cancel(unfinished, force=True)

    def hold(self, makers: Sequence[Callable[[], Function]]) -> Held:
        """Have each function made and held by an actor of its own; one that is lost is made again elsewhere."""
        import ray

        # Memory is what they need: the tasks that wait for them leave their cores to them. Who asks while an actor is
        # being made again waits, unless it is lost too often.
        actor = ray.remote(_Holder).options(
            num_cpus=0, max_restarts=ATTEMPTS, max_task_retries=-1, scheduling_strategy="SPREAD"
        )
        # What an actor is made from must be there for as long as it may have to be made again.
        kept = [ray.put(make) for make in makers]
        actors: list[Any] = [actor.remote(make, self._threads) for make in kept]
        self._actors, self._kept = self._actors + actors, self._kept + kept
        for number, one in enumerate(actors):
            _result(one.ready.remote(), f"shard {number + 1} of the index")
        return HeldByActors(actors)

    def release(self) -> None:
        """End the actors."""
        import ray

        for actor in self._actors:
            ray.kill(actor)
        self._actors, self._kept = [], []


class HeldByActors:
    """Functions that actors hold; whoever has it, the process or a task, can ask them.

    Args:
        actors: which they are.
    """

    def __init__(self, actors: Sequence[Any]) -> None:
        self._actors = list(actors)

    def ask(self, *arguments: Any) -> list[dict[str, Any]]:
        """Call each with the same arguments; return their results in order."""
        import ray

        shared = [ray.put(one) if isinstance(one, np.ndarray) else one for one in arguments]
        asked = [actor.call.remote(*shared) for actor in self._actors]
        return [_result(one, f"shard {number + 1} of the index") for number, one in enumerate(asked)]


class _Holder:
    """What Ray makes an actor of."""

    def __init__(self, make: Callable[[], Function], threads: int) -> None:
        _take_threads(threads)
        self._function = make()

    def ready(self) -> None:
        """Return when the function is there."""

    def call(self, *arguments: Any) -> Any:
        """Call the function."""
        return self._function(*arguments)


def _computed(compute: Callable[[int], Any], number: int, threads: int) -> Any:
    _take_threads(threads)
    return compute(number)


def _take_threads(threads: int) -> None:
    import torch

    # For what is loaded later, such as faiss.
    os.environ["OMP_NUM_THREADS"] = str(threads)
    torch.set_num_threads(threads)


def _result(reference: Any, what: str) -> Any:
    """Return what a task returned; raise what it raised, or a sentence where workers were lost."""
    import ray
    from ray.exceptions import RayActorError, RayTaskError, WorkerCrashedError

    try:
        return ray.get(reference)
    except RayTaskError as error:
        raise error.cause from None
    except (WorkerCrashedError, RayActorError):
        times = ATTEMPTS + 1
        raise InputError(f"The worker was lost {times} times over {what}; what is finished is kept.") from None
