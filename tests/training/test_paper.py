"""The paper's recipe as a whole, also where κ and λ are not known in numbers."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
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
    PAPER_LITERAL,
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


PINNED = {
    # What release 0.1.0 gave for its `paper` and `reference`: the sum of a layer's weights and of their sizes, and
    # p − p̄ of the first text.
    ("paper-literal", False): (
        ((-0.106895, 8.2028276), (0.9006005, 19.3841055)),
        (-0.5649679, -1.2232718, -0.7958986, 0.1317842, -0.5753745, 1.1078706),
    ),
    ("paper-literal", True): (
        ((-0.0386327, 8.2541011), (1.0405158, 19.4040073)),
        (-0.592149, -1.2291284, -0.8134062, 0.145553, -0.5843726, 1.1233029),
    ),
    ("reference", False): (
        ((-0.1104229, 8.1999584), (1.9182453, 13.1967769)),
        (-0.3978527, 0.3956473, -0.4047759, 0.012051, -0.8433232, 0.2473943),
    ),
    ("reference", True): (
        ((-0.1060714, 8.1984498), (1.9448927, 13.2093385)),
        (-0.3917632, 0.3953461, -0.4103507, 0.0137947, -0.833513, 0.2523413),
    ),
}


@pytest.fixture
def annotated(corpus: Corpus) -> Annotated:
    assert corpus.annotations is not None
    rows = np.arange(0, 60, 3)
    return Annotated(rows, corpus.annotations[rows])


@pytest.mark.parametrize(("name", "with_annotated"), PINNED)
def test_the_literal_paper_and_the_reference_are_what_they_were(
    name: str, with_annotated: bool, graph: SignedLabelGraph, features: Features, priors: Priors, annotated: Annotated
) -> None:
    layers, scores = PINNED[name, with_annotated]
    recipe = find_recipe(name)
    assert isinstance(recipe, PaperRecipe)
    recipe = replace(recipe, epochs=3, decay_every=1, batch=16)
    model = recipe.fit(features, graph, priors, annotated if with_annotated else None, seed=3)
    for place, sums in enumerate(layers):
        weights = model.tensors()[f"layers.{place}.weight"].double()
        assert (float(weights.sum()), float(weights.abs().sum())) == pytest.approx(sums, abs=1e-4)
    assert model.predict(features).scores[0].tolist() == pytest.approx(scores, abs=1e-5)


def test_the_paper_is_the_literal_one_but_for_four_choices() -> None:
    changed = {"annotation": "sharpened", "prevalence_over": "batch", "start": "cardinality"}
    assert replace(PAPER_LITERAL, name="paper", percentiles=PAPER.percentiles, **changed) == PAPER  # type: ignore[arg-type]
    assert PAPER_LITERAL.percentiles == ((5, 95),)


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
    other = replace(QUICK, estimation=PriorEstimation(guess_power=2.0))
    usual, changed = (recipe.fit(features, graph, Priors(1.5, (None,) * 6)).priors for recipe in (QUICK, other))
    assert usual.shares.tolist() != pytest.approx(changed.shares.tolist())


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


@pytest.mark.parametrize(("recipe", "gain"), [(PAPER, 0.05), (PAPER_LITERAL, 0.1)], ids=["paper", "paper-literal"])
def test_it_beats_the_scores_it_started_from(
    recipe: PaperRecipe, gain: float, graph: SignedLabelGraph, features: Features, corpus: Corpus, priors: Priors
) -> None:
    recipe = replace(recipe, epochs=60, decay_every=30, batch=16, learning_rate=1e-2)
    predicted = recipe.fit(features, graph, priors).predict(features)
    start = evaluate(corpus.annotations, features.zero_shot().numpy())
    assert evaluate(corpus.annotations, predicted.indicator()).miF1 > start.miF1 + gain
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


@pytest.mark.parametrize("recipe", [PAPER, PAPER_LITERAL, REFERENCE], ids=["paper", "paper-literal", "reference"])
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
    numbers = {"sharpness": 10, "candidates": 6, "offset": None, "percentiles": None}
    assert replace(PAPER_LITERAL, epochs=1).fit(features, graph, priors).config() == numbers
    chosen = find_recipe(QUICK, sharpness="auto")
    sure = torch.where(features.entailment > 0.4, 0.9, 0.01)
    certain = replace(features, entailment=sure, contradiction=0.95 - sure)
    assert chosen.fit(certain, graph, priors).config()["sharpness"] == 11


def test_priors_are_counted_where_something_is_known(
    corpus: Corpus, features: Features, graph: SignedLabelGraph
) -> None:
    assert corpus.annotations is not None
    known, truth = np.ones((60, 6), dtype=bool), corpus.annotations.toarray()
    known[30:, 0] = False
    annotated = Annotated(np.arange(60), csr_array(truth & known), csr_array(known))
    recipe = replace(PAPER, epochs=1, percentiles=())
    model = recipe.fit(features, graph, None, annotated)
    expected = np.array([truth[:30, 0].mean(), *truth[:, 1:].mean(axis=0)])
    assert model.priors.shares == pytest.approx(expected)
    assert model.priors.cardinality == pytest.approx(expected.sum())
