import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from scipy.sparse import csr_array
from torch import Tensor

from bncl_pyg.corpus import Corpus
from bncl_pyg.errors import InputError
from bncl_pyg.features import Features
from bncl_pyg.graph import SignedLabelGraph, balanced_neighbourhoods
from bncl_pyg.nn import BNCL, Backend, BalancedConv
from bncl_pyg.priors import Priors
from bncl_pyg.training import PAPER, PAPER_LITERAL, REFERENCE, Annotated, Checkpoint, PaperRecipe, Trainer, TrainingStep

QUICK = dataclasses.replace(PAPER_LITERAL, epochs=6, decay_every=2, batch=16)
RECIPES = pytest.mark.parametrize(
    "recipe", [PAPER, PAPER_LITERAL, REFERENCE], ids=["paper", "paper-literal", "reference"]
)


class Power(BaseException):
    """Somebody pulled the plug."""


def make(
    graph: SignedLabelGraph,
    features: Features,
    priors: Priors,
    annotated: Annotated | None = None,
    recipe: PaperRecipe = QUICK,
    seed: int = 0,
) -> Trainer:
    model = BNCL(balanced_neighbourhoods(graph, simple=recipe.simple_hops))
    return Trainer(model, features, priors, annotated, recipe, seed)


def weights(trainer: Trainer) -> Tensor:
    return torch.cat([weight.detach().flatten() for weight in trainer.model.parameters()])


@pytest.fixture
def annotated(corpus: Corpus) -> Annotated:
    assert corpus.annotations is not None
    rows = np.array([3, 17, 40, 41])
    return Annotated(rows, corpus.annotations[rows])


@RECIPES
def test_the_seed_decides(
    recipe: PaperRecipe, graph: SignedLabelGraph, features: Features, priors: Priors, annotated: Annotated
) -> None:
    recipe = dataclasses.replace(recipe, epochs=3, batch=16)
    trained = []
    for seed in (0, 0, 1):
        trainer = make(graph, features, priors, annotated, recipe, seed)
        trainer.run()
        trained.append(weights(trainer))
    assert torch.equal(trained[0], trained[1])
    assert not torch.equal(trained[0], trained[2])


@pytest.mark.parametrize("stop", [1, 3, 5])
def test_stopped_and_resumed_is_identical(
    stop: int, graph: SignedLabelGraph, features: Features, priors: Priors, annotated: Annotated, tmp_path: Path
) -> None:
    file, whole, resumed = tmp_path / "model.checkpoint.safetensors", [], []
    expected = QUICK.fit(features, graph, priors, annotated, progress=whole.append)

    def pull(step: TrainingStep) -> None:
        if step.number == stop:
            raise Power

    with pytest.raises(Power):
        QUICK.fit(features, graph, priors, annotated, checkpoint=file, progress=pull)
    _, steps = Checkpoint(file, _fingerprint_in(file)).load() or ({}, [])
    assert len(steps) == stop
    model = QUICK.fit(features, graph, priors, annotated, checkpoint=file, progress=resumed.append)
    for name, tensor in expected.tensors().items():
        assert torch.equal(tensor, model.tensors()[name])
    # Who comes back is told of the epochs that are done, too.
    assert whole == resumed
    assert [(step.number, step.of) for step in whole] == [(number, 6) for number in range(1, 7)]
    rates = [step.figures["learning_rate"] for step in whole]
    assert rates == pytest.approx([1e-3, 1e-3, 1e-4, 1e-4, 1e-5, 1e-5])


def _fingerprint_in(file: Path) -> dict[str, Any]:
    with safe_open(file, framework="pt") as content:
        fingerprint: dict[str, Any] = json.loads(content.metadata()["fingerprint"])
    return fingerprint


