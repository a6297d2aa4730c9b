"""An expensive scorer is asked where a cheap one and the priors leave something open, and only there."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bncl_pyg.active import Answers, PairBudget, pair_values, with_answers
from bncl_pyg.corpus import Corpus
from bncl_pyg.errors import InputError
from bncl_pyg.evaluation import evaluate
from bncl_pyg.features import Features, Predictions
from bncl_pyg.graph import SignedLabelGraph
from bncl_pyg.priors import Priors
from bncl_pyg.training import find_recipe


class Oracle:
    """Knows the truth of every pair, and counts what it is asked; the label is its own hypothesis."""

    block_texts = 1

    def __init__(self, corpus: Corpus, most: int = 10**9) -> None:
        assert corpus.annotations is not None
        self.truth = dict(zip(corpus.texts, corpus.annotations.toarray(), strict=True))
        self.asked: list[tuple[str, int]] = []
        self.most = most

    def config(self) -> dict[str, Any]:
        return {"name": "oracle"}

    def score(self, texts: Sequence[str], hypotheses: Sequence[Any], pairs: Tensor | None = None) -> Tensor:
        assert pairs is not None
        if len(self.asked) + len(texts) > self.most:
            raise KeyboardInterrupt
        self.asked += [(text, int(label)) for text, (label,) in zip(texts, pairs.tolist(), strict=True)]
        answers = [self.truth[text][label] for text, (label,) in zip(texts, pairs.tolist(), strict=True)]
        yes = torch.tensor([[0.9 if answer else 0.02] for answer in answers])
        return torch.stack([yes, 0.95 - yes])

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"nobody needs {name}")


@pytest.fixture
def hypotheses(features: Features) -> list[str]:
    return [f"This is about {name}." for name in features.labels.names]


def spend(
    budget: PairBudget,
    features: Features,
    corpus: Corpus,
    hypotheses: list[str],
    oracle: Oracle,
    graph: SignedLabelGraph,
    priors: Priors | None,
    **more: Any,
) -> tuple[Features, Answers]:
    return budget.spend(features, corpus.texts, hypotheses, oracle, graph, priors, **more)  # type: ignore[arg-type]


def test_what_is_left_open_is_asked_and_learned(
    features: Features, corpus: Corpus, hypotheses: list[str], graph: SignedLabelGraph, priors: Priors
) -> None:
    assert corpus.annotations is not None
    truth = torch.from_numpy(corpus.annotations.toarray()).float()
    noise = torch.rand(truth.shape, generator=torch.Generator().manual_seed(1))
    entailment = 0.05 + 0.2 * truth + 0.4 * noise
    cheap = replace(features, entailment=entailment, contradiction=0.7 * (1 - entailment))
    oracle, told = Oracle(corpus), []
    made, answers = spend(
        PairBudget(120), cheap, corpus, hypotheses, oracle, graph, priors, progress=lambda *count: told.append(count)
    )
    assert len(answers) == len(set(oracle.asked)) == 120
    assert told[-1] == (120, 120)
    assert len(told) == 4
    changed = (made.entailment != cheap.entailment).nonzero()
    assert {tuple(pair) for pair in changed.tolist()} <= {tuple(pair) for pair in answers.pairs.tolist()}

    def quality(some: Features) -> float:
        predicted = find_recipe("default").fit(some, graph, priors).predict(some)
        return float(evaluate(corpus.annotations, predicted.indicator()).miF1)

    drawn = torch.randperm(360, generator=torch.Generator().manual_seed(0))[:120]
    by_chance = torch.stack(torch.unravel_index(drawn, (60, 6)), dim=1)
    score = oracle.score([corpus.texts[row] for row in by_chance[:, 0].tolist()], hypotheses, by_chance[:, 1:])
    chance = Answers(by_chance, (score[0] / score[1]).log()[:, 0])
    found = [quality(one) for one in (made, with_answers(cheap, chance, 0.5), cheap)]
    assert found[0] > found[1] + 0.02, found
    assert found[0] > found[2] + 0.05, found


def test_a_run_that_was_stopped_goes_on(
    features: Features,
    corpus: Corpus,
    hypotheses: list[str],
    graph: SignedLabelGraph,
    priors: Priors,
    tmp_path: Path,
) -> None:
    kept, given = tmp_path / "asked.safetensors", (features, corpus, hypotheses)
    whole, _ = spend(PairBudget(40, rounds=4), *given, Oracle(corpus), graph, priors)
    with pytest.raises(KeyboardInterrupt):
        spend(PairBudget(40, rounds=4), *given, Oracle(corpus, most=25), graph, priors, kept=kept)
    rest = Oracle(corpus)
    made, answers = spend(PairBudget(40, rounds=4), *given, rest, graph, priors, kept=kept)
    assert (len(rest.asked), len(answers)) == (20, 40)
    assert torch.equal(made.entailment, whole.entailment)
    others = Corpus(corpus.ids, tuple(f"{text}!" for text in corpus.texts), corpus.annotations)
    with pytest.raises(InputError, match="holds answers about other texts or labels, or of another scorer"):
        spend(PairBudget(40), features, others, hypotheses, Oracle(others), graph, priors, kept=kept)
    kept.write_bytes(b"no answers")
    with pytest.raises(InputError, match="holds no readable answers"):
        spend(PairBudget(40), *given, Oracle(corpus), graph, priors, kept=kept)


def test_a_budget_beyond_all_pairs_asks_each_once(
    features: Features, corpus: Corpus, hypotheses: list[str], graph: SignedLabelGraph
) -> None:
    oracle = Oracle(corpus)
    _, answers = spend(PairBudget(10_000, rounds=2), features, corpus, hypotheses, oracle, graph, None)
    assert len(answers) == len(set(oracle.asked)) == 360


def test_answers_add_what_the_cheap_scorer_does_not_tell(features: Features) -> None:
    rows = torch.stack(torch.unravel_index(torch.arange(0, 360, 3), (60, 6)), dim=1)
    cheap = (features.entailment / features.contradiction).log()[rows[:, 0], rows[:, 1]]
    same = with_answers(features, Answers(rows, 1.5 * cheap - 0.7))
    assert torch.allclose(same.entailment, features.entailment, atol=1e-4)
    assert torch.allclose(same.contradiction, features.contradiction, atol=1e-4)
    noise = torch.randn(len(rows), generator=torch.Generator().manual_seed(0))
    other = with_answers(features, Answers(rows, 1.5 * cheap - 0.7 + noise), weight=0.5)
    odds = (other.entailment / other.contradiction).log()
    moved = odds[rows[:, 0], rows[:, 1]] - cheap
    assert float(moved.mean()) == pytest.approx(0, abs=1e-3)
    assert float(torch.corrcoef(torch.stack([moved, noise]))[0, 1]) > 0.99
    assert float(moved.std()) == pytest.approx(0.5 * float(noise.std()), rel=0.05)
    assert torch.allclose(other.entailment + other.contradiction, features.entailment + features.contradiction)
    assert with_answers(features, Answers.none()) is features


def test_a_pair_is_worth_what_it_may_change() -> None:
    shares = torch.tensor([[0.5, 0.1], [0.95, 0.4], [0.9, 0.0]])
    predictions = Predictions(shares > 0.45, shares, shares - 0.45, 2)
    values = pair_values(predictions, Priors.exact(0.7, np.array([0.5, 0.2])))
    expected = 2 * 0.5 * (1 / (1 + 0.6) + 1 / (2 * (1 + 0.5)))
    assert float(values[0, 0]) == pytest.approx(expected, rel=1e-5)
    # Of a label that is predicted nowhere, at least one text in three, as far as these can tell, has it.
    expected = 2 * 0.4 * (1 / (1 + 1.35) + 1 / (2 / 3))
    assert float(values[1, 1]) == pytest.approx(expected, rel=1e-5)
    assert float(values[2, 1]) == 0


def test_what_is_no_budget_is_said(
    features: Features, corpus: Corpus, hypotheses: list[str], graph: SignedLabelGraph
) -> None:
    with pytest.raises(InputError, match="The budget must be at least 1 pair, but is 0"):
        PairBudget(0)
    with pytest.raises(InputError, match="At least 1 round is needed, but 0 were asked for"):
        PairBudget(5, rounds=0)
    some = torch.arange(3).repeat(60, 1)
    scores = {name: getattr(features, name)[:, :3] for name in ("entailment", "contradiction")}
    few = replace(features, **scores, candidates=some)
    with pytest.raises(InputError, match="Pairs are chosen among all labels: featurize without candidates"):
        spend(PairBudget(5), few, corpus, hypotheses, Oracle(corpus), graph, None)
