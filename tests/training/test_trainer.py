import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bncl_pyg.corpus import Corpus, Supervision
from bncl_pyg.errors import InputError
from bncl_pyg.features import Features
from bncl_pyg.graph import SignedLabelGraph, balanced_neighbourhoods
from bncl_pyg.nn import BNCL, BalancedConv
from bncl_pyg.training import (
    RECIPES,
    Checkpoint,
    EpochLog,
    Recipe,
    Trainer,
    adapted_recipe,
    find_recipe,
    recipe_from_dict,
)

PAPER = dataclasses.replace(RECIPES["paper"], epochs=6, decay_every=2, batch=16)


class Power(BaseException):
    """Somebody pulled the plug."""


def make(
    graph: SignedLabelGraph, features: Features, supervision: Supervision, recipe: Recipe = PAPER, seed: int = 0
) -> Trainer:
    model = BNCL(balanced_neighbourhoods(graph, simple=recipe.simple_hops))
    return Trainer(model, features, supervision, recipe, seed)


def weights(trainer: Trainer) -> torch.Tensor:
    return torch.cat([weight.detach().flatten() for weight in trainer.model.parameters()])


@pytest.fixture
def annotated(priors: Supervision, corpus: Corpus) -> Supervision:
    assert corpus.annotations is not None
    rows = np.array([3, 17, 40, 41])
    return priors.with_annotated(rows, corpus.annotations[rows])


@pytest.mark.parametrize("name", ["paper", "reference"])
def test_the_seed_decides(name: str, graph: SignedLabelGraph, features: Features, annotated: Supervision) -> None:
    recipe = dataclasses.replace(RECIPES[name], epochs=3, batch=16)
    found = []
    for seed in (0, 0, 1):
        trainer = make(graph, features, annotated, recipe, seed)
        trainer.run()
        found.append(weights(trainer))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


@pytest.mark.parametrize("stop", [1, 3, 5])
def test_stopped_and_resumed_is_identical(
    stop: int, graph: SignedLabelGraph, features: Features, annotated: Supervision, tmp_path: Path
) -> None:
    whole = make(graph, features, annotated)
    whole.run()
    file = tmp_path / "model.checkpoint.safetensors"
    fingerprint = {"recipe": PAPER.as_dict()}

    def pull(entry: EpochLog) -> None:
        if entry.epoch == stop:
            raise Power

    with pytest.raises(Power):
        make(graph, features, annotated).run(Checkpoint(file, fingerprint), pull)
    resumed = make(graph, features, annotated)
    checkpoint = Checkpoint(file, fingerprint)
    assert checkpoint.restore(resumed) == stop
    resumed.run(checkpoint)
    assert torch.equal(weights(whole), weights(resumed))
    assert whole.log == resumed.log
    assert [entry.epoch for entry in whole.log] == [1, 2, 3, 4, 5, 6]
    assert [entry.learning_rate for entry in whole.log] == pytest.approx([1e-3, 1e-3, 1e-4, 1e-4, 1e-5, 1e-5])


def test_another_training_is_not_gone_on_with(
    graph: SignedLabelGraph, features: Features, priors: Supervision, tmp_path: Path
) -> None:
    file = tmp_path / "c.safetensors"
    trainer = make(graph, features, priors)
    trainer.run(Checkpoint(file, {"seed": 0, "graph": "x"}))
    kept = file.read_bytes()
    with pytest.raises(InputError, match="unfinished training with another seed; pass --fresh"):
        Checkpoint(file, {"seed": 1, "graph": "x"}).restore(trainer)
    assert file.read_bytes() == kept
    file.write_bytes(b"nonsense")
    with pytest.raises(InputError, match="is not a readable checkpoint"):
        Checkpoint(file, {"seed": 0}).restore(trainer)


def test_training_brings_the_counts_nearer(graph: SignedLabelGraph, features: Features, priors: Supervision) -> None:
    recipe = dataclasses.replace(PAPER, epochs=60, decay_every=30, learning_rate=1e-2)
    trainer = make(graph, features, priors, recipe)
    trainer.run()
    first, last = trainer.log[0], trainer.log[-1]
    assert last.prevalence < 0.2 * first.prevalence
    assert last.loss < first.loss
    assert last.annotation == 0


def test_prevalence_is_counted_over_the_whole_corpus(
    graph: SignedLabelGraph, features: Features, priors: Supervision
) -> None:
    """With no step taken (learning rate 0), every batch's L2 is the corpus's."""
    recipe = dataclasses.replace(PAPER, learning_rate=0.0, epochs=1)
    trainer = make(graph, features, priors, recipe)
    with torch.no_grad():
        states = trainer.model(features.entailment, features.contradiction)
        expected = trainer.loss(*states)[0][1].item()
    trainer.run()
    assert trainer.log[0].prevalence == pytest.approx(expected, rel=1e-4)
    batchwise = make(graph, features, priors, dataclasses.replace(recipe, prevalence_over="batch"))
    batchwise.run()
    assert batchwise.log[0].prevalence < 0.5 * expected


