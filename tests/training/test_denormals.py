import pytest
import torch

from bncl_pyg.training.denormals import takes_denormals_as_zero, without_denormals


@pytest.mark.skipif(not torch.set_flush_denormal(False), reason="this processor cannot")
@pytest.mark.parametrize("before", [False, True])
def test_small_numbers_are_zero_inside_and_as_before_outside(before: bool) -> None:
    torch.set_flush_denormal(before)
    try:
        with without_denormals():
            assert takes_denormals_as_zero()
            assert float(torch.full((4,), 1e-20).mul_(1e-20).sum()) == 0
        assert takes_denormals_as_zero() is before
    finally:
        torch.set_flush_denormal(False)
