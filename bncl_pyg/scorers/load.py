"""Scorers by name, and the short way from texts to features in memory."""

from pathlib import Path
from typing import TYPE_CHECKING

from bncl_pyg.errors import InputError
from bncl_pyg.persistence import local_folder, read_json
from bncl_pyg.scorers.scorer import MAX_TOKENS, Scorer

if TYPE_CHECKING:
    from bncl_pyg.scorers.bi_encoder import BiEncoderScorer

EMBEDDED = "embedded"
SCALE, MIDDLE = 20.0, 0.38
"""For another encoder's cosine c: entailment, neutral and contradiction are the softmax of (z, 0, −z) with
z = 20 (c − 0.38). 20 is the scale that sentence encoders are usually trained with; from 0.38 on, saying "yes" is best
on the training split of stackex-cooking with the embedded encoder."""
QUICK = 1024
"""A scorer whose blocks have so many texts can choose candidates among all labels by itself."""
NEEDED = ("*.json", "*.safetensors", "*.txt", "*.model")
"""What a model's folder must hold; other forms of its weights are not downloaded."""


def load_scorer(
    name: str = EMBEDDED, *, max_tokens: int = MAX_TOKENS, label_map: str | None = None, backend: str = "torch"
) -> Scorer:
    """Load a scorer.

    Args:
        name: `embedded`, or a folder or hub name of a Hugging Face NLI classifier or sentence encoder; which of the two
            it is, its configuration says.
        max_tokens: how much of a text is read.
        label_map: see `CrossEncoderScorer`; for classifiers only.
        backend: `torch`, `onnx` or `onnx-int8`.
    """
    if name == EMBEDDED:
        return embedded_scorer(max_tokens, backend)
    folder = local_folder(name, "a language model", NEEDED)
    architectures = read_json(folder / "config.json").get("architectures") or []
    if any(str(kind).endswith("ForSequenceClassification") for kind in architectures):
        from bncl_pyg.scorers.cross_encoder import CrossEncoderScorer

        return CrossEncoderScorer(
            folder, name=_shown(name), max_tokens=max_tokens, label_map=label_map, backend=backend
        )
    if label_map is not None:
        raise InputError(f"{name} is a sentence encoder, which has no outputs that --label-map could name.")
    from bncl_pyg.scorers.bi_encoder import BiEncoderScorer
    from bncl_pyg.scorers.encoder import EMBEDDED_SHA256, SentenceEncoder
    from bncl_pyg.scorers.head import CosineHead, embedded_head

    encoder = SentenceEncoder(folder, max_tokens, backend)
    # The embedded head knows the embedded encoder's vectors; of another encoder, only the cosine can be trusted.
    head = embedded_head() if encoder.weights_sha256 == EMBEDDED_SHA256 else CosineHead.symmetric(SCALE, MIDDLE)
    return BiEncoderScorer(encoder, head, _shown(name))


def embedded_scorer(max_tokens: int = MAX_TOKENS, backend: str = "torch") -> "BiEncoderScorer":
    """Load the scorer that needs no download."""
    from bncl_pyg.scorers.bi_encoder import BiEncoderScorer
    from bncl_pyg.scorers.encoder import SentenceEncoder
    from bncl_pyg.scorers.head import embedded_head

    return BiEncoderScorer(SentenceEncoder.embedded(max_tokens, backend), embedded_head(), EMBEDDED)


def ranker_for(scorer: Scorer) -> Scorer:
    """Return what chooses candidates for a scorer: itself, or the embedded one if it is slow."""
    return scorer if scorer.block_texts >= QUICK else embedded_scorer()


def _shown(name: str) -> str:
    """Return a hub name as it is, and of a folder the last part: where it lies is nobody's business."""
    return Path(name).resolve().name if Path(name).is_dir() else name