@pytest.mark.parametrize("is_revisited", [False, True])
def test_running_counts_follow_the_weights(
    graph: SignedLabelGraph, features: Features, priors: Supervision, is_revisited: bool
) -> None:
    """After an epoch's updates the running counts are those of the states that each batch last had."""
    trainer = make(graph, features, priors)
    counts = trainer.corpus_indicators()
    assert not counts.is_revisited
    counts.is_revisited = is_revisited
    fresh = trainer.corpus_indicators()
    rows = torch.tensor([5, 2, 59])
    new = torch.rand(3, 6, generator=torch.Generator().manual_seed(0))
    pairs = trainer.pairs.rows(rows)
    left = torch.ones(60, dtype=torch.bool).index_fill(0, rows, False)
    assert torch.allclose(counts.taken_out(rows, pairs), fresh.indicators[left].sum(dim=0), atol=1e-4)
    counts.put_back(rows, new, pairs)
    fresh.indicators[rows] = new
    assert torch.equal(counts.indicators, fresh.indicators) == is_revisited
    assert torch.allclose(counts.counts, fresh.indicators.double().sum(dim=0))


def test_annotated_texts_come_once_an_epoch(
    graph: SignedLabelGraph, features: Features, annotated: Supervision
) -> None:
    among = make(graph, features, annotated)
    assert sorted(torch.cat(list(among._batches(1))).tolist()) == list(range(60))
    assert torch.cat(list(among._batches(1))).tolist() != torch.cat(list(among._batches(2))).tolist()
    apart = make(graph, features, annotated, RECIPES["reference"])
    *others, last = apart._batches(1)
    assert last.tolist() == [3, 17, 40, 41]
    assert torch.cat(others).tolist() == [row for row in range(60) if row not in (3, 17, 40, 41)]


def test_annotations_teach(graph: SignedLabelGraph, features: Features, annotated: Supervision) -> None:
    recipe = dataclasses.replace(PAPER, epochs=40, decay_every=40, learning_rate=1e-2)
    trainer = make(graph, features, annotated, recipe)
    trainer.run()
    assert trainer.log[-1].annotation < 0.7 * trainer.log[0].annotation


def test_cardinality_of_the_reference_is_a_cell(
    graph: SignedLabelGraph, features: Features, priors: Supervision
) -> None:
    assert make(graph, features, priors).loss.cardinality == priors.cardinality
    assert make(graph, features, priors, RECIPES["reference"]).loss.cardinality == priors.cardinality / 6


def test_sharpness_by_the_papers_procedure(graph: SignedLabelGraph, features: Features, priors: Supervision) -> None:
    sharp = dataclasses.replace(features, entailment=features.entailment.clamp_max(0.2))
    with pytest.raises(InputError, match="Give a number instead of 'auto'"):
        make(graph, sharp, priors, dataclasses.replace(PAPER, sharpness="auto"))
    sure = torch.where(features.entailment > 0.4, 0.99, 0.01)
    certain = dataclasses.replace(features, entailment=sure, contradiction=0.999 - sure)
    assert make(graph, certain, priors, dataclasses.replace(PAPER, sharpness="auto")).loss.sharpness == 10


def test_recipes() -> None:
    assert find_recipe("paper") == Recipe("paper")
    for recipe in RECIPES.values():
        assert recipe_from_dict(recipe.as_dict()) == recipe
    with pytest.raises(InputError, match="There is no recipe 'papr'; there are: default, paper, reference"):
        find_recipe("papr")
    with pytest.raises(InputError, match="The recipe default has no --epochs; paper and reference have"):
        adapted_recipe("default", epochs=3)
    longer = adapted_recipe("paper", epochs=120, sharpness="25")
    assert (longer.epochs, longer.decay_every, longer.sharpness) == (120, 40, 25)
    assert adapted_recipe("paper", epochs=2).decay_every == 1
    assert adapted_recipe("paper", sharpness="auto").sharpness == "auto"
    for wrong in ("ten", "-3", "0", "1.5"):
        with pytest.raises(InputError, match="sharpness must be"):
            adapted_recipe("paper", sharpness=wrong)


@pytest.mark.parametrize("name", ["paper", "reference"])
def test_with_every_label_a_candidate_training_is_as_with_all_pairs(
    name: str, graph: SignedLabelGraph, features: Features, annotated: Supervision
) -> None:
    recipe = dataclasses.replace(RECIPES[name], epochs=3, batch=16)
    every = torch.arange(len(features.labels)).expand(len(features), -1)
    whole, sparse = (
        make(graph, one, annotated, recipe) for one in (features, dataclasses.replace(features, candidates=every))
    )
    whole.run()
    sparse.run()
    assert torch.allclose(weights(whole), weights(sparse), atol=1e-5)
    for one, other in zip(whole.log, sparse.log, strict=True):
        assert dataclasses.astuple(one) == pytest.approx(dataclasses.astuple(other), rel=1e-4)


