"""Scorers by name."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bncl_pyg.errors import InputError
from bncl_pyg.persistence import local_folder, read_json
from bncl_pyg.scorers.embedded import EMBEDDED_SHA256
from bncl_pyg.scorers.head import COSINE_MIDDLE, COSINE_SCALE, CosineHead, embedded_head
from bncl_pyg.scorers.scorer import MAX_TOKENS, Scorer

if TYPE_CHECKING:
    from bncl_pyg.scorers.bi_encoder import BiEncoderScorer

EMBEDDED = "embedded"
QUICK = 1024
"""A scorer whose blocks have so many texts can choose candidates among all labels by itself."""
NEEDED = ("*.json", "*.safetensors", "*.txt", "*.model")
"""What a model's folder must hold; other forms of its weights are not downloaded."""


def load_scorer(
    name: "str | Scorer" = EMBEDDED,
    *,
    max_tokens: int = MAX_TOKENS,
    label_map: str | None = None,
    backend: str = "torch",
    device: str | None = None,
    cosine_scale: float = COSINE_SCALE,
    cosine_middle: float = COSINE_MIDDLE,
) -> Scorer:
    """Load a scorer.

    Args:
        name: `embedded`, or a folder or hub name of a Hugging Face NLI classifier or sentence encoder; which of the two
            it is, its configuration says. A `Scorer` is returned as it is.
        max_tokens: how much of a text is read.
        label_map: see `CrossEncoderScorer`; for classifiers only.
        backend: `torch`, `onnx` or `onnx-int8`.
        device: for torch, such as "cpu" or "cuda:1"; by default an accelerator if there is one.
        cosine_scale: of an encoder other than the embedded one, whose cosine c alone decides: entailment, neutral and
            contradiction are the softmax of (z, 0, −z) with z = cosine_scale · (c − cosine_middle).
        cosine_middle: likewise; from this cosine on, a text is rather about a label than not.
    """
    if not isinstance(name, str):
        if not hasattr(name, "score"):
            raise TypeError(f"scorer must be a name, a folder or a Scorer, but is {name!r}.")
        return name
    if name == EMBEDDED:
        return embedded_scorer(max_tokens, backend, device)
    folder = local_folder(name, "a language model", NEEDED)
    architectures = read_json(folder / "config.json").get("architectures") or []
    if any(str(kind).endswith("ForSequenceClassification") for kind in architectures):
        from bncl_pyg.scorers.cross_encoder import CrossEncoderScorer

        return CrossEncoderScorer(
            folder, name=_shown(name), max_tokens=max_tokens, label_map=label_map, backend=backend, device=device
        )
    if label_map is not None:
        raise InputError(f"{name} is a sentence encoder, which has no outputs that a label map could name.")
    from bncl_pyg.scorers.bi_encoder import BiEncoderScorer
    from bncl_pyg.scorers.encoder import SentenceEncoder

    encoder = SentenceEncoder(folder, max_tokens, backend, device)
    # The embedded head knows the embedded encoder's vectors; of another encoder, only the cosine can be trusted.
    own = encoder.weights_sha256 == EMBEDDED_SHA256
    head = embedded_head() if own else CosineHead.symmetric(cosine_scale, cosine_middle)
    return BiEncoderScorer(encoder, head, _shown(name))


def reload_options(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return with which options `load_scorer` sets a scorer up as the one with this configuration was."""
    options = {key: config[key] for key in ("max_tokens", "backend", "cosine_scale", "cosine_middle") if key in config}
    if "label_map" in config:
        options["label_map"] = ",".join(f"{meaning}={place}" for meaning, place in config["label_map"].items())
    return options


def embedded_scorer(
    max_tokens: int = MAX_TOKENS, backend: str = "torch", device: str | None = None
) -> "BiEncoderScorer":
    """Load the default scorer: all-MiniLM-L6-v2 with the head that was trained for it."""
    from bncl_pyg.scorers.bi_encoder import BiEncoderScorer
    from bncl_pyg.scorers.encoder import SentenceEncoder

    return BiEncoderScorer(SentenceEncoder.embedded(max_tokens, backend, device), embedded_head(), EMBEDDED)


def ranker_for(scorer: Scorer, device: str | None = None) -> Scorer:
    """Return what chooses candidates for a scorer: itself, or the embedded one if it is slow."""
    return scorer if scorer.block_texts >= QUICK else embedded_scorer(device=device)


def _shown(name: str) -> str:
    """Return a hub name as it is, and of a folder the last part: where it lies is nobody's business."""
    return Path(name).resolve().name if Path(name).is_dir() else name
