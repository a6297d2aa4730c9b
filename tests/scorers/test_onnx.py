import importlib.util
from pathlib import Path

import pytest
import torch
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

from bncl_pyg.errors import InputError
from bncl_pyg.scorers import CrossEncoderScorer, run_with_onnx
from bncl_pyg.scorers import onnx as onnx_backend
from bncl_pyg.scorers.onnx import check_installed

needs_onnx = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("onnxruntime", "onnx", "onnxscript")),
    reason='needs ONNX Runtime: pip install "bncl-pyg[onnx]"',
)
TEXTS = ["gold rises and wheat falls", "wheat", "gold and gold", "wheat falls " * 20, "and"]
HYPOTHESES = ["this is about gold .", "this is about wheat and gold ."]


@pytest.fixture
def classifier(tiny_classifier: Path) -> Path:
    """Ten times the weights, so that texts and hypotheses make a difference."""
    model = AutoModelForSequenceClassification.from_pretrained(tiny_classifier)
    for weights in model.parameters():
        weights.data *= 10
    model.save_pretrained(tiny_classifier)
    return tiny_classifier


@needs_onnx
def test_exported_scores_are_the_same(classifier: Path, capfd: pytest.CaptureFixture[str]) -> None:
    torch_scores = CrossEncoderScorer(classifier, max_tokens=32).score(TEXTS, HYPOTHESES)
    scorer = CrossEncoderScorer(classifier, max_tokens=32, backend="onnx", token_budget=48)
    found = scorer.score(TEXTS, HYPOTHESES)
    assert found.dtype == torch.float32
    assert found.std(dim=1).min() > 0.005
    assert torch.allclose(found, torch_scores, atol=1e-5, rtol=0)
    assert scorer.config()["backend"] == "onnx"
    assert scorer.config()["dtype"] == "float32"
    assert capfd.readouterr() == ("", "")


@needs_onnx
def test_eight_bits_are_close_and_kept(
    classifier: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    torch_scores = CrossEncoderScorer(classifier, max_tokens=32).score(TEXTS, HYPOTHESES)
    options = {"max_tokens": 32, "backend": "onnx-int8", "onnx_cache": tmp_path / "cache"}
    scorer = CrossEncoderScorer(classifier, **options)
    found = scorer.score(TEXTS, HYPOTHESES)
    assert 0 < (found - torch_scores).abs().max() < 0.1
    assert scorer.config()["backend"] == "onnx-int8"
    assert scorer.config()["dtype"] == "int8"
    assert capfd.readouterr() == ("", "")

    def export(*arguments: object, **more: object) -> Path:
        raise AssertionError

    monkeypatch.setattr(onnx_backend, "export", export)
    assert torch.equal(CrossEncoderScorer(classifier, **options).score(TEXTS, HYPOTHESES), found)
    (kept,) = (tmp_path / "cache").iterdir()
    assert sorted(file.name for file in kept.iterdir()) == ["manifest.json", "model-int8.onnx"]
    monkeypatch.undo()
    (kept / "model-int8.onnx").write_bytes(b"damaged")
    assert torch.equal(CrossEncoderScorer(classifier, **options).score(TEXTS, HYPOTHESES), found)
    assert "model-int8.onnx is missing or damaged" in caplog.text


@needs_onnx
def test_a_model_that_onnx_does_not_know_is_refused(tiny_classifier: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **more: object) -> None:
        raise torch.onnx.OnnxExporterError("Failed to decompose the FX graph.")

    monkeypatch.setattr(torch.onnx, "export", fail)
    with pytest.raises(
        InputError, match=r"^A BertForSequenceClassification cannot be exported to ONNX; choose the back"
    ):
        CrossEncoderScorer(tiny_classifier, max_tokens=32, backend="onnx")


@needs_onnx
def test_an_encoder_gives_the_same_states(tiny_encoder: Path) -> None:
    model = AutoModel.from_pretrained(tiny_encoder).eval()
    tokens = AutoTokenizer.from_pretrained(tiny_encoder)(TEXTS[:3], padding=True, return_tensors="pt")
    with torch.inference_mode():
        expected = model(**tokens).last_hidden_state
    found = run_with_onnx(model, list(tokens))(tokens)
    kept = tokens["attention_mask"].bool()
    assert torch.allclose(found[kept], expected[kept], atol=1e-5)


@pytest.mark.parametrize("package", ["onnxruntime", "onnx", "onnxscript"])
def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, package: str) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else real(name) or object())
    sentence = (
        rf"^The backend 'onnx-int8' needs the package {package}, which is not installed; run: "
        r'pip install "bncl-pyg\[onnx\]"\.$'
    )
    with pytest.raises(InputError, match=sentence):
        check_installed("onnx-int8")
    with pytest.raises(InputError, match=sentence):
        CrossEncoderScorer(tmp_path, backend="onnx-int8")


@needs_onnx
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"device": "cuda"}, r"The backend 'onnx' runs on the CPU, so the device cannot be 'cuda'\."),
        ({"dtype": "float16"}, r"The backend 'onnx' starts from float32, so the dtype cannot be 'float16'\."),
    ],
)
def test_impossible_wishes_are_refused(tmp_path: Path, options: dict[str, str], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        CrossEncoderScorer(tmp_path, backend="onnx", **options)
