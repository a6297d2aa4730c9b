import importlib.util
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric import EdgeIndex

from bncl_pyg.graph import Neighbourhood, SignedLabelGraph, balanced_neighbourhoods
from bncl_pyg.nn import BNCL, Backend, BalancedConv

HAS_TORCH_SPARSE = importlib.util.find_spec("torch_sparse") is not None
BACKENDS: list[Backend] = ["message", "sparse", "dense", *(["torch-sparse"] if HAS_TORCH_SPARSE else [])]
needs_torch_sparse = pytest.mark.skipif(not HAS_TORCH_SPARSE, reason="torch-sparse is an optional backend")

FRIENDS = torch.tensor([[0, 1, 1, 2, 3], [1, 0, 2, 1, 3]])
ENEMIES = torch.tensor([[0, 3], [3, 0]])


def states(texts: int, labels: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    entailment, contradiction = torch.rand(2, texts, labels, generator=generator, dtype=dtype)
    return entailment, contradiction


def by_definition(conv: BalancedConv, h: Tensor, against: Tensor) -> tuple[Tensor, Tensor]:
    """The paper's two lines, text by text and label by label."""
    sums = torch.zeros(4, *h.shape, dtype=h.dtype)
    weights = conv.weights()
    edges = (conv.friends, conv.enemies, conv.enemies, conv.friends)
    inputs = (h, against, h, against)
    for part in range(4):
        for (u, v), weight in zip(edges[part].t().tolist(), weights[part].tolist(), strict=True):
            sums[part][:, v] += weight * inputs[part][:, u]
    sums = sums.relu()
    return h + sums[0] + sums[1], against + sums[2] + sums[3]


def test_repr_says_what_it_is() -> None:
    assert repr(BalancedConv(FRIENDS, ENEMIES, 4)) == (
        "BalancedConv(num_labels=4, friends=5, enemies=2, backend='dense')"
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_shapes_and_no_negative_state(backend: Backend) -> None:
    conv = BalancedConv(FRIENDS, ENEMIES, 4, backend)
    p, against = conv(*states(7, 4))
    assert p.shape == against.shape == (7, 4)
    assert bool((p >= 0).all() & (against >= 0).all())


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(0, 2**32 - 1), st.floats(0, 1), st.integers(1, 5))
def test_every_backend_is_the_definition(labels: int, seed: int, density: float, texts: int) -> None:
    generator = np.random.default_rng(seed)
    friends, enemies = (torch.from_numpy(np.argwhere(generator.random((labels, labels)) < density).T) for _ in range(2))
    results = []
    for backend in BACKENDS:
        conv = BalancedConv(friends, enemies, labels, backend).double()
        conv.reset_parameters(torch.Generator().manual_seed(seed % 1000))
        inputs = tuple(part.requires_grad_() for part in states(texts, labels, torch.float64))
        p, against = conv(*inputs)
        expected = by_definition(conv, *(part.detach() for part in inputs))
        assert torch.allclose(p, expected[0], atol=1e-12)
        assert torch.allclose(against, expected[1], atol=1e-12)
        assert bool((p >= 0).all() & (against >= 0).all())
        (p * 1.5 + against.square()).sum().backward()
        results.append([part.grad for part in (*inputs, *conv.parameters())])
    for other in results[1:]:
        for first, second in zip(results[0], other, strict=True):
            assert first is not None
            assert second is not None
            assert torch.allclose(first, second, atol=1e-10)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_of_weights_and_inputs(backend: Backend) -> None:
    conv = BalancedConv(FRIENDS, ENEMIES, 4, backend).double()
    # Away from the kink of the ReLU, where no derivative exists.
    for weight in conv.parameters():
        torch.nn.init.uniform_(weight, 0.1, 0.9, generator=torch.Generator().manual_seed(0))
    inputs = tuple(part.requires_grad_() for part in states(3, 4, torch.float64))
    names = [name for name, _ in conv.named_parameters()]

    def function(entailment: Tensor, contradiction: Tensor, *weights: Tensor) -> tuple[Tensor, Tensor]:
        called = torch.func.functional_call(conv, dict(zip(names, weights, strict=True)), (entailment, contradiction))
        return called  # type: ignore[no-any-return]

    weights = tuple(weight.detach().clone().requires_grad_() for weight in conv.parameters())
    assert torch.autograd.gradcheck(function, (*inputs, *weights))


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_representation_of_the_graph_gives_the_same_numbers(backend: Backend) -> None:
    shuffled = FRIENDS[:, torch.tensor([3, 0, 4, 2, 1])]
    dense = torch.zeros(4, 4)
    dense[FRIENDS[1], FRIENDS[0]] = 1  # as PyG has it, a row is a target
    forms = [FRIENDS, shuffled, dense.to_sparse_csr(), dense.to_sparse_csc(), dense.to_sparse_coo()]
    forms += [EdgeIndex(shuffled), EdgeIndex(FRIENDS.int(), sparse_size=(4, 4))]
    forms += [EdgeIndex(FRIENDS).sort_by("col").values]
    if HAS_TORCH_SPARSE:
        from torch_sparse import SparseTensor

        forms.append(SparseTensor(row=FRIENDS[1], col=FRIENDS[0], sparse_sizes=(4, 4)))
    expected = None
    for form in forms:
        conv = BalancedConv(form, ENEMIES, 4, backend)
        conv.reset_parameters(torch.Generator().manual_seed(0))
        updated = torch.stack(conv(*states(5, 4)))
        expected = updated if expected is None else expected
        assert torch.allclose(updated, expected)


@needs_torch_sparse
def test_torch_sparse_multiplies_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    conv = BalancedConv(FRIENDS, ENEMIES, 4, "torch-sparse")
    real = conv.message_and_aggregate
    monkeypatch.setattr(conv, "message_and_aggregate", lambda *a, **k: (calls.append(1), real(*a, **k))[1])
    conv(*states(2, 4))
    assert len(calls) == 4


def test_the_backend_is_chosen_by_size_and_density() -> None:
    empty = torch.zeros(2, 0, dtype=torch.int64)
    few = torch.arange(1000).expand(2, -1)
    assert BalancedConv(FRIENDS, ENEMIES, 4).backend == "dense"
    assert BalancedConv(few, empty, 1000).backend == "sparse"
    many = torch.stack([torch.arange(600).repeat_interleave(400), torch.arange(400).repeat(600)])
    assert BalancedConv(many, many, 600).backend == "dense"
    assert BalancedConv(many, empty, 600).backend == "sparse"


def test_a_label_without_neighbours_keeps_its_state() -> None:
    empty = torch.zeros(2, 0, dtype=torch.int64)
    for backend in BACKENDS:
        entailment, contradiction = states(3, 4)
        p, against = BalancedConv(empty, empty, 4, backend)(entailment, contradiction)
        assert torch.equal(p, entailment)
        assert torch.equal(against, contradiction)


def test_the_sparse_backend_makes_no_dense_matrix() -> None:
    """Forward and backward at 60,000 labels, where one (labels × labels) matrix would be 14 GB."""
    labels = 60_000
    around = torch.stack([torch.arange(labels), (torch.arange(labels) + 1) % labels])
    conv = BalancedConv(around, around.flip(0), labels)
    assert conv.backend == "sparse"
    p, against = conv(*states(2, labels))
    (p + against).sum().backward()
    assert conv.weight.grad is not None
    assert conv.weight.grad.shape == (4 * labels,)


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        (torch.zeros(3, 4, dtype=torch.int64), r"shape \(2, edges\)"),
        (torch.tensor([[0], [4]]), "numbers from 0 to 3"),
        (torch.tensor([[0, 0], [1, 1]]), "each edge once"),
        (torch.eye(5).to_sparse_csr(), r"must have shape \(4, 4\)"),
    ],
)
def test_neighbourhoods_that_make_no_sense_are_refused(edges: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BalancedConv(edges, ENEMIES, 4)


def test_texts_that_do_not_fit_the_cache_are_updated_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 2 texts give what one block gives, and all layers at once what one after the other does."""
    generator = np.random.default_rng(0)
    edges = [torch.from_numpy(np.argwhere(generator.random((9, 9)) < 0.6).T) for _ in range(2)]
    results = []
    for cache_bytes in (4 * 2**20, 72):
        monkeypatch.setattr("bncl_pyg.nn.fused_update.CACHE_BYTES", cache_bytes)
        monkeypatch.setattr("bncl_pyg.nn.fused_update.LEAST_TEXTS", 2)
        model = BNCL([])
        model.layers.extend(BalancedConv(*edges, 9, "sparse") for _ in range(2))
        model.double().reset_parameters(torch.Generator().manual_seed(0))
        inputs = tuple(part.requires_grad_() for part in states(5, 9, torch.float64))
        updated = model(*inputs)
        first, second = model.layers
        assert torch.allclose(torch.stack(second(*first(*inputs))), torch.stack(updated))
        (updated[0] * 1.5 + updated[1].square()).sum().backward()
        results.append([*updated, *(part.grad for part in (*inputs, *model.parameters()))])
    for one, other in zip(*results, strict=True):
        assert torch.allclose(one, other)


def test_a_gradient_lies_as_its_states_do() -> None:
    conv = BalancedConv(FRIENDS, ENEMIES, 4, "sparse")
    rows, transposed = states(3, 4)[0], states(3, 4)[1].t().contiguous().t()
    rows.requires_grad_()
    transposed.requires_grad_()
    gradients = torch.autograd.grad(sum(part.sum() for part in conv(rows, transposed)), (rows, transposed))  # type: ignore[arg-type]
    assert [grad.is_contiguous() for grad in gradients] == [True, False]
    assert gradients[1].t().is_contiguous()


def test_states_that_are_one_number_for_all_texts_get_its_gradient() -> None:
    """An expanded state has no memory of its own for every text."""
    gradients = []
    for backend in BACKENDS[:2]:
        conv = BalancedConv(FRIENDS, ENEMIES, 4, backend)
        conv.reset_parameters(torch.Generator().manual_seed(0))
        prior = torch.linspace(0.1, 0.9, 4, requires_grad=True)
        updated = conv(prior.expand(3, 4), 1 - prior.expand(3, 4))
        (updated[0].square().sum() + updated[1].sum()).backward()
        gradients.append(prior.grad)
    assert torch.allclose(*gradients)


def test_channels_that_do_not_match_are_refused() -> None:
    conv = BalancedConv(FRIENDS, ENEMIES, 4, "sparse")
    with pytest.raises(ValueError, match="same shape"):
        conv(torch.ones(3, 4), torch.ones(2, 4))
    with pytest.raises(ValueError, match="same dtype"):
        conv(torch.ones(3, 4), torch.ones(3, 4, dtype=torch.float64))


def test_no_texts_are_updated_to_no_texts() -> None:
    for backend in BACKENDS[:3]:  # torch-sparse cannot
        p, against = BalancedConv(FRIENDS, ENEMIES, 4, backend)(*states(0, 4))
        assert p.shape == against.shape == (0, 4)


def test_without_gradients_the_sparse_backend_gives_the_same() -> None:
    conv = BalancedConv(FRIENDS, ENEMIES, 4, "sparse")
    with torch.inference_mode():
        updated = conv(*states(3, 4))
    assert torch.equal(torch.stack(updated), torch.stack(conv(*states(3, 4))))


def test_candidates_are_updated_as_if_all_others_were_unknown() -> None:
    """At one hop and at two, gradients included; the other labels start with neither entailment nor contradiction."""
    torch.manual_seed(3)
    labels, texts = 30, 6
    edges = [torch.unique(torch.randint(0, labels, (2, 60)), dim=1) for _ in range(4)]
    candidates = torch.stack([torch.randperm(labels)[:5].sort().values for _ in range(texts)])
    for hops in (1, 2):
        model = BNCL([])
        model.layers.extend(BalancedConv(*edges[2 * hop : 2 * hop + 2], labels) for hop in range(hops))
        scores = torch.rand(2, texts, 5)
        updated = model.of_candidates(*scores, candidates)
        everything = torch.zeros(2, texts, labels).scatter(2, candidates.expand(2, -1, -1), scores)
        expected = [part.gather(1, candidates) for part in model(*everything)]
        assert all(torch.allclose(one, other, atol=1e-6) for one, other in zip(updated, expected, strict=True))
        assert not torch.allclose(updated[0], scores[0], atol=1e-3)
        for parameter in model.parameters():
            one, other = (
                torch.autograd.grad(sum(part.square().sum() for part in parts), parameter, retain_graph=True)[0]  # type: ignore[arg-type]
                for parts in (updated, expected)
            )
            assert torch.allclose(one, other, atol=1e-5)


def test_whose_messages_labels_get() -> None:
    friends, enemies = torch.tensor([[0, 2, 1], [1, 1, 2]]), torch.tensor([[3], [1]])
    conv = BalancedConv(friends, enemies, 4)
    assert conv.sources(torch.tensor([1])).tolist() == [0, 2, 3]
    assert conv.sources(torch.tensor([0, 3])).tolist() == []


def test_it_takes_what_balanced_neighbourhoods_returns(graph: SignedLabelGraph) -> None:
    for neighbourhood in balanced_neighbourhoods(graph):
        expected = BalancedConv(*neighbourhood.edge_indices(), 6)
        conv = BalancedConv(neighbourhood, backend="sparse")
        assert (conv.num_labels, conv.backend) == (6, "sparse")
        assert torch.equal(conv.friends, expected.friends)
        assert torch.equal(conv.enemies, expected.enemies)
        conv.load_state_dict(expected.state_dict())
        assert torch.allclose(torch.stack(conv(*states(5, 6))), torch.stack(expected(*states(5, 6))))
    with pytest.raises(ValueError, match="of one hop; BNCL takes those of all hops"):
        BalancedConv(balanced_neighbourhoods(graph))


def test_how_many_labels_there_are_may_be_left_out_where_it_is_known(graph: SignedLabelGraph) -> None:
    assert BalancedConv(EdgeIndex(FRIENDS, sparse_size=(5, 5)), ENEMIES).num_labels == 5
    assert BalancedConv(FRIENDS, torch.eye(7).to_sparse_csr()).num_labels == 7
    with pytest.raises(ValueError, match="give num_labels"):
        BalancedConv(FRIENDS, ENEMIES)
    with pytest.raises(ValueError, match="a Neighbourhood, which has both"):
        BalancedConv(FRIENDS)
    with pytest.raises(ValueError, match=r"must be square, but has shape \(4, 5\)"):
        BalancedConv(torch.zeros(4, 5).to_sparse_coo(), ENEMIES)
    with pytest.raises(ValueError, match=r"must have shape \(4, 4\)"):
        BalancedConv(EdgeIndex(FRIENDS, sparse_size=(5, 5)), ENEMIES, 4)


def used_model(neighbourhoods: list[Neighbourhood], backend: Backend) -> BNCL:
    """A model that has made everything that it makes when it is first used."""
    model = BNCL(neighbourhoods, backend)
    p, against = model(*states(3, 6))
    (p + against).sum().backward()
    model.of_candidates(*states(3, 2), torch.tensor([[0, 1], [1, 4], [2, 5]]))
    return model


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_model_moves_as_a_whole(
    graph: SignedLabelGraph, backend: Backend, tensors_in: Callable[[object], list[Tensor]]
) -> None:
    model = used_model(balanced_neighbourhoods(graph), backend)
    assert all(tensor.device.type == "cpu" for tensor in tensors_in(model))
    model.to("meta")
    assert {tensor.device.type for tensor in tensors_in(model)} == {"meta"}

    if backend != "torch-sparse":
        p, against = model(*(part.to("meta") for part in states(3, 6)))
        assert p.device.type == against.device.type == "meta"


@pytest.mark.parametrize("backend", BACKENDS)
def test_new_tensors_are_made_where_the_inputs_are(graph: SignedLabelGraph, backend: Backend) -> None:
    """With another default device, whatever is made without saying where would be in the wrong place."""
    neighbourhoods, candidates = balanced_neighbourhoods(graph), torch.tensor([[0, 1], [1, 4], [2, 5]])
    first, second = BNCL(neighbourhoods, backend), BNCL(neighbourhoods, backend)
    second.load_state_dict(first.state_dict())
    few, every = states(3, 2), states(3, 6)
    expected = [*first(*every), *first.of_candidates(*few, candidates)]
    sum(part.square().sum() for part in expected).backward()  # type: ignore[union-attr]
    with torch.device("meta"):
        updated = [*second(*every), *second.of_candidates(*few, candidates)]
        sum(part.square().sum() for part in updated).backward()  # type: ignore[union-attr]
    assert all(torch.equal(one, other) for one, other in zip(updated, expected, strict=True))
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert one.grad is not None
        assert other.grad is not None
        assert torch.equal(one.grad, other.grad)
