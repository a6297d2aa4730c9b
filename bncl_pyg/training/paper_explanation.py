"""What p − p̄ of the paper's network consists of: the start, and the signed paths that end at the label, hop by hop.

Once it is known which ReLU let something through, the network is linear: p − p̄ is the start q − q̄ and, for each hop,
the weighted states of neighbours, which are their own start and what reached them at earlier hops.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import fsum
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from bncl_pyg.explanation import Account, Contribution, Detail, ExplainedText

if TYPE_CHECKING:
    from bncl_pyg.nn import BNCL, BalancedConv

PATHS, FOLLOWED = 50, 20
"""How many paths of a hop are named, and how many neighbours are followed one hop further back."""
ENTAILMENT, CONTRADICTION = 0, 1
KINDS = (
    ("friends", ENTAILMENT, 1),
    ("enemies", CONTRADICTION, 1),
    ("enemies", ENTAILMENT, -1),
    ("friends", CONTRADICTION, -1),
)
"""What the four sums of a layer are of: whose states, which channel, and whether they speak for the label; in the order
of `BalancedConv.weights`."""


def explain_paper(network: "BNCL", text: ExplainedText, label: int) -> Account:
    """Return what p − p̄ of a label consists of.

    Args:
        network: from q and q̄ to p and p̄.
        text: what is known of the text.
        label: which one.
    """
    return Account(tuple(_Walks(network, text).contributions(label)))


@dataclass(frozen=True)
class _Message:
    """What one neighbour sends to a label at one hop, where the ReLU lets it through.

    Args:
        hop: from 1.
        kind: which of `KINDS`.
        source: the neighbour.
        weight: of the edge.
        value: weight × state, for or against.
    """

    hop: int
    kind: int
    source: int
    weight: float
    value: float


class _Walks:
    """All states of one text, hop by hop."""

    def __init__(self, network: "BNCL", text: ExplainedText) -> None:
        self.text, self.names = text, text.features.labels.names
        filled = text.features.filled()
        start = torch.stack([filled.entailment[0], filled.contradiction[0]]).double()
        self.layers: list[BalancedConv] = list(network.layers)  # type: ignore[arg-type]
        self.states, self.sums = [start], []
        for layer in self.layers:
            sums = _sums(layer, self.states[-1])
            passed = sums.relu()
            self.sums.append(sums)
            self.states.append(self.states[-1] + torch.stack([passed[0] + passed[1], passed[2] + passed[3]]))

    def contributions(self, label: int) -> Iterator[Contribution]:
        q, against = self.states[0][:, label].tolist()
        meaning = (
            f"What the language model says of text and label: entailment {q:.3f} minus contradiction {against:.3f}."
        )
        yield Contribution("start score", q - against, meaning)
        for hop, sums in enumerate(self.sums, start=1):
            value = fsum(sign * max(0.0, float(part[label])) for (_, _, sign), part in zip(KINDS, sums, strict=True))
            meaning = f"What friends and enemies {hop} {'hop' if hop == 1 else 'hops'} away say, by the path it came."
            yield Contribution(f"hop {hop}", value, meaning, tuple(self._paths(hop, label, value)))

    def _messages(self, hop: int, label: int) -> Iterator[_Message]:
        """Yield what reaches a label at a hop, where the ReLU lets it through."""
        layer, states = self.layers[hop - 1], self.states[hop - 1]
        for kind, ((name, channel, sign), weights) in enumerate(zip(KINDS, layer.weights(), strict=True)):
            if float(self.sums[hop - 1][kind, label]) <= 0:
                continue
            edge_index = layer.get_buffer(name).cpu()
            edges = (edge_index[1] == label).nonzero()[:, 0]
            sources, own = edge_index[0][edges], weights.detach().cpu()[edges].double()
            values = sign * own * states[channel][sources]
            for source, weight, value in zip(sources.tolist(), own.tolist(), values.tolist(), strict=True):
                if value:
                    yield _Message(hop, kind, source, weight, value)

    def _paths(self, hop: int, label: int, total: float) -> Iterator[Detail]:
        """Yield the strongest paths that end at a label at a hop, and what all others add."""
        messages = sorted(self._messages(hop, label), key=lambda one: -abs(one.value))
        paths: list[tuple[float, tuple[_Message, ...]]] = []
        for number, message in enumerate(messages):
            if hop == 1 or number >= FOLLOWED:
                paths.append((message.value, (message,)))
            else:
                paths.extend(self._followed(message))
        paths.sort(key=lambda path: -abs(path[0]))
        for value, path in sorted(paths[:PATHS], key=lambda path: -path[0]):
            yield self._detail(value, path, label)
        if len(paths) > PATHS:
            named = fsum(value for value, _ in paths[:PATHS])
            yield Detail(f"{len(paths) - PATHS} weaker paths", total - named)

    def _followed(self, message: _Message) -> Iterator[tuple[float, tuple[_Message, ...]]]:
        """Yield what a message consists of: the neighbour's own start, and what reached it at earlier hops."""
        channel, sign = KINDS[message.kind][1:]
        factor = sign * message.weight
        yield factor * float(self.states[0][channel, message.source]), (message,)
        for earlier in range(1, message.hop):
            for one in self._messages(earlier, message.source):
                towards = ENTAILMENT if KINDS[one.kind][2] > 0 else CONTRADICTION
                if towards == channel:
                    yield factor * KINDS[one.kind][2] * one.value, (one, message)

    def _detail(self, value: float, path: tuple[_Message, ...], label: int) -> Detail:
        places = [*(one.source for one in path), label]
        ends = zip(path, places[1:], strict=True)
        relations = [self._relation(one, target) for one, target in ends]
        first = path[0]
        state = float(self.states[first.hop - 1 if len(path) == 1 else 0][KINDS[first.kind][1], first.source])
        channel = "entailment" if KINDS[first.kind][1] == ENTAILMENT else "contradiction"
        name = " → ".join(self.names[place] for place in places[:-1])
        return Detail(name, value, f"{', which is '.join(relations)}; its {channel} {state:.2f}")

    def _relation(self, message: _Message, target: int) -> str:
        """Return what a neighbour is to a label: a friend, or at the second hop perhaps the enemy of an enemy."""
        sign = 1 if KINDS[message.kind][0] == "friends" else -1
        kind, name = ("friend" if sign > 0 else "enemy"), self.names[target]
        if message.hop == 1:
            return f"{kind} of {name}"
        if message.hop == 2:
            ours, theirs = self._signs(target), self._signs(message.source)
            between = [place for place in ours if theirs.get(place, 0) * ours[place] == sign]
            if between:
                middle = between[0]
                near, far = ("friend" if signs[middle] > 0 else "enemy" for signs in (theirs, ours))
                more = f" (and {len(between) - 1} more of these)" if len(between) > 1 else ""
                return f"{near} of {far} {self.names[middle]}{more}"
        return f"{kind} of {name} at hop {message.hop}"

    @cached_property
    def _known_signs(self) -> dict[int, dict[int, int]]:
        return {}

    def _signs(self, place: int) -> dict[int, int]:
        if place not in self._known_signs:
            self._known_signs[place] = self.text.graph.neighbours(place)
        return self._known_signs[place]


def _sums(layer: "BalancedConv", states: Tensor) -> Tensor:
    """Return the four weighted sums of a layer before the ReLU; (4, labels)."""
    sums = []
    for (name, channel, _), weights in zip(KINDS, layer.weights(), strict=True):
        edge_index = layer.get_buffer(name).cpu()
        sent = weights.detach().cpu().double() * states[channel][edge_index[0]]
        sums.append(torch.zeros_like(states[channel]).index_add(0, edge_index[1], sent))
    return torch.stack(sums)
