"""Several processes that each hold some of the texts: what is summed over texts is summed over the processes, too.

Whoever sums over texts asks `Ranks`, which comes with the features. A process alone gets back what it gave; processes
that work on one training get the sum of what all gave, in double precision, and the same to the bit in each of them. So
there is one recipe, and all of them must ask in the same order: no sum inside of a loop whose length depends on how
many texts a process holds.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

TIMEOUT = 600.0
"""After how many seconds a process that does not answer is taken as lost."""
BEAT = 1.0
"""How many seconds lie between two times at which a process tells the others how far it has come."""
LABEL_SUMS, NUMBERS, GRADIENTS = "label sums", "numbers", "gradients"
"""What most sums are of: a number a label, single numbers, and all weights of a linear function or a network."""


class LostRankError(RuntimeError):
    """Another process of the same training is gone, or does not answer.

    Args:
        reason: what was noticed.
        ranks: which processes did not come to where this one waited, as far as that is known.
    """

    def __init__(self, reason: str, ranks: Sequence[int] = ()) -> None:
        named = f" (rank {', '.join(map(str, ranks))})" if ranks else ""
        super().__init__(f"Another process of this training{named} is gone, or does not answer ({reason}).")
        self.ranks = tuple(ranks)


@dataclass
class Traffic:
    """What was exchanged so far, by what it was.

    Args:
        calls: how often.
        bytes: what one process gave, over all calls.
        seconds: what it took, with the time in which others were waited for.
    """

    calls: dict[str, int] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    def add(self, what: str, size: int) -> None:
        """Count a call."""
        self.calls[what] = self.calls.get(what, 0) + 1
        self.bytes[what] = self.bytes.get(what, 0) + size

    @property
    def total(self) -> int:
        """All bytes that one process gave."""
        return sum(self.bytes.values())

    def figures(self) -> dict[str, dict[str, float]]:
        """Return calls, bytes, and bytes a call by what they were, as JSON can hold them."""
        return {
            what: {"calls": calls, "bytes": self.bytes[what], "bytes_a_call": self.bytes[what] / calls}
            for what, calls in self.calls.items()
        }


class Ranks(Protocol):
    """The processes of one training, as one of them sees them.

    Attributes:
        rank: which process this is, from 0.
        size: how many there are.
        traffic: what was exchanged so far.
    """

    rank: int
    size: int
    traffic: Traffic

    def sum(self, values: Tensor, what: str = NUMBERS) -> Tensor:
        """Return the sum of all processes' values, which have one shape; whoever is alone gets its own back."""
        ...

    def lowest(self, values: Tensor, what: str = NUMBERS) -> Tensor:
        """Return, number by number, the lowest of all processes."""
        ...

    def of_first(self, values: Tensor, what: str = NUMBERS) -> Tensor:
        """Return the values of the first process; those of the others must only have the shape."""
        ...

    def gather(self, values: Tensor, what: str = NUMBERS) -> Tensor:
        """Return the rows of all processes, of which each may have another number, one process after the other."""
        ...

    def total(self, *numbers: float) -> tuple[float, ...]:
        """Return the sum of each number over all processes."""
        ...

    def span(self, count: int) -> tuple[int, int]:
        """Return which rows of all processes' are this one's, if each has so many: the first and the one after."""
        ...


class Alone:
    """One process that holds all texts."""

    def __init__(self) -> None:
        self.rank, self.size, self.traffic = 0, 1, Traffic()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def sum(self, values: Tensor, what: str = NUMBERS) -> Tensor:  # noqa: ARG002
        """See `Ranks`."""
        return values

    lowest = of_first = gather = sum

    def total(self, *numbers: float) -> tuple[float, ...]:
        """See `Ranks`."""
        return numbers

    def span(self, count: int) -> tuple[int, int]:
        """See `Ranks`."""
        return 0, count


ALONE = Alone()