def test_what_is_no_candidate_is_not_called_false(
    graph: SignedLabelGraph, features: Features, annotated: Supervision
) -> None:
    """The annotated texts' labels that are no candidates neither count as missed nor as hit."""
    best = features.entailment.topk(3, dim=1).indices.sort(dim=1).values
    scores = {name: getattr(features, name).gather(1, best) for name in ("entailment", "contradiction")}
    sparse = dataclasses.replace(features, candidates=best, **scores)
    trainer = make(graph, sparse, annotated)
    rows = torch.from_numpy(annotated.annotated)
    parts, said = trainer._parts(rows, trainer.pairs.rows(rows), None)
    assert said.shape == (4, 3)
    p, against = trainer.model.of_candidates(sparse.entailment[rows], sparse.contradiction[rows], best[rows])
    assert annotated.annotations is not None
    truth = torch.from_numpy(annotated.annotations.toarray()).gather(1, best[rows])
    expected = -torch.where(truth, p.clamp(1e-6, 1).log(), against.clamp(1e-6, 1).log()).sum()
    assert parts[3].item() == pytest.approx(expected.item(), rel=1e-4)
    occurring = torch.unique(best[rows])
    counts = torch.zeros(6).index_add(0, best[rows].flatten(), said.flatten())
    wanted = 4 * trainer.loss.prevalence
    assert parts[1].item() == pytest.approx((wanted - counts)[occurring].square().sum().item(), rel=1e-4)
    trainer.run()
    assert bool(torch.isfinite(weights(trainer)).all())


def test_a_label_that_nobody_knows_carries_on_what_it_hears() -> None:
    """From label 0 over label 1, which is no candidate, to label 2."""
    one, two = torch.tensor([[0], [1]]), torch.tensor([[1], [2]])
    none = torch.zeros(2, 0, dtype=torch.int64)
    model = BNCL([])
    model.layers.extend([BalancedConv(one, none, 4), BalancedConv(two, none, 4)])
    for weight in model.parameters():
        weight.data.fill_(1.0)
    heard = model.of_candidates(torch.tensor([[0.5, 0.2]]), torch.tensor([[0.1, 0.3]]), torch.tensor([[0, 2]]))
    assert heard[0].tolist() == [[0.5, pytest.approx(0.7)]]


def test_candidates_hear_what_the_whole_graph_says_whoever_else_is_in_the_batch(
    graph: SignedLabelGraph, features: Features
) -> None:
    model = BNCL(balanced_neighbourhoods(graph, 3))
    for weight in model.parameters():
        weight.data.uniform_(generator=torch.Generator().manual_seed(0))
    best = features.entailment.topk(2, dim=1).indices.sort(dim=1).values
    scores = [getattr(features, name).gather(1, best) for name in ("entailment", "contradiction")]
    filled = [torch.zeros(features.entailment.shape).scatter(1, best, part) for part in scores]
    expected = [part.gather(1, best) for part in model(*filled)]
    together = model.of_candidates(*scores, best)
    first = model.of_candidates(*(part[:1] for part in scores), best[:1])
    for whole, many, one in zip(expected, together, first, strict=True):
        assert torch.allclose(whole, many, rtol=1e-4)
        assert torch.allclose(whole[:1], one, rtol=1e-4)


def test_small_batches_are_trained_in_as_many_threads_as_are_faster(
    graph: SignedLabelGraph, features: Features, priors: Supervision, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the first steps have one thread, half all; the others and the next epoch's look have the faster."""
    usual = torch.get_num_threads()
    recipe = dataclasses.replace(PAPER, batch=4)

    def threads_of(trainer: Trainer, slow: int) -> list[int]:
        seen: list[int] = []
        clock = iter(range(10**6))
        step = trainer.train_step

        def taken(*given: Any) -> torch.Tensor:
            seen.append(torch.get_num_threads())
            if seen[-1] == slow:
                next(clock)
            return step(*given)

        monkeypatch.setattr(trainer, "train_step", taken)
        monkeypatch.setattr("bncl_pyg.training.trainer.time.perf_counter", lambda: float(next(clock)))
        trainer.train_epoch(1)
        return seen

    torch.set_num_threads(2)
    try:
        assert threads_of(make(graph, features, priors, recipe), slow=2) == [2, 1] * 4 + [1] * 7
        assert threads_of(make(graph, features, priors, recipe), slow=1) == [2, 1] * 4 + [2] * 7
        assert torch.get_num_threads() == 2
        # Candidates are few, but the labels of a batch are many: these count.
        monkeypatch.setattr("bncl_pyg.training.trainer.FEW_NUMBERS", 4 * 6)
        best = torch.arange(1).expand(len(features), 1)
        scores = {name: getattr(features, name)[:, :1] for name in ("entailment", "contradiction")}
        sparse = dataclasses.replace(features, candidates=best, **scores)
        assert threads_of(make(graph, sparse, priors, recipe), slow=2) == [2] * 15
    finally:
        torch.set_num_threads(usual)
