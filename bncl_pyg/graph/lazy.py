"""A graph that was read but becomes PyG `Data` only where somebody looks at it: who only predicts does not."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from bncl_pyg.graph.parts import GraphParts, neighbours_of, read_parts

if TYPE_CHECKING:
    from bncl_pyg.graph.signed import SignedLabelGraph


class LazyGraph:
    """The graph in a folder, all of it read, whose `SignedLabelGraph` is made when it is first asked for.

    Args:
        parts: what the graph is made from.
    """

    def __init__(self, parts: GraphParts) -> None:
        self.parts = parts

    @classmethod
    def load(cls, path: Path) -> "LazyGraph":
        """Read a folder that `SignedLabelGraph.save` wrote."""
        return cls(read_parts(path))

    @property
    def label_names(self) -> tuple[str, ...]:
        """One a node."""
        return self.parts.label_names

    @cached_property
    def graph(self) -> "SignedLabelGraph":
        """The graph itself."""
        # PyG takes seconds to import.
        from bncl_pyg.graph.signed import SignedLabelGraph

        return SignedLabelGraph.from_pairs(*self.parts)

    def neighbours(self, place: int) -> dict[int, int]:
        """Return a label's friends (1) and enemies (-1)."""
        return neighbours_of(self.parts.pairs, self.parts.sign, place)
