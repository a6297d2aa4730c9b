"""What to ask next: a person about texts, an expensive scorer about pairs."""

from bncl_pyg.active.by_chance import ByChance
from bncl_pyg.active.diverse import Diverse
from bncl_pyg.active.missing_examples import MissingExamples
from bncl_pyg.active.pairs import Answers, PairBudget, pair_values, with_answers
from bncl_pyg.active.pool import Pool
from bncl_pyg.active.representative import Representative
from bncl_pyg.active.strategies import DEFAULT, STRATEGIES, find_strategy
from bncl_pyg.active.strategy import Strategy
from bncl_pyg.active.suggest import rows_to_annotate, suggest
from bncl_pyg.active.unsure import ExpectedChange, LeastSure, entropy, expected_change

__all__ = [
    "DEFAULT",
    "STRATEGIES",
    "Answers",
    "ByChance",
    "Diverse",
    "ExpectedChange",
    "LeastSure",
    "MissingExamples",
    "PairBudget",
    "Pool",
    "Representative",
    "Strategy",
    "entropy",
    "expected_change",
    "find_strategy",
    "pair_values",
    "rows_to_annotate",
    "suggest",
    "with_answers",
]
