from dataclasses import replace

import pytest
import torch
from torch import Tensor

from bncl_pyg.errors import InputError
from bncl_pyg.features import Features
from bncl_pyg.graph import SignedLabelGraph
from bncl_pyg.training import DefaultModel, SelfTraining
from bncl_pyg.training.self_training import Prepared, SelfTrained
from tests.training.world import World


def prepared(world: World) -> tuple[Prepared, Tensor, float]:
    assert world.priors.cardinality is not None
    data = SelfTraining().prepare(world.train, world.graph)
    return data, torch.from_numpy(world.priors.shares).float(), world.priors.cardinality


def accuracy(world: World, learned: SelfTrained) -> float:
    decisions = learned.projection(learned.logits) > 0
    return float((decisions.numpy() == world.annotations.toarray()).mean())


def test_projected_logits_meet_the_prevalence(world: World) -> None:
    data, prevalence, cardinality = prepared(world)
    learned = SelfTraining().fit(data, prevalence, cardinality)
    probabilities = torch.sigmoid(learned.projection(learned.logits, data.pairs))
    assert torch.allclose(probabilities.mean(dim=0), prevalence, rtol=0.1)


def test_each_part_adds_to_the_scores(world: World) -> None:
    data, prevalence, cardinality = prepared(world)
    alone = SelfTraining(rounds=0).fit(data, prevalence, cardinality)
    assert not alone.tensors["text_weights"].any()
    assert torch.equal(alone.logits, 3.0 * data.scores)
    whole = SelfTraining().fit(data, prevalence, cardinality)
    assert accuracy(world, whole) > accuracy(world, alone) + 0.02
    without_graph = SelfTraining().fit(replace(data, smoothing=None), prevalence, cardinality)
    assert not torch.equal(without_graph.tensors["text_weights"], whole.tensors["text_weights"])


def test_the_graph_moves_rare_labels_most(world: World) -> None:
    data, prevalence, cardinality = prepared(world)
    weights = [
        SelfTraining(rounds=1).fit(one, prevalence, cardinality).tensors["text_weights"]
        for one in (data, replace(data, smoothing=None))
    ]
    moved = (weights[0] - weights[1]).norm(dim=0) / weights[1].norm(dim=0)
    assert float(moved[prevalence.argmin()]) > 2 * float(moved[prevalence.argmax()])


def test_where_texts_may_have_none_those_that_no_label_fits_get_none(world: World) -> None:
    data, prevalence, _ = prepared(world)
    few = prevalence / 3
    rows = world.annotations.toarray().any(axis=1)

    def given(at_least_one: bool) -> Tensor:
        learned = SelfTraining().fit(data, few, float(few.sum()), at_least_one=at_least_one)
        return torch.sigmoid(learned.projection(learned.logits, data.pairs)).sum(dim=1)

    assert rows.all()
    # As many labels in all, in fewer texts.
    assert float(given(False).sum()) == pytest.approx(float(given(True).sum()), rel=0.15)
    assert float((given(False) < 0.1).float().mean()) > float((given(True) < 0.1).float().mean())


def test_the_last_round_changes_less_than_the_first(world: World) -> None:
    data, prevalence, cardinality = prepared(world)
    first, last = (SelfTraining(rounds=rounds).fit(data, prevalence, cardinality).change for rounds in (1, 6))
    assert 0 < last < 0.5 * first


def test_the_penalty_grows_with_the_texts(world: World) -> None:
    def chosen(features: Features, graph: SignedLabelGraph) -> float:
        return SelfTraining(text_C=90.0).prepare(features, graph).C

    inputs = SelfTraining().prepare(world.train, world.graph).inputs.shape[1]
    assert chosen(world.train, world.graph) == pytest.approx(90 / (900 + inputs))
    assert chosen(world.train.rows(slice(0, 600)), world.graph) > 90 / (900 + inputs)


def test_what_a_recipe_leaves_out_is_not_looked_at(world: World) -> None:
    whole = SelfTraining().prepare(world.train, world.graph)
    assert whole.inputs.shape[1] > 24
    assert whole.smoothing is not None
    bare = SelfTraining(parts=()).prepare(world.train, world.graph)
    assert bare.inputs.shape == (900, 0)
    assert bare.smoothing is bare.features.vectors is bare.features.words is None
    assert SelfTraining(parts=("vectors",)).prepare(world.train, world.graph).inputs.shape == (900, 24)


def test_one_text_is_too_few(world: World) -> None:
    with pytest.raises(InputError, match="at least 2 training texts"):
        SelfTraining().prepare(world.train.rows(slice(0, 1)), world.graph)


@pytest.fixture(scope="module")
def usual(world: World) -> DefaultModel:
    return world.unsupervised()


@pytest.mark.parametrize(
    "changes",
    [
        {"rounds": 1},
        {"slope": 1.0},
        {"graph_texts": 100.0},
        {"competition": 0.2},
        {"text_C": 50.0},
        {"lsa_weight": 0.5},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_every_number_counts(world: World, changes: dict[str, float], usual: DefaultModel) -> None:
    other = world.unsupervised(**changes)
    assert (world.probabilities(other) != world.probabilities(usual)).any()
