"""The strategies by name."""

import difflib

from bncl_pyg.active.by_chance import ByChance
from bncl_pyg.active.diverse import Diverse
from bncl_pyg.active.missing_examples import MissingExamples
from bncl_pyg.active.representative import Representative
from bncl_pyg.active.strategy import Strategy
from bncl_pyg.active.unsure import ExpectedChange, LeastSure
from bncl_pyg.errors import InputError

DEFAULT = "representative"
"""Which is taken where none is named; benchmarks/results/active.md compares them."""

STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy
    for strategy in (Representative(), Diverse(), ExpectedChange(), LeastSure(), MissingExamples(), ByChance())
}


def find_strategy(strategy: str | Strategy) -> Strategy:
    """Return a strategy by its name, or as it is given."""
    if not isinstance(strategy, str):
        return strategy
    if strategy in STRATEGIES:
        return STRATEGIES[strategy]
    near = difflib.get_close_matches(strategy, STRATEGIES, 1)
    hint = f" (did you mean '{near[0]}'?)" if near else ""
    raise InputError(f"Unknown strategy '{strategy}'{hint}; there are: {', '.join(STRATEGIES)}.")