class Presence:
    """Tells the others how far this process has come, every second, and knows who has not come as far.

    Args:
        store: what all processes write to and read from.
        rank: which process this is.
        size: how many there are.
    """

    def __init__(self, store: Store, rank: int, size: int) -> None:
        self._store, self._rank, self._size = store, rank, size
        self.reached = self._beats = 0
        self._tell()
        threading.Thread(target=self._keep_telling, daemon=True).start()

    def _tell(self) -> None:
        self._beats += 1
        self._store.set(f"bncl-presence-{self._rank}", f"{self.reached} {self._beats}")

    def _keep_telling(self) -> None:
        with suppress(RuntimeError):  # whoever keeps the store has ended
            while True:
                time.sleep(BEAT)
                self._tell()

    def _told(self) -> list[tuple[int, int]]:
        told = [self._store.get(f"bncl-presence-{rank}").decode().split() for rank in range(self._size)]
        return [(int(reached), int(beats)) for reached, beats in told]

    def missing(self) -> list[int]:
        """Return who is behind this process, or has stopped altogether; nobody, where that cannot be known."""
        try:
            self._tell()
            before = self._told()
            time.sleep(3 * BEAT)
            after = self._told()
        except RuntimeError:
            return []
        stopped = [rank for rank in range(self._size) if rank != self._rank and before[rank][1] == after[rank][1]]
        return stopped or [rank for rank in range(self._size) if after[rank][0] < self.reached]


class ProcessGroup:
    """The processes of torch.distributed, which must be initialised; gloo's, on the CPU.

    Args:
        presence: who knows which process is missing, if one is.
    """

    def __init__(self, presence: Presence | None = None) -> None:
        self.rank, self.size, self.traffic = dist.get_rank(), dist.get_world_size(), Traffic()
        self._presence = presence

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rank={self.rank}, size={self.size})"

    def sum(self, values: Tensor, what: str = NUMBERS) -> Tensor:
        """See `Ranks`."""
        wide = _wide(values)
        with self._counted(what, wide):
            dist.all_reduce(wide)
        return wide.to(values.dtype)

    def lowest(self, values: Tensor, what: str = NUMBERS) -> Tensor:
        """See `Ranks`."""
        own = values.detach().clone(memory_format=torch.contiguous_format)
        with self._counted(what, own):
            dist.all_reduce(own, dist.ReduceOp.MIN)
        return own

    def of_first(self, values: Tensor, what: str = NUMBERS) -> Tensor:
        """See `Ranks`."""
        own = values.detach().clone(memory_format=torch.contiguous_format)
        with self._counted(what, own):
            dist.broadcast(own, 0)
        return own

    def gather(self, values: Tensor, what: str = NUMBERS) -> Tensor:
        """See `Ranks`."""
        counts = self._counts(len(values))
        if not any(counts):
            return values
        # Everybody gives as many rows as the longest has; what is not its own is cut off again.
        own = values.new_zeros(max(counts), *values.shape[1:])
        own[: len(values)] = values
        every = [torch.empty_like(own) for _ in counts]
        with self._counted(what, own):
            dist.all_gather(every, own)
        return torch.cat([rows[:count] for rows, count in zip(every, counts, strict=True)])

    def total(self, *numbers: float) -> tuple[float, ...]:
        """See `Ranks`."""
        return tuple(self.sum(torch.tensor(numbers, dtype=torch.float64)).tolist())

    def span(self, count: int) -> tuple[int, int]:
        """See `Ranks`."""
        counts = self._counts(count)
        first = sum(counts[: self.rank])
        return first, first + count

    def _counts(self, count: int) -> list[int]:
        """Return how many rows each process has."""
        counts = torch.zeros(self.size, dtype=torch.int64)
        counts[self.rank] = count
        return [int(number) for number in self.sum(counts)]

    @contextmanager
    def _counted(self, what: str, given: Tensor) -> Iterator[None]:
        self.traffic.add(what, given.numel() * given.element_size())
        if self._presence is not None:
            self._presence.reached += 1
        began = time.perf_counter()
        try:
            yield
        except RuntimeError as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise LostRankError(reason, self._presence.missing() if self._presence is not None else ()) from error
        self.traffic.seconds += time.perf_counter() - began


def _wide(values: Tensor) -> Tensor:
    """Return a copy in which sums are as exact as can be."""
    kind = torch.float64 if values.is_floating_point() else torch.int64
    return values.detach().to(kind, copy=True, memory_format=torch.contiguous_format)


@contextmanager
def process_group(timeout: float = TIMEOUT) -> Iterator[ProcessGroup]:
    """Join the processes that torchrun started, and leave them again.

    Args:
        timeout: after how many seconds a process that does not answer is taken as lost.
    """
    patience = timedelta(seconds=timeout)
    store, rank, size = next(rendezvous("env://", timeout=patience))
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=patience)
    yield ProcessGroup(Presence(PrefixStore("bncl", store), rank, size))
    # After an error there may be nobody to take leave of, and the process ends anyway.
    dist.destroy_process_group()
