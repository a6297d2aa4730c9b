"""The paper's recipe as a whole, also where κ and λ are not known in numbers."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from bncl_pyg.corpus import Corpus
from bncl_pyg.errors import InputError
from bncl_pyg.evaluation import evaluate
from bncl_pyg.features import Features
from bncl_pyg.graph import SignedLabelGraph
from bncl_pyg.nn import BNCL
from bncl_pyg.priors import Priors
from bncl_pyg.training import (
    PAPER,
    REFERENCE,
    Annotated,
    PaperModel,
    PaperRecipe,
    PriorEstimation,
    SelfTraining,
    TrainingStep,
    find_recipe,
)

QUICK = replace(PAPER, epochs=3, batch=16)
ROUGH = {
    "nothing": Priors.nothing(6),
    "only κ": Priors(1.5, (None,) * 6),
    "words": Priors(1.5, ("common", "common", "standard", "standard", "uncommon", "uncommon")),
    "mixed": Priors(None, (0.3, (0.1, 0.4), "common", "uncommon", None, None)),
}


@pytest.fixture
def annotated(corpus: Corpus) -> Annotated:
    assert corpus.annotations is not None
    rows = np.arange(0, 60, 3)
    return Annotated(rows, corpus.annotations[rows])


@pytest.mark.parametrize("with_annotated", [False, True])
@pytest.mark.parametrize("known", ROUGH)
def test_rough_priors_train_the_papers_network(
    known: str, with_annotated: bool, graph: SignedLabelGraph, features: Features, annotated: Annotated
) -> None:
    """As if somebody had estimated them first and then given numbers."""
    given, steps = annotated if with_annotated else None, list[TrainingStep]()
    model = QUICK.fit(features, graph, ROUGH[known], given, progress=steps.append)
    assert isinstance(model, PaperModel)
    assert isinstance(model.network, BNCL)
    assert [step.what for step in steps] == ["epoch"] * 3
    resolved = PriorEstimation().resolve(SelfTraining().prepare(features, graph), ROUGH[known], SelfTraining())
    assert model.priors == resolved
    exact = QUICK.fit(features, graph, resolved, given)
    for name, tensor in exact.tensors().items():
        assert torch.equal(tensor, model.tensors()[name])


def test_its_own_estimation_counts(graph: SignedLabelGraph, features: Features) -> None:
    other = replace(QUICK, estimation=PriorEstimation(rare_share=0.0, slope=1.0))
    usual, changed = (recipe.fit(features, graph, Priors(1.5, (None,) * 6)).priors for recipe in (QUICK, other))
    assert usual.shares.tolist() != pytest.approx(changed.shares.tolist())


def test_an_interval_is_as_good_as_its_geometric_middle(graph: SignedLabelGraph, features: Features) -> None:
    intervals = Priors(1.5, ((0.04, 0.25), (0.1, 0.4), 0.3, 0.2, 0.3, 0.4))
    middles = Priors(1.5, (0.1, 0.2, 0.3, 0.2, 0.3, 0.4))
    one, two = (QUICK.fit(features, graph, priors).predict(features) for priors in (intervals, middles))
    assert torch.allclose(one.probabilities, two.probabilities, atol=1e-6)


def test_without_priors_annotated_texts_have_them(
    graph: SignedLabelGraph, features: Features, annotated: Annotated
) -> None:
    model = QUICK.fit(features, graph, None, annotated)
    assert model.priors == Priors.from_annotations(annotated.labels)
    with pytest.raises(InputError, match="Training needs priors or annotated texts"):
        QUICK.fit(features, graph, None)


def test_exact_priors_are_taken_as_they_are(graph: SignedLabelGraph, features: Features) -> None:
    """Also where Σλ is not κ: the loss weighs them against each other."""
    priors = Priors(1.0, (0.5,) * 6)
    assert QUICK.fit(features, graph, priors).priors is priors


def test_it_beats_the_scores_it_started_from(
    graph: SignedLabelGraph, features: Features, corpus: Corpus, priors: Priors
) -> None:
    recipe = replace(PAPER, epochs=60, decay_every=30, batch=16, learning_rate=1e-2)
    predicted = recipe.fit(features, graph, priors).predict(features)
    start = evaluate(corpus.annotations, features.zero_shot().numpy())
    assert evaluate(corpus.annotations, predicted.indicator()).miF1 > start.miF1 + 0.1
    assert torch.equal(predicted.decisions, predicted.probabilities > 0.5)
    assert torch.equal(predicted.decisions, predicted.scores > 0)


def test_a_tie_is_a_prediction_for_the_reference_only(
    graph: SignedLabelGraph, features: Features, priors: Priors
) -> None:
    """Where neither is known of any label, p = p̄ = 0."""
    nothing = replace(features, entailment=torch.zeros(60, 6), contradiction=torch.zeros(60, 6))
    for recipe, decides in ((PAPER, False), (REFERENCE, True)):
        predicted = replace(recipe, epochs=1).fit(features, graph, priors).predict(nothing)
        assert bool((predicted.decisions == decides).all())
        assert not predicted.scores.any()


@pytest.mark.parametrize("candidates", [None, 2])
def test_texts_are_predicted_some_at_a_time(
    candidates: int | None,
    graph: SignedLabelGraph,
    features: Features,
    priors: Priors,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if candidates is not None:
        best = features.entailment.topk(candidates, dim=1).indices.sort(dim=1).values
        scores = {name: getattr(features, name).gather(1, best) for name in ("entailment", "contradiction")}
        features = replace(features, candidates=best, **scores)
    model = QUICK.fit(features, graph, priors)
    at_once = model.predict(features)
    for name in ("TEXTS_AT_ONCE", "CANDIDATE_TEXTS_AT_ONCE"):
        monkeypatch.setattr(f"bncl_pyg.training.paper.{name}", 7)
    in_parts = model.predict(features)
    assert torch.equal(in_parts.decisions, at_once.decisions)
    assert torch.allclose(in_parts.probabilities, at_once.probabilities, atol=1e-6)


@pytest.mark.parametrize("recipe", [PAPER, REFERENCE], ids=["paper", "reference"])
def test_a_model_moves_as_a_whole(
    recipe: PaperRecipe,
    graph: SignedLabelGraph,
    features: Features,
    priors: Priors,
    tensors_in: Callable[[object], list[Tensor]],
) -> None:
    model = replace(recipe, epochs=1).fit(features, graph, priors)
    model.predict(features)
    assert {tensor.device.type for tensor in tensors_in(model)} == {"cpu"}
    model.to("meta")
    assert {tensor.device.type for tensor in tensors_in(model)} == {"meta"}


def test_training_and_predicting_change_nothing_that_was_made_before(
    graph: SignedLabelGraph, features: Features, priors: Priors, annotated: Annotated
) -> None:
    entailment, edges = features.entailment.clone(), graph.edge_index.clone()
    model = QUICK.fit(features, graph, priors, annotated)
    before = {name: tensor.clone() for name, tensor in model.tensors().items()}
    QUICK.fit(features, graph, priors, annotated, seed=1)
    model.predict(features)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.tensors().items())
    assert torch.equal(features.entailment, entailment)
    assert torch.equal(graph.edge_index, edges)


def test_the_sharpness_is_kept_with_the_model(graph: SignedLabelGraph, features: Features, priors: Priors) -> None:
    assert QUICK.fit(features, graph, priors).config() == {"sharpness": 10, "candidates": 6}
    chosen = find_recipe(QUICK, sharpness="auto")
    sure = torch.where(features.entailment > 0.4, 0.9, 0.01)
    certain = replace(features, entailment=sure, contradiction=0.95 - sure)
    assert chosen.fit(certain, graph, priors).config()["sharpness"] == 11
