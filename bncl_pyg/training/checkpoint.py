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
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from scipy.sparse import csr_array
from torch import Tensor

from bncl_pyg.errors import InputError
from bncl_pyg.features import Features
from bncl_pyg.persistence import clear_leftovers, write_file
from bncl_pyg.priors import Priors
from bncl_pyg.training.annotated import Annotated
from bncl_pyg.training.recipe import TrainingStep

if TYPE_CHECKING:
    from bncl_pyg.graph import SignedLabelGraph

logger = logging.getLogger(__name__)

FORMAT = "bncl-checkpoint-4"


class Checkpoint:
    """A file beside the model to come, in which training leaves off and goes on.

    Args:
        path: the file; it is replaced as a whole after every epoch.
        fingerprint: what the training depends on; a checkpoint with another one is refused.
    """

    def __init__(self, path: Path, fingerprint: dict[str, Any]) -> None:
        self.path, self.fingerprint = path, fingerprint

    def save(self, tensors: Mapping[str, Tensor], log: Sequence[TrainingStep]) -> None:
        """Keep weights, optimizer and log."""
        metadata = {
            "format": FORMAT,
            "fingerprint": json.dumps(self.fingerprint),
            "log": json.dumps([asdict(entry) for entry in log]),
        }
        metadata["sha256"] = _content_digest(tensors, metadata)
        write_file(self.path, lambda temporary: save_file(dict(tensors), temporary, metadata=metadata))

    def load(self) -> tuple[dict[str, Tensor], list[TrainingStep]] | None:
        """Return what the last run kept, or `None` where there is nothing."""
        clear_leftovers(self.path)
        if not self.path.exists():
            return None
        tensors, metadata = self._read()
        self._check(json.loads(metadata["fingerprint"]))
        steps = [TrainingStep(**entry) for entry in json.loads(metadata["log"])]
        if steps:
            logger.info("Going on after %s %d of %d.", steps[-1].what, steps[-1].number, steps[-1].of)
        return tensors, steps

    def _read(self) -> tuple[dict[str, Tensor], dict[str, str]]:
        try:
            with safe_open(self.path, framework="pt") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dictionary)
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
        "features": _digest(features.entailment, features.contradiction, *candidates) + features.labels.digest(),
        "graph": _digest(graph.edge_index, graph.edge_sign, *vectors)
        + f"-{graph.hops}-{graph.provenance.get('max_neighbours')}",
        "priors": _digest(torch.from_numpy(priors.shares)) + f"-{priors.cardinality!r}",
        "annotated texts": _digest(*of_annotated),
        "recipe": recipe,
        "seed": seed,
    }


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
