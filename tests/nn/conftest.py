"""What tests of several layers need."""

from collections.abc import Callable

import pytest
from torch import Tensor


@pytest.fixture
def tensors_in() -> Callable[[object], list[Tensor]]:
    """Return everything that is a tensor in an object, its attributes and what these hold."""

    def collect(thing: object, seen: set[int]) -> list[Tensor]:
        if id(thing) in seen:
            return []
        seen.add(id(thing))
        if isinstance(thing, Tensor):
            return [thing]
        if isinstance(thing, dict):
            inside = list(thing.values())
        elif isinstance(thing, list | tuple | set):
            inside = list(thing)
        else:
            inside = list(vars(thing).values()) if hasattr(thing, "__dict__") and not isinstance(thing, type) else []
        return [tensor for part in inside for tensor in collect(part, seen)]

    return lambda thing: collect(thing, set())
