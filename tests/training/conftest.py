"""What tests of several steps of training need."""

import pytest

from tests.training.world import World, make_world


@pytest.fixture(scope="session")
def world() -> World:
    return make_world()
