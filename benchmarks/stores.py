"""Feature stores as benchmarks read them: of a scorer, or of one part of `strong`, whose parts are stored apart.

A folder holds a store for each split, `NAME-train` and `NAME-test`, as `benchmarks.scorers` leaves them in its cache.
"""

from pathlib import Path

from bncl_pyg.errors import InputError
from bncl_pyg.features import Features, read_features

STRONG, LIGHT = "strong", "light"


def store_of(folder: Path, dataset: str, split: str) -> Path:
    """Return where the store of a split is."""
    return folder / f"{dataset}-{split}"


def read_scored(store: Path, scorer: str) -> Features:
    """Return texts as `strong` scores them, or as a part of it does.

    Args:
        store: of `strong`, or of the scorer itself.
        scorer: `strong`, or the name of a part, such as `light`.
    """
    features = read_features(store, parts=scorer != STRONG)
    if scorer == STRONG:
        if "parts" not in features.scorer:
            raise InputError(f"{store} holds no features of the scorer '{STRONG}'.")
        return features
    if not features.parts and features.scorer.get("name") == scorer:
        return features
    if scorer not in features.parts:
        raise InputError(f"{store} holds no features of the scorer '{scorer}'.")
    return only_part(features, scorer)


def only_part(features: Features, part: str) -> Features:
    """Return features as a part of the ensemble alone would give them."""
    scores = features.parts[part]
    # MiniLM's vectors come first, then bge's, each of length 1/√2; ColBERT has none, and is shown with MiniLM's.
    assert features.vectors is not None
    half = features.vectors.shape[1] // 2
    vectors = features.vectors[:, half:] if part == "bge" else features.vectors[:, :half]
    config = features.scorer["parts"][part]
    return Features(features.ids, features.labels, scores[0], scores[1], config, vectors * 2**0.5, features.words)
