"""From two embeddings to entailment, neutral and contradiction: small heads over a sentence encoder.

A head reads unit vectors u of texts and v of hypotheses. It scores all pairs in blocks, so that memory stays the same
however many texts and labels there are; what depends on one side alone is computed once a side.

    HEAD.safetensors      the parameters; its one metadata entry holds kind, sizes, the encoder's hash and the training
"""

import hashlib
import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.functional import dropout, relu

from bncl_pyg.errors import InputError
from bncl_pyg.persistence import sha256_of, write_file
from bncl_pyg.scorers.pretrained import EMBEDDED_SHA256

FILE = "head.safetensors"
"""The name of a head's file inside a folder."""
EMBEDDED_FILE = Path(__file__).parent / "weights" / "embedded-head.safetensors"
EMBEDDED_HEAD_SHA256 = "9dd9fc129ec0f683c78fb70eb6aed2b67fb360120b5ea3d3692fc7c1ae3bd6ae"
"""Of the shipped file, as `benchmarks.train_head` wrote it."""
ENTRY = "bncl-head"
COSINE_SCALE, COSINE_MIDDLE = 20.0, 0.38
"""For the cosine of an encoder that no head was trained for. 20 is the scale that sentence encoders are usually trained
with; from 0.38 on, saying "yes" is best on the training split of stackex-cooking with the embedded encoder."""
GATHERED_PAIRS = 1 << 14
"""How many candidates are scored at once: each takes a copy of its hypothesis' vector."""


