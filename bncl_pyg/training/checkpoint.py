"""Training that is stopped goes on after the last whole epoch: what is kept, and what it depends on."""

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save_file
from scipy.sparse import csr_array
from torch import Tensor

from bncl_pyg.errors import InputError
from bncl_pyg.features import Features, row_blocks
from bncl_pyg.persistence import clear_leftovers, write_file
from bncl_pyg.priors import Priors
from bncl_pyg.ranks import ALONE, Ranks
from bncl_pyg.training.annotated import Annotated
from bncl_pyg.training.recipe import TrainingStep

if TYPE_CHECKING:
    from bncl_pyg.graph import SignedLabelGraph

logger = logging.getLogger(__name__)

CHECKPOINT = "checkpoint"

FORMAT = "bncl-checkpoint-4"


class Checkpoint:
    """A file beside the model to come, in which training leaves off and goes on.

    Args:
        path: the file; it is replaced as a whole after every epoch.
        fingerprint: what the training depends on; a checkpoint with another one is refused.
        ranks: where several processes train, these: the first writes and reads the file, and tells the others.
    """

    def __init__(self, path: Path, fingerprint: dict[str, Any], ranks: Ranks = ALONE) -> None:
        self.path, self.fingerprint, self.ranks = path, fingerprint, ranks

    def save(self, tensors: Mapping[str, Tensor], log: Sequence[TrainingStep]) -> None:
        """Keep weights, optimizer and log."""
        if self.ranks.rank:
            return
        metadata = {
            "format": FORMAT,
            "fingerprint": json.dumps(self.fingerprint),
            "log": json.dumps([asdict(entry) for entry in log]),
        }
        metadata["sha256"] = _content_digest(tensors, metadata)
        write_file(self.path, lambda temporary: save_file(dict(tensors), temporary, metadata=metadata))

    def load(self) -> tuple[dict[str, Tensor], list[TrainingStep]] | None:
        """Return what the last run kept, or `None` where there is nothing."""
        if not self.ranks.rank:
            clear_leftovers(self.path)
        content = self._content()
        if content is None:
            return None
        tensors, metadata = self._read(content)
        self._check(json.loads(metadata["fingerprint"]))
        steps = [TrainingStep(**entry) for entry in json.loads(metadata["log"])]
        if steps:
            logger.info("Going on after %s %d of %d.", steps[-1].what, steps[-1].number, steps[-1].of)
        return tensors, steps

    def _content(self) -> bytes | None:
        """Return the file as the first process sees it; `None` where there is none."""
        is_here = not self.ranks.rank and self.path.exists()
        own = np.frombuffer(self.path.read_bytes() if is_here else b"", dtype=np.uint8)
        length, is_there = self.ranks.total(len(own), is_here)
        if not is_there:
            return None
        whole = torch.zeros(int(length), dtype=torch.uint8)
        whole[: len(own)] = torch.from_numpy(own.copy())
        return self.ranks.of_first(whole, CHECKPOINT).numpy().tobytes()

    def _read(self, content: bytes) -> tuple[dict[str, Tensor], dict[str, str]]:
        try:
            tensors = load(content)
            # A safetensors file begins with the length of its header, and that with 8 bytes.
            header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
            metadata: dict[str, str] = header.get("__metadata__", {})
        except SafetensorError as error:
            raise InputError(f"{self.path} is not a readable checkpoint ({error}).") from None
        if metadata.get("format") != FORMAT:
            raise InputError(f"{self.path} is not a checkpoint of this release; remove it to start anew.")
        if metadata.pop("sha256", None) != _content_digest(tensors, metadata):
            raise InputError(f"{self.path} is damaged: it is not what the last epoch left; remove it to start anew.")
        return tensors, metadata

    def _check(self, kept: dict[str, Any]) -> None:
        keys = self.fingerprint.keys() | kept.keys()
        changed = sorted(key for key in keys if self.fingerprint.get(key) != kept.get(key))
        if changed:
            raise InputError(
                f"{self.path} holds an unfinished training with another {', '.join(changed)}; "
                f"remove it to start anew, or use another name for the model."
            )


def fingerprint(
    features: Features,
    graph: "SignedLabelGraph",
    priors: Priors,
    annotated: Annotated | None,
    recipe: dict[str, Any],
    seed: int,
) -> dict[str, Any]:
    """Return what a training depends on, as JSON can hold it."""
    candidates = [] if features.candidates is None else [features.candidates]
    vectors = [torch.from_numpy(graph.label_vectors.vectors)] if "label_vectors" in graph else []
    of_annotated = [] if annotated is None else [torch.from_numpy(annotated.rows), *_entries(annotated.labels)]
    if annotated is not None and annotated.known is not None:
        of_annotated += _entries(annotated.known)
    return {
        "features": _checksum(features, *candidates) + features.labels.digest(),
        "graph": _digest(graph.edge_index, graph.edge_sign, *vectors)
        + f"-{graph.hops}-{graph.provenance.get('max_neighbours')}",
        "priors": _digest(torch.from_numpy(priors.shares)) + f"-{priors.cardinality!r}",
        "annotated texts": _digest(*of_annotated),
        "recipe": recipe,
        "seed": seed,
    }


def _checksum(features: Features, *candidates: Tensor) -> str:
    """Return a checksum of scores and candidates that does not depend on which process holds which texts.

    The bits of every number, multiplied by what depends on its row and its column, summed modulo 2⁶⁴: not for enemies.
    """
    first, _ = features.ranks.span(len(features))
    of_rows = _mixed(torch.arange(first, first + len(features)))
    width = features.entailment.shape[1]
    total = torch.zeros((), dtype=torch.int64)
    for number, values in enumerate((features.entailment, features.contradiction, *candidates), start=1):
        of_columns = _mixed(torch.arange(width) + number * width)
        for rows in row_blocks(values):
            bits = values[rows].contiguous()
            bits = bits.view(torch.int32).long() if bits.is_floating_point() else bits
            total += ((bits * of_columns).sum(dim=1) * of_rows[rows]).sum()
    texts = int(features.ranks.total(len(features))[0])
    return f"{texts}-{width}-{int(features.ranks.sum(total)):x}-"


def _mixed(numbers: Tensor) -> Tensor:
    """Return odd numbers that look drawn by chance, the same for the same numbers (the steps of SplitMix64)."""
    mixed = (numbers + 1) * -0x61C8864680B583EB
    for shift, factor in ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15), (31, 1)):
        mixed = (mixed ^ ((mixed >> shift) & (2 ** (64 - shift) - 1))) * factor
    return mixed | 1


def _content_digest(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    names = sorted(tensors)
    return hashlib.sha256(
        json.dumps([_digest(*(tensors[name].cpu() for name in names)), names, sorted(metadata.items())]).encode()
    ).hexdigest()


def _entries(matrix: csr_array) -> list[Tensor]:
    ordered = csr_array(matrix, copy=True)
    ordered.sort_indices()
    return [torch.from_numpy(part.astype(np.int64)) for part in (ordered.indptr, ordered.indices)]


def _digest(*tensors: Tensor) -> str:
    total = hashlib.sha256()
    for tensor in tensors:
        total.update(str(tuple(tensor.shape)).encode())
        total.update(tensor.contiguous().numpy().tobytes())
    return total.hexdigest()
