import importlib.util

import pytest
import torch

from benchmarks import kernels
from benchmarks.kernels import OURS, WAYS, Layer, as_markdown, chosen, refusal, work


@pytest.mark.parametrize("way", WAYS)
def test_all_ways_compute_the_same_layer(way: str) -> None:
    if way == "torch-sparse" and importlib.util.find_spec("torch_sparse") is None:
        pytest.skip("torch-sparse is an optional backend")
    torch.manual_seed(0)
    layer = Layer(120, 500)
    assert layer.conv.backend == "sparse"
    assert layer.difference(layer.step(way)) < 1e-4


def test_a_small_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "peak_memory", lambda way, labels, edges: 1.0)
    row = kernels.measured(120, 500, 1)
    assert row["milliseconds"][OURS] > 0
    content = {
        "about": {"python": "", "torch": "", "cores": 2, "commit": "", "command": ""},
        "load": 0.5,
        "texts": 128,
        "repeats": 1,
        "limits": kernels.limits(1),
        "rows": [row],
        "choices": [chosen(20, 50, 1)],
    }
    page = as_markdown(content)
    assert all(way in page for way in WAYS)
    assert "| 20 |" in page


def test_the_peak_of_a_small_layer() -> None:
    assert 0 < kernels.peak_memory(OURS, 120, 500) < 500


def test_what_would_need_too_much_memory_is_refused() -> None:
    assert refusal("dense mask", 4_000) is None
    assert refusal("dense mask", 30_000) == "would need 58 GB"
    assert refusal("torch CSR autograd", 100_000) == "would need 80 GB"
    assert refusal(OURS, 100_000) is None


def test_the_model_of_the_work() -> None:
    assert work(10, 100) == {"bytes": 600 * (512 + 8) + 40_960, "compulsory": 4_800 + 40_960, "operations": 153_600}