def test_another_training_is_not_gone_on_with(
    graph: SignedLabelGraph, features: Features, priors: Priors, annotated: Annotated, tmp_path: Path
) -> None:
    file = tmp_path / "c.safetensors"
    short = dataclasses.replace(QUICK, epochs=1)
    short.fit(features, graph, priors, annotated, checkpoint=file)
    kept = file.read_bytes()
    other = dataclasses.replace(features, entailment=0.9 * features.entailment)
    fewer = annotated.drawn(np.arange(3))
    flipped = SignedLabelGraph.from_pairs(graph.label_names, graph.edge_index[:, :1], torch.ones(1), torch.ones(1))
    for what, recipe, given, seed in (
        ("seed", short, (features, graph, priors, annotated), 1),
        ("features", short, (other, graph, priors, annotated), 0),
        ("graph", short, (features, flipped, priors, annotated), 0),
        ("priors", short, (features, graph, Priors.exact(1.1, priors.shares), annotated), 0),
        ("annotated texts", short, (features, graph, priors, fewer), 0),
        ("recipe", dataclasses.replace(short, batch=8), (features, graph, priors, annotated), 0),
    ):
        with pytest.raises(InputError, match=f"unfinished training with another {what}; remove it to start anew"):
            recipe.fit(*given, seed=seed, checkpoint=file)
        assert file.read_bytes() == kept
    file.write_bytes(b"nonsense")
    with pytest.raises(InputError, match="is not a readable checkpoint"):
        short.fit(features, graph, priors, annotated, checkpoint=file)
    save_file({"weight": torch.zeros(1)}, file)
    with pytest.raises(InputError, match="is not a checkpoint of this release; remove it"):
        short.fit(features, graph, priors, annotated, checkpoint=file)


def test_training_brings_the_counts_nearer(graph: SignedLabelGraph, features: Features, priors: Priors) -> None:
    recipe = dataclasses.replace(QUICK, epochs=60, decay_every=30, learning_rate=1e-2)
    trainer = make(graph, features, priors, recipe=recipe)
    trainer.run()
    first, last = trainer.log[0].figures, trainer.log[-1].figures
    assert last["prevalence"] < 0.2 * first["prevalence"]
    assert last["loss"] < first["loss"]
    assert last["annotation"] == 0


def test_prevalence_is_counted_over_the_whole_corpus(
    graph: SignedLabelGraph, features: Features, priors: Priors
) -> None:
    """With no step taken (learning rate 0), every batch's L2 is the corpus's."""
    recipe = dataclasses.replace(QUICK, learning_rate=0.0, epochs=1)
    trainer = make(graph, features, priors, recipe=recipe)
    with torch.no_grad():
        states = trainer.model(features.entailment, features.contradiction)
        expected = trainer.loss(*states)[0][1].item()
    trainer.run()
    assert trainer.log[0].figures["prevalence"] == pytest.approx(expected, rel=1e-4)
    batchwise = make(graph, features, priors, recipe=dataclasses.replace(recipe, prevalence_over="batch"))
    batchwise.run()
    assert batchwise.log[0].figures["prevalence"] < 0.5 * expected


