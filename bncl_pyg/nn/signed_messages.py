"""Messages along the signed label graph, with a weight of either sign an edge (see training/message_weights.py)."""

from torch import Tensor
from torch_geometric.nn import MessagePassing

from bncl_pyg.nn.weighted_messages import WeightedMessages


class SignedMessages(WeightedMessages, MessagePassing):
    r"""The weighted messages of a label's friends and enemies: :math:`m_v = \sum_{u ∈ N_v} w_{uv} z_u`.

    Unlike in `BalancedConv`, a friend may turn out to be a rival: labels that mean nearly the same often exclude each
    other. Training begins with all weights at 0, so that all messages are 0.

    .. code-block:: python

        edge_index, are_friends = graph.message_edges()
        messages = SignedMessages(edge_index, graph.num_nodes)(z)

    Args:
        edge_index: from u to v, (2, edges), sorted by target, then source, each edge once.
        labels: how many.

    Shapes:
        - **input:** states (texts, labels)
        - **output:** messages (texts, labels)
    """

    def __init__(self, edge_index: Tensor, labels: int) -> None:
        super().__init__(edge_index, labels, aggr="sum", node_dim=1)

    def definition(self, states: Tensor) -> Tensor:
        """Return the same by gathering and scattering: the readable definition."""
        sums: Tensor = self.propagate(self.edge_index, x=states, size=(self.labels, self.labels))  # type: ignore[operator]
        return sums

    def message(self, x_j: Tensor) -> Tensor:
        """Weigh the states of the edges' sources; (texts, edges)."""
        return self.weight * x_j
