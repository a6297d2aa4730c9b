"""The balanced update layer: friends and enemies speak to both channels of a label."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import Parameter
from torch_geometric.nn import MessagePassing
from torch_geometric.utils import is_sparse, to_edge_index

from bncl_pyg.nn.balanced_update import BalancedUpdate, SparseHood
from bncl_pyg.sparse import ranges, starts_of

Path = Literal["auto", "message", "sparse", "dense", "torch-sparse"]

DENSE_LABELS, DENSE_SHARE, DENSE_LIMIT = 100, 0.45, 4096
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

    Args:
        friends: who is in whose friendly neighbourhood: an edge index (2, edges) from u to v, or, as everywhere in
            PyG, a transposed sparse matrix (torch CSR/CSC/COO or `torch_sparse.SparseTensor`) with a row a target v.
        enemies: the same for the neighbourhood of enemies.
        labels: how many labels there are.
        path: how to compute; the results are the same. `message` is the definition, by gather and scatter; `sparse`
            fused sparse products; `dense` masked matrix products; `torch-sparse` that library's product; `auto`
            chooses `dense` or `sparse` by the number of labels and the density.

    Shapes:
        - **input:** entailment (texts, labels), contradiction (texts, labels)
        - **output:** the same two, updated
    """

    def __init__(self, friends: Any, enemies: Any, labels: int, path: Path = "auto") -> None:
        super().__init__(aggr="add", node_dim=-1)
        self.labels = labels
        self.register_buffer("friends", _canonical(friends, labels), persistent=False)
        self.register_buffer("enemies", _canonical(enemies, labels), persistent=False)
        self.friends: Tensor
        self.enemies: Tensor
        self.path = self._chosen_path() if path == "auto" else path
        # All four in one: an optimizer's step costs more by the number of parameters than by their size.
        self.weight = Parameter(torch.empty(2 * (self.friends.size(1) + self.enemies.size(1))))
        # Found when they are needed first: where only parts of the graph are looked at, the whole never is.
        self._hood: SparseHood | None = None
        self._starts: dict[str, Tensor] = {}
        self._prepare()
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the weights from N(0, 1/labels): Glorot's rule for a (labels × labels) matrix, as the authors do.

        The draws go through the edges in order, so that they do not depend on the path.
        """
        for weight in self.weights():
            torch.nn.init.normal_(weight, std=1 / math.sqrt(self.labels), generator=generator)

    def forward(self, entailment: Tensor, contradiction: Tensor) -> tuple[Tensor, Tensor]:
        """Update both channels."""
        if self.path == "sparse":
            return update([self.whole()], entailment, contradiction)
        of_friends, of_enemies, against_enemies, against_friends = (
            part.relu() for part in self._sums(entailment, contradiction)
        )
        return (
            entailment + of_friends + of_enemies,
            contradiction + against_enemies + against_friends,
        )

    def sources(self, targets: Tensor) -> Tensor:
        """Return whom some labels hear from, friends and enemies, with repetitions; int64."""
        return torch.cat([hood[0][self._edges_to(name, targets)] for name, hood in self._hoods()])

    def among(self, chosen: Tensor) -> tuple[SparseHood, Tensor]:
        """Return the subgraph that some labels induce: its neighbourhoods, and its weights one after the other.

        Args:
            chosen: which labels, ascending, (chosen,).
        """
        place = torch.full((self.labels,), -1)
        place[chosen] = torch.arange(len(chosen))
        kept, inside = {}, {}
        for name, hood in self._hoods():
            edges = self._edges_to(name, chosen)
            kept[name] = edges[place[hood[0][edges]] >= 0]
            inside[name] = place[hood[:, kept[name]]]
        edges_of = (kept[name] for name in ("friends", "enemies", "enemies", "friends"))
        kept_weights = torch.cat([weight[edges] for weight, edges in zip(self.weights(), edges_of, strict=True)])
        return SparseHood(inside["friends"], inside["enemies"], len(chosen)), kept_weights

    def _hoods(self) -> tuple[tuple[str, Tensor], tuple[str, Tensor]]:
        return ("friends", self.friends), ("enemies", self.enemies)

    def _edges_to(self, name: str, targets: Tensor) -> Tensor:
        """Return the edges that lead to some labels, in their order."""
        if name not in self._starts:
            self._starts[name] = starts_of(self.get_buffer(name)[1], self.labels)
        firsts = self._starts[name][targets]
        return ranges(firsts, self._starts[name][targets + 1] - firsts)

    def whole(self) -> tuple[SparseHood, Tensor]:
        """Return all neighbourhoods, for the path `sparse`, and all weights."""
        if self._hood is None:
            self._hood = SparseHood(self.friends, self.enemies, self.labels)
        return self._hood, self.weight

    def message(self, x_j: Tensor, weight: Tensor) -> Tensor:
        """What u says to v: its state times the weight of the edge."""
        return weight * x_j

    def message_and_aggregate(self, edge_index: Any, x: Tensor, weight: Tensor) -> Tensor:
        """Say and sum at once, for a `torch_sparse.SparseTensor`."""
        from torch_sparse import matmul

        product: Tensor = matmul(edge_index.set_value(weight, layout="coo"), x.t().contiguous())
        return product.t()

    def _sums(self, entailment: Tensor, contradiction: Tensor) -> tuple[Tensor, ...]:
        """Return the four weighted sums before the ReLU, in the order of `weights`; each (texts, labels)."""
        if self.path == "dense":
            return self._dense_sums(entailment, contradiction)
        friends, enemies = self._adjacencies if self.path == "torch-sparse" else (self.friends, self.enemies)
        of_friends, of_enemies, against_enemies, against_friends = self.weights()
        return (
            self.propagate(friends, x=entailment, weight=of_friends),
            self.propagate(enemies, x=contradiction, weight=of_enemies),
            self.propagate(enemies, x=entailment, weight=against_enemies),
            self.propagate(friends, x=contradiction, weight=against_friends),
        )

    def _dense_sums(self, entailment: Tensor, contradiction: Tensor) -> tuple[Tensor, ...]:
        matrices = entailment.new_zeros(4 * self.labels**2).index_copy(0, self._flat, self.weight)
        states = torch.stack([entailment, contradiction, entailment, contradiction])
        return torch.bmm(states, matrices.view(4, self.labels, self.labels)).unbind()

    def weights(self) -> tuple[Tensor, ...]:
        """Return W⁺ (friends' entailment), W̄⁻ (enemies' contradiction), W⁻ (enemies' entailment), W̄⁺ (friends')."""
        friends, enemies = self.friends.size(1), self.enemies.size(1)
        parts: tuple[Tensor, ...] = self.weight.split([friends, enemies, enemies, friends])
        return parts

    def _chosen_path(self) -> Path:
        share = (self.friends.size(1) + self.enemies.size(1)) / (2 * self.labels**2)
        is_small = self.labels <= DENSE_LABELS
        return "dense" if is_small or (share >= DENSE_SHARE and self.labels <= DENSE_LIMIT) else "sparse"

    def _prepare(self) -> None:
        hoods = (self.friends, self.enemies, self.enemies, self.friends)
        if self.path == "dense":
            parts = [number * self.labels**2 + hood[0] * self.labels + hood[1] for number, hood in enumerate(hoods)]
            self.register_buffer("_flat", torch.cat(parts), persistent=False)
            self._flat: Tensor
        elif self.path == "torch-sparse":
            from torch_sparse import SparseTensor

            size = (self.labels, self.labels)
            self._adjacencies = tuple(
                SparseTensor(row=hood[1], col=hood[0], sparse_sizes=size) for hood in (self.friends, self.enemies)
            )

    def __repr__(self) -> str:
        edges = f"friends={self.friends.size(1)}, enemies={self.enemies.size(1)}"
        return f"{self.__class__.__name__}(labels={self.labels}, {edges}, path='{self.path}')"


def update(
    layers: Sequence[tuple[SparseHood, Tensor]], entailment: Tensor, contradiction: Tensor
) -> tuple[Tensor, Tensor]:
    """Update both channels by layers (see `BalancedConv.whole`), one after the other, in one fused pass."""
    for what in ("shape", "dtype"):
        if getattr(entailment, what) != getattr(contradiction, what):
            raise ValueError(f"Both channels must have the same {what}.")
    hoods, weights = zip(*layers, strict=True)
    updated: tuple[Tensor, Tensor] = BalancedUpdate.apply(  # type: ignore[no-untyped-call]
        entailment, contradiction, hoods, torch.is_grad_enabled(), *weights
    )
    return updated


def _canonical(adjacency: Any, labels: int) -> Tensor:
    """Return an edge index sorted by target, then source, whatever the representation."""
    if not isinstance(adjacency, Tensor) or is_sparse(adjacency):
        if tuple(adjacency.sparse_sizes() if not isinstance(adjacency, Tensor) else adjacency.shape) != (
            labels,
            labels,
        ):
            raise ValueError(f"A sparse neighbourhood must have shape {(labels, labels)}.")
        if isinstance(adjacency, Tensor):
            edge_index = to_edge_index(adjacency)[0].flip(0)
        else:
            targets, sources, _ = adjacency.coo()
            edge_index = torch.stack([sources, targets])
    else:
        edge_index = adjacency
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise ValueError(f"An edge index must have shape (2, edges), but has {tuple(edge_index.shape)}.")
    if edge_index.numel() and not 0 <= int(edge_index.min()) <= int(edge_index.max()) < labels:
        raise ValueError(f"An edge index over {labels} labels must hold numbers from 0 to {labels - 1}.")
    key, _ = torch.sort(edge_index[1] * labels + edge_index[0])
    if bool((key[1:] == key[:-1]).any()):
        raise ValueError("A neighbourhood must name each edge once.")
    return torch.stack([key % labels, key // labels])