@pytest.mark.parametrize("is_revisited", [False, True])
def test_running_counts_follow_the_weights(
    graph: SignedLabelGraph, features: Features, priors: Priors, is_revisited: bool
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
    assert torch.allclose(counts.without(rows, pairs), fresh.indicators[left].sum(dim=0), atol=1e-4)
    counts.add(rows, new, pairs)
    fresh.indicators[rows] = new
    assert torch.equal(counts.indicators, fresh.indicators) == is_revisited
    assert torch.allclose(counts.counts, fresh.indicators.double().sum(dim=0))


def test_annotated_texts_come_once_an_epoch(
    graph: SignedLabelGraph,
    features: Features,
    priors: Priors,
    annotated: Annotated,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def batches(recipe: PaperRecipe) -> list[list[list[int]]]:
        """Return which texts each step of two epochs is on."""
        trainer, epochs = make(graph, features, priors, annotated, recipe), []
        step = trainer.train_step
        for epoch in (1, 2):
            seen: list[list[int]] = []

            def taken(rows: Tensor, *given: Any, seen: list[list[int]] = seen) -> Tensor:
                seen.append(rows.tolist())
                return step(rows, *given)

            monkeypatch.setattr(trainer, "train_step", taken)
            trainer.train_epoch(epoch)
            epochs.append(seen)
        return epochs

    first, second = batches(QUICK)
    assert [len(batch) for batch in first] == [16, 16, 16, 12]
    for epoch in (first, second):
        assert sorted(row for batch in epoch for row in batch) == list(range(60))
    assert first != second
    *others, last = batches(dataclasses.replace(REFERENCE, batch=16))[0]
    assert last == [3, 17, 40, 41]
    assert [row for batch in others for row in batch] == [row for row in range(60) if row not in last]


def test_annotations_teach(graph: SignedLabelGraph, features: Features, priors: Priors, annotated: Annotated) -> None:
    recipe = dataclasses.replace(QUICK, epochs=40, decay_every=40, learning_rate=1e-2)
    trainer = make(graph, features, priors, annotated, recipe)
    trainer.run()
    first, last = trainer.log[0].figures, trainer.log[-1].figures
    assert last["annotation"] < 0.7 * first["annotation"]


def test_cardinality_of_the_reference_is_a_cell(graph: SignedLabelGraph, features: Features, priors: Priors) -> None:
    assert priors.cardinality is not None
    assert make(graph, features, priors).loss.cardinality == priors.cardinality
    assert make(graph, features, priors, recipe=REFERENCE).loss.cardinality == priors.cardinality / 6


def test_sharpness_by_the_papers_procedure(graph: SignedLabelGraph, features: Features, priors: Priors) -> None:
    sharp = dataclasses.replace(features, entailment=features.entailment.clamp_max(0.2))
    with pytest.raises(InputError, match="Give a number instead of 'auto'"):
        make(graph, sharp, priors, recipe=dataclasses.replace(QUICK, sharpness="auto"))
    sure = torch.where(features.entailment > 0.4, 0.99, 0.01)
    certain = dataclasses.replace(features, entailment=sure, contradiction=0.999 - sure)
    assert make(graph, certain, priors, recipe=dataclasses.replace(QUICK, sharpness="auto")).loss.sharpness == 10


@RECIPES
def test_with_every_label_a_candidate_training_is_as_with_all_pairs(
    recipe: PaperRecipe, graph: SignedLabelGraph, features: Features, priors: Priors, annotated: Annotated
) -> None:
    recipe = dataclasses.replace(recipe, epochs=3, batch=16)
    every = torch.arange(len(features.labels)).expand(len(features), -1)
    whole, sparse = (
        make(graph, one, priors, annotated, recipe)
        for one in (features, dataclasses.replace(features, candidates=every))
    )
    whole.run()
    sparse.run()
    assert torch.allclose(weights(whole), weights(sparse), atol=1e-5)
    for one, other in zip(whole.log, sparse.log, strict=True):
        assert one.figures == pytest.approx(other.figures, rel=1e-4)


def test_what_is_no_candidate_is_not_called_false(
    graph: SignedLabelGraph, features: Features, priors: Priors, annotated: Annotated
) -> None:
    """The annotated texts' labels that are no candidates neither count as missed nor as hit."""
    best = features.entailment.topk(3, dim=1).indices.sort(dim=1).values
    scores = {name: getattr(features, name).gather(1, best) for name in ("entailment", "contradiction")}
    sparse = dataclasses.replace(features, candidates=best, **scores)
    trainer = make(graph, sparse, priors, annotated)
    rows = torch.from_numpy(annotated.rows)
    with torch.no_grad():
        p, against = trainer.model.of_candidates(sparse.entailment[rows], sparse.contradiction[rows], best[rows])
        indicators = trainer.loss.indicator(p, against)
    total, _, prevalence, _, annotation = trainer.train_step(rows, None).tolist()
    truth = torch.from_numpy(annotated.labels.toarray()).gather(1, best[rows])
    expected = -torch.where(truth, p.clamp(1e-6, 1).log(), against.clamp(1e-6, 1).log()).sum()
    assert annotation == pytest.approx(expected.item(), rel=1e-4)
    assert total > annotation
    occurring = torch.unique(best[rows])
    counts = torch.zeros(6).index_add(0, best[rows].flatten(), indicators.flatten())
    wanted = 4 * trainer.loss.prevalence
    assert prevalence == pytest.approx((wanted - counts)[occurring].square().sum().item(), rel=1e-4)
    trainer.run()
    assert bool(torch.isfinite(weights(trainer)).all())


@pytest.mark.parametrize("backend", ["sparse", "dense"])
@RECIPES
def test_a_step_without_autograd_is_the_step_with_it(
    backend: Backend,
    recipe: PaperRecipe,
    graph: SignedLabelGraph,
    features: Features,
    priors: Priors,
    annotated: Annotated,
) -> None:
    hops = balanced_neighbourhoods(graph, simple=recipe.simple_hops)
    fused, plain = (Trainer(BNCL(hops, how), features, priors, annotated, recipe) for how in (backend, "message"))
    assert fused.model.is_fused
    assert not plain.model.is_fused
    for rows in (torch.arange(50), torch.tensor([0, 1, 2]), torch.from_numpy(annotated.rows)):
        corpora = [one.corpus_indicators() if recipe is PAPER_LITERAL else None for one in (fused, plain)]
        losses = [one.train_step(rows, corpus) for one, corpus in zip((fused, plain), corpora, strict=True)]
        assert losses[0].tolist() == pytest.approx(losses[1].tolist(), rel=1e-4)
        assert torch.allclose(weights(fused), weights(plain), atol=1e-6)


def test_nothing_to_train_on(graph: SignedLabelGraph, features: Features, priors: Priors) -> None:
    with pytest.raises(InputError, match="Training needs at least 1 text"):
        make(graph, features.rows(slice(0, 0)), priors)


def test_a_label_that_nobody_knows_passes_messages_on() -> None:
    """From label 0 over label 1, which is no candidate, to label 2."""
    one, two = torch.tensor([[0], [1]]), torch.tensor([[1], [2]])
    none = torch.zeros(2, 0, dtype=torch.int64)
    model = BNCL([])
    model.layers.extend([BalancedConv(one, none, 4), BalancedConv(two, none, 4)])
    for weight in model.parameters():
        weight.data.fill_(1.0)
    states = model.of_candidates(torch.tensor([[0.5, 0.2]]), torch.tensor([[0.1, 0.3]]), torch.tensor([[0, 2]]))
    assert states[0].tolist() == [[0.5, pytest.approx(0.7)]]


def test_candidates_get_the_messages_of_the_whole_graph_whatever_else_is_in_the_batch(
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
    graph: SignedLabelGraph, features: Features, priors: Priors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the first steps have one thread, half all; the others and the next epoch's look have the faster."""
    usual = torch.get_num_threads()
    recipe = dataclasses.replace(QUICK, batch=4)

    def threads_of(trainer: Trainer, slow: int) -> list[int]:
        seen: list[int] = []
        clock = iter(range(10**6))
        step = trainer.train_step

        def taken(*given: Any) -> Tensor:
            seen.append(torch.get_num_threads())
            if seen[-1] == slow:
                next(clock)
            return step(*given)

        monkeypatch.setattr(trainer, "train_step", taken)
        monkeypatch.setattr("bncl_pyg.training.threads.time.perf_counter", lambda: float(next(clock)))
        trainer.train_epoch(1)
        return seen

    torch.set_num_threads(2)
    try:
        assert threads_of(make(graph, features, priors, recipe=recipe), slow=2) == [2, 1] * 4 + [1] * 7
        assert threads_of(make(graph, features, priors, recipe=recipe), slow=1) == [2, 1] * 4 + [2] * 7
        assert torch.get_num_threads() == 2
        # Candidates are few, but the labels of a batch are many: these count.
        monkeypatch.setattr("bncl_pyg.training.trainer.FEW_NUMBERS", 4 * 6)
        best = torch.arange(1).expand(len(features), 1)
        scores = {name: getattr(features, name)[:, :1] for name in ("entailment", "contradiction")}
        sparse = dataclasses.replace(features, candidates=best, **scores)
        assert threads_of(make(graph, sparse, priors, recipe=recipe), slow=2) == [2] * 15
    finally:
        torch.set_num_threads(usual)


@RECIPES
def test_of_a_text_annotated_in_part_only_known_pairs_are_learned(
    recipe: PaperRecipe, graph: SignedLabelGraph, features: Features, priors: Priors, annotated: Annotated
) -> None:
    recipe = dataclasses.replace(recipe, epochs=2, batch=16, percentiles=())
    truth = annotated.labels.toarray()
    known = np.zeros_like(truth)
    known[:, :3] = True

    def trained(labels: Any, of: Any) -> Tensor:
        trainer = make(graph, features, priors, Annotated(annotated.rows, csr_array(labels), of), recipe)
        trainer.run()
        return weights(trainer)

    partly = trained(truth & known, csr_array(known))
    # What is not known may be true or not: the same is learned, and not what whole annotations would teach.
    assert not torch.equal(partly, trained(truth & known, None))
    # Whole annotations take another way to the same gradients.
    assert torch.allclose(trained(truth, csr_array(np.ones_like(known))), trained(truth, None), atol=1e-6)
    without = make(graph, features, priors, None, recipe)
    without.run()
    assert not torch.equal(partly, weights(without))
