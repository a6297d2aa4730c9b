import importlib.util

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bncl_pyg.nn import BalancedConv, balanced_conv, balanced_update
from bncl_pyg.nn.balanced_conv import update

HAS_TORCH_SPARSE = importlib.util.find_spec("torch_sparse") is not None
PATHS = ["message", "sparse", "dense", *(["torch-sparse"] if HAS_TORCH_SPARSE else [])]
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
    assert repr(BalancedConv(FRIENDS, ENEMIES, 4)) == "BalancedConv(labels=4, friends=5, enemies=2, path='dense')"


@pytest.mark.parametrize("path", PATHS)
def test_shapes_and_no_negative_state(path: balanced_conv.Path) -> None:
    conv = BalancedConv(FRIENDS, ENEMIES, 4, path)
    p, against = conv(*states(7, 4))
    assert p.shape == against.shape == (7, 4)
    assert bool((p >= 0).all() & (against >= 0).all())


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(0, 2**32 - 1), st.floats(0, 1), st.integers(1, 5))
def test_every_path_is_the_definition(labels: int, seed: int, density: float, texts: int) -> None:
    generator = np.random.default_rng(seed)
    friends, enemies = (torch.from_numpy(np.argwhere(generator.random((labels, labels)) < density).T) for _ in range(2))
    results = []
    for path in PATHS:
        conv = BalancedConv(friends, enemies, labels, path).double()  # type: ignore[arg-type]
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


@pytest.mark.parametrize("path", PATHS)
def test_gradients_of_weights_and_inputs(path: balanced_conv.Path) -> None:
    conv = BalancedConv(FRIENDS, ENEMIES, 4, path).double()
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


@pytest.mark.parametrize("path", PATHS)
def test_every_representation_of_the_graph_gives_the_same_numbers(path: balanced_conv.Path) -> None:
    shuffled = FRIENDS[:, torch.tensor([3, 0, 4, 2, 1])]
    dense = torch.zeros(4, 4)
    dense[FRIENDS[1], FRIENDS[0]] = 1  # as PyG has it, a row is a target
    forms = [FRIENDS, shuffled, dense.to_sparse_csr(), dense.to_sparse_csc(), dense.to_sparse_coo()]
    if HAS_TORCH_SPARSE:
        from torch_sparse import SparseTensor

        forms.append(SparseTensor(row=FRIENDS[1], col=FRIENDS[0], sparse_sizes=(4, 4)))
    expected = None
    for form in forms:
        conv = BalancedConv(form, ENEMIES, 4, path)
        conv.reset_parameters(torch.Generator().manual_seed(0))
        found = torch.stack(conv(*states(5, 4)))
        expected = found if expected is None else expected
        assert torch.allclose(found, expected)


@needs_torch_sparse
def test_torch_sparse_multiplies_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    conv = BalancedConv(FRIENDS, ENEMIES, 4, "torch-sparse")
    real = conv.message_and_aggregate
    monkeypatch.setattr(conv, "message_and_aggregate", lambda *a, **k: (calls.append(1), real(*a, **k))[1])
    conv(*states(2, 4))
    assert len(calls) == 4


def test_the_path_is_chosen_by_size_and_density() -> None:
    empty = torch.zeros(2, 0, dtype=torch.int64)
    few = torch.arange(1000).expand(2, -1)
    assert BalancedConv(FRIENDS, ENEMIES, 4).path == "dense"
    assert BalancedConv(few, empty, 1000).path == "sparse"
    many = torch.stack([torch.arange(600).repeat_interleave(400), torch.arange(400).repeat(600)])
    assert BalancedConv(many, many, 600).path == "dense"
    assert BalancedConv(many, empty, 600).path == "sparse"


def test_a_label_without_neighbours_keeps_its_state() -> None:
    empty = torch.zeros(2, 0, dtype=torch.int64)
    for path in PATHS:
        entailment, contradiction = states(3, 4)
        p, against = BalancedConv(empty, empty, 4, path)(entailment, contradiction)  # type: ignore[arg-type]
        assert torch.equal(p, entailment)
        assert torch.equal(against, contradiction)


