"""The label graph's percentiles where nobody asked for some: chosen on training texts, kept, and told."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from bncl_pyg.corpus import LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.estimator import BNCLClassifier
from bncl_pyg.graph import LabelVectors, SignedLabelGraph, build_graph, default_graph, has_open_percentiles
from bncl_pyg.training import (
    PAPER,
    PAPER_LITERAL,
    REFERENCE,
    Annotated,
    PaperModel,
    PaperRecipe,
    TrainedModel,
    TrainingStep,
)
from bncl_pyg.training.graph_choice import HeldOut, micro_f1
from tests.training.world import NAMES, World

PAIRS = ((20.0, 80.0), (35.0, 65.0), (45.0, 55.0))
QUICK = replace(PAPER, epochs=3, percentiles=PAIRS)


@pytest.fixture(scope="module")
def open_graph() -> SignedLabelGraph:
    """What is used where no graph is given, with vectors that need no encoder."""
    vectors = np.random.default_rng(1).normal(size=(8, 24)).astype(np.float32)
    return default_graph(LabelSet(NAMES, NAMES), LabelVectors(vectors, "by chance"))


def fit(
    recipe: PaperRecipe, world: World, graph: SignedLabelGraph, annotated: Annotated | None = None, **more: Any
) -> tuple[PaperModel, list[TrainingStep]]:
    steps: list[TrainingStep] = []
    return recipe.fit(world.train, graph, world.priors, annotated, progress=steps.append, **more), steps


def tried(steps: list[TrainingStep]) -> dict[str, dict[str, float]]:
    return {step.what: step.figures for step in steps if step.what.startswith("graph")}


def test_without_annotated_texts_the_lowest_loss_on_texts_not_trained_on_decides(
    world: World, open_graph: SignedLabelGraph
) -> None:
    model, steps = fit(QUICK, world, open_graph)
    figures = tried(steps)
    assert list(figures) == ["graph 20/80", "graph 35/65", "graph 45/55"]
    best = min(figures, key=lambda name: figures[name]["loss"])
    assert model.percentiles == PAIRS[list(figures).index(best)]
    assert [step.what for step in steps[-3:]] == ["epoch"] * 3
    with_it = build_graph(open_graph.label_names, open_graph.label_vectors, model.percentiles)
    alone, _ = fit(QUICK, world, with_it)
    assert all(torch.equal(tensor, model.tensors()[name]) for name, tensor in alone.tensors().items())


def test_with_annotated_texts_the_highest_f1_on_a_fifth_of_them_decides(
    world: World, open_graph: SignedLabelGraph
) -> None:
    annotated = world.annotated(100)
    model, steps = fit(QUICK, world, open_graph, annotated)
    figures = tried(steps)
    best = max(figures, key=lambda name: figures[name]["miF1"])
    assert model.percentiles == PAIRS[list(figures).index(best)]
    for name, pair in zip(figures, PAIRS, strict=True):
        held = HeldOut.of(world.train, annotated, 0.2, 50, 0)
        graph = build_graph(open_graph.label_names, open_graph.label_vectors, pair)
        by_hand = QUICK.fit(world.train, graph, world.priors, held.annotated)
        assert held.truth is not None
        assert figures[name]["miF1"] == micro_f1(held.truth, by_hand.predict(held.texts).indicator())


def test_the_choice_is_the_same_every_time(world: World, open_graph: SignedLabelGraph) -> None:
    for annotated in (None, world.annotated(60)):
        (one, first), (two, second) = (fit(QUICK, world, open_graph, annotated, seed=4) for _ in range(2))
        assert first == second
        assert one.percentiles == two.percentiles
        assert all(torch.equal(tensor, two.tensors()[name]) for name, tensor in one.tensors().items())


def test_a_fifth_of_the_annotations_is_held_out_or_a_fifth_of_the_other_texts(world: World) -> None:
    annotated = world.annotated(100)
    held = HeldOut.of(world.train, annotated, 0.2, 50, 0)
    assert held.rest is world.train
    assert held.annotated is not None
    assert held.truth is not None
    assert (len(held.annotated), len(held.texts), held.truth.shape) == (80, 20, (20, 8))
    rows = [world.train.ids.index(identifier) for identifier in held.texts.ids]
    assert not set(rows) & set(held.annotated.rows.tolist())
    assert (held.truth != world.annotations[rows]).nnz == 0

    few = world.annotated(40)
    held = HeldOut.of(world.train, few, 0.2, 50, 0)
    assert held.truth is None
    assert held.annotated is not None
    assert (len(held.rest), len(held.texts)) == (728, 172)
    assert not set(held.rest.ids) & set(held.texts.ids)
    again = [held.rest.ids[row] for row in held.annotated.rows]
    assert again == [world.train.ids[row] for row in few.rows]
    assert torch.equal(held.rest.entailment[held.annotated.rows], world.train.entailment[few.rows])


def test_a_text_that_was_drawn_twice_is_held_out_wholly(world: World) -> None:
    rows = np.repeat(np.arange(60), 2)
    held = HeldOut.of(world.train, Annotated(rows, world.annotations[rows]), 0.2, 50, 0)
    assert held.annotated is not None
    assert (len(held.texts), len(held.annotated)) == (24, 96)
    assert not {world.train.ids[row] for row in held.annotated.rows} & set(held.texts.ids)


def test_where_all_of_few_texts_are_annotated_some_of_these_are_held_out(world: World) -> None:
    few = world.train.rows(slice(0, 10))
    held = HeldOut.of(few, Annotated(np.arange(10), world.annotations[:10]), 0.2, 50, 0)
    assert held.truth is not None
    assert held.truth.shape == (2, 8)


def test_a_graph_that_is_given_is_used_as_it_is(world: World, open_graph: SignedLabelGraph) -> None:
    vectors = open_graph.label_vectors
    given = (
        build_graph(open_graph.label_names, vectors),
        build_graph(open_graph.label_names, vectors, (30, 70)),
        build_graph(open_graph.label_names, vectors, neighbours=2),
        SignedLabelGraph.from_edge_index(
            torch.tensor([[0, 1], [1, 0]]), torch.tensor([[1, 2], [2, 1]]), 8, open_graph.label_names
        ),
    )
    for graph in given:
        assert not has_open_percentiles(graph)
        model, steps = fit(replace(QUICK, epochs=1), world, graph)
        assert [step.what for step in steps] == ["epoch"]
        assert model.percentiles is None
        assert model.label_graph(graph) is graph


def test_a_graph_read_from_a_folder_is_used_as_it_is(
    world: World, open_graph: SignedLabelGraph, tmp_path: Path
) -> None:
    open_graph.save(tmp_path / "graph")
    graph = SignedLabelGraph.load(tmp_path / "graph")
    assert not has_open_percentiles(graph)
    assert fit(replace(QUICK, epochs=1), world, graph)[0].percentiles is None


def test_each_recipe_has_its_percentiles(world: World, open_graph: SignedLabelGraph) -> None:
    assert PAPER.percentiles == ((5, 95), (10, 90), (30, 70))
    assert fit(replace(PAPER_LITERAL, epochs=1), world, open_graph)[0].percentiles == (5, 95)
    reference, steps = fit(replace(REFERENCE, epochs=1), world, open_graph)
    assert reference.percentiles == (10, 90)
    assert [step.what for step in steps] == ["epoch"]
    assert reference.label_graph(open_graph).provenance["percentiles"] == [10, 90]


def test_percentiles_that_cannot_be_told_apart_are_left_out(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Six of eight labels have the same vector, so that most cosines are 1."""
    vectors = np.eye(8, dtype=np.float32)
    vectors[:6] = vectors[0]
    graph = default_graph(LabelSet(NAMES, NAMES), LabelVectors(vectors, "by hand"))
    model, steps = fit(replace(QUICK, epochs=1, percentiles=((5.0, 95.0), (80.0, 90.0))), world, graph)
    assert model.percentiles == (5, 95)
    assert [step.what for step in steps] == ["epoch"]
    assert "A graph with the percentiles 80/90 is not tried" in caplog.text
    with pytest.raises(InputError, match="cannot be told apart"):
        fit(replace(QUICK, percentiles=((80.0, 90.0),)), world, graph)


