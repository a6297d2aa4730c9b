"""Recipes are dataclasses of numbers, perhaps nested: to JSON and back.

The numbers themselves are fields of the steps: `TrainingNumbers` (trainer.py: Adam, decay, epochs, batch, α) for the
paper's recipes, and what `DefaultRecipe` (default.py) lists.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, get_type_hints

from bncl_pyg.errors import InputError

Numbers = TypeVar("Numbers")


def to_config(numbers: Any) -> Any:
    """Return a dataclass as JSON can hold it."""
    if is_dataclass(numbers) and not isinstance(numbers, type):
        return {field.name: to_config(getattr(numbers, field.name)) for field in fields(numbers)}
    return [to_config(value) for value in numbers] if isinstance(numbers, tuple) else numbers


def from_config(kind: type[Numbers], config: Mapping[str, Any]) -> Numbers:
    """Make the dataclass that `to_config` described; every field must be there, and no other."""
    assert is_dataclass(kind)
    if not isinstance(config, Mapping):
        raise InputError(f"A saved {kind.__name__} must be an object.")
    names = {field.name for field in fields(kind)}
    if names != set(config):
        odd = min(names ^ set(config))
        raise InputError(f"A saved {kind.__name__} {'lacks' if odd in names else 'has an unknown'} '{odd}'.")
    hints = get_type_hints(kind)
    try:
        return kind(**{name: _value(hints[name], value) for name, value in config.items()})
    except TypeError:
        raise InputError(f"A saved {kind.__name__} has a value of another type than it can have.") from None


def _value(hint: Any, value: Any) -> Any:
    if isinstance(hint, type) and is_dataclass(hint):
        return from_config(hint, value)
    return _as_tuple(value)


def _as_tuple(value: Any) -> Any:
    return tuple(_as_tuple(one) for one in value) if isinstance(value, list) else value
