"""More texts than teach anything: some are drawn, annotated ones stay, in one process or in several."""

from dataclasses import replace

import numpy as np
import pytest

from bncl_pyg.ranks import ALONE, Alone
from bncl_pyg.training import DefaultRecipe, sampling
from bncl_pyg.training.sampling import sampled
from tests.training.world import World


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "MOST_TEXTS", 200)
    monkeypatch.setattr(sampling, "MOST_TEXTS_A_LABEL", 1)


def test_so_many_texts_are_kept_and_annotated_ones_are_theirs(world: World) -> None:
    annotated = world.annotated(60)
    some, same = sampled(world.train, annotated, 3)
    assert len(some) == 200
    assert same is not None
    ids = [world.train.ids[row] for row in annotated.rows]
    assert [some.ids[row] for row in same.rows] == ids
    assert (same.labels != annotated.labels).nnz == 0
    assert sampled(world.train, annotated, 3)[0].ids == some.ids
    assert sampled(world.train, annotated, 4)[0].ids != some.ids
    # All annotated texts stay, also where they are more.
    assert len(sampled(world.train, world.annotated(300), 0)[0]) == 300


def test_few_texts_stay_as_they_are(world: World) -> None:
    few = world.train.rows(slice(0, 200))
    assert sampled(few, None, 0)[0] is few


def test_several_processes_draw_what_one_draws(world: World) -> None:
    """Each process is asked for its part of the same sample."""

    class Part(Alone):
        def __init__(self, first: int, count: int) -> None:
            super().__init__()
            self.first, self.count = first, count

        def total(self, *numbers: float) -> tuple[float, ...]:
            return (float(len(world.train)),)

        def span(self, count: int) -> tuple[int, int]:
            return self.first, self.first + count

    whole = sampled(world.train, None, 0)[0].ids
    parts = []
    for first, last in ((0, 500), (500, 900)):
        held = replace(world.train.rows(slice(first, last)), ranks=Part(first, last - first))
        parts += sampled(held, None, 0)[0].ids
    assert tuple(parts) == whole
    assert world.train.ranks is ALONE


def test_a_sample_is_enough(world: World) -> None:
    model = DefaultRecipe().fit(world.train, world.graph, world.priors)
    right = (np.asarray(model.predict(world.test).indicator()) == world.truth).mean()
    assert right > 0.9