def test_no_dense_matrix_on_the_sparse_path() -> None:
    """Forward and backward at 60,000 labels, where one (labels × labels) matrix would be 14 GB."""
    labels = 60_000
    around = torch.stack([torch.arange(labels), (torch.arange(labels) + 1) % labels])
    conv = BalancedConv(around, around.flip(0), labels)
    assert conv.path == "sparse"
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
    """Blocks of 2 texts give what one block gives, gradients included."""
    generator = np.random.default_rng(0)
    friends, enemies = (torch.from_numpy(np.argwhere(generator.random((9, 9)) < 0.6).T) for _ in range(2))
    found = []
    for cached in (balanced_update.CACHED, 72):
        monkeypatch.setattr(balanced_update, "CACHED", cached)
        monkeypatch.setattr(balanced_update, "LEAST_TEXTS", 2)
        layers = [BalancedConv(friends, enemies, 9, "sparse").double() for _ in range(2)]
        hood, _ = layers[0].whole()
        assert hood.texts == (2 if cached == 72 else 116508)
        for seed, layer in enumerate(layers):
            layer.reset_parameters(torch.Generator().manual_seed(seed))
        inputs = tuple(part.requires_grad_() for part in states(5, 9, torch.float64))
        apart = layers[1](*layers[0](*inputs))
        together = balanced_conv.update([layer.whole() for layer in layers], *inputs)
        assert torch.allclose(torch.stack(apart), torch.stack(together))
        (together[0] * 1.5 + together[1].square()).sum().backward()
        gradients = [part.grad for part in (*inputs, *layers[0].parameters(), *layers[1].parameters())]
        found.append([*together, *gradients])
    for one, other in zip(*found, strict=True):
        assert one is not None
        assert other is not None
        assert torch.allclose(one, other)


def test_a_gradient_lies_as_its_states_do() -> None:
    conv = BalancedConv(FRIENDS, ENEMIES, 4, "sparse")
    rows, turned = states(3, 4)[0], states(3, 4)[1].t().contiguous().t()
    rows.requires_grad_()
    turned.requires_grad_()
    gradients = torch.autograd.grad(sum(part.sum() for part in conv(rows, turned)), (rows, turned))  # type: ignore[arg-type]
    assert [grad.is_contiguous() for grad in gradients] == [True, False]
    assert gradients[1].t().is_contiguous()


def test_states_that_are_one_number_for_all_texts_get_its_gradient() -> None:
    """An expanded state has no memory of its own for every text."""
    found = []
    for path in ("message", "sparse"):
        conv = BalancedConv(FRIENDS, ENEMIES, 4, path)  # type: ignore[arg-type]
        conv.reset_parameters(torch.Generator().manual_seed(0))
        prior = torch.linspace(0.1, 0.9, 4, requires_grad=True)
        updated = conv(prior.expand(3, 4), 1 - prior.expand(3, 4))
        (updated[0].square().sum() + updated[1].sum()).backward()
        found.append(prior.grad)
    assert torch.allclose(*found)  # type: ignore[arg-type]


def test_channels_that_do_not_match_are_refused() -> None:
    conv = BalancedConv(FRIENDS, ENEMIES, 4, "sparse")
    with pytest.raises(ValueError, match="same shape"):
        conv(torch.ones(3, 4), torch.ones(2, 4))
    with pytest.raises(ValueError, match="same dtype"):
        conv(torch.ones(3, 4), torch.ones(3, 4, dtype=torch.float64))


def test_no_texts_are_updated_to_no_texts() -> None:
    for path in ("message", "sparse", "dense"):  # torch-sparse cannot
        p, against = BalancedConv(FRIENDS, ENEMIES, 4, path)(*states(0, 4))  # type: ignore[arg-type]
        assert p.shape == against.shape == (0, 4)


def test_without_gradients_the_sparse_path_gives_the_same() -> None:
    conv = BalancedConv(FRIENDS, ENEMIES, 4, "sparse")
    with torch.inference_mode():
        found = conv(*states(3, 4))
    assert torch.equal(torch.stack(found), torch.stack(conv(*states(3, 4))))


def test_some_labels_are_updated_as_if_there_were_no_others() -> None:
    torch.manual_seed(3)
    labels, chosen = 30, torch.tensor([1, 4, 5, 9, 17, 18, 28])
    friends, enemies = (torch.unique(torch.randint(0, labels, (2, 120)), dim=1) for _ in range(2))
    conv = BalancedConv(friends, enemies, labels)
    states = torch.rand(2, 6, len(chosen))
    found = update([conv.among(chosen)], *states)
    whole = torch.zeros(2, 6, labels)
    whole[:, :, chosen] = states
    expected = [part[:, chosen] for part in conv(*whole)]
    assert all(torch.allclose(one, other, atol=1e-6) for one, other in zip(found, expected, strict=True))
    for parameter in conv.parameters():
        one, other = (
            torch.autograd.grad(sum(part.square().sum() for part in parts), parameter, retain_graph=True)[0]
            for parts in (found, expected)
        )
        assert torch.allclose(one, other, atol=1e-5)


def test_whom_labels_hear_from() -> None:
    friends, enemies = torch.tensor([[0, 2, 1], [1, 1, 2]]), torch.tensor([[3], [1]])
    conv = BalancedConv(friends, enemies, 4)
    assert conv.sources(torch.tensor([1])).tolist() == [0, 2, 3]
    assert conv.sources(torch.tensor([0, 3])).tolist() == []
