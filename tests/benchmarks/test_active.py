"""The simulation of annotating: what is measured is what was chosen, and the page says it."""

from typing import Any

import numpy as np
import pytest

from benchmarks.active import COUNTS, Cut, as_markdown, curves, simulate
from benchmarks.active_others import foreign_strategies
from bncl_pyg.active import STRATEGIES, ByChance, Pool, suggest
from bncl_pyg.corpus import Corpus
from bncl_pyg.features import Features
from bncl_pyg.graph import SignedLabelGraph
from bncl_pyg.priors import Priors
from bncl_pyg.training import Annotated


@pytest.fixture
def here(corpus: Corpus, features: Features, graph: SignedLabelGraph, priors: Priors) -> Cut:
    truth, some, rest = corpus.annotations, np.arange(40), np.arange(40, 60)
    assert truth is not None
    return Cut(features.rows(some), truth[some], features.rows(rest), truth[rest], graph, priors)


def test_more_and_more_texts_are_annotated(here: Cut) -> None:
    asked: list[int] = []

    class Watched(ByChance):
        def choose(self, pool: Pool, count: int, seed: int) -> Any:
            asked.append(len(pool.asked))
            return super().choose(pool, count, seed)

    run = simulate(here, Watched(), 3, (10, 20), known=False)
    assert asked == [0, 10]
    assert list(run["F1"]) == ["0", "10", "20"]
    assert all(0 < ebF1 <= 1 and 0 < maF1 <= 1 for ebF1, maF1 in run["F1"].values())
    assert run["F1"] == simulate(here, ByChance(), 3, (10, 20), known=False)["F1"]
    assert run["F1"] != simulate(here, ByChance(), 3, (10, 20), known=True)["F1"]


def test_the_page_compares_with_chance() -> None:
    about = {"command": "python", "python": "3", "torch": "2", "cores": 2, "commit": "x"}
    runs = {}
    for seed in range(2):
        for name, gain in (("random", 0.0), ("diverse", 0.1)):
            figures = {str(count): [0.3 + gain + 0.01 * seed, 0.2] for count in (0, *COUNTS)}
            runs[f"reuters21578/nothing/{name}/{seed}"] = {"F1": figures}
    runs["reuters21578/nothing/diverse/7"] = runs["reuters21578/nothing/diverse/1"]
    content = {"runs": runs, "sessions": [about]}
    chance, diverse = curves(content)
    assert chance.sums.shape == (2, len(COUNTS))
    assert diverse.seeds == [0, 1, 7]
    assert diverse.area == pytest.approx(0.6 + 0.02 / 3)
    page = as_markdown(content)
    assert "| diverse | 3 | 0.6067 | 0.6067 (+0.1000 ± 0.0000) |" in page
    assert "| 0.6067 | 3 of 3 |" in page
    assert page.index("| diverse |") < page.index("| random |")
    assert "none was simulated" in page


@pytest.mark.parametrize("package", ["small_text", "skactiveml"])
def test_strategies_of_other_libraries_choose_open_texts(package: str, here: Cut) -> None:
    pytest.importorskip(package)
    own = {"small_text": "small-text", "skactiveml": "scikit-activeml"}[package]
    others = {name: one for name, one in foreign_strategies().items() if name.startswith(own)}
    assert others
    assert not set(others) & set(STRATEGIES)
    model = here.fit([], known=True)
    rows = np.array([3, 8])
    for annotated in (None, Annotated(rows, here.truth[rows])):
        pool = Pool(model.predictions(here.pool), model.priors_, here.pool.entailment, annotated)
        for strategy in others.values():
            chosen = suggest(pool, 5, strategy, 0)
            assert len(set(chosen.tolist()) - set(pool.asked.tolist())) == 5