def test_the_chosen_graph_is_the_classifiers_and_is_saved(
    world: World, open_graph: SignedLabelGraph, tmp_path: Path
) -> None:
    classifier = BNCLClassifier(prevalence=world.priors, recipe=QUICK, graph=open_graph).fit(world.train)
    percentiles = list(classifier.model_.percentiles)
    assert classifier.graph_.provenance["percentiles"] == percentiles
    assert not has_open_percentiles(classifier.graph_)
    assert has_open_percentiles(open_graph)
    classifier.save_pretrained(tmp_path / "m")
    again = TrainedModel.load(tmp_path / "m")
    assert isinstance(again.model, PaperModel)
    assert again.model.config() == classifier.model_.config()
    one, two = classifier.predictions(world.test), again.model.predict(world.test)
    assert torch.equal(one.decisions, two.decisions)
    assert torch.allclose(one.scores, two.scores, atol=1e-5)
    assert BNCLClassifier.from_pretrained(tmp_path / "m").graph_.provenance["percentiles"] == percentiles


@pytest.mark.parametrize("annotated", [0, 60])
@pytest.mark.parametrize("stopped_after", [1, 3, 5, 9, 12, 14])
def test_a_training_that_is_stopped_anywhere_ends_in_the_same_model(
    world: World, open_graph: SignedLabelGraph, annotated: int, stopped_after: int, tmp_path: Path
) -> None:
    class StopError(Exception):
        pass

    texts = world.annotated(annotated) if annotated else None
    whole, steps = fit(QUICK, world, open_graph, texts)
    assert len(steps) == 15
    told: list[TrainingStep] = []

    def stop(step: TrainingStep) -> None:
        told.append(step)
        if len(told) == stopped_after:
            raise StopError

    kept = tmp_path / "kept.safetensors"
    with pytest.raises(StopError):
        QUICK.fit(world.train, open_graph, world.priors, texts, progress=stop, checkpoint=kept)
    resumed, again = fit(QUICK, world, open_graph, texts, checkpoint=kept)
    assert again == steps
    assert resumed.percentiles == whole.percentiles
    assert all(torch.equal(tensor, resumed.tensors()[name]) for name, tensor in whole.tensors().items())