class Head(nn.Module, ABC):
    """Natural language inference over embeddings.

    Attributes:
        kind: the name of this sort of head in its file.
        block_pairs: how many of all pairs are scored at once; it bounds the memory and changes no result.
        encoder_sha256: the weights of the encoder whose embeddings the head reads.
        facts: what it was trained on and how well it did, as JSON can hold it.
    """

    kind: ClassVar[str]
    block_pairs: ClassVar[int]

    def __init__(self) -> None:
        super().__init__()
        self.encoder_sha256 = EMBEDDED_SHA256
        self.facts: dict[str, Any] = {}
        self._digested: tuple[Any, str] | None = None

    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """Return the arguments that make a head of the same shape."""

    @abstractmethod
    def sides(self, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Return what `all_logits` and `logits_of` need of each text and of each hypothesis, computed once a side."""

    @abstractmethod
    def all_logits(self, u: Tensor, v: Tensor) -> Tensor:
        """Return the logits of all pairs of two blocks of `sides`, (texts, hypotheses, 3)."""

    @abstractmethod
    def logits_of(self, u: Tensor, v: Tensor) -> Tensor:
        """Return the logits of matching rows of two blocks of `sides`, (…, 3); leading dimensions broadcast."""

    def config(self) -> dict[str, Any]:
        """Return what decides the scores, as JSON can hold it."""
        return {"head_sha256": self.digest()}

    def digest(self) -> str:
        """Return a hash of the kind and of every parameter: heads that score alike have the same."""
        state = sorted(self.state_dict().items())
        # Every prediction asks. Torch counts the changes of a tensor, unless it was made in inference mode.
        counted = not any(tensor.is_inference() for _, tensor in state)
        versions = tuple((tensor.data_ptr(), tensor._version) for _, tensor in state) if counted else None
        if versions is None or self._digested is None or self._digested[0] != versions:
            total = hashlib.sha256(json.dumps([self.kind, self.sizes()], sort_keys=True).encode())
            for name, tensor in state:
                total.update(name.encode() + tensor.numpy().astype("<f4").tobytes())
            self._digested = versions, total.hexdigest()
        return self._digested[1]

    def logits(self, u: Tensor, v: Tensor) -> Tensor:
        """Return entailment, neutral and contradiction of matching rows as logits, (pairs, 3), with gradients."""
        return self.logits_of(*self.sides(u, v))

    @torch.no_grad()
    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """Score all pairs.

        Args:
            u: unit vectors of the texts, (texts, dimensions).
            v: unit vectors of the hypotheses, (hypotheses, dimensions).

        Returns:
            float32, (2, texts, hypotheses): entailment, then contradiction.
        """
        scores = torch.empty(2, len(u), len(v))
        u, v = self._checked_sides(u, v)
        width = max(min(len(v), self.block_pairs), 1)
        height = self.block_pairs // width
        for top in range(0, len(u), height):
            for left in range(0, len(v), width):
                texts, hypotheses = slice(top, top + height), slice(left, left + width)
                scores[:, texts, hypotheses] = _two_shares(self.all_logits(u[texts], v[hypotheses]))
        return scores

    @torch.no_grad()
    def pairs(self, u: Tensor, v: Tensor, pairs: Tensor) -> Tensor:
        """Score given candidates.

        Args:
            u: unit vectors of the texts, (texts, dimensions).
            v: unit vectors of the hypotheses, (hypotheses, dimensions).
            pairs: for each text the hypotheses to look at, int64, (texts, candidates).

        Returns:
            float32, (2, texts, candidates): entailment, then contradiction.
        """
        if pairs.dim() != 2 or len(pairs) != len(u):
            raise InputError(f"The candidates need a row for each of the {len(u)} texts, but are {tuple(pairs.shape)}.")
        scores = torch.empty(2, *pairs.shape)
        u, v = self._checked_sides(u, v)
        height = max(min(GATHERED_PAIRS, self.block_pairs) // max(pairs.shape[1], 1), 1)
        for top in range(0, len(u), height):
            texts = slice(top, top + height)
            scores[:, texts] = _two_shares(self.logits_of(u[texts].unsqueeze(1), v[pairs[texts]]))
        return scores

    def _checked_sides(self, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        needed = self.sizes().get("dimensions", v.shape[-1])
        if u.shape[-1] != needed or v.shape[-1] != needed:
            raise InputError(
                f"The head reads embeddings of {needed} dimensions, but the texts have {u.shape[-1]} and the "
                f"hypotheses {v.shape[-1]}."
            )
        return self.sides(u, v)


class CosineHead(Head):
    """Three logits from the cosine c alone: (a·c + α, 0, β − b·c) with a, b > 0.

    The slopes are kept as logarithms: entailment can only rise and contradiction only fall with the cosine, so the
    ranking is the cosine's.
    """

    kind = "cosine"
    block_pairs = 1 << 21

    def __init__(self) -> None:
        super().__init__()
        self.log_slopes = nn.Parameter(torch.zeros(2))
        self.offsets = nn.Parameter(torch.zeros(2))
        self.chosen: dict[str, float] = {}
        """The numbers of a head that was not trained but made by `symmetric`."""

    @classmethod
    def symmetric(cls, scale: float = COSINE_SCALE, middle: float = COSINE_MIDDLE) -> "CosineHead":
        """Make the head (z, 0, −z) with z = scale · (c − middle)."""
        if not scale > 0:
            raise InputError(f"The cosine's scale must be positive, but is {scale}.")
        head = cls()
        with torch.no_grad():
            head.log_slopes.fill_(scale).log_()
            head.offsets.copy_(torch.tensor([-scale * middle, scale * middle]))
        head.chosen = {"cosine_scale": scale, "cosine_middle": middle}
        return head

    def config(self) -> dict[str, Any]:
        """Return what decides the scores."""
        return {**super().config(), **self.chosen}

    def sizes(self) -> dict[str, int]:
        """Return nothing: embeddings of any size have a cosine."""
        return {}

    def sides(self, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Return both as they are."""
        return u, v

    def all_logits(self, u: Tensor, v: Tensor) -> Tensor:
        """Return the logits of all pairs from one matrix product."""
        return self.of_cosines(u @ v.t())

    def logits_of(self, u: Tensor, v: Tensor) -> Tensor:
        """Return the logits of matching rows."""
        return self.of_cosines((u * v).sum(dim=-1))

    def of_cosines(self, cosines: Tensor) -> Tensor:
        """Return the logits that belong to cosines, (…, 3)."""
        slopes = self.log_slopes.exp()
        entailment = slopes[0] * cosines + self.offsets[0]
        contradiction = self.offsets[1] - slopes[1] * cosines
        return torch.stack([entailment, torch.zeros_like(entailment), contradiction], dim=-1)


class NetworkHead(Head):
    """One hidden layer over [u, v, |u − v|, u * v].

    The hidden layer is linear before its ReLU, so the parts of u and of v are computed once a text and once a
    hypothesis; only |u − v| and u * v are formed for each pair, a block at a time.

    Args:
        dimensions: of the embeddings.
        hidden: units of the hidden layer.
    """

    kind = "network"
    block_pairs = 1 << 13
    GAIN: ClassVar[float] = 10.0
    """The entries of a unit vector are small; this brings the inputs to the size that the usual start expects."""
    DROPOUT: ClassVar[float] = 0.3

    def __init__(self, dimensions: int, hidden: int) -> None:
        super().__init__()
        self.dimensions, self.hidden = dimensions, hidden
        # One layer for all four parts, so that it starts as one layer of that width should.
        self.first = nn.Linear(4 * dimensions, hidden)
        self.last = nn.Linear(hidden, 3)

    def sizes(self) -> dict[str, int]:
        """Return the arguments of the constructor."""
        return {"dimensions": self.dimensions, "hidden": self.hidden}

    def sides(self, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Return each vector followed by its share of the hidden layer, (…, dimensions + hidden)."""
        of_u, of_v, _ = self._weights()
        texts = self.GAIN * u @ of_u.t() + self.first.bias
        hypotheses = self.GAIN * v @ of_v.t()
        return torch.cat([u, texts], dim=-1), torch.cat([v, hypotheses], dim=-1)

    def all_logits(self, u: Tensor, v: Tensor) -> Tensor:
        """Return the logits of all pairs of two blocks of `sides`."""
        return self.logits_of(u.unsqueeze(1), v.unsqueeze(0))

    def logits_of(self, u: Tensor, v: Tensor) -> Tensor:
        """Return the logits of matching rows of two blocks of `sides`."""
        sizes = [self.dimensions, self.hidden]
        (u, texts), (v, hypotheses) = u.split(sizes, dim=-1), v.split(sizes, dim=-1)
        of_pair = self._weights()[2]
        joint = torch.cat([(u - v).abs(), u * v], dim=-1)
        state = relu(self.GAIN * joint @ of_pair.t() + texts + hypotheses)
        logits: Tensor = self.last(dropout(state, self.DROPOUT, self.training))
        return logits

    def _weights(self) -> tuple[Tensor, Tensor, Tensor]:
        of_u, of_v, of_pair = self.first.weight.split([self.dimensions, self.dimensions, 2 * self.dimensions], dim=1)
        return of_u, of_v, of_pair


class CorrectedHead(Head):
    """The cosine, corrected: the logits of a `CosineHead` plus those of a `NetworkHead`.

    A sum of logits is a product of two opinions. The cosine carries to any topic; the network knows more about what
    follows from a text, but was trained on less.
    """

    kind = "corrected"
    block_pairs = NetworkHead.block_pairs

    def __init__(self, dimensions: int, hidden: int) -> None:
        super().__init__()
        self.cosine = CosineHead()
        self.network = NetworkHead(dimensions, hidden)

    def sizes(self) -> dict[str, int]:
        """Return the arguments of the constructor."""
        return self.network.sizes()

    def sides(self, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Return the network's sides, which begin with the vectors themselves."""
        return self.network.sides(u, v)

    def all_logits(self, u: Tensor, v: Tensor) -> Tensor:
        """Return the logits of all pairs of two blocks of `sides`."""
        size = self.network.dimensions
        return self.cosine.all_logits(u[:, :size], v[:, :size]) + self.network.all_logits(u, v)

    def logits_of(self, u: Tensor, v: Tensor) -> Tensor:
        """Return the logits of matching rows of two blocks of `sides`."""
        size = self.network.dimensions
        return self.cosine.logits_of(u[..., :size], v[..., :size]) + self.network.logits_of(u, v)


KINDS: dict[str, type[Head]] = {kind.kind: kind for kind in (CosineHead, NetworkHead, CorrectedHead)}


def save_head(head: Head, path: Path) -> None:
    """Write a head as one file, `path` itself if it ends in `.safetensors`, else `head.safetensors` in that folder."""
    description = {
        "version": 1,
        "kind": head.kind,
        "sizes": head.sizes(),
        "encoder_sha256": head.encoder_sha256,
        "facts": head.facts,
    }
    tensors = {name: tensor.detach().contiguous() for name, tensor in head.state_dict().items()}
    # One entry, because several are written in an order that changes from run to run, and the hash with it.
    metadata = {ENTRY: json.dumps(description, sort_keys=True, ensure_ascii=False)}
    write_file(_file(path), lambda temporary: save_file(tensors, temporary, metadata))


def load_head(path: Path) -> Head:
    """Read a head from its file or its folder; whatever is not a whole head of a known kind is refused."""
    file = _file(path)
    if not file.is_file():
        raise InputError(f"{file} does not exist.")
    try:
        with safe_open(file, framework="pt") as opened:
            metadata = opened.metadata() or {}
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118, not a dictionary
    except SafetensorError as error:
        raise InputError(f"{file} is damaged or not a safetensors file ({error}).") from None
    if ENTRY not in metadata:
        raise InputError(f"{file} is a safetensors file, but holds no bncl head.")
    return _head_from(file, metadata[ENTRY], tensors)


def embedded_head() -> Head:
    """Load the head that belongs to the embedded encoder, after checking its file."""
    if not EMBEDDED_FILE.is_file() or sha256_of(EMBEDDED_FILE) != EMBEDDED_HEAD_SHA256:
        raise InputError("The weights of the embedded head are not the known ones; reinstall bncl-pyg.")
    return load_head(EMBEDDED_FILE)


def _head_from(file: Path, entry: str, tensors: dict[str, Tensor]) -> Head:
    try:
        description = json.loads(entry)
        version, kind, sizes = description["version"], description["kind"], description["sizes"]
        encoder, facts = description["encoder_sha256"], description["facts"]
    except (json.JSONDecodeError, TypeError, KeyError):
        raise InputError(f"{file} does not say in full what head it holds.") from None
    if version != 1:
        raise InputError(f"{file} has head format version {version}, but this release reads 1.")
    if kind not in KINDS:
        raise InputError(f"{file} holds a head of kind '{kind}', but this release knows {', '.join(KINDS)}.")
    try:
        # On the meta device nothing is allocated: a file cannot ask for more memory than it brings.
        with torch.device("meta"):
            head = KINDS[kind](**sizes)
    except (TypeError, RuntimeError):
        raise InputError(f"{file} gives sizes {sizes} that make no head of kind '{kind}'.") from None
    expected = {name: tensor.shape for name, tensor in head.state_dict().items()}
    if {name: tensor.shape for name, tensor in tensors.items()} != expected:
        raise InputError(f"{file} does not hold the tensors that a head of kind '{kind}' and sizes {sizes} needs.")
    for name, tensor in tensors.items():
        if tensor.dtype != torch.float32 or not bool(tensor.isfinite().all()):
            raise InputError(f"{file} holds '{name}' with numbers that are not finite float32.")
    head.load_state_dict(tensors, assign=True)
    head.encoder_sha256, head.facts = encoder, facts
    return head.eval()


def _file(path: Path) -> Path:
    return path if path.suffix == ".safetensors" else path / FILE


def _two_shares(logits: Tensor) -> Tensor:
    shares = torch.softmax(logits, dim=-1)
    return torch.stack([shares[..., 0], shares[..., 2]])
