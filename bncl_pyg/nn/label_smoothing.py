r"""Labels learn from their neighbours: weights of labels, smoothed along the balanced walks of the signed label graph.

.. math:: K = S^{-1/2} (I + N + N^2) S^{-1/2}, \quad
    w_l ← (1 - s_l) w_l + s_l \sum_u w_u K_{ul}, \quad s_l = \frac{c}{c + n_l}

N is the signed adjacency, normalised by degrees; the terms of the sum are the balanced walks of 0, 1 and 2 hops: what a
friend of a friend or an enemy of an enemy learned is added, what an enemy learned is taken off. S makes the diagonal 1.
A label with n texts of its own listens as if the graph were worth c texts: rare labels do, common ones hardly.
"""

import torch
from torch import Tensor

from bncl_pyg.sparse import SparsePattern


class LabelSmoothing:
    """The kernel K of a signed label graph, as two sparse products.

    Args:
        edges: from u to v, both directions of each, (2, edges), sorted by v.
        are_friends: whether each joins friends, (edges,).
        labels: how many there are.

    Shapes:
        - **input:** weights (dimensions, labels), texts of each label (labels,)
        - **output:** weights (dimensions, labels)
    """

    def __init__(self, edges: Tensor, are_friends: Tensor, labels: int) -> None:
        self.labels = labels
        degree = torch.bincount(edges[1], minlength=labels).float().clamp_min(1)
        signs = are_friends.float() * 2 - 1
        values = signs / (degree[edges[0]] * degree[edges[1]]).sqrt()
        self._pattern = SparsePattern(edges[1], edges[0], (labels, labels), by_columns=False)
        self._values = values
        # N is symmetric, so that the diagonal of N² is the sum of squares of a row.
        squares = torch.zeros(labels).index_add_(0, edges[1], values.square())
        self._scale = (1 + squares).rsqrt()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(labels={self.labels}, edges={len(self._values)})"

    def kernel(self, weights: Tensor) -> Tensor:
        """Return weights @ K."""
        # Sparse products take the labels first.
        scaled = (weights * self._scale).t().contiguous()
        once = self._pattern.product(self._values, scaled)
        twice = self._pattern.product(self._values, once)
        return (scaled + once + twice).t() * self._scale

    def __call__(self, weights: Tensor, texts: Tensor, graph_texts: float) -> Tensor:
        """Return smoothed weights.

        Args:
            weights: (dimensions, labels).
            texts: how many each label has, (labels,).
            graph_texts: how many texts the graph is worth, c.
        """
        share = graph_texts / (graph_texts + texts)
        return torch.lerp(weights, self.kernel(weights), share)
