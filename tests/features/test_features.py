"""Features in parts and joined again."""

from dataclasses import replace

import torch

from bncl_pyg.features import Features, word_counts


def test_parts_that_are_joined_are_the_whole(features: Features) -> None:
    best = features.entailment.topk(3, dim=1).indices.sort(dim=1).values
    scores = {name: getattr(features, name).gather(1, best) for name in ("entailment", "contradiction")}
    whole = replace(
        features,
        **scores,
        candidates=best,
        vectors=torch.rand(len(features), 4),
        words=word_counts([f"word{place}" for place in range(len(features))]),
        parts={"one": torch.rand(2, len(features), 3)},
    )
    joined = Features.joined([whole.rows(slice(0, 7)), whole.rows(slice(7, 8)), whole.rows(slice(8, 60))])
    assert joined.ids == whole.ids
    for name in ("entailment", "contradiction", "vectors", "candidates"):
        assert torch.equal(getattr(joined, name), getattr(whole, name))
    assert torch.equal(joined.parts["one"], whole.parts["one"])
    assert joined.words is not None
    assert whole.words is not None
    assert (joined.words != whole.words).nnz == 0
    bare = Features.joined([features.rows(slice(0, 9)), features.rows(slice(9, 60))])
    assert bare.vectors is bare.words is bare.candidates is None
    assert Features.joined([features]) is features