def test_a_single_text_has_nothing_to_choose_on(world: World, open_graph: SignedLabelGraph) -> None:
    model = QUICK.fit(world.train.rows(slice(0, 1)), open_graph, world.priors)
    assert model.percentiles == PAIRS[0]


def test_f1_of_nothing_is_nothing() -> None:
    nothing = csr_array((3, 4), dtype=bool)
    assert micro_f1(nothing, nothing) == 0
    assert micro_f1(csr_array(np.eye(3, dtype=bool)), np.eye(3, dtype=bool)) == 1
    assert micro_f1(csr_array(np.eye(2, dtype=bool)), np.ones((2, 2), dtype=bool)) == pytest.approx(2 / 3)


@pytest.mark.parametrize("change", [{"held_out": 0.0}, {"held_out": 1.0}, {"fewest_annotated": 1}])
def test_numbers_that_make_no_choice_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"held out|hold some out"):
        replace(PAPER, **change)


def test_of_texts_annotated_in_part_only_what_is_known_is_looked_at(world: World) -> None:
    rows, known = np.arange(100), np.zeros((100, 8), dtype=bool)
    known[:, :2] = True
    truth = csr_array(world.annotations[:100].toarray() & known)
    held = HeldOut.of(world.train, Annotated(rows, truth, csr_array(known)), 0.2, 50, 0)
    assert held.truth is not None
    assert held.known is not None
    assert held.known.shape == (20, 8)
    everything = np.ones((20, 8), dtype=bool)
    assert micro_f1(held.truth, everything) < micro_f1(held.truth, everything, held.known)
    assert micro_f1(held.truth, held.truth.toarray() | ~held.known.toarray(), held.known) == 1.0
    few = HeldOut.of(world.train, Annotated(rows[:10], truth[:10], csr_array(known[:10])), 0.2, 50, 0)
    assert few.annotated is not None
    assert few.annotated.known is not None
