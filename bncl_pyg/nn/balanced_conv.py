"""The balanced update layer: friends and enemies send messages to both channels of a label."""

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import Parameter
from torch_geometric.nn import MessagePassing

from bncl_pyg.graph import Neighbourhood, edge_index_of, num_nodes_of
from bncl_pyg.nn.fused_update import DenseNeighbourhood, FusedNeighbourhood, SparseNeighbourhood, fused_update
from bncl_pyg.sparse import ranges, starts_of

Backend = Literal["auto", "message", "sparse", "dense", "torch-sparse"]
FUSED = ("sparse", "dense")
"""The backends that `fused_update` computes."""

DENSE_LABELS, DENSE_SHARE, DENSE_LIMIT = 100, 0.35, 4096
"""Dense products win up to the first number of labels, and above the second share of all pairs (the mean of both
signs) up to the third number (benchmarks/kernels.py measures it); beyond, no (labels × labels) matrix is made."""


class BalancedConv(MessagePassing):
    r"""The update layer of `"Substituting Data Annotation with Balanced Updates and Collective Loss in Multi-label
    Text Classification" (CoLLAs 2023)`, with one learned weight an edge, sign and channel.

    .. math::
        h_v &\leftarrow h_v + \mathrm{ReLU}\Big(\sum_{u \in N_v^+} W^+_{uv} h_u\Big)
            + \mathrm{ReLU}\Big(\sum_{u \in N_v^-} \overline{W}^-_{uv} \bar{h}_u\Big) \\
        \bar{h}_v &\leftarrow \bar{h}_v + \mathrm{ReLU}\Big(\sum_{u \in N_v^-} W^-_{uv} h_u\Big)
            + \mathrm{ReLU}\Big(\sum_{u \in N_v^+} \overline{W}^+_{uv} \bar{h}_u\Big)

    where :math:`h` is entailment and :math:`\bar{h}` contradiction. Non-negative states stay non-negative.

    .. code-block:: python

        first, second = balanced_neighbourhoods(graph, hops=2)
        layer = BalancedConv(second)
        layer = BalancedConv(pos_edge_index, neg_edge_index, num_labels=57)
        entailment, contradiction = layer(entailment, contradiction)

    Args:
        friends: one hop's `Neighbourhood`, which has the enemies too; or who is in whose friendly neighbourhood: an
            edge index (2, edges) from u to v, PyG's `EdgeIndex`, or, as everywhere in PyG, a transposed sparse matrix
            (torch CSR/CSC/COO or `torch_sparse.SparseTensor`) with a row a target v.
        enemies: the same for the neighbourhood of enemies.
        num_labels: how many labels there are; may be left out where a neighbourhood or a sparse size says it.
        backend: how to compute; the results are the same. `message` is the definition, by gather and scatter; `sparse`
            fused sparse products; `dense` masked matrix products; `torch-sparse` that library's product; `auto`
            chooses `dense` or `sparse` by the number of labels and the density.

    Shapes:
        - **input:** entailment (texts, labels), contradiction (texts, labels)
        - **output:** the same two, updated
    """

    friends: Tensor
    enemies: Tensor

    def __init__(
        self, friends: Any, enemies: Any = None, num_labels: int | None = None, backend: Backend = "auto"
    ) -> None:
        super().__init__(aggr="add", node_dim=-1)
        if isinstance(friends, Neighbourhood):
            num_labels = friends.num_labels if num_labels is None else num_labels
            friends, enemies = friends.edge_indices()
        self.num_labels = _number_of_labels(friends, enemies) if num_labels is None else num_labels
        self.register_buffer("friends", _sorted_by_target(friends, self.num_labels), persistent=False)
        self.register_buffer("enemies", _sorted_by_target(enemies, self.num_labels), persistent=False)
        self.backend = self._fastest_backend() if backend == "auto" else backend
        # All four in one: an optimizer's step costs more by the number of parameters than by their size.
        self.weight = Parameter(torch.empty(2 * (self.friends.size(1) + self.enemies.size(1))))
        # Made when they are needed first: where only parts of the graph are looked at, the whole never is.
        self._fused: FusedNeighbourhood | None = None
        self._adjacencies: tuple[Any, Any] | None = None
        for name in ("friends", "enemies"):
            self.register_buffer(f"_{name}_starts", None, persistent=False)
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the weights from N(0, 1/labels): Glorot's rule for a (labels × labels) matrix, as the authors do.

        The draws go through the edges in order, so that they do not depend on the backend.
        """
        for weight in self.weights():
            torch.nn.init.normal_(weight, std=1 / math.sqrt(self.num_labels), generator=generator)

    def forward(self, entailment: Tensor, contradiction: Tensor) -> tuple[Tensor, Tensor]:
        """Update both channels."""
        if self.is_fused:
            return fused_update([self.full_graph()], entailment, contradiction)
        of_friends, of_enemies, against_enemies, against_friends = (
            part.relu() for part in self._sums(entailment, contradiction)
        )
        return (
            entailment + of_friends + of_enemies,
            contradiction + against_enemies + against_friends,
        )

    @property
    def is_fused(self) -> bool:
        """Whether `fused_update` computes the layer, alone or with others."""
        return self.backend in FUSED

    def sources(self, targets: Tensor) -> Tensor:
        """Return the friends and enemies of some labels, with repetitions; int64."""
        return torch.cat([self.get_buffer(name)[0][self._edges_to(name, targets)] for name in ("friends", "enemies")])

    def full_graph(self) -> tuple[FusedNeighbourhood, Tensor]:
        """Return all neighbourhoods, for `fused_update`, and all weights."""
        if self._fused is None:
            kind = DenseNeighbourhood if self.backend == "dense" else SparseNeighbourhood
            self._fused = kind(self.friends, self.enemies, self.num_labels)
        return self._fused, self.weight

    def subgraph(self, chosen: Tensor) -> tuple[SparseNeighbourhood, Tensor]:
        """Return the same of the subgraph that some labels induce.

        Args:
            chosen: which labels, ascending, (chosen,).
        """
        place = torch.full((self.num_labels,), -1, device=chosen.device)
        place[chosen] = torch.arange(len(chosen), device=chosen.device)
        kept, inside = {}, {}
        for name in ("friends", "enemies"):
            edge_index, edges = self.get_buffer(name), self._edges_to(name, chosen)
            kept[name] = edges[place[edge_index[0][edges]] >= 0]
            inside[name] = place[edge_index[:, kept[name]]]
        edges_of = (kept[name] for name in ("friends", "enemies", "enemies", "friends"))
        kept_weights = torch.cat([weight[edges] for weight, edges in zip(self.weights(), edges_of, strict=True)])
        return SparseNeighbourhood(inside["friends"], inside["enemies"], len(chosen)), kept_weights

    def _edges_to(self, name: str, targets: Tensor) -> Tensor:
        """Return the edges that lead to some labels, in their order."""
        starts: Tensor | None = getattr(self, f"_{name}_starts")
        if starts is None:
            starts = starts_of(self.get_buffer(name)[1], self.num_labels)
            setattr(self, f"_{name}_starts", starts)
        firsts = starts[targets]
        return ranges(firsts, starts[targets + 1] - firsts)

    def message(self, x_j: Tensor, weight: Tensor) -> Tensor:
        """Return the message from u to v: u's state times the weight of the edge."""
        return weight * x_j

    def message_and_aggregate(self, edge_index: Any, x: Tensor, weight: Tensor) -> Tensor:
        """Send and sum messages at once, for a `torch_sparse.SparseTensor`."""
        from torch_sparse import matmul

        product: Tensor = matmul(edge_index.set_value(weight, layout="coo"), x.t().contiguous())
        return product.t()

    def _sums(self, entailment: Tensor, contradiction: Tensor) -> tuple[Tensor, ...]:
        """Return the four weighted sums before the ReLU, in the order of `weights`; each (texts, labels)."""
        is_torch_sparse = self.backend == "torch-sparse"
        friends, enemies = self._sparse_tensors() if is_torch_sparse else (self.friends, self.enemies)
        of_friends, of_enemies, against_enemies, against_friends = self.weights()
        return (
            self.propagate(friends, x=entailment, weight=of_friends),
            self.propagate(enemies, x=contradiction, weight=of_enemies),
            self.propagate(enemies, x=entailment, weight=against_enemies),
            self.propagate(friends, x=contradiction, weight=against_friends),
        )

    def weights(self) -> tuple[Tensor, ...]:
        """Return W⁺ (friends' entailment), W̄⁻ (enemies' contradiction), W⁻ (enemies' entailment), W̄⁺ (friends')."""
        friends, enemies = self.friends.size(1), self.enemies.size(1)
        parts: tuple[Tensor, ...] = self.weight.split([friends, enemies, enemies, friends])
        return parts

    def _fastest_backend(self) -> Backend:
        share = (self.friends.size(1) + self.enemies.size(1)) / (2 * self.num_labels**2)
        is_small = self.num_labels <= DENSE_LABELS
        return "dense" if is_small or (share >= DENSE_SHARE and self.num_labels <= DENSE_LIMIT) else "sparse"

    def _sparse_tensors(self) -> tuple[Any, Any]:
        """Return both neighbourhoods for the backend `torch-sparse`."""
        if self._adjacencies is None:
            from torch_sparse import SparseTensor

            size = (self.num_labels, self.num_labels)
            friends, enemies = (
                SparseTensor(row=edges[1], col=edges[0], sparse_sizes=size) for edges in (self.friends, self.enemies)
            )
            self._adjacencies = friends, enemies
        return self._adjacencies

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "BalancedConv":
        # torch-sparse's matrices are no tensors that could be moved: they are made anew where the edges are then.
        self._adjacencies = None
        return super()._apply(fn, recurse)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        edges = f"friends={self.friends.size(1)}, enemies={self.enemies.size(1)}"
        return f"{self.__class__.__name__}(num_labels={self.num_labels}, {edges}, backend='{self.backend}')"


def _number_of_labels(friends: Any, enemies: Any) -> int:
    if isinstance(friends, (list, tuple)):
        raise ValueError("A layer takes the neighbourhoods of one hop; BNCL takes those of all hops.")
    if enemies is None:
        raise ValueError("A layer takes friends and enemies, or a Neighbourhood, which has both.")
    number = num_nodes_of(friends, enemies)
    if number is None:
        raise ValueError("Edge indices do not say how many labels there are: give num_labels.")
    return number


def _sorted_by_target(adjacency: Any, num_labels: int) -> Tensor:
    """Return an edge index sorted by target, then source, whatever the representation."""
    edge_index = edge_index_of(adjacency, num_labels)
    key, _ = torch.sort(edge_index[1] * num_labels + edge_index[0])
    if bool((key[1:] == key[:-1]).any()):
        raise ValueError("A neighbourhood must name each edge once.")
    return torch.stack([key % num_labels, key // num_labels])
